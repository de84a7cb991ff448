"""Step amplification and noise reduction: every cohort reaches the phase target with its own history (DP-AL, 3.3).

In phase i each cohort c gets the largest rate that leaves it at eps_i - l(path) after the phase, so all records use
their budget. Rates then sum to more than b; *step amplification* takes more steps (every rate falls) until
sum_c q_{c,i} k_c = b, the whole-number remainder going into that phase's sigma; *noise reduction* keeps the naive
steps and lowers that phase's sigma instead. The paper plans two groups, all old cohorts under the first one's
history; here every cohort has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from discreet.planning.feasible import TooLittleLeft
from discreet.planning.naive import LEAST_SIGMA, MOST_SIGMA, base_sigma, phase_targets
from discreet.planning.rates import Guess
from discreet.planning.request import PlanRequest
from discreet.planning.search import least_noise
from discreet.planning.spending import Spending
from discreet.privacy.accounting.sampled_gaussian import Array
from discreet.privacy.plan import Phase, Stage

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
    spending = Spending.for_request(ask, credit)
    phases: list[Phase] = []
    for i, target in enumerate(targets):
        if i == 0:
            stage = Stage(steps=ask.naive_steps(0), noise_multiplier=sigma, rates=(ask.naive_rate(0),))
        else:
            stage = balanced_stage(ask, spending, i, target, sigma, amplify=amplify)
        spending.spend(stage)
        phases.append(Phase(size=ask.sizes[i], stages=(stage,)))
    return tuple(phases)


class Batches(Protocol):
    """What a stage needs to know of a request: the expected batch, and the naive way to reach it in a phase."""

    @property
    def batch(self) -> int:
        """b."""

    def naive_rate(self, phase: int) -> float:
        """q_i."""

    def naive_steps(self, phase: int) -> int:
        """n_i."""


def balanced_stage(ask: Batches, spending: Spending, i: int, target: float, sigma: float, *, amplify: bool) -> Stage:
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


def _rate_finder(spending: Spending, target: float, i: int, start: Array) -> RateFinder:
    latest = Guess(start)

    def rates_at(steps: float, sigma: float) -> Array:
        nonlocal latest
        found = spending.rates_to(target, i, steps, sigma, latest)
        latest = Guess(np.where(found.rates > 0, found.rates, latest.rates), found.orders)
        return found.rates

    return rates_at


def _amplified(ask: Batches, rates_at: RateFinder, sizes: Array, i: int, sigma: float) -> int:
    """The whole number of steps nearest to the one that keeps b at this sigma."""
    steps = least_noise(
        lambda n: float(rates_at(n, sigma) @ sizes),
        float(ask.batch),
        start=float(ask.naive_steps(i)) * 1.3,
        tolerance=2e-4,
        least=1.0,
        most=float(MOST_AMPLIFICATION * ask.naive_steps(i)),
    )
    return max(1, round(steps)) if steps is not None else MOST_AMPLIFICATION * ask.naive_steps(i)


def _balanced_sigma(ask: Batches, rates_at: RateFinder, sizes: Array, steps: int, sigma: float) -> float:
    """sigma at which the cohorts' rates add up to b, from below."""
    # the expected batch grows with sigma; search x = 1 / sigma, in which it falls
    least, most = 1 / MOST_SIGMA, 1 / LEAST_SIGMA
    short = least_noise(
        lambda x: float(rates_at(steps, 1 / x) @ sizes) / ask.batch,
        1.0,
        start=1 / sigma,
        tolerance=BATCH_TOLERANCE,
        least=least,
        most=most,
    )
    if short is None:
        return LEAST_SIGMA
    if short <= least * (1 + 1e-9):
        raise TooLittleLeft("the cohorts that may still train in a phase are too small for the expected batch")
    return 1 / short
