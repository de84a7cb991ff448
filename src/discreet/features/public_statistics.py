"""Edges, means and scales of columns of numbers, from public rows. They are public, and stored with the map."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def public_edges(values: Floats, count: int) -> tuple[float, ...]:
    """At most ``count`` edges that cut public values into parts of about equal size; each lies between two values.

    A value that several quantiles fall on is cut off on both sides, so that a frequent value is told from others. There
    are at least two different values.
    """
    distinct = np.unique(values)
    between = (distinct[:-1] + distinct[1:]) / 2
    if len(between) <= count:
        return tuple(map(float, between))
    levels = np.quantile(values, np.arange(1, count + 1) / (count + 1), method="inverted_cdf")
    places, times = np.unique(np.searchsorted(distinct, levels), return_counts=True)
    edges = set()
    for place, repeats in zip(places.tolist(), times.tolist(), strict=True):
        if place > 0:
            edges.add(float(between[place - 1]))
        if place < len(between) and (repeats > 1 or place == 0):
            edges.add(float(between[place]))
    return tuple(sorted(edges))


def edges_within(low: float, high: float, count: int) -> tuple[float, ...]:
    """``count`` edges that cut the bounds into equal parts."""
    return tuple(map(float, np.linspace(low, high, count + 2)[1:-1]))


def mean_and_scale(values: Floats) -> tuple[float, float]:
    """Mean and standard deviation of public values, at least two of which differ."""
    return float(values.mean()), float(values.std())
