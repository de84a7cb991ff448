"""A plan and a comparison as tables for people, and the comparison as JSON."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from discreet.planning.compare import Option
from discreet.planning.request import PlanRequest
from discreet.privacy.exact import shown_up
from discreet.privacy.hidden_slots import NOT_RELEASED
from discreet.privacy.plan import NEVER_ASKED, Plan

COMPARISON_FORMAT = "discreet.plan-comparison/1"


def show_plan(ask: PlanRequest, plan: Plan) -> None:
    """Phases, paths, and the claim in words."""
    console = wide_console()
    console.print(_phases(plan))
    console.print(_paths(plan))
    budget = plan.budget
    console.print(
        f"Claim: epsilon {shown_up(plan.claim, 5)} of {budget.epsilon} at delta {budget.delta} per {budget.unit}, "
        f"relation {budget.relation}, by {plan.accountant.upper()}, {plan.mode} mode"
        + (f"; {NOT_RELEASED}." if plan.selection.hidden else ".")
    )
    console.print("Audience: world. Nothing here depends on private data.")
    for line in assumptions(ask):
        console.print(f"Assumed: {line}")


def assumptions(ask: PlanRequest) -> list[str]:
    """What the numbers rest on, in words."""
    terms, lines = ask.terms, []
    if ask.budget.unit == "person":
        lines.append("sizes count persons, and a person is asked once, with all records together.")
    if terms.is_free:
        return [*lines, "records are asked at random (no --selection-epsilon)."] if ask.queries else lines
    if terms.hidden:
        slots = ", ".join(f"{count:,}" for count in terms.hidden.slots)
        lines.append(f"{NOT_RELEASED}, nor how many were asked: the claim is about thresholds and models.")
        lines.append(f"cohorts are padded to {slots} slots; {terms.hidden.overflow} of delta is kept for more.")
        dates = ", ".join(day.isoformat() for day in terms.releases)
        lines.append(
            f"phases are released on {dates}." if dates else "no release dates (--releases): time is not covered."
        )
        return lines
    if terms.kind == "shards":
        lines.append("selection releases the asked set only; every record meets one query.")
    if terms.kind == "one-sided":
        caps = ", ".join(shown_up(float(cap), 3) for cap in terms.missed)
        lines.append(f"selection releases the asked set only; each miss costs at most {caps}.")
    if terms.kind != "paper" and terms.threshold_epsilon == 0:
        lines.append("thresholds are public; a private one is priced with --threshold-epsilon.")
    if terms.high_shares:
        shares = ", ".join(f"{share:.2f}" for share in terms.high_shares)
        lines.append(f"of each cohort, {shares} is asked from above the threshold.")
    return lines


def wide_console() -> Console:
    """A console as wide as its terminal, or 120 columns where there is none."""
    console = Console()
    if not console.is_terminal:
        console.width = 120
    return console


def _phases(plan: Plan) -> Table:
    table = Table(title=f"Phases ({plan.schedule}, b = {plan.batch})", box=box.SIMPLE_HEAD, title_justify="left")
    for name in ("phase", "labelled", "steps", "noise multiplier", "batch"):
        table.add_column(name, justify="right")
    table.add_column("sampling rate per cohort, oldest first")
    for number, phase in enumerate(plan.phases):
        for stage in phase.stages:
            table.add_row(
                str(number),
                f"{phase.size:,}",
                str(stage.steps),
                f"{stage.noise_multiplier:.4f}",
                f"{stage.expected_batch(plan.cohorts):,.0f}",
                _rates(stage.rates),
            )
    return table


def _rates(rates: tuple[float, ...], most: int = 10) -> str:
    shown = [f"{rate:.4f}" for rate in rates]
    if len(shown) > most:
        shown = [*shown[: most // 2], f"... {len(shown) - most} more ...", *shown[-most // 2 :]]
    return " ".join(shown)


def _paths(plan: Plan) -> Table:
    table = Table(title="What a record can lose, by its path", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("path")
    for name in ("selection forward", "backward", "epsilon (PLD)", "epsilon (RDP)", "steps it joins"):
        table.add_column(name, justify="right")
    for index, path in enumerate(plan.trajectories):
        joins = "-" if path.name == NEVER_ASKED else f"{plan.participations(index):.1f}"
        table.add_row(
            path.name,
            shown_up(float(path.forward)),
            shown_up(float(path.backward)),
            "-" if path.epsilon_pld is None else shown_up(path.epsilon_pld),
            shown_up(path.epsilon_rdp or 0.0),
            joins,
        )
    return table


def show_comparison(ask: PlanRequest, schedules: list[Option], prices: list[Option]) -> None:
    """Schedules side by side, then the price list."""
    console = wide_console()
    console.print(_options("Schedules side by side", schedules, cohorts=True))
    console.print(_options(f"Price list ({ask.schedule})", prices, cohorts=False))
    console.print(
        "Noise per step is sigma / b in the last phase (in clip norms); participations are expected steps per record."
    )
    console.print("Audience: world. Nothing here depends on private data.")
    for option in [*schedules, *prices]:
        if option.plan is None:
            console.print(f"{option.label}: {option.reason}", soft_wrap=True)


def _options(title: str, options: list[Option], *, cohorts: bool) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    for name in ("sigma", "steps", "noise/step", "participations"):
        table.add_column(name, justify="right")
    if cohorts:
        table.add_column("participations per record, oldest cohort first")
    table.add_column("labels", justify="right")
    table.add_column("epsilon", justify="right")
    for option in options:
        if option.plan is None:
            table.add_row(option.label, "not feasible (see below)")
            continue
        cells = [
            option.label,
            f"{option.plan.noise_multiplier:.3f}",
            f"{option.steps:,}",
            f"{option.final_noise:.3e}",
            f"{option.mean_participations:.1f}",
        ]
        if cohorts:
            cells.append(" ".join(f"{value:.0f}" for value in option.participations))
        table.add_row(*cells, f"{option.plan.phases[-1].size:,}", shown_up(option.plan.claim, 3))
    return table


def comparison_form(ask: PlanRequest, schedules: list[Option], prices: list[Option]) -> dict[str, Any]:
    """The comparison as one JSON object."""
    return {
        "format": COMPARISON_FORMAT,
        "simulation": False,
        "budget": ask.budget.to_json(),
        "schedules": [_option_form(option) for option in schedules],
        "prices": [_option_form(option) for option in prices],
    }


def _option_form(option: Option) -> dict[str, Any]:
    if option.plan is None:
        return {"label": option.label, "feasible": False, "reason": option.reason}
    return {
        "label": option.label,
        "feasible": True,
        "noise_multiplier": option.plan.noise_multiplier,
        "steps": option.steps,
        "gradients": option.gradients,
        "noise_per_step": option.final_noise,
        "participations": list(option.participations),
        "mean_participations": option.mean_participations,
        "labels": option.plan.phases[-1].size,
        "epsilon": option.plan.claim,
    }
