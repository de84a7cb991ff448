"""The schedules: how sampling rates, steps and noise change over the phases (DP-AL, 3.3, Fig. 2 and D.1).

naive               one rate for everyone, q_i = b / |D_i|, e epochs a phase, one sigma. The other schedules measure
                    by it: what its first cohort has spent after phase i is the phase target eps_i
step-amplification  each cohort c gets the largest rate that leaves it at eps_i - l(path) after the phase. Rates then
                    sum to more than b, so the phase takes more steps (every rate falls) until sum_c q_{c,i} k_c = b;
                    the whole-number remainder goes into that phase's sigma
noise-reduction     the same, but it keeps the naive steps and lowers that phase's sigma instead
scout               the phases before the last only choose: each is a short training, anew, with a small share of the
                    budget. The last phase trains anew with the rest, each cohort at the largest rate that it affords
continual           the new cohort alone until it has caught up, then everyone at the naive rate. A baseline: the model
                    forgets while it sees only new records, and a new cohort smaller than b has smaller batches

The paper plans two groups, all old cohorts under the first one's history; here every cohort has its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Protocol

import numpy as np

from discreet.planning.calibration import least_noise
from discreet.planning.request import PlanRequest, TooLittleLeft
from discreet.planning.spending import CohortSpending, Guess
from discreet.privacy.accounting.rdp import ORDERS, Array, conversion, epsilon_at, sampled_gaussian_rdp
from discreet.privacy.budget import float_below
from discreet.privacy.plan import Phase, Stage

LEAST_SIGMA, MOST_SIGMA = 0.05, 1e7
_TOLERANCE = 1e-9


def naive_phases(ask: PlanRequest) -> tuple[Phase, ...]:
    """Phases whose worst cohort, selection included, reaches the budget by RDP."""
    spending = CohortSpending.for_request(ask)
    sigma = calibrated(ask, lambda s: _worst(ask, spending, s))
    return phases_at(ask, sigma)


def base_sigma(ask: PlanRequest) -> float:
    """sigma at which the naive first cohort alone reaches the budget."""
    spending = CohortSpending.for_request(ask)
    loss, delta = float(spending.losses[0]), spending.delta

    def cost(sigma: float, orders: Array) -> float:
        return loss + epsilon_at(_curves(ask, sigma, orders).sum(axis=0), delta, orders)

    # the bound has one valley in the order: find it coarsely, then follow only its neighbourhood
    coarse = calibrated(ask, lambda s: cost(s, ORDERS[::8]), tolerance=1e-3)
    curve = _curves(ask, coarse, ORDERS).sum(axis=0) + conversion(delta)
    centre = int(np.argmin(curve))
    window = ORDERS[max(0, centre - 4) : centre + 5]
    return calibrated(ask, lambda s: cost(s, window), start=coarse)


def phase_targets(ask: PlanRequest, sigma: float) -> list[float]:
    """eps_i: where the naive first cohort stands after each phase."""
    return _cumulative(ask, CohortSpending.for_request(ask), sigma)


def phases_at(ask: PlanRequest, sigma: float) -> tuple[Phase, ...]:
    """The naive phases with this sigma."""
    spending = CohortSpending.for_request(ask)
    return tuple(
        Phase(
            size=size,
            batch=ask.batch_of(i),
            stages=(
                Stage(
                    steps=ask.naive_steps(i),
                    noise_multiplier=sigma,
                    rates=(ask.naive_rate(i),) * spending.entered(i),
                ),
            ),
        )
        for i, size in enumerate(ask.sizes)
    )


def calibrated(
    ask: PlanRequest, cost: Callable[[float], float], *, start: float = 2.0, tolerance: float = _TOLERANCE
) -> float:
    """Smallest sigma whose cost is within the budget."""
    target = float_below(ask.budget.epsilon)
    sigma = least_noise(cost, target, start=start, tolerance=tolerance, smallest=LEAST_SIGMA, largest=MOST_SIGMA)
    if sigma is None:
        raise TooLittleLeft("what is left to train with is too little, whatever the noise")
    return sigma


def _curves(ask: PlanRequest, sigma: float, orders: Array = ORDERS) -> Array:
    rates = np.array([ask.naive_rate(i) for i in range(len(ask.sizes))])
    steps = np.array([ask.naive_steps(i) for i in range(len(ask.sizes))])
    return np.asarray(steps[:, None] * sampled_gaussian_rdp(rates, sigma, orders))


def _cumulative(ask: PlanRequest, spending: CohortSpending, sigma: float) -> list[float]:
    sums = np.cumsum(_curves(ask, sigma), axis=0)
    return [float(spending.losses[0]) + epsilon_at(row, spending.delta) for row in sums]


def _worst(ask: PlanRequest, spending: CohortSpending, sigma: float) -> float:
    tails = np.cumsum(_curves(ask, sigma)[::-1], axis=0)[::-1]  # what a cohort entering in phase i goes through
    return max(
        float(loss) + epsilon_at(tails[cohort.phase], spending.delta)
        for cohort, loss in zip(spending.cohorts, spending.losses, strict=True)
    )


BATCH_TOLERANCE = 1e-6
"""How far (relative) below b an expected batch may end."""
MOST_AMPLIFICATION = 10
"""A phase takes at most this many times its naive steps; what budget is left then lowers its sigma instead."""


def equalised_phases(ask: PlanRequest, credit: Array | None = None) -> tuple[Phase, ...]:
    """Phases of either schedule. ``credit`` per cohort is epsilon that RDP charges it and PLD does not."""
    amplify = ask.schedule == "step-amplification"
    sigma = base_sigma(ask)
    targets = phase_targets(ask, sigma)
    targets[-1] = min(targets[-1], float(ask.budget.epsilon))
    spending = CohortSpending.for_request(ask, credit)
    phases: list[Phase] = []
    for i, target in enumerate(targets):
        if i == 0:
            stage = Stage(steps=ask.naive_steps(0), noise_multiplier=sigma, rates=(ask.naive_rate(0),))
        else:
            stage = balanced_stage(ask, spending, i, target, sigma, amplify=amplify)
        spending.spend(stage)
        phases.append(Phase(size=ask.sizes[i], batch=ask.batch, stages=(stage,)))
    return tuple(phases)


class Batches(Protocol):
    """What a stage needs to know of a request: the expected batch, and the naive way to reach it in a phase."""

    @property
    def batch(self) -> int:
        """b."""

    def batch_of(self, phase: int) -> int:
        """b_i."""

    def scout_steps(self, phase: int) -> int:
        """Of a scout after phase ``phase``."""

    def naive_rate(self, phase: int) -> float:
        """q_i."""

    def naive_steps(self, phase: int) -> int:
        """n_i."""


def balanced_stage(
    ask: Batches, spending: CohortSpending, i: int, target: float, sigma: float, *, amplify: bool
) -> Stage:
    """The stage of phase ``i`` that leaves every cohort at ``target`` or below, with an expected batch of b."""
    sizes = spending.sizes(i)
    rates_at = _rate_finder(spending, target, i, np.full(sizes.size, ask.naive_rate(i)))
    steps = _amplified(ask, rates_at, sizes, i, sigma) if amplify else ask.naive_steps(i)
    phase_sigma = _balanced_sigma(ask, rates_at, sizes, steps, sigma)
    rates = rates_at(steps, phase_sigma)
    # the search ends just below b, except where even the least sigma leaves more: rates may always fall
    rates = rates * min(1.0, ask.batch / float(rates @ sizes))
    return Stage(steps=steps, noise_multiplier=phase_sigma, rates=tuple(float(rate) for rate in rates))


RateFinder = Callable[[float, float], Array]


def _rate_finder(spending: CohortSpending, target: float, i: int, start: Array) -> RateFinder:
    latest = Guess(start)

    def rates_at(steps: float, sigma: float) -> Array:
        nonlocal latest
        guess = spending.rates_to(target, i, steps, sigma, latest)
        latest = Guess(np.where(guess.rates > 0, guess.rates, latest.rates), guess.orders)
        return guess.rates

    return rates_at


def _amplified(ask: Batches, rates_at: RateFinder, sizes: Array, i: int, sigma: float) -> int:
    """The whole number of steps nearest to the one that keeps b at this sigma."""
    steps = least_noise(
        lambda n: float(rates_at(n, sigma) @ sizes),
        float(ask.batch),
        start=float(ask.naive_steps(i)) * 1.3,
        tolerance=2e-4,
        smallest=1.0,
        largest=float(MOST_AMPLIFICATION * ask.naive_steps(i)),
    )
    return max(1, round(steps)) if steps is not None else MOST_AMPLIFICATION * ask.naive_steps(i)


def _balanced_sigma(ask: Batches, rates_at: RateFinder, sizes: Array, steps: int, sigma: float) -> float:
    """sigma at which the cohorts' rates add up to b, from below."""
    # the expected batch grows with sigma; search x = 1 / sigma, in which it falls
    least, largest = 1 / MOST_SIGMA, 1 / LEAST_SIGMA
    short = least_noise(
        lambda x: float(rates_at(steps, 1 / x) @ sizes) / ask.batch,
        1.0,
        start=1 / sigma,
        tolerance=BATCH_TOLERANCE,
        smallest=least,
        largest=largest,
    )
    if short is None:
        return LEAST_SIGMA
    if short <= least * (1 + 1e-9):
        raise TooLittleLeft("the cohorts that may still train in a phase are too small for the expected batch")
    return 1 / short


def continual_phases(ask: PlanRequest) -> tuple[Phase, ...]:
    """Phases whose worst cohort reaches the budget by RDP."""
    sigma = calibrated(ask, lambda s: _run(ask, s)[1])
    return _run(ask, sigma)[0]


def _run(ask: PlanRequest, sigma: float) -> tuple[tuple[Phase, ...], float]:
    spending = CohortSpending.for_request(ask)
    phases: list[Phase] = []
    for i, joint in enumerate(phases_at(ask, sigma)):
        stages = joint.stages
        if i:
            catch_up = _catch_up(ask, spending, i, sigma)
            spending.spend(catch_up)
            stages = (catch_up, *stages) if catch_up.steps else stages
        spending.spend(joint.last)
        phases.append(replace(joint, stages=stages))
    return tuple(phases), max(spending.epsilon(c) for c in range(len(spending.cohorts)))


def _catch_up(ask: PlanRequest, spending: CohortSpending, i: int, sigma: float) -> Stage:
    """As many steps of the new cohort alone as leave it at or below the first cohort's loss."""
    newest = spending.entered(i) - 1
    rate = min(1.0, ask.batch / spending.cohorts[newest].size)
    room = spending.epsilon(0) - spending.losses[newest] - conversion(spending.delta, spending.orders)
    step = sampled_gaussian_rdp(np.array([rate]), sigma, spending.orders)[0]
    steps = math.floor(max(0.0, float(np.max(room / step))) * (1 - 1e-12))
    steps = min(steps, MOST_AMPLIFICATION * ask.naive_steps(i))
    rates = (0.0,) * newest + (rate,)
    return Stage(steps=steps, noise_multiplier=sigma, rates=rates)


# -- scout

SCOUTS_SHARE = Decimal("0.3")
"""What one scout alone costs, as a share of epsilon; of several, divided by the root of their number."""
_NARROW, _GRID = 20.0, 40


def scout_phases(ask: PlanRequest, credit: Array | None = None) -> tuple[Phase, ...]:
    """Scouts for choosing, and one training anew with all that they leave."""
    spending = CohortSpending.for_request(ask, credit)
    last = len(ask.sizes) - 1
    each = float(ask.budget.epsilon * SCOUTS_SHARE) / math.sqrt(max(last, 1))
    if ask.scout_epsilon is not None:
        each = float_below(ask.scout_epsilon)
    phases = []
    for i in range(last):
        stage = scout_stage(ask, spending, i, each)
        spending.spend(stage)
        phases.append(Phase(size=ask.sizes[i], batch=ask.batch_of(i), stages=(stage,)))
    batch, stage = strongest_stage(ask, spending, last, float_below(ask.budget.epsilon))
    return (*phases, Phase(size=ask.sizes[last], batch=batch, stages=(stage,)))


def scout_stage(ask: Batches, spending: CohortSpending, i: int, epsilon: float) -> Stage:
    """A short training of all cohorts alike, which costs ``epsilon`` by itself."""
    rates, steps = (ask.naive_rate(i),) * spending.entered(i), ask.scout_steps(i)

    def scout(sigma: float) -> Stage:
        return Stage(steps=steps, noise_multiplier=sigma, rates=rates)

    sigma = least_noise(
        lambda s: epsilon_of(scout(s), spending),
        epsilon,
        start=4.0,
        tolerance=1e-6,
        smallest=LEAST_SIGMA,
        largest=MOST_SIGMA,
    )
    if sigma is None:
        raise TooLittleLeft(f"no noise makes a scout cost as little as {epsilon:.3g} by itself")
    return scout(sigma)


def epsilon_of(stage: Stage, spending: CohortSpending) -> float:
    """What a stage costs by itself, by RDP at the delta and the orders of ``spending``."""
    step = sampled_gaussian_rdp(np.array([max(stage.rates)]), stage.noise_multiplier, spending.orders)[0]
    return epsilon_at(stage.steps * step, spending.delta, spending.orders)


def strongest_stage(ask: Batches, spending: CohortSpending, i: int, target: float) -> tuple[int, Stage]:
    """The stage of phase ``i`` with the most records a step per noise multiplier, and its expected batch.

    Every cohort has the largest rate that leaves it at ``target``. More noise raises the rates of those that have
    spent much until all are at 1, and less noise is better for those that have not: in between the ratio has its peak.
    """
    sizes, steps = spending.sizes(i), ask.naive_steps(i)
    rates_at = _rate_finder(spending, target, i, np.full(sizes.size, ask.naive_rate(i)))
    most = _sigma_for_all(ask, spending, i, target)

    def strength(sigma: float) -> float:
        return min(float(rates_at(steps, sigma) @ sizes), ask.batch_of(i)) / sigma

    sigmas = np.geomspace(most / _NARROW, most, _GRID)
    peak = int(np.argmax([strength(float(sigma)) for sigma in sigmas]))
    low, high = sigmas[max(peak - 1, 0)], sigmas[min(peak + 1, _GRID - 1)]
    sigma = max((most, _peak_between(strength, float(low), float(high))), key=strength)
    rates = rates_at(steps, sigma)
    batch = min(round(float(rates @ sizes)), ask.batch_of(i))
    if batch < 1:
        raise TooLittleLeft("the scouts leave the last training nothing")
    rates = rates * min(1.0, batch / float(rates @ sizes))
    return batch, Stage(steps=steps, noise_multiplier=sigma, rates=tuple(float(rate) for rate in rates))


def _sigma_for_all(ask: Batches, spending: CohortSpending, i: int, target: float) -> float:
    """Least noise at which every cohort of phase ``i`` may be sampled at the naive rate."""
    rate, steps, count = ask.naive_rate(i), ask.naive_steps(i), spending.entered(i)
    spent = spending.losses[:count, None] + spending.history[:count] + conversion(spending.delta, spending.orders)

    def cost(sigma: float) -> float:
        step = sampled_gaussian_rdp(np.array([rate]), sigma, spending.orders)[0]
        return float(np.max(np.min(spent + steps * step, axis=1)))

    sigma = least_noise(cost, target, start=4.0, tolerance=1e-6, smallest=LEAST_SIGMA, largest=MOST_SIGMA)
    if sigma is None:
        raise TooLittleLeft("what scouts and selection leave is too little to train with, whatever the noise")
    return sigma


def _peak_between(value: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import minimize_scalar

    bounds = (math.log(low), math.log(high))
    return math.exp(float(minimize_scalar(lambda x: -value(math.exp(x)), bounds=bounds, method="bounded").x))
