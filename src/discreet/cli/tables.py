"""Plans, comparisons of plans, and ledgers as tables for people; comparisons and ledgers as JSON, too."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from discreet.privacy.budget import shown_up
from discreet.privacy.event_forms import to_json
from discreet.privacy.plan import NEVER_ASKED, Plan
from discreet.privacy.selection_terms import NOT_RELEASED

if TYPE_CHECKING:
    from discreet.planning.planner import ComparedPlan
    from discreet.planning.request import PlanRequest
    from discreet.privacy.ledger import Charge, Entry, Ledger


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
    console.print("Audience: public. Nothing here depends on private data.")
    for line in assumptions(ask):
        console.print(f"Assumed: {line}")


def assumptions(ask: PlanRequest) -> list[str]:
    """What the numbers rest on, in words."""
    terms, lines = ask.terms, []
    if ask.budget.unit == "person":
        lines.append("sizes count persons, and a person is asked once, with all records together.")
    if terms.quantiles is not None:
        lines.append(f"edges of features are private quantiles, for which every path pays {terms.quantiles.epsilon}.")
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


def _table(title: str, names: Sequence[str], *, words: Sequence[str]) -> Table:
    """An empty table. Columns named in ``words`` have text, the others numbers."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for name in names:
        table.add_column(name, justify="left" if name in words else "right")
    return table


def _phases(plan: Plan) -> Table:
    rates = "sampling rate per cohort, oldest first"
    numbers = ("phase", "labelled", "steps", "noise multiplier", "batch")
    table = _table(f"Phases ({plan.schedule}, b = {plan.batch})", [*numbers, rates], words=[rates])
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


def _rates(rates: tuple[float, ...], limit: int = 10) -> str:
    shown = [f"{rate:.4f}" for rate in rates]
    if len(shown) > limit:
        shown = [*shown[: limit // 2], f"... {len(shown) - limit} more ...", *shown[-limit // 2 :]]
    return " ".join(shown)


def _paths(plan: Plan) -> Table:
    names = ["path", "selection forward", "backward", "epsilon (PLD)", "epsilon (RDP)", "steps it joins"]
    table = _table("What a record can lose, by its path", names, words=["path"])
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


def show_comparison(ask: PlanRequest, schedules: list[ComparedPlan], prices: list[ComparedPlan]) -> None:
    """Schedules side by side, then the price list."""
    console = wide_console()
    console.print(_options("Schedules side by side", schedules, cohorts=True))
    console.print(_options(f"Price list ({ask.schedule})", prices, cohorts=False))
    console.print(
        "Noise per step is sigma / b in the last phase (in clip norms); participations are expected steps per record."
    )
    console.print("Audience: public. Nothing here depends on private data.")
    for option in [*schedules, *prices]:
        if option.plan is None:
            console.print(f"{option.label}: {option.reason}", soft_wrap=True)


def _options(title: str, options: list[ComparedPlan], *, cohorts: bool) -> Table:
    by_cohort = ["participations per record, oldest cohort first"] if cohorts else []
    names = ["", "sigma", "steps", "noise/step", "participations", *by_cohort, "labels", "epsilon"]
    table = _table(title, names, words=["", *by_cohort])
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


def comparison_form(ask: PlanRequest, schedules: list[ComparedPlan], prices: list[ComparedPlan]) -> dict[str, Any]:
    """The comparison as one JSON object."""
    return {
        "format": "discreet.plan-comparison/1",
        "simulation": False,
        "budget": ask.budget.to_json(),
        "schedules": [_option_form(option) for option in schedules],
        "prices": [_option_form(option) for option in prices],
    }


def _option_form(option: ComparedPlan) -> dict[str, Any]:
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


def show_ledger(ledger: Ledger, entries: Sequence[Entry], of: int) -> None:
    """Paths, then entries, then the head."""
    console, terms = wide_console(), ledger.terms
    console.print(_ledger_paths(ledger))
    if entries:
        console.print(_entries(entries, of))
    budget = terms.budget
    console.print(
        f"Ledger {ledger.id[:8]}, {terms.mode} mode: {len(ledger)} entries, budget epsilon {budget.epsilon} at delta "
        f"{budget.delta} per {budget.unit}, relation {budget.relation}"
        + (f"; {NOT_RELEASED}." if terms.overflow else ".")
    )
    console.print(f"Head: {ledger.head}")
    if ledger.simulation:
        console.print("SIMULATION: its noise was seeded; it proves nothing about people.")
    console.print("Audience: owner. Epsilons here are a gauge of what was charged; the claim is in the certificate.")


def _ledger_paths(ledger: Ledger) -> Table:
    names = ["path", "entries", "before its branch: forward", "backward", "epsilon", "of"]
    table = _table("What was charged so far, by path", names, words=["path"])
    for total in ledger.totals():
        table.add_row(
            total.path,
            f"{total.entries:,}",
            shown_up(float(total.forward)),
            shown_up(float(total.backward)),
            shown_up(float(total.epsilon)),
            str(ledger.terms.budget.epsilon),
        )
    return table


def _entries(entries: Sequence[Entry], of: int) -> Table:
    words = ["when", "purpose", "who", "what"]
    table = _table(f"The latest {len(entries)} of {of} entries", ["#", "when", "phase", *words[1:]], words=words)
    for entry in entries:
        start = (str(entry.sequence), entry.at[:19].replace("T", " "), str(entry.why.phase), entry.why.purpose)
        if entry.terms is not None:
            budget = entry.terms.budget
            what = f"from here on adaptive: epsilon {budget.epsilon} at delta {budget.delta}"
            table.add_row(*start, "everyone", what)
        if entry.released is not None:
            table.add_row(*start, "", f"hashes: {', '.join(sorted(entry.released))}")
        for number, charge in enumerate(entry.charges):
            table.add_row(*(start if number == 0 else [""] * len(start)), charge.who, described(charge))
    return table


def described(charge: Charge, *, exact: bool = False) -> str:
    """A charge in words, its numbers shortened for people unless they are wanted exactly."""
    parts = [
        f"{name}={f'{value:.6g}' if isinstance(value, float) and not exact else value}"
        for name, value in to_json(charge.event).items()
        if isinstance(value, (int, float, str)) and name not in ("kind", "version")
    ]
    return f"{f'{charge.count} x ' if charge.count > 1 else ''}{charge.event.kind} {' '.join(parts)}"


def ledger_form(ledger: Ledger, entries: Sequence[Entry]) -> dict[str, Any]:
    """The same as one JSON object."""
    return {
        "format": "discreet.ledger-view/1",
        "simulation": ledger.simulation,
        "audience": "owner",
        "id": ledger.id,
        "mode": ledger.terms.mode,
        "budget": ledger.terms.budget.to_json(),
        "head": ledger.head,
        "count": len(ledger),
        "paths": [
            {
                "name": total.path,
                "entries": total.entries,
                "forward": str(total.forward),
                "backward": str(total.backward),
                "epsilon": str(total.epsilon),
                "remaining": str(total.remaining),
            }
            for total in ledger.totals()
        ],
        "entries": [_entry_form(entry) for entry in entries],
    }


def _entry_form(entry: Entry) -> dict[str, Any]:
    form: dict[str, Any] = {} if entry.terms is None else {"terms": entry.terms.to_json()}
    if entry.released is not None:
        form["released"] = dict(entry.released)
    return form | {
        "sequence": entry.sequence,
        "at": entry.at,
        "phase": entry.why.phase,
        "purpose": entry.why.purpose,
        "charges": [charge.to_json() for charge in entry.charges],
        "hash": entry.hash,
    }


def entries_csv(ledger: Ledger) -> str:
    """Every charge as a row, for a spreadsheet. Under hidden selection without times."""
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerow(["sequence", "at", "phase", "purpose", "who", "event", "count", "hash"])
    for entry in ledger.entries:
        for charge in entry.charges:
            what = described(replace(charge, count=1), exact=True)
            start = [entry.sequence, "" if ledger.terms.overflow else entry.at, entry.why.phase, entry.why.purpose]
            rows.writerow([*start, charge.who, what, charge.count, entry.hash])
    return buffer.getvalue()
