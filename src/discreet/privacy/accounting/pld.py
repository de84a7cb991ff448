"""The PLD accountant: the claim. Each direction is composed and read by itself.

Guarantee: discretisation is pessimistic (connect-the-dots), so every epsilon is an upper bound; delta is lowered by
`rounding(steps)` before it is read, because convolutions by FFT are noise below that. `dp_accounting` does the
arithmetic and is imported on first use (it takes seconds).

*Forward* is the record present against its null, *backward* its null against the record. For sampled Gaussians these
are `dp_accounting`'s remove and add directions under REPLACE_SPECIAL.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.errors import BadInput, UnsupportedEvent
from discreet.privacy.accounting.rdp import Array, bounded_range_deltas, rdp_epsilon
from discreet.privacy.accounting.release_gate import (
    Direction,
    largest_loss,
    release_deltas,
    release_epsilons,
    smallest_loss,
)
from discreet.privacy.budget import Relation, float_above
from discreet.privacy.event_forms import flatten
from discreet.privacy.events import (
    BoundedRange,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    PmfFamily,
    PoissonSampledGaussian,
    ReleaseGate,
    Stated,
)

PLANNING_INTERVAL = 1e-3
CERTIFICATE_INTERVAL = 1e-4
FINEST_INTERVAL = 1e-5
MOST_POINTS = 3e7
MOST_STEPS = 10**8
MOST_PARTS = 1000
MOST_SENSITIVITY = 10**4
"""Above it discrete Laplace noise is priced as any mechanism of its epsilon: it has too many atoms."""
_LEAST = 1e-200
"""Divergences are raised to this: below it `dp_accounting`'s sums overflow."""


def rounding(steps: int) -> float:
    """Probability mass that FFT rounding may hide in a composition of ``steps``.

    Measured against the closed form of composed Gaussians (docs/proofs/pld.md): at most 7e-17 a step on the grids used
    here; this is seven times that.
    """
    return max(1e-12, 5e-16 * steps)


@dataclass(frozen=True)
class LossPair:
    """Discretised privacy losses of one composed mechanism, a `dp_accounting` pmf per direction."""

    forward: Any
    backward: Any
    steps: int = 1

    def then(self, other: LossPair) -> LossPair:
        """Both, one after the other."""
        from dp_accounting.pld.pld_pmf import compose_pmfs  # takes sparse and dense alike

        return LossPair(
            compose_pmfs(self.forward, other.forward),
            compose_pmfs(self.backward, other.backward),
            self.steps + other.steps,
        )

    def times(self, count: int) -> LossPair:
        """``count`` of these."""
        if count == 1:
            return self
        return LossPair(self.forward.self_compose(count), self.backward.self_compose(count), self.steps * count)

    def epsilons(self, delta: float) -> tuple[float, float]:
        """Smallest epsilon at ``delta``, forward and backward."""
        usable = usable_delta(delta, self.steps)
        return (
            float(self.forward.get_epsilon_for_delta(usable)),
            float(self.backward.get_epsilon_for_delta(usable)),
        )

    def deltas(self, epsilon: float) -> tuple[float, float]:
        """Hockey-stick divergence at e^epsilon, forward and backward, rounding included."""
        return (
            float(self.forward.get_delta_for_epsilon(epsilon)) + rounding(self.steps),
            float(self.backward.get_delta_for_epsilon(epsilon)) + rounding(self.steps),
        )


def usable_delta(delta: float, steps: int = 1) -> float:
    """``delta`` less what rounding may hide; refuses one that leaves nothing to trust."""
    hidden = rounding(steps)
    if delta < 2 * hidden:
        raise BadInput(
            f"a PLD claim at delta={delta:.3g} over {steps} steps",
            f"convolution rounding hides up to {hidden:.1g}",
            f"Give delta of at least {2 * hidden:.1g}, or use the RDP accountant",
        )
    return delta - hidden


def pld_pair(
    event: Event, *, interval: float = CERTIFICATE_INTERVAL, relation: Relation = "zero-out"
) -> LossPair | None:
    """The loss distributions of ``event``, or None when it touches nothing."""
    _check_total(event, interval)
    return compose(single(part, count, interval=interval, relation=relation) for part, count in flatten(event))


def compose(pairs: Iterable[LossPair]) -> LossPair | None:
    """All of ``pairs`` together."""
    total: LossPair | None = None
    for pair in pairs:
        total = pair if total is None else total.then(pair)
    return total


def pld_epsilons(
    event: Event,
    delta: float,
    *,
    interval: float = CERTIFICATE_INTERVAL,
    relation: Relation = "zero-out",
) -> tuple[float, float]:
    """Epsilon of ``event`` forward and backward. A pure event costs its exact sum at a delta too small for FFTs."""
    parts = list(flatten(event))
    if relation == "zero-out" and len(parts) == 1 and parts[0][1] == 1:
        gate = parts[0][0]
        if isinstance(gate, ReleaseGate) and gate.values == 1:  # its curves are known: nothing to convolve
            return release_epsilons(gate.k, gate.beta, delta)
    otherwise = _without_pld(event, delta) if relation == "zero-out" else math.inf
    if otherwise < math.inf and delta < 2 * rounding(sum(count for _, count in flatten(event))):
        return otherwise, otherwise
    pair = pld_pair(event, interval=interval, relation=relation)
    if pair is None:
        return 0.0, 0.0
    forward, backward = pair.epsilons(delta)
    return min(forward, otherwise), min(backward, otherwise)


def _without_pld(event: Event, delta: float) -> float:
    """What is known of ``event`` in both directions without a loss distribution: its exact sum, if it is pure.

    Of release gates, what they cost one by one. With bounded ranges in it, also RDP: there the loss distribution is the
    worst at every single epsilon, which no one mechanism is, and many of them are proven cheaper by their moments
    (docs/proofs/bounded-range.md).
    """
    parts = list(flatten(event))
    if any(isinstance(part, ReleaseGate) for part, _ in parts):
        return _with_gates(parts, delta)
    if any(isinstance(part, BoundedRange) for part, _ in parts):
        return rdp_epsilon(event, delta)
    pure = event.pure_epsilon()
    return math.inf if pure is None else float_above(pure)


def _with_gates(parts: list[tuple[Event, int]], delta: float) -> float:
    """Release gates and pure events, one by one: exactly for one value, else each at an equal share of delta.

    It needs no convolution, so it holds at any delta.
    """
    values = sum(count * part.values for part, count in parts if isinstance(part, ReleaseGate))
    total = 0.0
    for part, count in parts:
        pure = part.pure_epsilon()
        if isinstance(part, ReleaseGate):
            total += count * part.values * max(release_epsilons(part.k, part.beta, delta / values))
        elif pure is None:
            return math.inf
        else:
            total += count * float_above(pure)
    return total


@functools.lru_cache(maxsize=1024)
def single(event: Event, count: int, *, interval: float, relation: Relation = "zero-out") -> LossPair:
    """``count`` repetitions of one elementary event."""
    if relation == "replace-one" and not isinstance(event, (Gaussian, PoissonSampledGaussian)):
        raise UnsupportedEvent(f"pricing a {event.kind} event under replace-one", "its event is stated for zero-out")
    _check_size(event, count, interval)
    if isinstance(event, Gaussian):  # many Gaussians are one
        return _gaussian(event.noise_multiplier / math.sqrt(count), 1.0, interval, relation)
    if isinstance(event, PoissonSampledGaussian):
        return _gaussian(event.noise_multiplier, event.sampling_rate, interval, relation).times(count)
    if isinstance(event, PmfFamily):
        return _family(event, interval).times(count)
    if isinstance(event, ReleaseGate):
        return _release_gate(event.k, event.beta, interval).times(count * event.values)
    if isinstance(event, BoundedRange) and event.epsilon > 0:
        return _bounded_range(float_above(event.epsilon), interval).times(count)
    if isinstance(event, Stated) and event.delta > 0:
        return _stated(event, interval).times(count)
    return _pure_noise(event, interval).times(count)


def _check_size(event: Event, count: int, interval: float) -> None:
    """Refuse what would not fit into memory: an epsilon in the thousands, or steps beyond counting."""
    if not _reach(event, count) / interval <= MOST_POINTS or count > MOST_STEPS:
        raise UnsupportedEvent(
            f"pricing {count} x {event.kind} by PLD",
            "its losses reach further than a loss distribution can hold",
            "Add noise, or use RDP",
        )


def _reach(event: Event, count: int) -> float:
    """How far losses of ``count`` times ``event`` reach: their mean is below, and their spread that of, ``mean``."""
    once, mean = _spread(event)
    return once + count * mean + 12 * math.sqrt(2 * count * mean)


def _check_total(event: Event, interval: float) -> None:
    """Refuse a composition that is too large as a whole, though each of its parts would do."""
    parts = list(flatten(event))
    reach = sum(_reach(part, count) for part, count in parts)
    if not reach / interval <= MOST_POINTS or len(parts) > MOST_PARTS:
        raise UnsupportedEvent(
            f"pricing {len(parts)} mechanisms together by PLD",
            "their losses reach further than a loss distribution can hold",
            "Add noise, or use RDP",
        )


def pld_seconds(event: Event, interval: float, known: set[tuple[Event, int, float]]) -> float:
    """About how long `pld_pair` computes on one core: a function of the events, of no clock.

    ``known``: parts that were computed before, and are remembered; those of ``event`` are added. What `pld_pair`
    refuses takes no time.
    """
    seconds = total = 0.0
    for part, count in flatten(event):
        if isinstance(part, PmfFamily):
            once, reach = _family_points(part, interval)
        else:
            once, reach = _spread(part)[0] / interval, _reach(part, count) / interval
        if not reach <= MOST_POINTS:
            continue
        if (part, count, interval) not in known:
            known.add((part, count, interval))
            seconds += once * _SECONDS_ONCE + reach * _SECONDS_REPEATED
        total = min(total + reach, MOST_POINTS)
        seconds += total * _SECONDS_TOGETHER
    return seconds


_SECONDS_ONCE, _SECONDS_REPEATED, _SECONDS_TOGETHER = 3e-6, 1e-6, 1e-7
"""A point of a loss distribution: made, composed with itself, composed with others. Measured, and rounded up."""


def _family_points(event: PmfFamily, interval: float) -> tuple[float, float]:
    """Points that a family is read at, for each of its pairs, and those of its grid."""
    grid = 0.0
    for present, absent in zip(event.present, event.absent, strict=True):
        losses = _finite_losses(np.array(present), np.array(absent))
        grid = max(grid, float(np.abs(losses).max()) / interval if losses.size else 0.0)
    return grid * len(event.present), 2 * grid


def _spread(event: Event) -> tuple[float, float]:
    """The largest loss that matters of one event, and its divergence of order 2."""
    if isinstance(event, PmfFamily):
        return 0.0, 0.0  # checked where its losses are known
    if isinstance(event, ReleaseGate):
        least = smallest_loss(event.beta)
        return largest_loss(event.k, event.beta) + least, event.values * min(least, least * least)
    pure = event.epsilon if isinstance(event, Stated) else event.pure_epsilon()
    if pure is not None:
        epsilon = min(float(pure), 1e9)
        return epsilon, min(epsilon, epsilon * epsilon)
    sigma, rate = getattr(event, "noise_multiplier", math.inf), getattr(event, "sampling_rate", 1.0)
    if sigma < 1e-3:
        return math.inf, math.inf
    square = 1 / sigma / sigma
    second = square if square > 500 else math.log1p(rate * rate * math.expm1(square))
    return square / 2 + 12 / sigma, second


def _gaussian(sigma: float, rate: float, interval: float, relation: Relation) -> LossPair:
    from dp_accounting import NeighboringRelation as Neighbours
    from dp_accounting.pld import privacy_loss_distribution as pld

    neighbours = Neighbours.REPLACE_ONE if relation == "replace-one" else Neighbours.REPLACE_SPECIAL
    return _both_directions(
        pld.from_gaussian_mechanism(
            standard_deviation=sigma,
            sampling_prob=rate,
            value_discretization_interval=interval,
            neighboring_relation=neighbours,
        )
    )


def _pure_noise(event: Event, interval: float) -> LossPair:
    from dp_accounting.pld import privacy_loss_distribution as pld

    epsilon = event.pure_epsilon()
    if epsilon is None:
        raise UnsupportedEvent(
            f"pricing a {event.kind} event by PLD",
            "no loss distribution is known here",
            "Charge it to an adaptive ledger, whose filter needs its Rényi divergences only",
        )
    if epsilon == 0:
        return _both_directions(pld.identity(value_discretization_interval=interval))
    if isinstance(event, Laplace):
        distribution = pld.from_laplace_mechanism(1 / float_above(epsilon), value_discretization_interval=interval)
    elif isinstance(event, DiscreteLaplace) and 1 < event.sensitivity <= MOST_SENSITIVITY:
        distribution = pld.from_discrete_laplace_mechanism(
            float_above(epsilon) / event.sensitivity,
            sensitivity=event.sensitivity,
            value_discretization_interval=interval,
        )
    else:
        return _pure(float_above(epsilon), interval)
    return _both_directions(distribution)


def _stated(event: Stated, interval: float) -> LossPair:
    """The pair that dominates every mechanism with this promise, in either direction alike."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    promise = common.DifferentialPrivacyParameters(float_above(event.epsilon), float_above(event.delta))
    return _both_directions(pld.from_privacy_parameters(promise, value_discretization_interval=interval))


def _pure(epsilon: float, interval: float) -> LossPair:
    """The pair that dominates every epsilon-DP mechanism, losses of -epsilon and epsilon, in either direction alike.

    Its curve is read at points of the grid and joined by chords, which costs the square of the interval; rounding both
    losses up to the grid would cost the interval itself at every step. In e^s the curve is straight but at -epsilon and
    epsilon: the points around these are enough. With all of them, what each is rounded up adds up to a mass above 1.
    """
    from dp_accounting.pld import pld_pmf

    top = math.ceil(epsilon / interval)
    places = np.unique([-top - 1, -top, 1 - top, top - 1, top, top + 1])
    grid = places * interval
    inside = np.clip(grid, -epsilon, epsilon)
    curve = -np.expm1(inside - epsilon) / (1 + math.exp(-epsilon))
    with np.errstate(over="ignore"):  # points more than 700 apart: what is divided by that is 0
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(
            interval, places, np.where(grid < -epsilon, -np.expm1(np.minimum(grid, 0.0)), curve)
        )
    return LossPair(pmf, pmf)


def _bounded_range(epsilon: float, interval: float) -> LossPair:
    """The pair that dominates every mechanism of this range, in either direction alike."""
    from dp_accounting.pld import pld_pmf

    top = math.ceil(epsilon / interval) + 1
    worst = bounded_range_deltas(epsilon, np.arange(-top, top + 1, dtype=np.float64) * interval)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -top, top, worst)
    return LossPair(pmf, pmf)


def _release_gate(k: int, beta: float, interval: float) -> LossPair:
    """The pair that dominates a gate whatever number of others has the value (docs/proofs/release-gate.md)."""
    from dp_accounting.pld import pld_pmf

    high, low = (math.ceil(reach / interval) + 1 for reach in (largest_loss(k, beta), smallest_loss(beta)))

    def curve(bottom: int, top: int, direction: Direction) -> Any:
        grid = np.arange(bottom, top + 1, dtype=np.float64) * interval
        worst = np.maximum(release_deltas(k, beta, grid, direction), _LEAST)
        worst = np.maximum.accumulate(worst[::-1])[::-1]  # rounding may have bent it
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, bottom, top, worst)

    return LossPair(curve(-low, high, "forward"), curve(-high, low, "backward"))


def _both_directions(distribution: Any) -> LossPair:
    # dp_accounting reads both directions at one epsilon; ours have their own selection losses, so take them apart
    return LossPair(distribution._pmf_remove, distribution._pmf_add)


def _family(event: PmfFamily, interval: float) -> LossPair:
    present = [np.array(row) for row in event.present]
    absent = [np.array(row) for row in event.absent]
    return LossPair(_envelope(present, absent, interval), _envelope(absent, present, interval))


def _envelope(upper: list[Array], lower: list[Array], interval: float) -> Any:
    """Connect-the-dots through the worst hockey-stick divergence over the family at every grid epsilon."""
    from dp_accounting.pld import pld_pmf

    losses = [_finite_losses(p, q) for p, q in zip(upper, lower, strict=True)]
    reach = max((float(np.abs(part).max()) for part in losses if part.size), default=0.0)
    if reach / interval * max(len(upper), 10) > 10 * MOST_POINTS:
        raise UnsupportedEvent("pricing a pmf-family event by PLD", "its losses reach too far for a loss distribution")
    top = math.ceil(reach / interval) + 1
    grid: Array = np.arange(-top, top + 1, dtype=np.float64) * interval
    worst = np.zeros(grid.size)
    for p, q in zip(upper, lower, strict=True):
        # sums are 1 to rounding only; what is missing counts as certain loss, what is too much of q is taken off
        slack = max(0.0, 1 - float(p.sum())) + np.exp(grid) * max(0.0, float(q.sum()) - 1)
        worst = np.maximum(worst, hockey_stick(p, q, grid) + slack)
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -top, top, np.minimum(worst, 1.0))


def _finite_losses(p: Array, q: Array) -> Array:
    keep = (p > 0) & (q > 0)
    return np.asarray(np.log(p[keep]) - np.log(q[keep]))


def hockey_stick(p: Array, q: Array, epsilons: Array) -> Array:
    """sum_x max(0, p - e^eps q) at each epsilon, by sorted partial sums (direct, never by FFT)."""
    with np.errstate(divide="ignore"):
        loss = np.where(p > 0, np.log(np.maximum(p, 1e-320)) - np.log(q), -np.inf)
    order = np.argsort(loss)
    p_tail = np.concatenate([np.cumsum(p[order][::-1])[::-1], [0.0]])
    q_tail = np.concatenate([np.cumsum(q[order][::-1])[::-1], [0.0]])
    first = np.searchsorted(loss[order], epsilons, side="right")
    return np.asarray(np.maximum(p_tail[first] - np.exp(epsilons) * q_tail[first], 0.0))
