"""Private online active learning: records arrive once, few are asked, the model is published as it learns."""

from discreet.stream.asking import AskEverything, Asking, BernoulliAsking, ExponentialAsking, OneSidedAsking
from discreet.stream.drift import DriftWatch
from discreet.stream.learner import StreamLearner
from discreet.stream.losses import Hinge, Logistic, Loss, MulticlassHinge, Softmax
from discreet.stream.published import Published
from discreet.stream.settings import StreamSettings
from discreet.stream.slabs import BalancedSlab, FixedSlab, ShrinkingSlab, Slab
from discreet.stream.steps import ConstantStep, InverseStep, SquareRootStep, Step
from discreet.stream.terms import (
    StreamPrice,
    charge_preparation,
    charge_stream,
    gaussian_noise_for,
    stream_price,
    stream_terms,
)
from discreet.stream.update_noise import GammaNoise, GaussianNoise, UpdateNoise
from discreet.stream.windows import Immediate, MiniBatch, SlidingWindow, Window

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
    "Published",
    "ShrinkingSlab",
    "Slab",
    "SlidingWindow",
    "Softmax",
    "SquareRootStep",
    "Step",
    "StreamLearner",
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
