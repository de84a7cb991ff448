"""`discreet replan`: change the rest of a campaign; both plans are shown, with their price, before anything changes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show, where
from discreet.cli.plan import parse_sizes
from discreet.errors import BadInput
from discreet.privacy.budget import shown_up

if TYPE_CHECKING:
    from discreet.campaign import Proposal

REASONS = (
    "outside: whatever the records are and whatever came out, you would have done it. "
    "released: because of what was released. Nothing else is covered."
)


def replan_command(
    config: ConfigArgument,
    because: Annotated[str, typer.Option(help=REASONS)] = "",
    epsilon: Annotated[str | None, typer.Option(help="A larger epsilon; only with --because outside.")] = None,
    queries: Annotated[
        str | None, typer.Option(help="Sizes of the queries to come: 300,300 or 300x2; none: a last training.")
    ] = None,
    labels: Annotated[int | None, typer.Option(help="Instead: further labels, shared out evenly.", min=0)] = None,
    add_phases: Annotated[str | None, typer.Option(help="Sizes of further queries: 200,200.")] = None,
    note: Annotated[str, typer.Option(help="Who decided it and why, in public words.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the price, change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Labels fall short, the budget is raised, phases are added, annotators are gone: show what that costs, then do it.

    Only between phases. From then on the campaign is adaptive, and its claim is the new budget.

    Example: discreet replan scans.toml --because outside --queries 300,300 --dry-run
    """
    wish: dict[str, Any] = {"because": _reason(because), "note": note, "epsilon": epsilon, "labels": labels}
    wish |= {"queries": None if queries is None else parse_sizes(queries)}
    wish |= {"add_phases": () if add_phases is None else parse_sizes(add_phases)}
    if dry_run and yes:
        raise BadInput("re-planning", "--dry-run and --yes exclude one another", "Give one of them")
    from discreet.cli.progress import working

    with opened(config) as campaign:
        with working("re-planning"):
            proposal = campaign.replan(dry_run=True, **wish)
        asked = not (proposal.made or dry_run or yes)
        if asked:
            _agree(proposal, as_json=as_json)
        if not proposal.made and not dry_run:
            proposal = campaign.replan(shown=proposal.digest, **wish)

        show(proposal.to_json(), f"{replan_text(proposal, shown=asked)}{where(campaign)}", as_json=as_json)


def _reason(because: str) -> str:
    if because in ("outside", "released"):
        return because
    raise BadInput(
        f"re-planning because of {because}" if because else "re-planning without a reason",
        "how many answered, and what they said, is private, and no claim covers a plan that depends on it",
        "Give --because outside or --because released if one of them is true (discreet replan --help); "
        "where answers are missing, discreet train --partial goes on by the plan, at no loss of the claim",
    )


def _agree(proposal: Proposal, *, as_json: bool) -> None:
    """Ask the person who is there; nobody there is a no."""
    if as_json or not sys.stdin.isatty():
        raise BadInput("re-planning", "nobody is there to agree to it", "Look at it with --dry-run, then give --yes")
    print(replan_text(proposal))  # noqa: T201
    if not typer.confirm("Go on with the new plan?"):
        print("Nothing was changed.")  # noqa: T201
        raise typer.Exit(0)


def replan_text(proposal: Proposal, *, shown: bool = False) -> str:
    """Tables and warnings. ``shown``: they were, before somebody agreed."""
    if proposal.made:
        plan = proposal.figures["after"]
        claim = f"epsilon {plan['epsilon']} at delta {plan['delta']}"
        done = f"Re-planned from phase {proposal.phase} on: adaptive mode, {claim}.\n"
        return done if shown else f"{_tables(proposal)}\n{done}"
    return f"{_tables(proposal)}\nNothing was changed yet.\n"


def _tables(proposal: Proposal) -> str:
    figures = proposal.figures
    old, new, effect = figures["before"], figures["after"], figures["effect"]
    rows = [
        ("", "planned", "re-planned"),
        ("mode", old["mode"], new["mode"]),
        ("guarantee: epsilon", old["epsilon"], new["epsilon"]),
        ("guarantee: delta", old["delta"], new["delta"]),
        ("claim", f"{shown_up(old['claim'])}", f"{shown_up(new['claim'])}"),
        ("labels in all", old["labels"], new["labels"]),
        ("phases left", old["phases_left"], new["phases_left"]),
        *_phase_rows(old, new),
        ("noise on the mean, last phase", *(f"{effect[n]['noise_on_the_mean']:.4g}" for n in ("before", "after"))),
        (
            "steps a record, first cohort",
            *(f"{next(iter(effect[n]['steps_a_record'].values())):.1f}" for n in ("before", "after")),
        ),
    ]
    paths = [("path", "spent so far", "by the filter", "at the end", "of")]
    for path in figures["paths"]:
        spent = "-" if path["spent"] is None else shown_up(float(path["spent"]))
        ends = [shown_up(float(path[name])) for name in ("spent_by_filter", "planned")]
        paths.append((path["path"], spent, *ends, str(new["epsilon"])))
    late = figures["as_committed"]
    lines = [
        _aligned(rows),
        "",
        _aligned(paths),
        "",
        f"Decided beforehand, the same charges would cost epsilon {shown_up(late['epsilon'])} by "
        f"{late['accountant'].upper()}; decided now they are guaranteed as {late['promised']}.",
        f"Because: {proposal.wish.because}{f' ({proposal.wish.note})' if proposal.wish.note else ''}. This is public.",
        *(f"WARNING: {path}" for path in figures["warnings"]),
    ]
    if proposal.simulation:
        lines.append("SIMULATION: its noise was seeded; it proves nothing about people.")
    return "\n".join(lines)


def _phase_rows(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Labels, steps, noise and rates of every phase that is left in one of the plans."""
    plans = [{item["phase"]: item for item in plan["phases"]} for plan in (old, new)]
    return [
        (f"phase {phase}", *(_phase_cell(plan.get(phase)) for plan in plans))
        for phase in sorted({*plans[0], *plans[1]})
    ]


def _phase_cell(phase: Mapping[str, Any] | None) -> str:
    if phase is None:
        return "-"
    rates = [rate for rate in phase["rates"].values() if rate > 0]
    low, high = min(rates, default=0.0), max(rates, default=0.0)
    rate_range = f"q {low:.3f}-{high:.3f}"
    return f"{phase['labels']} labels, {phase['steps']} steps, sigma {phase['noise_multiplier']:.3f}, {rate_range}"


def _aligned(rows: list[tuple[Any, ...]]) -> str:
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in texts)
    return "\n".join(line.rstrip() for line in lines)
