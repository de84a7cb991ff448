"""Two tests that need no guesses: is noise as large as planned, and are batches Poisson samples?

Noise of half its size leaves a claim of epsilon 1 at 2 or so, and a bound may miss that; its variance does not.
Both tests are of numbers that an audit knows and the world does not: of canaries that do not take part, the models show
noise alone; and how many take part in a step is counted where it is drawn.

A p-value below the level is a failure; a true plan fails at most with that chance. Too much noise is no failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.audit.verdict import LEVEL


@dataclass(frozen=True, kw_only=True)
class Variance:
    """A variance against the planned one. ``ratio``: found by planned; ``numbers``: of how many."""

    test: str
    ratio: float
    numbers: int
    chance: float
    level: float = LEVEL

    @property
    def verdict(self) -> Literal["smaller", "not smaller"]:
        """Smaller: surely below what was planned."""
        return "smaller" if self.chance <= self.level else "not smaller"

    def to_json(self) -> dict[str, Any]:
        """As it is stored and printed."""
        return {
            "test": self.test,
            "ratio": self.ratio,
            "numbers": self.numbers,
            "chance": self.chance,
            "level": self.level,
            "verdict": self.verdict,
        }


def noise_variance(standardised: NDArray[np.float64]) -> Variance:
    """Of numbers that are noise alone, each by its planned standard deviation: chi-square, from below."""
    return _chi_square("noise", standardised)


def batch_variance(counts: Sequence[tuple[int, int, float]]) -> Variance:
    """Of (how many took part, of how many, rate), one a step and cohort: binomial if each had its own coin."""
    table = np.array(counts, dtype=np.float64).reshape(-1, 3)
    mean, spread = table[:, 1] * table[:, 2], np.sqrt(table[:, 1] * table[:, 2] * (1 - table[:, 2]))
    some = spread > 0
    return _chi_square("batches", (table[some, 0] - mean[some]) / spread[some])


def _chi_square(test: str, standardised: NDArray[np.float64]) -> Variance:
    from scipy import stats

    total = float(np.square(standardised).sum())
    chance = float(stats.chi2.cdf(total, standardised.size)) if standardised.size else 1.0
    ratio = total / standardised.size if standardised.size else float("nan")
    return Variance(test=test, ratio=ratio, numbers=standardised.size, chance=chance)
