"""The model of a problem, and how it is trained: the same for every method of a table."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from discreet.bench.problems import Problem

if TYPE_CHECKING:
    from torch import nn

    from discreet.trainers.dp_sgd import Settings
    from discreet.trainers.torch_predictor import TorchPredictor

DROPOUT = 0.25
"""Of the models that BALD draws. It acts in the head and when scoring alone: every row of a table trains the same
model, so that its difference to random asking is one of asking."""
_ROWS = {"small_cnn": 1024}
_MOST_ROWS = 8192


def model_of(problem: Problem, inputs: tuple[int, ...], seed: int) -> Callable[[], nn.Module]:
    """What makes the model; first weights are public, drawn from the seed."""
    from torch import nn

    from discreet.models import build_model

    def linear() -> nn.Module:
        """A linear model that starts at 0."""
        model = nn.Linear(problem.features, problem.classes, bias=False)
        nn.init.zeros_(model.weight)
        return model

    def built() -> nn.Module:
        return build_model(problem.model, inputs=inputs, classes=problem.classes, seed=seed)

    return linear if problem.model == "random-features" else built


def settings_of(problem: Problem, steps: int) -> Settings:
    """``steps`` of the whole plan: public, as all of a plan is."""
    from discreet.trainers.dp_sgd import Settings

    return Settings(
        learning_rate=problem.travel / steps,
        ema=problem.ema,
        micro_batch=_ROWS.get(problem.model, _MOST_ROWS),
    )


def drawing(model: TorchPredictor) -> TorchPredictor:
    """The same model with dropout in its head, for scores that read draws."""
    from discreet.models.split import has_seam
    from discreet.trainers.torch_predictor import TorchPredictor

    if not has_seam(model.module):
        return model  # it refuses to be drawn from, and says why
    module: Any = copy.deepcopy(model.module)
    module.head.dropout.p = DROPOUT
    return TorchPredictor(module, task=model.task)
