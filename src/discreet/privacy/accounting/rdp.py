"""The RDP accountant: fast, vectorised, valid; the planner, the cross-check and the adaptive filter's arithmetic.

Guarantee: for every order alpha the curve bounds the Rényi divergence of both directions of the zero-out relation;
`epsilon_at` converts it by Balle et al. 2020 (Theorem 21) and is rounded up by whoever prints it.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.errors import UnsupportedEvent
from discreet.privacy.budget import exact_sum, float_above, rounded_up
from discreet.privacy.event_forms import flatten
from discreet.privacy.events import (
    BoundedRange,
    Event,
    Gaussian,
    Laplace,
    PmfFamily,
    PoissonSampledGaussian,
    ReleaseGate,
    Repeated,
    Stated,
)
from discreet.privacy.tuned import Tuned, tuned_rdp

Array = NDArray[np.float64]
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
UNBOUNDED = Decimal("1e100")
"""Stands for an epsilon that nothing proves."""


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
    divergences = tuned_rdp(np.max(every, axis=0), orders, np.max(wide, axis=0), ORDERS, event.runs)
    pure = event.pure_epsilon()
    curve = divergences if pure is None else np.minimum(divergences, float_above(pure))
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


@dataclass(frozen=True)
class RdpSpending:
    """What was accepted so far: Rényi sums at the filter's orders, and the exact sum while everything was pure."""

    curve: Array
    pure: Decimal | None = Decimal(0)

    def plus(self, event: Event, count: int, orders: Array) -> RdpSpending:
        """This and ``count`` of ``event``; every addition is rounded up."""
        done = Repeated(event=event, count=count)
        added = rdp_curve(done, orders) if orders.size else self.curve
        pure = done.pure_epsilon()
        total = None if pure is None or self.pure is None else exact_sum((self.pure, pure))
        return RdpSpending(np.asarray(np.nextafter(self.curve + added, np.inf)), total)

    def epsilon(self, delta: float, orders: Array) -> Decimal:
        """What it proves: the better of the exact sum and the orders; `UNBOUNDED` when neither proves any."""
        by_orders = epsilon_at(self.curve, delta, orders) if orders.size else np.inf
        by_rdp = Decimal(repr(rounded_up(float(by_orders)))) if np.isfinite(by_orders) else UNBOUNDED
        return by_rdp if self.pure is None else min(by_rdp, self.pure)


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
    """RDP of one Poisson-sampled Gaussian step and its slope in log rate, both of shape (rates, orders).

    Rates may be 0 or 1. For rate q and noise multiplier sigma the divergence of the step with the record against the
    step with its null is log(A) / (alpha - 1) with

        A(alpha) = E_{z ~ N(0, sigma^2)} [ f(z)^alpha ],   f(z) = 1 - q + q exp((2 z - 1) / (2 sigma^2)),

    and it bounds the other direction too (Mironov, Talwar, Zhang 2019). The integrand is analytic in a strip around the
    real line, so the trapezoid rule converges geometrically: with t = z / sigma and step h its relative error is at
    most about 2 exp(pi^2 sigma^2 / 2 - 2 pi^2 sigma / h) + 2 exp(-2 pi^2 / h^2); h = min(1/2, sigma / 2) leaves 2e-15.
    One grid serves every order and rate, integer or not, with no alternating series.
    """
    rdp, slope = np.zeros((rates.size, orders.size)), np.zeros((rates.size, orders.size))
    # The grid must reach alpha / sigma; small orders should not pay for the width of the large ones.
    reach = orders / (sigma * _step(sigma))
    edges = [-1.0, *(edge for edge in (60.0, 240.0, 1000.0) if edge < reach.max()), _FARTHEST]
    for low, high in itertools.pairwise(edges):
        chosen = (reach > low) & (reach <= high)
        if chosen.any():
            rdp[:, chosen], slope[:, chosen] = _divergence_block(rates, sigma, orders[chosen])
    unsampled = orders / (2 * sigma**2)  # sampling never costs more than not sampling
    far = reach > _FARTHEST
    rdp[:, far] = np.where(rates > 0, 1.0, 0.0)[:, None] * unsampled[far]
    rdp = np.minimum(rdp, unsampled)
    rdp[rates >= 1] = unsampled
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


_RANGE_ROUNDING = 2.0**-49
"""Sixteen half-ulps a term, more than its few operations can be off by."""


def bounded_range_rdp(epsilon: float, orders: Array) -> Array:
    """The largest divergence of each order of a mechanism whose loss lies in [t - epsilon, t], rounded up.

    t may be another one at every step and depend on what was released before. With h = epsilon/2 and
    g(z) = log(sinh(z)/z), the supremum over t of two-valued losses at order a is

        (a g(a h) - (a-1) g((a-1) h) - g(h)) / (a-1)   <=  a epsilon^2 / 8,

    reached by some exponential mechanism (docs/proofs/bounded-range.md). Dong, Durfee and Rogers, "Optimal Differential
    Privacy Composition for Exponential Mechanisms", 2020. The t that is worst moves with the order.
    """
    if epsilon == 0:
        return np.zeros(orders.size)
    half, less = epsilon / 2, orders - 1
    terms = orders * _log_sinh_ratio(orders * half), less * _log_sinh_ratio(less * half)
    last = _log_sinh_ratio(np.array([half]))
    exact = terms[0] - terms[1] - last + _RANGE_ROUNDING * (terms[0] + terms[1] + last)
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
    """The largest hockey-stick divergence at e^s of a bounded range, for each s of ``losses``; ``epsilon`` is positive.

    It is (1 - e^((s-epsilon)/2))^2 / (1 - e^-epsilon) for s in [-epsilon, epsilon]. The supremum at every s is the
    curve of a dominating pair; the loss distribution of one t would be no bound for a composition.
    """
    inside = np.clip(losses, -epsilon, epsilon)
    worst = np.expm1((inside - epsilon) / 2) ** 2 / -np.expm1(-epsilon)
    return np.where(losses < -epsilon, -np.expm1(np.minimum(losses, 0.0)), worst)
