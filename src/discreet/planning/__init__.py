"""Makes plans: a request in, a certified `Plan` out."""

from __future__ import annotations

from discreet.planning.request import PlanRequest, plan_request
from discreet.privacy.accounting.sampled_gaussian import Array
from discreet.privacy.plan import Phase, Plan

__all__ = ["PlanRequest", "make_plan", "plan_request"]


def make_plan(ask: PlanRequest) -> Plan:
    """The plan for this request: scheduled by RDP, then its noise tightened against its own accountant."""
    from discreet.planning.feasible import TooLittleLeft, infeasible
    from discreet.planning.tighten import leftover, tightened

    try:
        plan = tightened(_draft(ask))
        credit = leftover(plan) if ask.schedule in ("step-amplification", "noise-reduction") else None
        # what one cohort cannot use, its own rate can
        return plan if credit is None else tightened(_draft(ask, credit))
    except TooLittleLeft as problem:
        raise infeasible(ask, str(problem), _draft) from None


def _draft(ask: PlanRequest, credit: Array | None = None) -> Plan:
    """Phases by RDP, not yet certified."""
    from discreet.planning.continual import continual_phases
    from discreet.planning.equalised import equalised_phases
    from discreet.planning.feasible import check_losses, check_trained
    from discreet.planning.naive import naive_phases

    check_losses(ask)
    if ask.schedule == "naive":
        phases = naive_phases(ask)
    elif ask.schedule == "continual":
        phases = continual_phases(ask)
    else:
        phases = equalised_phases(ask, credit)
    check_trained(ask, phases)
    return _with_phases(ask, phases)


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
