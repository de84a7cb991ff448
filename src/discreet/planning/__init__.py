"""Makes plans: a request in, a certified `Plan` out."""

from __future__ import annotations

from discreet.planning.request import PlanRequest
from discreet.privacy.plan import Phase, Plan

__all__ = ["PlanRequest", "make_plan"]


def make_plan(ask: PlanRequest) -> Plan:
    """The plan for this request: scheduled by RDP, then its noise tightened against its own accountant."""
    from discreet.planning.continual import continual_phases
    from discreet.planning.equalised import equalised_phases
    from discreet.planning.naive import naive_phases
    from discreet.planning.tighten import leftover, tightened

    if ask.schedule == "naive":
        return tightened(_with_phases(ask, naive_phases(ask)))
    if ask.schedule == "continual":
        return tightened(_with_phases(ask, continual_phases(ask)))
    plan = tightened(_with_phases(ask, equalised_phases(ask)))
    credit = leftover(plan)  # what one cohort cannot use, its own rate can
    return plan if credit is None else tightened(_with_phases(ask, equalised_phases(ask, credit)))


def _with_phases(ask: PlanRequest, phases: tuple[Phase, ...]) -> Plan:
    return Plan(
        budget=ask.budget,
        schedule=ask.schedule,
        accountant=ask.accountant,
        batch=ask.batch,
        epochs=ask.epochs,
        selection=ask.terms,
        cohorts=ask.cohorts,
        phases=phases,
    ).with_paths()
