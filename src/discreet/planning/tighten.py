"""Final tightening: a plan made by RDP spends what PLD finds left over.

Every noise multiplier is lowered by one factor until the worst path, certified by PLD at eps - l(path), reaches the
budget. On the DP-AL paper's CIFAR setting planning by RDP alone leaves 7 to 14% of epsilon unspent.
Guarantee: the returned plan is certified, and no path passes the budget in either direction.
"""

from __future__ import annotations

from discreet.errors import InfeasiblePlan
from discreet.planning.search import least_noise
from discreet.privacy.accounting.pld import PLANNING_INTERVAL
from discreet.privacy.exact import float_below
from discreet.privacy.plan import Plan
from discreet.privacy.trajectories import Trajectory

TOLERANCE = 1e-3
"""The worst path ends within this share of the budget."""
FINEST_INTERVAL = 1e-5


def tightened(plan: Plan) -> Plan:
    """``plan`` with its noise scaled so that its worst path reaches the budget by PLD."""
    target = float_below(plan.budget.epsilon)
    intervals = {path.name: interval_for(path, target) for path in plan.trajectories}
    certified = plan.certified(intervals)
    factor = 1.0
    for _ in range(20):
        worst = max(certified.trajectories, key=lambda path: path.epsilon_pld or 0.0)
        claim = worst.epsilon_pld or 0.0
        if target * (1 - TOLERANCE) <= claim <= target:
            return certified
        step = _factor_for(plan, worst.name, target, intervals[worst.name], start=factor)
        if step == factor:  # a path without training binds: nothing to scale
            return certified
        factor = step
        certified = plan.rescaled(factor).certified(intervals)
    raise InfeasiblePlan(
        f"epsilon={plan.budget.epsilon}",
        "no scaling of the noise brings every path under the budget by PLD",
        "Plan with the RDP accountant, or change epsilon slightly",
        {"accountant": "rdp"},
    )


def interval_for(path: Trajectory, target: float) -> float:
    """Discretisation fine enough for what selection leaves this path to train with."""
    left = target - float(max(path.forward, path.backward))
    return min(PLANNING_INTERVAL, max(FINEST_INTERVAL, left / 2000))


def _factor_for(plan: Plan, name: str, target: float, interval: float, *, start: float) -> float:
    delta = float(plan.budget.delta)

    def claim(factor: float) -> float:
        path = next(path for path in plan.rescaled(factor).trajectories if path.name == name)
        return path.pld(delta, interval)

    loss = _loss(plan, name)
    if not _trains(plan, name) or loss >= target:
        return start
    found = least_noise(claim, target, start=start * 0.95, tolerance=TOLERANCE / 2, least=1e-3, most=1e4)
    return start if found is None else found


def _loss(plan: Plan, name: str) -> float:
    path = next(path for path in plan.trajectories if path.name == name)
    return float(max(path.forward, path.backward))


def _trains(plan: Plan, name: str) -> bool:
    return any(path.training for path in plan.trajectories if path.name == name)
