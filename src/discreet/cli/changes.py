"""Changes of a campaign: `discreet pool` adds records or checks them, `discreet withdraw` takes records back, `discreet
replan` changes what is left; both plans are shown, with their price, before anything changes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show, where
from discreet.cli.plan import parse_sizes
from discreet.cli.progress import interruptible, watching
from discreet.errors import BadInput
from discreet.privacy.budget import shown_up

if TYPE_CHECKING:
    from discreet.campaign import Proposal

pool_app = typer.Typer(name="pool", no_args_is_help=True, help="The records of a campaign.")


@pool_app.command("extend")
def extend_command(
    config: ConfigArgument,
    file: Annotated[Path, typer.Argument(help="Further records, declared as the pool's are.", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Enrol more records, under new ids. They can be asked from the next query on.

    Example: discreet pool extend scans.toml march.parquet
    """
    from discreet.config import CampaignConfig
    from discreet.recipes.pool_changes import extend

    read = CampaignConfig.read(config)
    with opened(config) as campaign:
        number, size = extend(campaign, read, file)
    form = {
        "format": "discreet.extended/1",
        "simulation": campaign.simulation,
        "audience": "public",
        "cohort": number,
        "records": size,
    }
    show(form, f"{size} records joined the pool of {campaign.name}", as_json=as_json)


@pool_app.command("check")
def check_command(config: ConfigArgument, as_json: JsonOption = False) -> None:
    """Compare every record with what it was when it was enrolled, and count what cannot be read, by column.

    Exit code 1 if a record differs; what cannot be read does not change it. A decision that you take because of these
    counts is not covered by the guarantee. Audience: owner.

    Example: discreet pool check scans.toml
    """
    from discreet.config import read_campaign
    from discreet.recipes.pool_changes import changes, unread

    with opened(config) as campaign:
        differences = changes(campaign)
        cells = unread(campaign, read_campaign(config))
    counts = {"changed": len(differences.changed), "missing": len(differences.missing), "added": len(differences.added)}
    form = {"format": "discreet.pool-check/1", "simulation": campaign.simulation, "audience": "owner", **counts}
    told = (
        [", ".join(f"{count} {name}" for name, count in counts.items())]
        if differences
        else ["every record is what it was"]
    )
    if cells is not None:
        form |= {"records": cells.records, "nulls": cells.nulls, "columns": cells.columns}
        told.append(cells.text())
    show(form, "\n".join(told), as_json=as_json)
    if differences:
        raise typer.Exit(1)


def withdraw_command(
    config: ConfigArgument,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of records.", show_default=False)] = None,
    ids_file: Annotated[Path | None, typer.Option("--ids", help="A text file with an id a line, too.")] = None,
    person: Annotated[list[str] | None, typer.Option(help="All records of this person. May be repeated.")] = None,
    later: Annotated[
        bool, typer.Option(help="If a query or training was begun with them: mark them now, erase them after it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Erase records from the store and everything to come; their places stay empty, and the claim stays.

    A query or training that was begun with them is finished first. Repeating is safe, also after a crash. The owner
    alone sees the output. Audience: owner.

    Example: discreet withdraw scans.toml scan-0017 scan-0018
    """
    from discreet.config import CampaignConfig
    from discreet.recipes.pool_changes import REMAINS, elsewhere, withdraw

    named = [*(ids or ()), *(_listed(ids_file) if ids_file is not None else ())]
    if not named and not person:
        raise BadInput("withdrawing records", "none is named", "Give ids, --ids FILE or --person NAME")
    read = CampaignConfig.read(config)
    with watching() as watch, interruptible():
        campaign, done = withdraw(read, named, persons=person or (), later=later, watch=watch)
    form = {
        "format": "discreet.withdrawal/1",
        "simulation": campaign.simulation,
        "audience": "owner",
        "withdrawn": done.new,
        "withdrawn_before": done.known,
        "waiting": done.waiting,
        "remains": list(REMAINS),
        "elsewhere": list(elsewhere(read)),
    }
    lines = [f"{done.new} records withdrawn, {done.known} were before"]
    if done.waiting:
        lines.append(f"{done.waiting} are marked; they are erased when the step that is under way is over")
    else:
        lines.append("nothing of them is left in the store and its files")
    lines += ["what remains:", *(f"  {line}" for line in REMAINS)]
    lines += ["what this command does not delete:", *(f"  {line}" for line in elsewhere(read))]
    show(form, "\n".join([*lines, where(campaign)]), as_json=as_json)


def _listed(path: Path) -> list[str]:
    """An id a line; blank lines do not count."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"reading {path.name}", "it is not text in UTF-8", "Write an id a line") from None
    ids = [line for line in text.splitlines() if line.strip()]
    if not ids:
        raise BadInput(f"reading {path.name}", "there is no id in it", "Write an id a line")
    return ids


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
