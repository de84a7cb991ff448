"""Rényi divergence of one Poisson-sampled Gaussian step, exact and vectorised.

For rate q and noise multiplier sigma the order-alpha divergence of the step with the record against the step with
its null is log(A) / (alpha - 1) with

    A(alpha) = E_{z ~ N(0, sigma^2)} [ f(z)^alpha ],   f(z) = 1 - q + q exp((2 z - 1) / (2 sigma^2)),

and it bounds the other direction too (Mironov, Talwar, Zhang 2019). The integrand is analytic in a strip around the
real line, so the trapezoid rule converges geometrically: with t = z / sigma and step h its relative error is at most
about 2 exp(pi^2 sigma^2 / 2 - 2 pi^2 sigma / h) + 2 exp(-2 pi^2 / h^2); h = min(1/2, sigma / 2) leaves 2e-15. One grid
serves every order and rate, integer or not, with no alternating series.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_TAIL = 9.0
"""Standard deviations kept beyond the outermost Gaussian of the mixture: 1e-19 of its mass lies outside."""


_FARTHEST = 4000.0
"""Orders whose grid would have more nodes than this (alpha above 2000 sigma, or 2000 sigma^2 below sigma = 1) get the
bound without sampling: valid, and so far out no minimum over orders is lost that training would notice."""


class StepDivergence(NamedTuple):
    """Divergences at (rates x orders) and their derivative with respect to log rate."""

    rdp: Array
    slope: Array


def sampled_gaussian_rdp(rates: Array, sigma: float, orders: Array) -> Array:
    """RDP of one step: an array of shape (rates, orders)."""
    return sampled_gaussian_divergence(rates, sigma, orders).rdp


def sampled_gaussian_divergence(rates: Array, sigma: float, orders: Array) -> StepDivergence:
    """RDP of one step and its slope in log rate, both of shape (rates, orders). Rates may be 0 or 1."""
    rdp, slope = np.zeros((rates.size, orders.size)), np.zeros((rates.size, orders.size))
    # The grid must reach alpha / sigma; small orders should not pay for the width of the large ones.
    reach = orders / (sigma * _step(sigma))
    edges = [-1.0, *(edge for edge in (60.0, 240.0, 1000.0) if edge < reach.max()), _FARTHEST]
    for low, high in itertools.pairwise(edges):
        chosen = (reach > low) & (reach <= high)
        if chosen.any():
            rdp[:, chosen], slope[:, chosen] = _divergence_block(rates, sigma, orders[chosen])
    whole = orders / (2 * sigma**2)  # sampling never costs more than not sampling
    far = reach > _FARTHEST
    rdp[:, far] = np.where(rates > 0, 1.0, 0.0)[:, None] * whole[far]
    rdp = np.minimum(rdp, whole)
    rdp[rates >= 1] = whole
    return StepDivergence(rdp, slope)


def _step(sigma: float) -> float:
    return min(0.5, sigma / 2)


def _divergence_block(rates: Array, sigma: float, orders: Array) -> tuple[Array, Array]:
    step = _step(sigma)
    t = np.arange(-_TAIL, float(orders.max()) / sigma + _TAIL + step, step)
    weight = np.log(step) - 0.5 * t**2 - 0.5 * math.log(2 * math.pi)
    exponent = t / sigma - 0.5 / sigma**2
    with np.errstate(divide="ignore", over="ignore"):
        log_rates, log_rest = np.log(rates)[:, None], np.log1p(-rates)[:, None]
    inside = log_rates + exponent  # log of q exp(...), shape (rates, nodes)
    u = np.logaddexp(inside, log_rest)  # log f
    grown = orders[None, :, None] * u[:, None, :] + weight  # (rates, orders, nodes)
    peak = grown.max(axis=2, keepdims=True)
    mass = np.exp(grown - peak)
    total = mass.sum(axis=2)
    log_a = np.log(total) + peak[:, :, 0]
    small = log_a < 1e-3
    if small.any():  # log A loses digits near A = 1: sum f^alpha - 1 - alpha (f - 1) instead, whose mean is A - 1
        log_a = np.where(small, np.log1p(_excess(u, orders, weight)), log_a)
    # d log A / d log q = alpha E[f^(alpha-1) (f - 1) ] / A, using q df/dq = f - 1
    pull = 1 - np.exp(np.minimum(-u, 700.0))
    slope = orders * (mass @ pull[:, :, None])[:, :, 0] / total
    return np.maximum(log_a, 0.0) / (orders - 1), np.maximum(slope, 0.0) / (orders - 1)


def _excess(u: Array, orders: Array, weight: Array) -> Array:
    grown = orders[None, :, None] * u[:, None, :]
    near = np.minimum(grown, 30.0)
    gap = np.expm1(near) - orders[None, :, None] * np.expm1(np.minimum(u, 30.0))[:, None, :]
    # far out f^alpha alone is the term (what is left off is negative); its hump near t = alpha / sigma lies where
    # exp(weight) underflows, so it is added in logarithms
    terms = np.where(grown > 30.0, np.exp(np.minimum(grown + weight, 700.0)), gap * np.exp(weight))
    return np.asarray(np.maximum(terms.sum(axis=2), 0.0))
