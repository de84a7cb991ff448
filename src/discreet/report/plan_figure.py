"""What the DP-AL paper's Figs. 3, 4 and 6 show, as plain numbers for any plan beside its naive twin."""

from __future__ import annotations

from dataclasses import dataclass, replace

from discreet.planning import make_plan
from discreet.planning.request import PlanRequest
from discreet.privacy.plan import NEVER_ASKED, Phase, Plan, build_trajectories


@dataclass(frozen=True, kw_only=True)
class LossCurves:
    """Per path, its epsilon after each phase (None before it enters); ``name`` is the schedule.

    ``starts`` has what selection alone had cost a path when it entered, drawn between the phases (Fig. 6).
    """

    name: str
    losses: dict[str, tuple[float | None, ...]]
    starts: dict[str, tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class PlanFigure:
    """Four panels of pure data: losses of the naive twin and of the plan, sampling rates, steps."""

    budget: float
    accountant: str
    naive: LossCurves
    plan: LossCurves
    naive_rates: tuple[float, ...]
    oldest_rates: tuple[float, ...]
    newest_rates: tuple[float, ...]
    naive_steps: tuple[int, ...]
    steps: tuple[int, ...]


def plan_figure(ask: PlanRequest, plan: Plan) -> PlanFigure:
    """The figure's data for a plan made from ``ask``."""
    naive = make_plan(replace(ask, schedule="naive", individual_rates=False))
    return PlanFigure(
        budget=float(plan.budget.epsilon),
        accountant=plan.accountant,
        naive=loss_curves(naive),
        plan=loss_curves(plan),
        naive_rates=tuple(phase.last.rates[0] for phase in naive.phases),
        oldest_rates=tuple(phase.last.rates[0] for phase in plan.phases),
        newest_rates=tuple(phase.last.rates[-1] for phase in plan.phases),
        naive_steps=tuple(phase.steps for phase in naive.phases),
        steps=tuple(phase.steps for phase in plan.phases),
    )


def loss_curves(plan: Plan) -> LossCurves:
    """Where every trained path stands after each phase."""
    names = [cohort.label for cohort in plan.cohorts]
    after = [_losses_after(plan, plan.phases[: count + 1]) for count in range(len(plan.phases))]
    paths = {path.name: path for path in plan.trajectories}
    return LossCurves(
        name=plan.schedule,
        losses={name: tuple(row.get(name) for row in after) for name in names},
        starts={c.label: (c.phase - 0.5, paths[c.label].selection_loss) for c in plan.cohorts},
    )


def _losses_after(plan: Plan, phases: tuple[Phase, ...]) -> dict[str, float]:
    cohorts = tuple(cohort for cohort in plan.cohorts if cohort.phase < len(phases))
    delta, budget, pld = float(plan.accounted.delta), float(plan.budget.epsilon), plan.accountant == "pld"
    return {
        path.name: path.pld(delta, path.interval(budget)) if pld else path.rdp(delta)
        for path in build_trajectories(plan.selection, cohorts, phases)
        if path.name != NEVER_ASKED
    }
