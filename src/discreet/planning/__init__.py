"""Makes plans: a request in, a certified `Plan` out."""

from __future__ import annotations

from discreet.planning.request import PlanRequest
from discreet.privacy.plan import Phase, Plan

__all__ = ["PlanRequest", "make_plan"]


def make_plan(ask: PlanRequest) -> Plan:
    """The plan for this request: scheduled by RDP, then its noise tightened against its own accountant."""
    from discreet.planning.tighten import tightened

    plan = Plan(
        budget=ask.budget,
        schedule=ask.schedule,
        accountant=ask.accountant,
        batch=ask.batch,
        epochs=ask.epochs,
        selection=ask.terms,
        cohorts=ask.cohorts,
        phases=_scheduled(ask),
    ).with_paths()
    return tightened(plan)


def _scheduled(ask: PlanRequest) -> tuple[Phase, ...]:
    from discreet.planning.continual import continual_phases
    from discreet.planning.equalised import noise_reduction_phases, step_amplification_phases
    from discreet.planning.naive import naive_phases

    make = {
        "naive": naive_phases,
        "step-amplification": step_amplification_phases,
        "noise-reduction": noise_reduction_phases,
        "continual": continual_phases,
    }[ask.schedule]
    return make(ask)
