"""Edges, means and scales of columns of numbers, from public rows. They are public, and stored with the map."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def public_edges(values: Floats, count: int) -> tuple[float, ...]:
    """At most ``count`` edges that cut public values into parts of about equal size; each lies between two values.

    A value that several quantiles fall on is cut off on both sides, and the quantiles that are left over go to the
    other values: of a column that is mostly 0, the rest is told apart. There are at least two different values.
    """
    distinct = np.unique(values)
    between = (distinct[:-1] + distinct[1:]) / 2
    if len(between) <= count:
        return tuple(map(float, between))
    edges: set[float] = set()
    rest = values
    while len(edges) < count and len(rest):
        missing = count - len(edges)
        levels = np.quantile(rest, np.arange(1, missing + 1) / (missing + 1), method="inverted_cdf")
        places, times = np.unique(np.searchsorted(distinct, levels), return_counts=True)
        for place, repeats in zip(places.tolist(), times.tolist(), strict=True):
            below = between[place - 1 : place] if place else between[:0]
            above = between[place : place + 1] if repeats > 1 or not place else between[:0]
            edges.update(map(float, (*below, *above)))
        rest = rest[~np.isin(rest, distinct[places])]
    return tuple(sorted(edges))


def edges_within(low: float, high: float, count: int) -> tuple[float, ...]:
    """``count`` edges that cut the bounds into equal parts."""
    return tuple(map(float, np.linspace(low, high, count + 2)[1:-1]))


def mean_and_scale(values: Floats) -> tuple[float, float]:
    """Mean and standard deviation of public values, at least two of which differ."""
    return float(values.mean()), float(values.std())
