"""When nothing can be planned: why, and the nearest request that can, found by trying it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

from discreet.errors import BadInput, InfeasiblePlan
from discreet.planning.request import PlanRequest
from discreet.privacy.accounting.rdp import conversion
from discreet.privacy.budget import Budget
from discreet.privacy.plan import Phase, build_trajectories


class TooLittleLeft(Exception):
    """Selection, or the budget itself, leaves some records nothing to train with."""


def check_losses(ask: PlanRequest) -> None:
    """Selection alone must fit, and must leave asked records something."""
    for path in build_trajectories(ask.terms, ask.cohorts, ()):
        loss, trains = max(path.forward, path.backward), path.name != "never-asked"
        if loss > ask.budget.epsilon or (loss == ask.budget.epsilon and trains):
            raise TooLittleLeft(f"the path '{path.name}' would lose {loss} to selection alone")


def check_trained(ask: PlanRequest, phases: tuple[Phase, ...]) -> None:
    """Nobody pays for labels that never train."""
    for path in build_trajectories(ask.terms, ask.cohorts, phases)[:-1]:
        if not path.training:
            raise TooLittleLeft(f"the path '{path.name}' would have nothing left to train with")


def infeasible(ask: PlanRequest, fact: str, draft: Callable[[PlanRequest], object]) -> InfeasiblePlan:
    """The refusal, naming the nearest request for which ``draft`` succeeds."""

    def works(**changes: Any) -> bool:
        try:
            draft(replace(ask, accountant="rdp", **changes))
        except (TooLittleLeft, BadInput):
            return False
        return True

    if ask.terms.epsilon > 0 and works(selection_epsilon=0, threshold_epsilon=0, missed=None, individual_rates=False):
        nearest = _largest(lambda share: works(selection_epsilon=_down(ask.terms.epsilon * share)))
        if nearest > 0:
            value = f"{_down(ask.terms.epsilon * nearest):f}"
            return InfeasiblePlan(
                f"a selection epsilon of {ask.terms.epsilon} in a budget of {ask.budget.epsilon}",
                fact,
                f"The nearest feasible selection epsilon is {value}",
                {"selection_epsilon": value},
            )
    epsilon = _enough_epsilon(ask, works)
    return InfeasiblePlan(
        f"epsilon={ask.budget.epsilon} at delta={ask.budget.delta}",
        fact,
        f"The nearest feasible epsilon is about {epsilon}",
        {"epsilon": epsilon},
    )


def _largest(works: Callable[[Decimal], bool]) -> Decimal:
    low, high = Decimal(0), Decimal(1)
    for _ in range(9):
        middle = (low + high) / 2
        low, high = (middle, high) if works(middle) else (low, middle)
    return low


def _down(value: Decimal) -> Decimal:
    return Context(prec=3, rounding=ROUND_FLOOR).create_decimal(value)


def _enough_epsilon(ask: PlanRequest, works: Callable[..., bool]) -> str:
    """RDP proves nothing below what its conversion costs at the largest order; start there and go up."""
    least = float(conversion(float(ask.accounted.delta)).min())
    epsilon = max(float(ask.budget.epsilon), least)
    for _ in range(40):
        epsilon *= 1.15
        text = f"{epsilon:.2g}"
        if works(budget=Budget(epsilon=text, delta=ask.budget.delta, unit=ask.budget.unit)):
            return text
    return f"{epsilon:.2g}"
