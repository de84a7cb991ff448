"""Final tightening: the noise is scaled until the worst path stands at the budget, by the plan's own accountant.

A plan made by RDP leaves something over: on the DP-AL paper's CIFAR setting PLD finds 7 to 14% of epsilon unspent, and
whole-number steps leave a little even by RDP. Every noise multiplier is scaled by one factor until the worst trained
path, certified at eps - l(path), reaches the budget.
Guarantee: the returned plan is certified, and no path passes the budget in either direction.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.errors import InfeasiblePlan
from discreet.planning.search import least_noise
from discreet.privacy.accounting.pld import PLANNING_INTERVAL
from discreet.privacy.accounting.sampled_gaussian import Array
from discreet.privacy.exact import float_below
from discreet.privacy.plan import Plan
from discreet.privacy.trajectories import Trajectory

TOLERANCE = 1e-3
"""The worst path ends within this share of the budget."""
FINEST_INTERVAL = 1e-5
WORTH_ANOTHER_ROUND = 0.02
"""A path left this share of the budget below it is planned once more."""


def tightened(plan: Plan) -> Plan:
    """``plan`` with its noise scaled so that its worst trained path reaches the budget."""
    target = float_below(plan.budget.epsilon)
    intervals = {path.name: interval_for(path, target) for path in plan.trajectories}
    certified, factor, kept = plan.certified(intervals), 1.0, None
    for _ in range(20):
        worst = max((path for path in certified.trajectories if path.training), key=certified.claim_of)
        kept = certified if certified.claim_of(worst) <= target else kept
        if kept is certified and certified.claim_of(worst) >= target * (1 - TOLERANCE):
            return certified
        found = _factor_for(plan, worst.name, target, intervals[worst.name], start=factor)
        if found is None or found == factor:
            break
        factor = found
        certified = plan.rescaled(factor).certified(intervals)
    if kept is not None:  # by RDP a claim can jump past the budget where the best order changes: stay below
        return kept
    raise InfeasiblePlan(
        f"epsilon={plan.budget.epsilon}",
        f"no scaling of the noise brings every path to the budget by {plan.accountant.upper()}",
        "Leave training more of epsilon: lower the selection epsilon, or raise delta",
        {"selection_epsilon": f"{float(plan.selection.epsilon) * 0.9:.4g}"},
    )


def leftover(plan: Plan) -> Array | None:
    """What each cohort's path stays below the budget, or None when none is left far behind.

    RDP prices both directions by the worse one. A path whose backward losses bind (asked from below the threshold after
    many misses) trains cheaper than that, which only PLD sees: planned again with this credit, its rate rises.
    """
    target = float_below(plan.budget.epsilon)
    left = np.array([target - plan.claim_of(path) if path.training else 0.0 for path in plan.trajectories[:-1]])
    return left if plan.accountant == "pld" and left.max() > WORTH_ANOTHER_ROUND * target else None


def interval_for(path: Trajectory, target: float) -> float:
    """Discretisation fine enough for what selection leaves this path to train with, and for how long it trains.

    Connect-the-dots costs about 0.8 x steps x interval^2 of epsilon (docs/proofs/pld.md); keep that under a thousandth.
    """
    left = target - path.selection_loss
    steps = sum(part.count for part in path.training)
    return min(PLANNING_INTERVAL, max(FINEST_INTERVAL, min(left / 2000, math.sqrt(left / 1000 / max(steps, 1)))))


def _factor_for(plan: Plan, name: str, target: float, interval: float, *, start: float) -> float | None:
    delta, by_pld = float(plan.budget.delta), plan.accountant == "pld"

    def claim(factor: float) -> float:
        path = next(path for path in plan.rescaled(factor).trajectories if path.name == name)
        return path.pld(delta, interval) if by_pld else path.rdp(delta)

    return least_noise(claim, target, start=start * 0.95, tolerance=TOLERANCE / 2, least=1e-3, most=1e4)
