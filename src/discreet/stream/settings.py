"""Everything about a stream that is fixed before its first record, as one value. All of it is public."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet.errors import BadInput
from discreet.privacy.ledger.entries import canonical
from discreet.stream.asking import Asking, asking_from_json
from discreet.stream.drift import DriftWatch
from discreet.stream.losses import Loss, loss_named
from discreet.stream.published import Label
from discreet.stream.slabs import FixedSlab, Slab, slab_from_json
from discreet.stream.steps import SquareRootStep, Step, step_from_json
from discreet.stream.update_noise import UpdateNoise, noise_from_json
from discreet.stream.windows import MiniBatch, Window, window_from_json


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """The settings of a `StreamLearner`.

    features         how many numbers a record has, or their names (then a record may be a dict)
    classes          how many (then labels are 0, 1, ...), or their names in order; of two the second is the positive
    asking, noise    what is paid for
    slab, window     who is asked with the high chance; when the model is updated
    loss             "hinge" or "logistic" of two classes, "softmax" or "multiclass-hinge" of any number
    step             step sizes
    radius           M: records are projected onto the ball of this radius
    regularization   lambda
    ball             the model is projected onto the ball of this radius
    drift            a reset that is paid for, or none
    patience         after so many later arrivals an asked record is forgotten: its label counts as one that never came
    """

    features: int | tuple[str, ...]
    asking: Asking
    noise: UpdateNoise
    classes: tuple[Label, ...] = (0, 1)
    slab: Slab = FixedSlab(0.2)
    window: Window = MiniBatch(10)
    loss: Loss | None = None
    step: Step = SquareRootStep(1.0)
    radius: float = 1.0
    regularization: float = 0.0
    ball: float = 1.0
    drift: DriftWatch | None = None
    patience: int | None = None


def _reads() -> tuple[Any, ...]:
    return (asking_from_json, loss_named, slab_from_json, step_from_json, noise_from_json, window_from_json)


_ = (hashlib, canonical, BadInput, Sequence)
