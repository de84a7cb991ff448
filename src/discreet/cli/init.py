"""`discreet init`: create a campaign from its file, or write a file to begin with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, show, where
from discreet.cli.progress import LogOption, logged, watching, working
from discreet.errors import BadInput
from discreet.parts import RECIPES

if TYPE_CHECKING:
    from discreet.config import CampaignFile

*_FIRST, _LAST = RECIPES


def init_command(
    config: ConfigArgument,
    example: Annotated[
        str | None,
        typer.Option(help=f"Write a commented file of a recipe instead: {', '.join(_FIRST)} or {_LAST}."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Begin without showing what of the private records cannot be read.")
    ] = False,
    log_json: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plan, enrol the pool and open the ledger. Nothing is charged. Doing it again finds the campaign there.

    Before that the owner sees, on the terminal alone, how many private cells and records cannot be read, by column,
    also of held-out records and their labels, and confirms. Without a terminal nothing is shown: discreet pool check
    tells it later. Simulations ask nobody.
    Of a crowd campaign: the gate is charged and drawn, once, and what it released is the pool. Of a campaign of
    teachers: tallies of the private labels are shown, too; without a terminal it needs --yes.

    Example: discreet init scans.toml
    """
    if example is not None:
        _write(config, example)
        form = {"format": "discreet.example/1", "simulation": False, "recipe": example, "file": config.name}
        what = RECIPES[example].config.load().SCHEMA.what
        show(form, f"{config.name} is a {what}'s file. Change the lines marked CHANGE.", as_json=as_json)
        return
    from discreet.config import read_campaign
    from discreet.recipes.opening import create, needs_confirmation
    from discreet.recipes.specification import spec_of

    read = read_campaign(config)
    confirmation = None if yes or not needs_confirmation(read) else spec_of(read).confirmation
    attended = _attended() and not as_json
    if confirmation is not None and attended:
        _confirm(confirmation, read)
    with logged(log_json, "init") as log, working("planning"), watching() as watch:
        campaign = create(read, watch=log.beside(watch), confirm=yes or attended)
        log.follow(campaign)
    usage = campaign.budget_usage()
    form = {
        "format": "discreet.created/1",
        "simulation": campaign.simulation,
        "audience": "public",
        "name": campaign.name,
        "phases": campaign.recipe.phases,
        "labels_planned": [campaign.recipe.labels_planned(phase) for phase in range(campaign.recipe.phases)],
        "budget": {"epsilon": float(usage.epsilon), "delta": float(usage.delta), "unit": read.budget.unit},
    }
    labels = sum(campaign.recipe.labels_planned(phase) for phase in range(campaign.recipe.phases))
    text = (
        f"{campaign.name}: {campaign.recipe.phases} trainings, {labels} labels, epsilon {usage.epsilon} at delta "
        f"{usage.delta} per {read.budget.unit}\n{where(campaign)}"
    )
    facts, further = spec_of(read).created(campaign)
    form |= facts
    lines = [text, *further]
    show(form, "\n".join(lines), as_json=as_json)
    if confirmation is not None and not attended:  # said whatever the records are
        typer.echo(f"Not shown: how many records cannot be read. See it by discreet pool check {config.name}", err=True)


def _confirm(confirmation: Callable[[Any], str], config: CampaignFile) -> None:
    """Show the owner, who is there, what only they may see, and let them decide."""
    with working("reading the private records"):
        counts = confirmation(config)
    typer.echo(counts, err=True)
    typer.echo("Whether you start after looking at this is not covered by the guarantee.", err=True)
    if not typer.confirm("Begin the campaign?", err=True):
        typer.echo("Nothing was begun or charged.", err=True)
        raise typer.Exit(0)


def _attended() -> bool:
    """Whether somebody sits at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _write(path: Path, name: str) -> None:
    from discreet.config import example

    text = example(name)
    if path.exists():
        raise BadInput(f"writing {path.name}", "it is there already", "Choose another name")
    path.write_text(text, encoding="utf-8")
