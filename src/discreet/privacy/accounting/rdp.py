"""The RDP accountant: fast, vectorised, valid; the planner, the cross-check and the adaptive filter's arithmetic.

Guarantee: for every order alpha the curve bounds the Rényi divergence of both directions of the zero-out relation;
`epsilon_at` converts it by Balle et al. 2020 (Theorem 21) and is rounded up by whoever prints it.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from discreet.errors import UnsupportedEvent
from discreet.privacy.accounting.bounded_range import bounded_range_rdp
from discreet.privacy.accounting.sampled_gaussian import Array, sampled_gaussian_rdp
from discreet.privacy.accounting.tuned import tuned_rdp
from discreet.privacy.event_forms import flatten
from discreet.privacy.events import BoundedRange, Event, Gaussian, Laplace, PmfFamily, PoissonSampledGaussian, Stated
from discreet.privacy.exact import float_above
from discreet.privacy.release_gate import ReleaseGate
from discreet.privacy.tuned import Tuned

ORDERS: Array = np.array(
    [1.005, 1.01, 1.02, 1.03, 1.05, 1.07]
    + [1 + x / 10 for x in range(1, 100)]
    + list(range(11, 64))
    + [round(64 * 2 ** (k / 12)) for k in range(49)]
    + [1024 * 2 ** (k / 3) for k in range(1, 31)],
    dtype=np.float64,
)
"""Fixed beforehand. It contains the orders Opacus uses, so our epsilon is never above the one computed there;
the large ones serve small epsilons, where the conversion itself costs about log(1/delta) / alpha."""


def rdp_curve(event: Event, orders: Array = ORDERS) -> Array:
    """RDP of ``event`` at each order; compositions add."""
    total = np.zeros(orders.size)
    for part, count in flatten(event):
        total = total + count * _single(part, orders)
    return total


def _single(event: Event, orders: Array) -> Array:
    match event:
        case Gaussian():
            return np.asarray(orders / 2 / event.noise_multiplier / event.noise_multiplier)
        case PoissonSampledGaussian():
            return _sampled(event.sampling_rate, event.noise_multiplier, orders.tobytes())
        case Laplace():
            return _laplace(float_above(event.epsilon), orders)
        case BoundedRange():
            return bounded_range_rdp(float_above(event.epsilon), orders)
        case PmfFamily():
            return _family(event, orders)
        case ReleaseGate():  # beta^k is certain loss: no order is finite
            return np.full(orders.size, np.inf)
        case Stated() if event.delta > 0:  # delta may be certain loss: no order is finite
            return np.full(orders.size, np.inf)
        case Tuned():
            return _tuned(event, orders.tobytes())
    epsilon = event.pure_epsilon()
    if epsilon is None:
        raise UnsupportedEvent(f"RDP of a {event.kind} event", "no formula is known here", "Use PLD")
    return _pure(float_above(epsilon), orders)


@functools.lru_cache(maxsize=4096)
def _sampled(rate: float, sigma: float, orders: bytes) -> Array:
    curve: Array = sampled_gaussian_rdp(np.array([rate]), sigma, np.frombuffer(orders))[0]
    curve.setflags(write=False)
    return curve


@functools.lru_cache(maxsize=256)
def _tuned(event: Tuned, stored: bytes) -> Array:
    """Of the run's own divergences at these orders and at all of `ORDERS`, in both directions; at most its exact
    epsilon, where it has one.
    """
    orders = np.frombuffer(stored)
    every = [rdp_curve(run, orders) for run in event.events]
    wide = [rdp_curve(run) for run in event.events]
    found = tuned_rdp(np.max(every, axis=0), orders, np.max(wide, axis=0), ORDERS, event.runs)
    pure = event.pure_epsilon()
    curve = found if pure is None else np.minimum(found, float_above(pure))
    curve.setflags(write=False)
    return curve


def _pure(epsilon: float, orders: Array) -> Array:
    """Randomized response, the extremal epsilon-DP bit: log(p^a r^(1-a) + r^a p^(1-a)) / (a-1), p = e^eps r."""
    log_r = -np.logaddexp(0.0, epsilon)
    log_p = log_r + epsilon
    terms = np.logaddexp(orders * log_p + (1 - orders) * log_r, orders * log_r + (1 - orders) * log_p)
    return np.asarray(np.clip(terms / (orders - 1), 0.0, epsilon))


def _laplace(epsilon: float, orders: Array) -> Array:
    """Mironov 2017, Table II."""
    grow = np.log(orders / (2 * orders - 1)) + (orders - 1) * epsilon
    fall = np.log((orders - 1) / (2 * orders - 1)) - orders * epsilon
    return np.asarray(np.clip(np.logaddexp(grow, fall) / (orders - 1), 0.0, epsilon))


def _family(event: PmfFamily, orders: Array) -> Array:
    worst = np.zeros(orders.size)
    for present, absent in zip(event.present, event.absent, strict=True):
        p, q = np.array(present) / math.fsum(present), np.array(absent) / math.fsum(absent)
        for left, right in ((p, q), (q, p)):
            worst = np.maximum(worst, _divergence(left, right, orders))
    return worst


def _divergence(p: Array, q: Array, orders: Array) -> Array:
    if ((p > 0) & (q == 0)).any():
        return np.full(orders.size, np.inf)
    keep = (p > 0) & (q > 0)
    log_p, log_q = np.log(p[keep]), np.log(q[keep])
    terms = np.logaddexp.reduce(orders[:, None] * log_p + (1 - orders[:, None]) * log_q, axis=1)
    return np.asarray(np.maximum(terms / (orders - 1), 0.0))


def conversion(delta: float, orders: Array = ORDERS) -> Array:
    """What each order adds when its divergence becomes an epsilon at ``delta``."""
    return np.asarray(np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1))


def epsilon_at(curve: Array, delta: float, orders: Array = ORDERS) -> float:
    """Smallest epsilon this curve proves at ``delta``; 0 for a curve of zeros."""
    if not curve.any():
        return 0.0
    return max(0.0, float(np.min(curve + conversion(delta, orders)))) if delta > 0 else math.inf


def rdp_epsilon(event: Event, delta: float, orders: Array | None = None) -> float:
    """Epsilon of ``event`` at ``delta``: the better of RDP and, for a pure event, its exact sum.

    Without ``orders`` the best of `ORDERS` is refined between its neighbours (any order is valid for a committed
    event; only a filter must fix its orders beforehand).
    """
    grid = ORDERS if orders is None else orders
    by_rdp = epsilon_at(rdp_curve(event, grid), delta, grid)
    for _ in range(2 if orders is None and 0 < by_rdp < math.inf else 0):
        best = int(np.argmin(rdp_curve(event, grid) + conversion(delta, grid)))
        grid = np.geomspace(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)], 17)
        by_rdp = min(by_rdp, epsilon_at(rdp_curve(event, grid), delta, grid))
    pure = event.pure_epsilon()
    return by_rdp if pure is None else min(by_rdp, float_above(pure))
