"""Checks that need no guesses: the size of noise, Poisson batches, and the sensitivity of what noise is added to.

Noise of half its size leaves a claim of epsilon 1 at 2 or so, and a bound may miss that; its variance does not. They
are of numbers that an audit knows and the public does not: of canaries that do not take part, a release shows noise
alone; how many take part in a step is counted where it is drawn; and how often a noisy answer is the true one says how
large its noise is.

A p-value below the level is a failure; a true plan fails at most with that probability. Too much noise is no failure.
The check of sensitivity is exact: the same run with a canary and without it, compared before any noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.audit.findings import LEVEL


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
        return {**asdict(self), "verdict": self.verdict}


@dataclass(frozen=True, kw_only=True)
class SensitivityCheck:
    """How far one canary moves the input of a mechanism: the same run with it and without it, before any noise.

    ``furthest``: the most of ``canaries`` that were taken out one by one; ``allowed``: what is charged for.
    """

    test: str
    furthest: float
    allowed: float
    canaries: int

    @property
    def verdict(self) -> Literal["too far", "within"]:
        """Too far: further than what was paid for, and more than rounding."""
        return "too far" if self.furthest > self.allowed * (1 + 1e-9) else "within"

    def to_json(self) -> dict[str, Any]:
        """As it is stored and printed."""
        return {**asdict(self), "verdict": self.verdict}


def noise_variance(standardised: NDArray[np.float64], test: str = "noise") -> Variance:
    """Of numbers that are noise alone, each by its planned standard deviation: chi-square, from below."""
    return _chi_square(test, standardised)


def batch_variance(counts: Sequence[tuple[int, int, float]]) -> Variance:
    """Of (how many took part, of how many, rate), one a step and cohort: binomial if each had its own coin."""
    table = np.array(counts, dtype=np.float64).reshape(-1, 3)
    mean, spread = table[:, 1] * table[:, 2], np.sqrt(table[:, 1] * table[:, 2] * (1 - table[:, 2]))
    some = spread > 0
    return _chi_square("batches", (table[some, 0] - mean[some]) / spread[some])


def length_variance(lengths: NDArray[np.float64], *, dimension: int = 1) -> Variance:
    """Of lengths of noise by their planned scale, each Gamma(dimension): their sum is Gamma, too, from below.

    In one dimension that is Laplace noise.
    """
    from scipy import stats

    mean, total = dimension * lengths.size, float(lengths.sum())
    chance = float(stats.gamma.cdf(total, mean)) if lengths.size else 1.0
    ratio = (total / mean) ** 2 if lengths.size else float("nan")
    return Variance(test="noise", ratio=ratio, numbers=lengths.size, chance=chance)


def geometric_variance(noise: NDArray[np.int64], epsilon: float, test: str = "noise") -> Variance:
    """Of discrete Laplace noise at ``epsilon``: Chernoff's bound of so small a sum of lengths, which is never below the
    chance itself.
    """
    from scipy import optimize

    lengths, rate = np.abs(noise), math.exp(-epsilon)
    total, each = float(lengths.sum()), (1 - rate) / (1 + rate)

    def bound(tilt: float) -> float:
        further = rate * math.exp(-tilt)
        return tilt * total + lengths.size * math.log(each * (1 + 2 * further / (1 - further)))

    least = float(optimize.minimize_scalar(bound, bounds=(0.0, 20.0), method="bounded").fun)
    planned = lengths.size * 2 * rate / (1 - rate) ** 2
    ratio = float(np.square(noise).sum()) / planned if lengths.size else float("nan")
    return Variance(test=test, ratio=ratio, numbers=lengths.size, chance=math.exp(min(0.0, least)))


def agreement(right: NDArray[np.bool_], chances: NDArray[np.float64], test: str = "noise") -> Variance:
    """Of noisy answers, whether each is the true one, and the chance of that by the planned noise: Chernoff's bound of
    so many. ``ratio``: wrong answers by expected ones; less noise, fewer.
    """
    from scipy import optimize

    total = float(right.sum())

    def bound(tilt: float) -> float:
        return float(np.log1p(chances * math.expm1(tilt)).sum()) - tilt * total

    least = float(optimize.minimize_scalar(bound, bounds=(0.0, 20.0), method="bounded").fun)
    wrong = float((1 - chances).sum())
    ratio = float((~right).sum()) / wrong if wrong else float("nan")
    return Variance(test=test, ratio=ratio, numbers=right.size, chance=math.exp(min(0.0, least)))


def _chi_square(test: str, standardised: NDArray[np.float64]) -> Variance:
    from scipy import stats

    total = float(np.square(standardised).sum())
    chance = float(stats.chi2.cdf(total, standardised.size)) if standardised.size else 1.0
    ratio = total / standardised.size if standardised.size else float("nan")
    return Variance(test=test, ratio=ratio, numbers=standardised.size, chance=chance)
