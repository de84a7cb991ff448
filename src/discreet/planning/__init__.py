"""Makes plans: a request in, a certified `Plan` out."""

from typing import TYPE_CHECKING

from discreet.lazy_imports import lazy_names

if TYPE_CHECKING:
    from discreet.planning.parameters import PlanParameters
    from discreet.planning.planner import make_plan
    from discreet.planning.request import PlanRequest, plan_request

__all__ = ["PlanParameters", "PlanRequest", "make_plan", "plan_request"]
__getattr__ = lazy_names(
    __name__,
    {
        "PlanParameters": "discreet.planning.parameters",
        "PlanRequest": "discreet.planning.request",
        "make_plan": "discreet.planning.planner",
        "plan_request": "discreet.planning.request",
    },
)
