"""Scores that are no uncertainty: a user's own function, and none at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from discreet.errors import BadInput
from discreet.scorers.score import AXES, Floats, Needs, as_values, in_range


@dataclass(frozen=True, kw_only=True)
class OwnScore:
    """``function`` of a piece of values gives one number a record, brought into ``range``, which is declared.

    Each number must depend on its own record (and public things) alone. A rank within the pool, a distance to other
    records, or a scaling by the pool's largest value reads the others, and selection by it is not private at the price.
    """

    function: Callable[[Floats], Any]
    range: tuple[float, float]
    needs: Literal["proba", "draws", "embedding"] = "proba"
    draws: int = 20
    name: str = "own"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise BadInput(
                "a score of your own", "its function cannot be called", "Give a function of a piece of values"
            )
        if self.needs not in AXES:
            raise BadInput(
                f"a score that needs {self.needs}", "there is no such thing", f"Choose one of {', '.join(AXES)}"
            )
        object.__setattr__(self, "range", declared_range(self.range))

    def score(self, values: Any) -> Floats:
        """(n,), all in the range."""
        given = as_values(values, AXES[self.needs], self.name)
        rows = given.shape[-2]
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(self.function(given), dtype=np.float64)
        except Exception as problem:  # noqa: BLE001 - its message may quote a record
            raise BadInput(
                f"the score {self.name}",
                f"its function ended with {type(problem).__name__}",
                "Try it on made-up ones",
            ) from None
        if found.shape != (rows,):
            raise BadInput(f"the score {self.name}", "it does not give one number a record", "Return an array (n,)")
        return in_range(found, self.range)


@dataclass(frozen=True, kw_only=True)
class RandomScore:
    """Nothing is asked of a model: everybody scores the same, and selection draws among them."""

    name: ClassVar[str] = "random"
    needs: ClassVar[Needs] = "nothing"
    range: tuple[float, float] = (0.0, 1.0)

    def score(self, values: Any) -> Floats:
        """(n,), equal, for anything with n rows."""
        return np.zeros(len(values))


def declared_range(limits: Any) -> tuple[float, float]:
    """Bottom and top, finite, in that order."""
    try:
        bottom, top = (float(value) for value in limits)
    except (TypeError, ValueError):
        raise BadInput("the range of a score", "it is not a pair of numbers", "Declare (bottom, top)") from None
    if not (math.isfinite(bottom) and math.isfinite(top) and bottom < top):
        raise BadInput("the range of a score", "bottom and top must be finite, bottom below top", "Declare (0.0, 1.0)")
    return bottom, top


assert set(get_args(Needs)) == {*AXES, "nothing"}
