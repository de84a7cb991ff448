"""`discreet replan`: go on otherwise than planned; the price first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show, where
from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.campaign import Proposal

REASONS = (
    "outside: whatever the records are and whatever came out, you would have done it. "
    "released: because of what was released. Nothing else is covered."
)


def replan_command(
    config: ConfigArgument,
    because: Annotated[str, typer.Option(help=REASONS)] = "",
    epsilon: Annotated[str | None, typer.Option(help="A larger promise; only with --because outside.")] = None,
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
    wish |= {"queries": _sizes(queries), "add_phases": _sizes(add_phases) or ()}
    if dry_run and yes:
        raise BadInput("re-planning", "--dry-run and --yes exclude one another", "Give one of them")
    from discreet.cli.progress import working

    with opened(config) as campaign:
        with working("re-planning"):
            found = campaign.replan(dry_run=True, **wish)
        asked = not (found.made or dry_run or yes)
        if asked:
            _agree(found, as_json=as_json)
        if not found.made and not dry_run:
            found = campaign.replan(shown=found.digest, **wish)
        from discreet.cli.replan_tables import replan_text

        show(found.to_json(), f"{replan_text(found, shown=asked)}{where(campaign)}", as_json=as_json)


def _reason(because: str) -> str:
    if because in ("outside", "released"):
        return because
    raise BadInput(
        f"re-planning because of {because}" if because else "re-planning without a reason",
        "how many answered, and what they said, is private, and no claim covers a plan that depends on it",
        "Give --because outside or --because released if one of them is true (discreet replan --help); "
        "where answers are missing, discreet train --partial goes on by the plan, at no loss of the claim",
    )


def _sizes(text: str | None) -> tuple[int, ...] | None:
    from discreet.cli.plan import parse_sizes

    return None if text is None else parse_sizes(text)


def _agree(found: Proposal, *, as_json: bool) -> None:
    """Ask the person who is there; nobody there is a no."""
    from discreet.cli.replan_tables import replan_text

    if as_json or not sys.stdin.isatty():
        raise BadInput("re-planning", "nobody is there to agree to it", "Look at it with --dry-run, then give --yes")
    print(replan_text(found))  # noqa: T201
    if not typer.confirm("Go on with the new plan?"):
        print("Nothing was changed.")  # noqa: T201
        raise typer.Exit(0)
