"""Everything about a stream that is fixed before its first record, as one value. All of it is public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.errors import BadInput
from discreet.privacy.budget import Unit
from discreet.stream.ask_rules import Asking, asking_from_json
from discreet.stream.linear_model import Label
from discreet.stream.losses import Hinge, Loss, Softmax, loss_named
from discreet.stream.optimizer import SquareRootStep, Step, UpdateNoise, noise_from_json, step_from_json
from discreet.stream.parts import positive, set_fields
from discreet.stream.schedules import DriftWatch, FixedSlab, MiniBatch, Slab, Window, slab_from_json, window_from_json
from discreet.stream.terms import MOST_EACH

_MOST_WEIGHTS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """The settings of a `StreamLearner`.

    features         how many numbers a record has, or their names (then a record may be a dict)
    classes          how many (then labels are 0, 1, ...), or their names in order; of two the second is the positive
    asking, noise    what is paid for
    slab, window     who is asked with the high chance, by default within 0.2 M; when the model is updated, by default
                     after 50 were asked
    loss             "hinge" (the default) or "logistic" of two classes, "softmax" (the default) or "multiclass-hinge"
                     of any number
    step             step sizes; by default 1/sqrt(t)
    radius           M: records are projected onto the ball of this radius
    regularization   lambda
    ball             the model is projected onto the ball of this radius
    drift            a reset that is paid for, or none
    patience         after so many later arrivals an asked record is forgotten: its label counts as one that never came
    person_records   where persons are protected: so many records of each are looked at, and later ones are nulls
    """

    features: int | tuple[str, ...]
    classes: tuple[Label, ...]
    asking: Asking
    noise: UpdateNoise
    slab: Slab
    window: Window
    loss: Loss
    step: Step
    radius: float
    regularization: float
    ball: float
    drift: DriftWatch | None
    patience: int | None
    person_records: int | None

    def __init__(
        self,
        *,
        features: int | Sequence[str],
        asking: Asking,
        noise: UpdateNoise,
        classes: int | Sequence[Label] = 2,
        slab: Slab | None = None,
        window: Window | None = None,
        loss: str | Loss | None = None,
        step: Step | None = None,
        radius: float = 1.0,
        regularization: float = 0.0,
        ball: float = 1.0,
        drift: DriftWatch | None = None,
        patience: int | None = None,
        person_records: int | None = None,
    ) -> None:
        named = _classes(classes)
        default: Loss = Hinge() if len(named) == 2 else Softmax()
        values = {
            "features": _features(features),
            "classes": named,
            "asking": asking,
            "noise": noise,
            "slab": slab or FixedSlab(0.2 * positive(radius, "the radius of a stream")),
            "window": window or MiniBatch(50),
            "loss": default if loss is None else loss_named(loss) if isinstance(loss, str) else loss,
            "step": step or SquareRootStep(1.0),
            "radius": positive(radius, "the radius of a stream"),
            "regularization": positive(regularization, "the regularization of a stream") if regularization else 0.0,
            "ball": positive(ball, "the ball of a stream"),
            "drift": drift,
            "patience": patience,
            "person_records": person_records,
        }
        set_fields(self, **values)
        self._check()

    def _check(self) -> None:
        for name, kind in (
            ("asking", Asking),
            ("noise", UpdateNoise),
            ("slab", Slab),
            ("window", Window),
            ("loss", Loss),
            ("step", Step),
        ):
            if not isinstance(getattr(self, name), kind):
                raise BadInput(f"{name} of a stream", f"it is not a {kind.__name__}", "Use one of discreet.stream")
        if self.loss.binary and len(self.classes) != 2:
            raise BadInput(f"the loss {self.loss.name} for {len(self.classes)} classes", "it is for two", "Use softmax")
        if self.patience is not None and (type(self.patience) is not int or self.patience < 1):
            raise BadInput("the patience of a stream", "it is not a whole number above 0", "Give arrivals, or nothing")
        each = self.person_records
        if each is not None and (type(each) is not int or not 1 <= each <= MOST_EACH):
            raise BadInput(
                "the records of a person", "it is no whole number above 0, or too large", "Give 5, or nothing"
            )
        if self.weights > _MOST_WEIGHTS:
            raise BadInput(f"a model of {self.weights} weights", "a stream's has at most 2^20", "Use fewer features")
        self.asking.check(self.slab, classes=len(self.classes), radius=self.radius)

    @property
    def size(self) -> int:
        """How many features."""
        return self.features if isinstance(self.features, int) else len(self.features)

    @property
    def rows(self) -> int:
        """How many rows of weights: one for a loss of two classes, else one a class."""
        return 1 if self.loss.binary else len(self.classes)

    @property
    def weights(self) -> int:
        """How many numbers the model has, and the noise of an update."""
        return self.size * self.rows

    @property
    def paid(self) -> dict[str, Any]:
        """What is paid for, as `stream_terms` and its kin take it."""
        parts = ("asking", "noise", "drift", "person_records")
        return {name: getattr(self, name) for name in parts}

    @property
    def unit(self) -> Unit:
        """Whom it protects."""
        return "record" if self.person_records is None else "person"

    @property
    def reach(self) -> float:
        """How far what is protected, a record or all records of a person, moves the sums of updates together."""
        return self.noise.reach(self.radius) * (self.person_records or 1)

    def to_json(self) -> dict[str, Any]:
        """A form that reads back to an equal value."""
        form = {
            "features": self.features if isinstance(self.features, int) else list(self.features),
            "classes": list(self.classes),
            "asking": self.asking.to_json(),
            "noise": self.noise.to_json(),
            "slab": self.slab.to_json(),
            "window": self.window.to_json(),
            "loss": self.loss.to_json(),
            "step": self.step.to_json(),
            "radius": self.radius,
            "regularization": self.regularization,
            "ball": self.ball,
            "drift": None if self.drift is None else self.drift.to_json(),
            "patience": self.patience,
        }
        return form if self.person_records is None else form | {"person_records": self.person_records}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> StreamSettings:
        """The inverse of `to_json`."""
        try:
            parts = {
                "asking": asking_from_json(form["asking"]),
                "noise": noise_from_json(form["noise"]),
                "slab": slab_from_json(form["slab"]),
                "window": window_from_json(form["window"]),
                "step": step_from_json(form["step"]),
                "drift": None if form["drift"] is None else DriftWatch(**form["drift"]),
            }
            return cls(**{**form, **parts})
        except (KeyError, TypeError, AttributeError):
            raise BadInput("stored settings of a stream", "a part is missing or unknown", "Restore the file") from None


def _features(features: Any) -> int | tuple[str, ...]:
    if type(features) is int and features >= 1:
        return features
    names = () if isinstance(features, (int, str)) else tuple(features)
    if not names or len(set(names)) != len(names) or not all(isinstance(name, str) for name in names):
        raise BadInput("the features of a stream", "they are not a number or a list of different names", "Declare them")
    return names


def _classes(classes: Any) -> tuple[Label, ...]:
    names = tuple(range(classes)) if type(classes) is int else tuple(() if isinstance(classes, str) else classes)
    if len(names) < 2 or len(set(names)) != len(names) or not all(type(name) in (str, int) for name in names):
        raise BadInput("the classes of a stream", "they are not two or more different names", "Declare them")
    return names
