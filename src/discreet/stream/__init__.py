"""Private online active learning: records arrive once, few are asked, the model is published as it learns."""

from discreet.stream.ask_rules import AskEverything, Asking, BernoulliAsking, ExponentialAsking, OneSidedAsking
from discreet.stream.learner import StreamLearner
from discreet.stream.linear_model import StreamModel
from discreet.stream.losses import Hinge, Logistic, Loss, MulticlassHinge, Softmax
from discreet.stream.optimizer import (
    ConstantStep,
    GammaNoise,
    GaussianNoise,
    InverseStep,
    SquareRootStep,
    Step,
    UpdateNoise,
)
from discreet.stream.schedules import (
    BalancedSlab,
    DriftWatch,
    FixedSlab,
    Immediate,
    MiniBatch,
    ShrinkingSlab,
    Slab,
    SlidingWindow,
    Window,
)
from discreet.stream.settings import StreamSettings
from discreet.stream.terms import (
    StreamPrice,
    charge_preparation,
    charge_stream,
    gaussian_noise_for,
    stream_price,
    stream_terms,
)

__all__ = [
    "AskEverything",
    "Asking",
    "BalancedSlab",
    "BernoulliAsking",
    "ConstantStep",
    "DriftWatch",
    "ExponentialAsking",
    "FixedSlab",
    "GammaNoise",
    "GaussianNoise",
    "Hinge",
    "Immediate",
    "InverseStep",
    "Logistic",
    "Loss",
    "MiniBatch",
    "MulticlassHinge",
    "OneSidedAsking",
    "ShrinkingSlab",
    "Slab",
    "SlidingWindow",
    "Softmax",
    "SquareRootStep",
    "Step",
    "StreamLearner",
    "StreamModel",
    "StreamPrice",
    "StreamSettings",
    "UpdateNoise",
    "Window",
    "charge_preparation",
    "charge_stream",
    "gaussian_noise_for",
    "stream_price",
    "stream_terms",
]
