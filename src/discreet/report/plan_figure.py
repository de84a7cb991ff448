"""Figures of plans and audits: plain numbers, and their drawing by matplotlib (extra ``plot``).

A plan is drawn next to the naive plan, as in Figs. 3, 4 and 6 of the DP-AL paper. An audit is drawn as bars: for each
attack what is claimed, what was proved, and the most that could have been proved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from discreet.errors import require
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
    """Four panels of pure data: losses of the naive plan and of the plan, sampling rates, steps."""

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
    naive = make_plan(
        replace(
            ask,
            schedule="naive",
            batch=min(ask.batch, ask.initial),
            individual_rates=False,
            scout_epsilon=None,
            scout_epochs=None,
        )
    )
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


def require_matplotlib() -> None:
    """Refuse early and clearly when the extra is not installed."""
    require("matplotlib", extra="plot", asked="drawing a plot")


def draw_plan(figure: PlanFigure, path: Path) -> None:
    """Losses per path under the naive schedule and this one, sampling rates, steps."""
    require_matplotlib()
    from matplotlib.figure import Figure

    page = Figure(figsize=(11, 7.5), layout="constrained")
    (naive, plan), (rates, steps) = page.subplots(2, 2)
    _losses(naive, figure.naive, figure)
    _losses(plan, figure.plan, figure)
    if figure.plan.name != "naive":
        naive.sharey(plan)
    phases = range(len(figure.steps))
    rates.plot(phases, figure.naive_rates, "o--", color="0.5", label="naive, everyone")
    rates.plot(phases, figure.oldest_rates, "s-", color="tab:blue", label=f"{figure.plan.name}, oldest cohort")
    rates.plot(phases, figure.newest_rates, "^-", color="tab:orange", label=f"{figure.plan.name}, newest cohort")
    rates.set(xlabel="training phase", ylabel="sampling rate", title="Sampling rates", ylim=(0, None))
    steps.plot(phases, figure.naive_steps, "o--", color="0.5", label="naive")
    steps.plot(phases, figure.steps, "s-", color="tab:blue", label=figure.plan.name)
    steps.set(xlabel="training phase", ylabel="steps", title="Steps", ylim=(0, None))
    for axes in (rates, steps):
        _tidy(axes, len(figure.steps))
    page.savefig(path, dpi=130)


def _losses(axes: Any, curves: LossCurves, figure: PlanFigure) -> None:
    from matplotlib import colormaps

    shades = colormaps["viridis"]
    count = max(len(curves.losses) - 1, 1)
    for index, (name, losses) in enumerate(curves.losses.items()):
        points = [curves.starts[name]]
        points += [(phase, loss) for phase, loss in enumerate(losses) if loss is not None]
        axes.plot(*zip(*points, strict=True), "o-", color=shades(0.9 * index / count), label=name, alpha=0.85)
    axes.axhline(figure.budget, color="tab:red", linestyle=":", label="budget")
    axes.set(
        xlabel="training phase",
        ylabel=f"epsilon spent ({figure.accountant.upper()})",
        title=f"Privacy loss by path: {curves.name}",
        ylim=(0, figure.budget * 1.08),
    )
    _tidy(axes, len(next(iter(curves.losses.values()))), columns=2 if count > 6 else 1)


def _tidy(axes: Any, phases: int, columns: int = 1) -> None:
    axes.set_xticks(range(0, phases, max(1, phases // 12)))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, ncols=columns)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One attack. Epsilons."""

    name: str
    claimed: float
    proved: float
    highest: float
    exceeded: bool


def audit_bars(form: Mapping[str, Any]) -> tuple[Bar, ...]:
    """Of a stored audit (``discreet.audit/1``)."""
    return tuple(
        Bar(
            name=f"{recipe['recipe']}, {target['target']}: {attack['attack']}",
            claimed=attack["epsilon"],
            proved=attack["proved"],
            highest=attack["highest"],
            exceeded=attack["verdict"] == "exceeded",
        )
        for recipe in form["recipes"]
        for target in recipe["targets"]
        for attack in target["attacks"]
    )


def draw_audit(form: Mapping[str, Any], path: Path) -> None:
    """Bars of what was proved, a line at each claim, a whisker to what could have been proved."""
    require_matplotlib()
    from matplotlib.figure import Figure

    bars = audit_bars(form)
    page = Figure(figsize=(8, 1.2 + 0.45 * len(bars)), layout="constrained")
    axis = page.subplots()
    for row, bar in enumerate(reversed(bars)):
        axis.plot([0, bar.highest], [row, row], color="0.8", linewidth=1, zorder=1)
        axis.plot([bar.highest], [row], "|", color="0.6", markersize=10)
        axis.barh(row, bar.proved, color="tab:red" if bar.exceeded else "tab:blue", height=0.5, zorder=2)
        axis.plot([bar.claimed] * 2, [row - 0.4, row + 0.4], color="black", linewidth=2, zorder=3)
    axis.set_yticks(range(len(bars)), [bar.name for bar in reversed(bars)])
    fault = f", injected fault: {form['plant']}" if form["plant"] else ""
    axis.set(
        xlabel="epsilon: proved (bar), claimed (black),\nthe most that could be proved (grey)",
        title=f"Audit of {', '.join(recipe['recipe'] for recipe in form['recipes'])}{fault}",
        xlim=(0, None),
        ylim=(-0.7, len(bars) - 0.3),
    )
    page.savefig(path)
