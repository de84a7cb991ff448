"""What a release gate costs one value of one unit: exact curves in both directions, at the worst number of others.

With n other units that have the value, P_n = P[Bin(n, beta) >= k] is the probability that it is shown without the unit
and P_(n+1) with it. Nobody knows n, so the price is the worst n at every epsilon:

    forward   F(s)  =  max_n  P_(n+1) - e^s P_n,
    backward  B(s)  =  max_n  (1 - P_n) - e^s (1 - P_(n+1))          for s >= 0;

below 0 each follows from the other one: 1 - e^s + e^s B(-s), and 1 - e^s + e^s F(-s).

Guarantee (docs/proofs/release-gate.md): both maxima are taken at one n that is known, so no search ends too early;
counts that are released beside the values cost nothing more; losses lie in [log(1-beta), log(1 + k(1-beta))], but for
beta^k which is certain loss. Numbers are raised by `_ROUNDING` of their larger term, more than scipy's incomplete beta
functions are off by (measured against 60 digits in the tests).
"""

from __future__ import annotations

import functools
import math
from typing import Literal, NamedTuple

import numpy as np

from discreet.privacy.accounting.rdp import Array

Direction = Literal["forward", "backward"]
_ROUNDING = 1e-11
_FAR = 1e15
"""Others beyond this are not told apart by floats; a value that so many have is shown for certain."""


_LEAST = 1e-300
"""A delta below this is none: beta^k may be a float's 0 there."""


class Worst(NamedTuple):
    """A divergence, and the number of other units at which it is reached."""

    delta: float
    others: int


def release_deltas(k: int, beta: float, losses: Array, direction: Direction) -> Array:
    """The largest hockey-stick divergence at e^s over all numbers of others, for each s of ``losses``."""
    opposite: Direction = "backward" if direction == "forward" else "forward"
    deltas = np.empty(losses.size)
    above = losses >= 0
    deltas[above] = _at_worst(k, beta, losses[above], direction)[0]
    below = losses[~above]
    deltas[~above] = -np.expm1(below) + np.exp(below) * _at_worst(k, beta, -below, opposite)[0]
    return np.minimum(deltas, 1.0)


def release_delta(k: int, beta: float, epsilon: float, direction: Direction) -> Worst:
    """One point of the curve with the number of others it is reached at."""
    deltas, others = _at_worst(k, beta, np.array([epsilon]), direction)
    return Worst(min(1.0, float(deltas[0])), int(others[0]))


def release_epsilons(k: int, beta: float, delta: float) -> tuple[float, float]:
    """The smallest epsilons of one value at ``delta``, forward and backward; infinite below beta^k, and at 0.

    The search ends on the safe side.
    """
    return _epsilon_of(k, beta, delta, "forward"), _epsilon_of(k, beta, delta, "backward")


@functools.lru_cache(maxsize=4096)
def _epsilon_of(k: int, beta: float, delta: float, direction: Direction) -> float:
    low, high = -1e-9, largest_loss(k, beta) if direction == "forward" else smallest_loss(beta)
    if delta < _LEAST or release_delta(k, beta, high, direction).delta > delta:
        return math.inf
    if release_delta(k, beta, 0.0, direction).delta <= delta:
        return 0.0
    while high - low > 1e-13 * max(1.0, high):
        middle = (low + high) / 2
        if release_delta(k, beta, max(middle, 0.0), direction).delta <= delta:
            high = middle
        else:
            low = middle
    return max(high, 0.0)


def largest_loss(k: int, beta: float) -> float:
    """The largest finite loss forward, that of k others, rounded up."""
    return math.log1p(k * (1 - beta)) * (1 + 1e-15) + 1e-15


def smallest_loss(beta: float) -> float:
    """The largest loss backward: -log(1 - beta), rounded up."""
    return -math.log1p(-beta) * (1 + 1e-15) + 1e-15


def _at_worst(k: int, beta: float, epsilons: Array, direction: Direction) -> tuple[Array, Array]:
    """Divergences at epsilons from 0, and the n of each."""
    shift = np.exp(np.minimum(epsilons if direction == "forward" else -epsilons, 700.0))
    near = _worst_others(k, beta, shift)
    trials = [np.maximum(near + step, k - 1) for step in (-1.0, 0.0, 1.0)]  # a rounded n may be the neighbour
    values = np.stack([_gap(k, beta, n, epsilons, direction) for n in trials])
    best = np.argmax(values, axis=0)
    places = np.arange(epsilons.size)
    return values[best, places], np.stack(trials)[best, places]


def _worst_others(k: int, beta: float, shift: Array) -> Array:
    """The n at which the gap stops growing: the first with (n+1)(1-beta) <= x (n+2-k), where x = e^(+-epsilon)."""
    room = shift - (1 - beta)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        others = np.ceil(((1 - beta) + shift * (k - 2)) / room)
    return np.where(room > 0, np.clip(others, k - 1, _FAR), _FAR)


def _gap(k: int, beta: float, others: Array, epsilons: Array, direction: Direction) -> Array:
    """The gap at n others, never below 0, raised by more than its rounding."""
    from scipy import special

    step = _step(k, beta, others)  # P_(n+1) - P_n
    if direction == "forward":
        shown = special.betainc(float(k), np.maximum(others - k + 1, 1e-300), beta)
        rest = np.where(others >= k, shown, 0.0) * np.expm1(np.minimum(epsilons, 700.0))
        larger = step
    else:
        hidden = special.betaincc(float(k), np.maximum(others - k + 1, 1e-300), beta)
        hidden = np.where(others >= k, hidden, 1.0)
        # (1 - P_n) - e^s (1 - P_(n+1)) = e^s step - (e^s - 1)(1 - P_n)
        rest = hidden * np.expm1(np.minimum(epsilons, 700.0))
        larger = step * np.exp(np.minimum(epsilons, 700.0))
    gap = np.where(rest >= larger, 0.0, larger - rest)
    return np.asarray(np.maximum(gap, 0.0) + np.where(gap > 0, _ROUNDING * larger, 0.0))


def _step(k: int, beta: float, others: Array) -> Array:
    """beta P[Bin(n, beta) = k-1]: by how much one unit more raises the chance of being shown."""
    from scipy import stats

    return np.asarray(beta * stats.binom.pmf(k - 1, others, beta))
