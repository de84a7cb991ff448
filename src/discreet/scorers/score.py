"""What a score is: a number for each record, higher = ask first, from that record's own values alone.

Guarantee: a score lies in its declared range whatever the values are, and depends on nothing but the record's own row
and public numbers. A row that is not finite, or holds no probability at all, gets the bottom, as a null would: an error
would tell that such a record is there. Selection is priced by the range; it never looks at the scores to find it.

``values`` are what ``needs`` says: class probabilities (n, C), draws of them (J, n, C), or embeddings (n, d). Rows are
brought to sum 1; of several labels every entry is brought to [0, 1].
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput

Floats = NDArray[np.float64]
Needs = Literal["proba", "draws", "embedding", "nothing"]
AXES = {"proba": 2, "draws": 3, "embedding": 2}
FEWEST_DRAWS = 2


@dataclass(frozen=True, kw_only=True)
class Score(ABC):
    """``classes``: C, the labels a record may have. ``clip``: scores above it are brought down to it, which makes the
    range, and so the noise, smaller; public, declared.
    """

    name: ClassVar[str]
    needs: ClassVar[Needs] = "proba"
    classes: int
    clip: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.classes, bool) or not isinstance(self.classes, int) or self.classes < self._fewest():
            raise BadInput(
                f"{self.name} with classes={self.classes}",
                f"it needs a whole number, at least {self._fewest()}",
                "Count the classes",
            )
        check_clip(self.name, self.clip, self._top())

    @property
    def range(self) -> tuple[float, float]:
        """Bottom and top; declared, never measured."""
        return 0.0, self._top() if self.clip is None else float(self.clip)

    def score(self, values: Any) -> Floats:
        """(n,), all in the range."""
        given = as_values(values, AXES[self.needs], self.name)
        if given.shape[-1] != self.classes:
            raise BadInput(
                f"{self.name} of {self.classes} classes",
                f"the model gives {given.shape[-1]} numbers a record",
                "Declare the classes of the model",
            )
        whole = np.isfinite(given).all(axis=tuple(axis for axis in range(given.ndim) if axis != given.ndim - 2))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            found = self._of(np.where(np.isfinite(given), given, 0.0))
        return in_range(np.where(whole, found, np.nan), self.range)

    @abstractmethod
    def _top(self) -> float:
        """The most a record can score, before clipping."""

    @abstractmethod
    def _of(self, values: Floats) -> Floats:
        """(n,), of finite values; NaN for a row that says nothing."""

    def _fewest(self) -> int:
        return 2


def as_values(values: Any, axes: int, name: str) -> Floats:
    """Values as an array of floats with ``axes`` axes."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"values for {name}", "they are not numbers", "Give what the model predicts") from None
    if found.ndim != axes:
        shapes = {2: "(n, C)", 3: "(draws, n, C)"}
        raise BadInput(f"values for {name}", f"they have {found.ndim} axes, not {axes}", f"Give {shapes[axes]}")
    return found


def in_range(scores: Floats, limits: tuple[float, float]) -> Floats:
    """Scores in their range; what is no number is at the bottom."""
    bottom, top = limits
    found: Floats = np.clip(np.nan_to_num(scores, nan=bottom, posinf=top, neginf=bottom), bottom, top)
    return found


def check_clip(name: str, clip: float | None, top: float) -> None:
    """A clip that makes sense."""
    if clip is None:
        return
    if isinstance(clip, bool) or not isinstance(clip, (int, float)) or not math.isfinite(clip) or not 0 < clip <= top:
        raise BadInput(f"{name} with clip={clip}", f"it must be above 0 and at most {top:g}", "Declare another clip")


def check_draws(name: str, draws: int) -> None:
    """A number of draws that can differ."""
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < FEWEST_DRAWS:
        raise BadInput(f"{name} with draws={draws}", "one draw cannot differ from itself", "Give 2 or more")


def normalised(values: Floats) -> Floats:
    """Rows of probabilities; NaN where a row has nothing above 0."""
    positive = np.maximum(values, 0.0)
    return np.asarray(positive / positive.sum(axis=-1, keepdims=True))


def entropy(probabilities: Floats) -> Floats:
    """In bits, along the last axis; 0 log 0 = 0, and NaN stays."""
    logs = np.log2(np.where(probabilities > 0, probabilities, 1.0))
    return np.asarray(-(probabilities * logs).sum(axis=-1))


def binary_entropy(probabilities: Floats) -> Floats:
    """In bits, of each entry."""
    return entropy(np.stack([probabilities, 1 - probabilities], axis=-1))
