"""What tables and charts of all papers share: rows by columns, figures by seed, differences, lines with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from discreet.simulation.points import CONFIDENCE, Interval, mean_interval, student_quantile
from discreet.simulation.results import Chart, Panel, Row, Series

BySeed = dict[int, float]
LEAST_ERRORS = 2.0
"""How many standard errors a gain must be above zero for a share of it to be told."""


def values_in(rows: Sequence[Row], column: str) -> list[Any]:
    """The different values of a column, in the order they come."""
    return list(dict.fromkeys(row[column] for row in rows))


def grouped(rows: Iterable[Row], *columns: str) -> dict[Any, list[Row]]:
    """Rows by their value of a column, or by their values of several, in the order in which values come."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(itemgetter(*columns)(row), []).append(row)
    return groups


def by_seed(rows: Iterable[Row], column: str) -> BySeed:
    """A column by seed; of several rows of a seed the last."""
    return {row["seed"]: row[column] for row in rows}


def mean_points(rows: Sequence[Row], along: str, column: str = "accuracy") -> dict[float, Interval]:
    """The mean of a column at each value of another one, in increasing order, with 95% intervals."""
    points = grouped(rows, along)
    return {at: mean_interval([row[column] for row in points[at]]) for at in sorted(points)}


def difference(higher: BySeed, lower: BySeed, *, least: int = 2) -> Interval | None:
    """Paired over the seeds that both have; None where they are fewer than ``least``."""
    seeds = sorted(set(higher) & set(lower))
    return mean_interval([higher[seed] - lower[seed] for seed in seeds]) if len(seeds) >= least else None


def share_of_gain(values: BySeed, low: BySeed, high: BySeed) -> Interval | None:
    """Of the gain of ``high`` over ``low`` the share that ``values`` have, over the seeds of all three."""
    seeds = sorted(set(values) & set(low) & set(high))
    return share_interval([values[seed] - low[seed] for seed in seeds], [high[seed] - low[seed] for seed in seeds])


def share_interval(gains: Sequence[float], full: Sequence[float]) -> Interval | None:
    """mean(gains) / mean(full), paired; None where the full gain is within two standard errors of nothing."""
    gained, possible = np.asarray(gains, dtype=np.float64), np.asarray(full, dtype=np.float64)
    n = possible.size
    if n < 3 or gained.size != n:
        return None
    spread = np.cov(gained, possible, ddof=1) / n
    top, bottom = float(gained.mean()), float(possible.mean())
    if bottom <= LEAST_ERRORS * math.sqrt(spread[1, 1]):
        return None
    t = student_quantile(n, CONFIDENCE)
    a = bottom**2 - t**2 * spread[1, 1]
    b = top * bottom - t**2 * spread[0, 1]
    c = top**2 - t**2 * spread[0, 0]
    if a <= 0:  # significant at two errors but not at t of them: the interval has no end
        return Interval(value=top / bottom, low=-math.inf, high=math.inf)
    root = math.sqrt(max(b**2 - a * c, 0.0))
    return Interval(value=top / bottom, low=(b - root) / a, high=(b + root) / a)


def half_interval(values: Iterable[float], digits: int = 1) -> str:
    """A mean in percent, and half of its interval."""
    sample = list(values)
    if not sample:
        return "-"
    mean = mean_interval(sample)
    half = f" ± {100 * (mean.high - mean.value):.{digits}f}" if math.isfinite(mean.high) else ""
    return f"{100 * mean.value:.{digits}f}{half}"


def points_of(gap: Interval | None, digits: int = 1) -> str:
    """A difference in points, with its interval if that has ends."""
    if gap is None:
        return "-"
    value, low, high = (f"{100 * point:+.{digits}f}" for point in (gap.value, gap.low, gap.high))
    return f"{value} ({low} to {high})" if math.isfinite(gap.high) else value


def curve(name: str, points: Mapping[Any, Interval], *, color: str = "") -> Series:
    """A line of shares in percent, with their intervals."""
    return Series(
        name=name,
        x=tuple(map(float, points)),
        y=tuple(100 * point.value for point in points.values()),
        low=tuple(100 * max(point.low, 0.0) for point in points.values()),
        high=tuple(100 * min(point.high, 1.0) for point in points.values()),
        color=color,
    )


def level(name: str, value: float, ends: tuple[float, float], color: str) -> Series:
    """A level line of a share, in percent."""
    return Series(name=name, x=ends, y=(100 * value,) * 2, color=color)


def chart_of(name: str, panels: Iterable[Panel], *, columns: int = 2) -> list[Chart]:
    """One chart, if there is anything to draw."""
    drawn = tuple(panels)
    return [Chart(name=name, panels=drawn, columns=columns)] if drawn else []
