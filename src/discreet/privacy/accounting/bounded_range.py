"""Bounded range: what a mechanism can cost at most whose loss lies in an interval of width epsilon.

Guarantee, for losses in [t - epsilon, t] with any t, which may be another one at every step and depend on what was
released before:

    RDP of order a   <=  (a g(a h) - (a-1) g((a-1) h) - g(h)) / (a-1)   <=  a epsilon^2 / 8,
    delta at s       <=  (1 - e^((s-epsilon)/2))^2 / (1 - e^-epsilon)   for s in [-epsilon, epsilon],

with h = epsilon/2 and g(z) = log(sinh(z)/z). Both are the suprema over t of two-valued losses, reached at every order
and every s by some exponential mechanism (docs/proofs/bounded-range.md). Dong, Durfee and Rogers, "Optimal
Differential Privacy Composition for Exponential Mechanisms", 2020.

The t that is worst moves with the order and with s. So the loss distribution of one t is no bound for a composition;
the supremum at every s is the curve of a dominating pair, and is.
"""

from __future__ import annotations

import numpy as np

from discreet.privacy.accounting.sampled_gaussian import Array

_ROUNDING = 2.0**-49
"""Sixteen half-ulps a term, more than its few operations can be off by."""


def bounded_range_rdp(epsilon: float, orders: Array) -> Array:
    """The largest divergence of each order, rounded up; never above orders epsilon^2 / 8 or epsilon."""
    if epsilon == 0:
        return np.zeros(orders.size)
    half, less = epsilon / 2, orders - 1
    terms = orders * _log_sinh_ratio(orders * half), less * _log_sinh_ratio(less * half)
    last = _log_sinh_ratio(np.array([half]))
    exact = terms[0] - terms[1] - last + _ROUNDING * (terms[0] + terms[1] + last)
    return np.asarray(np.minimum(np.minimum(exact / less, orders * (epsilon * epsilon / 8)), epsilon))


def _log_sinh_ratio(z: Array) -> Array:
    """log(sinh(z) / z) for z > 0, to a few ulps at any size."""
    large = np.maximum(z, 1.0)
    square = np.minimum(z, 1.0) ** 2
    series = np.zeros_like(z)
    for odd in (19, 17, 15, 13, 11, 9, 7, 5, 3):  # sinh(z)/z - 1 by its own series: no cancellation
        series = square / (odd * (odd - 1)) * (1 + series)
    return np.where(z > 1, large - np.log(2 * large) + np.log1p(-np.exp(-2 * large)), np.log1p(series))


def bounded_range_deltas(epsilon: float, losses: Array) -> Array:
    """The largest hockey-stick divergence at e^s, for each s of ``losses``; ``epsilon`` is positive."""
    inside = np.clip(losses, -epsilon, epsilon)
    worst = np.expm1((inside - epsilon) / 2) ** 2 / -np.expm1(-epsilon)
    return np.where(losses < -epsilon, -np.expm1(np.minimum(losses, 0.0)), worst)
