"""Means with intervals, and what share of one gain another keeps.

A share is a ratio of two means over the same seeds. Its interval is Fieller's: the values theta for which the mean of
(gain - theta full) is not surely different from 0, by Student's t; unlike the usual approximation it is right where
the full gain is small. Where the full gain is not above two standard errors no share is told: it would divide by
what may be nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
LEAST_ERRORS = 2.0


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A figure, and where it surely is."""

    value: float
    low: float
    high: float


def mean_interval(values: Sequence[float], *, confidence: float = CONFIDENCE, least: float = 0.0) -> Interval:
    """The mean, by Student's t; the mean alone for one value. ``least``: what is known of their standard deviation
    from elsewhere, if the values happen to be closer together.
    """
    return _around_mean(values, lambda n: math.sqrt(1 / n), confidence, least)


def next_interval(values: Sequence[float], *, confidence: float = CONFIDENCE, least: float = 0.0) -> Interval:
    """Where one further value of the same kind is, by Student's t: wider than where their mean is."""
    return _around_mean(values, lambda n: math.sqrt(1 + 1 / n), confidence, least)


def share_error(values: Sequence[float], measured: int) -> float:
    """The standard deviation that a share has because it is counted on ``measured`` records, at the mean of the values;
    also what a difference of two shares has at least (if every record told apart speaks for the same one).
    """
    mean = min(abs(float(np.mean(values))), 1.0)
    return math.sqrt(mean * (1 - mean) / measured)


def _around_mean(values: Sequence[float], reach: Callable[[int], float], confidence: float, least: float) -> Interval:
    sample = np.asarray(values, dtype=np.float64)
    mean = float(sample.mean())
    if sample.size < 2:
        return Interval(value=mean, low=-math.inf, high=math.inf)
    half = _student(sample.size, confidence) * max(float(sample.std(ddof=1)), least) * reach(sample.size)
    return Interval(value=mean, low=mean - half, high=mean + half)


def share_interval(gains: Sequence[float], full: Sequence[float]) -> Interval | None:
    """mean(gains) / mean(full), paired; None where the full gain is within two standard errors of nothing."""
    one, whole = np.asarray(gains, dtype=np.float64), np.asarray(full, dtype=np.float64)
    n = whole.size
    if n < 3 or one.size != n:
        return None
    spread = np.cov(one, whole, ddof=1) / n
    top, bottom = float(one.mean()), float(whole.mean())
    if bottom <= LEAST_ERRORS * math.sqrt(spread[1, 1]):
        return None
    t = _student(n, CONFIDENCE)
    a = bottom**2 - t**2 * spread[1, 1]
    b = top * bottom - t**2 * spread[0, 1]
    c = top**2 - t**2 * spread[0, 0]
    if a <= 0:  # significant at two errors but not at t of them: the interval has no end
        return Interval(value=top / bottom, low=-math.inf, high=math.inf)
    root = math.sqrt(max(b**2 - a * c, 0.0))
    return Interval(value=top / bottom, low=(b - root) / a, high=(b + root) / a)


def _student(n: int, confidence: float) -> float:
    from scipy import stats

    return float(stats.t.ppf((1 + confidence) / 2, n - 1))
