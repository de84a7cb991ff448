"""Final tightening: the noise is scaled until the worst path stands at the budget, by the plan's own accountant.

A plan made by RDP leaves something over: on the DP-AL paper's CIFAR setting PLD finds 7 to 14% of epsilon unspent, and
whole-number steps leave a little even by RDP. Every noise multiplier is scaled by one factor until the worst trained
path, certified at eps - l(path), reaches the budget.
Guarantee: the returned plan is certified, and no path passes the budget in either direction.
"""

from __future__ import annotations

import numpy as np

from discreet.planning.feasible import TooLittleLeft
from discreet.planning.search import least_noise
from discreet.privacy.accounting.sampled_gaussian import Array
from discreet.privacy.exact import float_below
from discreet.privacy.plan import Plan
from discreet.privacy.trajectories import Trajectory

TOLERANCE = 1e-3
"""The worst path ends within this share of the budget."""
WORTH_ANOTHER_ROUND = 0.02
"""A path left this share of the budget below it is planned once more."""


def tightened(plan: Plan) -> Plan:
    """``plan`` with its noise scaled so that its worst trained path reaches the budget."""
    target = float_below(plan.budget.epsilon)
    trained = {path.name: path for path in plan.trajectories if path.training}
    worst, factor, kept = _likely_worst(plan, trained), 1.0, None
    for _ in range(20):
        found = _factor_for(plan, trained[worst], target, start=factor)
        if found is None or (kept is not None and found == factor):
            break
        factor = found
        certified = plan.rescaled(factor).certified()
        claims = {path.name: certified.claim_of(path) for path in certified.trajectories if path.training}
        worst = max(claims, key=lambda name: claims[name])
        if claims[worst] <= target:
            kept = certified
            if claims[worst] >= target * (1 - TOLERANCE):
                return certified
    if kept is not None:  # by RDP a claim can jump past the budget where the best order changes: stay below
        return kept
    raise TooLittleLeft(f"no scaling of the noise brings every path to the budget by {plan.accountant.upper()}")


def _likely_worst(plan: Plan, trained: dict[str, Trajectory]) -> str:
    """Where to begin: certifying every path by PLD takes seconds, and the worst by RDP is mostly the worst by PLD.

    Of several that RDP holds equal, PLD spares most those that selection has left least.
    """
    delta = float(plan.accounted.delta)
    return max(trained, key=lambda name: (round(trained[name].rdp(delta), 3), -trained[name].selection_loss))


def leftover(plan: Plan) -> Array | None:
    """What each cohort's path stays below the budget, or None when none is left far behind.

    RDP prices both directions by the worse one. A path whose backward losses bind (asked from below the threshold after
    many misses) trains cheaper than that, which only PLD sees: planned again with this credit, its rate rises.
    """
    target = float_below(plan.budget.epsilon)
    left = np.array([target - plan.claim_of(path) if path.training else 0.0 for path in plan.trajectories[:-1]])
    return left if plan.accountant == "pld" and left.max() > WORTH_ANOTHER_ROUND * target else None


def _factor_for(plan: Plan, path: Trajectory, target: float, *, start: float) -> float | None:
    delta, interval, by_pld = float(plan.accounted.delta), path.interval(target), plan.accountant == "pld"

    def claim(factor: float) -> float:
        scaled = path.with_noise_times(factor)
        return scaled.pld(delta, interval) if by_pld else scaled.rdp(delta)

    first = start * 0.95 if by_pld else start
    return least_noise(claim, target, start=first, tolerance=TOLERANCE / 2, least=1e-3, most=1e4)
