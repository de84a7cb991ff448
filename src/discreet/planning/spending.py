"""What each cohort has spent by RDP while a plan is made, and the largest sampling rate that it can still afford.

A cohort has spent H_alpha in training and l in selection; after n more steps at noise sigma it may stand at eps. Its
rate is the largest q in [0, 1] with  min_alpha [ H_alpha + n r_alpha(q, sigma) + c_alpha(delta) ] <= eps - l.
Guarantee: the returned rate satisfies the inequality as computed (the last safe point of the search, not its guess).

Every term times (alpha - 1) is convex in alpha, so the bound has one valley: a coarse scan of the orders finds the
neighbourhood that holds the best one, and only those orders are followed to the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from discreet.planning.request import PlanRequest
from discreet.privacy.accounting.rdp import (
    ORDERS,
    Array,
    conversion,
    epsilon_at,
    sampled_gaussian_divergence,
    sampled_gaussian_rdp,
)
from discreet.privacy.budget import float_above
from discreet.privacy.plan import Cohort, Stage, build_trajectories


@dataclass
class CohortSpending:
    """RDP histories of all cohorts (cohorts x orders) with their selection losses."""

    cohorts: tuple[Cohort, ...]
    losses: Array
    delta: float
    orders: Array = field(default_factory=lambda: ORDERS)
    history: Array = field(init=False)

    def __post_init__(self) -> None:
        self.history = np.zeros((len(self.cohorts), self.orders.size))
        self._conversion = conversion(self.delta, self.orders)

    @classmethod
    def for_request(cls, ask: PlanRequest, credit: Array | None = None) -> CohortSpending:
        """Nothing spent in training yet; selection losses as committed (the worse direction), less any ``credit``."""
        paths = build_trajectories(ask.terms, ask.cohorts, ())
        losses = np.array([float_above(max(path.forward, path.backward)) for path in paths[:-1]])
        return cls(ask.cohorts, losses if credit is None else losses - credit, float(ask.accounted.delta))

    def entered(self, phase: int) -> int:
        """How many cohorts train in ``phase`` (cohorts are in order of entry)."""
        return sum(cohort.phase <= phase for cohort in self.cohorts)

    def sizes(self, phase: int) -> Array:
        """Planned sizes of the cohorts that train in ``phase``."""
        return np.array([cohort.size for cohort in self.cohorts[: self.entered(phase)]])

    def rates_to(self, target: float, phase: int, steps: float, sigma: float, start: Guess) -> Guess:
        """Each cohort's largest rate that leaves it at ``target`` or below after ``steps`` more."""
        count = self.entered(phase)
        allowance = target - self.losses[:count, None] - self._conversion - self.history[:count]
        return Guess(*largest_rates(allowance, steps, sigma, self.orders, start))

    def spend(self, stage: Stage) -> None:
        """Add a stage to the histories."""
        count = len(stage.rates)
        step = sampled_gaussian_rdp(np.array(stage.rates), stage.noise_multiplier, self.orders)
        self.history[:count] += stage.steps * step

    def epsilon(self, cohort: int) -> float:
        """Where a cohort stands, selection included."""
        return float(self.losses[cohort]) + epsilon_at(self.history[cohort], self.delta, self.orders)


LEAST_RATE = 1e-7
"""A cohort that could only be sampled less often than this is left out of the phase."""
_STRIDE = 8
_NEIGHBOURS = 4


@dataclass(frozen=True)
class Guess:
    """Where to start looking: a rate per cohort and, once known, the index of the order that decided it."""

    rates: Array
    orders: NDArray[np.intp] | None = None


def largest_rates(
    allowance: Array, steps: float, sigma: float, orders: Array, start: Guess
) -> tuple[Array, NDArray[np.intp]]:
    """One rate per row of ``allowance`` (cohorts x orders: what each order may still add), and the deciding orders."""
    count = allowance.shape[0]
    rates, best = np.zeros(count), np.zeros(count, dtype=np.intp)
    room = allowance / steps
    unsampled_room = room - orders / (2 * sigma**2)
    rates[(unsampled_room >= 0).any(axis=1)], best = 1.0, unsampled_room.argmax(axis=1)
    rows = (allowance > 0).any(axis=1) & (rates == 0)
    if rows.any():
        near = np.clip(start.rates[rows], LEAST_RATE, 1.0)
        centres = None if start.orders is None else start.orders[rows]
        rates[rows], best[rows] = _in_valley(room[rows], sigma, orders, near, centres)
    rates[rates < LEAST_RATE] = 0.0
    return rates, best


def _in_valley(
    room: Array, sigma: float, orders: Array, near: Array, centres: NDArray[np.intp] | None
) -> tuple[Array, NDArray[np.intp]]:
    if centres is None:
        # an order without room cannot win, and each cohort's roomiest one surely has some
        usable = np.flatnonzero((room > 0).any(axis=0))
        coarse = np.unique(np.concatenate([usable[::_STRIDE], usable[-1:], room.argmax(axis=1)]))
        near, deciding = _solve(room[:, coarse], sigma, orders[coarse], near, width=1e-3)
        centres = np.where(near > 0, coarse[deciding], room.argmax(axis=1))
        near, reach = np.maximum(near, LEAST_RATE), _STRIDE + 2
    else:
        reach = _NEIGHBOURS
    window = np.unique(np.clip(centres[:, None] + np.arange(-reach, reach + 1), 0, orders.size - 1))
    rates, deciding = _solve(room[:, window], sigma, orders[window], near, width=1e-11)
    best = window[deciding]
    at_edge = (np.abs(best - centres) >= reach) & (best > 0) & (best < orders.size - 1)
    if reach == _NEIGHBOURS and at_edge.any():  # the valley lies further on: look everywhere
        return _in_valley(room, sigma, orders, np.maximum(rates, LEAST_RATE), None)
    return rates, best


def _solve(room: Array, sigma: float, orders: Array, guess: Array, width: float) -> tuple[Array, NDArray[np.intp]]:
    """Rates that fit and are within about ``width`` (relative) of the root, and which order decided each.

    Newton in log rate for every order, the order that allows most winning, aimed a hair to the safe side; bisection
    when that leaves the bracket or dawdles.
    """
    low, high = np.full(guess.size, LEAST_RATE / 2), np.ones(guess.size)
    rate, best = guess.copy(), np.zeros(guess.size, dtype=np.intp)
    active = np.ones(guess.size, dtype=bool)
    for turn in range(200):
        q = rate[active]
        step = sampled_gaussian_divergence(q, sigma, orders)
        margin = room[active] - step.rdp
        fits = (margin >= 0).any(axis=1)
        best[active] = margin.argmax(axis=1)
        low[active] = np.where(fits, np.maximum(low[active], q), low[active])
        high[active] = np.where(fits, high[active], np.minimum(high[active], q))
        move = _newton(step.rdp, step.slope, room[active])
        proposal = q * np.exp(move - width)
        middle = np.sqrt(low[active] * high[active])
        stray = (proposal <= low[active]) | (proposal >= high[active]) | (turn > 6 and turn % 2 == 0)
        rate[active] = np.where(stray, middle, proposal)
        done = (fits & (move <= 3 * width)) | (high[active] <= low[active] * (1 + width))
        active[active] = ~done
        if not active.any():
            break
    return np.where(low > LEAST_RATE / 2, low, 0.0), best


def _newton(rdp: Array, slope: Array, room: Array) -> Array:
    """How far log q may move: -(log r - log room) / (d log r / d log q), best order first."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gap = np.log(rdp) - np.log(np.maximum(room, 1e-300))
        moves = np.where(room > 0, -gap * rdp / np.maximum(slope, 1e-300), -np.inf)
    return np.asarray(np.clip(np.nan_to_num(moves, nan=-np.inf, posinf=50.0).max(axis=1), -50.0, 50.0))
