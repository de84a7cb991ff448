"""The naive schedule: one rate for everyone, q_i = b / |D_i|, e epochs a phase, one sigma (DP-AL, Fig. 2).

It is also the yardstick of the others: what its first cohort has spent after phase i is the phase target eps_i.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from discreet.planning.feasible import TooLittleLeft
from discreet.planning.request import PlanRequest
from discreet.planning.search import least_noise
from discreet.planning.spending import Spending
from discreet.privacy.accounting.rdp import ORDERS, conversion, epsilon_at
from discreet.privacy.accounting.sampled_gaussian import Array, sampled_gaussian_rdp
from discreet.privacy.exact import float_below
from discreet.privacy.plan import Phase, Stage

LEAST_SIGMA, MOST_SIGMA = 0.05, 1e7
_TOLERANCE = 1e-9


def naive_phases(ask: PlanRequest) -> tuple[Phase, ...]:
    """Phases whose worst cohort, selection included, reaches the budget by RDP."""
    spending = Spending.for_request(ask)
    sigma = calibrated(ask, lambda s: _worst(ask, spending, s))
    return phases_at(ask, sigma)


def base_sigma(ask: PlanRequest) -> float:
    """sigma at which the naive first cohort alone reaches the budget."""
    spending = Spending.for_request(ask)
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
    return _cumulative(ask, Spending.for_request(ask), sigma)


def phases_at(ask: PlanRequest, sigma: float) -> tuple[Phase, ...]:
    """The naive phases with this sigma."""
    spending = Spending.for_request(ask)
    return tuple(
        Phase(
            size=size,
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
    sigma = least_noise(cost, target, start=start, tolerance=tolerance, least=LEAST_SIGMA, most=MOST_SIGMA)
    if sigma is None:
        raise TooLittleLeft("what is left to train with is too little, whatever the noise")
    return sigma


def _curves(ask: PlanRequest, sigma: float, orders: Array = ORDERS) -> Array:
    rates = np.array([ask.naive_rate(i) for i in range(len(ask.sizes))])
    steps = np.array([ask.naive_steps(i) for i in range(len(ask.sizes))])
    return np.asarray(steps[:, None] * sampled_gaussian_rdp(rates, sigma, orders))


def _cumulative(ask: PlanRequest, spending: Spending, sigma: float) -> list[float]:
    sums = np.cumsum(_curves(ask, sigma), axis=0)
    return [float(spending.losses[0]) + epsilon_at(row, spending.delta) for row in sums]


def _worst(ask: PlanRequest, spending: Spending, sigma: float) -> float:
    tails = np.cumsum(_curves(ask, sigma)[::-1], axis=0)[::-1]  # what a cohort entering in phase i goes through
    return max(
        float(loss) + epsilon_at(tails[cohort.phase], spending.delta)
        for cohort, loss in zip(spending.cohorts, spending.losses, strict=True)
    )
