"""`discreet init`: create a campaign from its file, or write a file to begin with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
        bool, typer.Option("--yes", help="Of a campaign of teachers: begin without showing tallies of private records.")
    ] = False,
    log_json: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plan, enrol the pool and open the ledger. Nothing is charged. Doing it again finds the campaign there.

    Of a crowd campaign: the gate is charged and drawn, once, and what it released is the pool. Of a campaign of
    teachers: tallies of the private labels and cells are shown to the owner, on the terminal alone, who confirms.

    Example: discreet init scans.toml
    """
    if example is not None:
        _write(config, example)
        form = {"format": "discreet.example/1", "simulation": False, "recipe": example, "file": config.name}
        kind = "stream" if example == "stream" else "campaign"
        show(form, f"{config.name} is a {kind}'s file. Change the lines marked CHANGE.", as_json=as_json)
        return
    from discreet.config import read_campaign
    from discreet.recipes.opening import create
    from discreet.recipes.specification import spec_of

    read = read_campaign(config)
    confirmed = yes or _agreed(read, as_json=as_json)
    with logged(log_json, "init") as log, working("planning"), watching() as watch:
        campaign = create(read, watch=log.beside(watch), confirm=confirmed)
        log.follow(campaign)
    gauge = campaign.budget_usage()
    form = {
        "format": "discreet.created/1",
        "simulation": campaign.simulation,
        "audience": "public",
        "name": campaign.name,
        "phases": campaign.recipe.phases,
        "labels_planned": [campaign.recipe.labels_planned(phase) for phase in range(campaign.recipe.phases)],
        "budget": {"epsilon": float(gauge.epsilon), "delta": float(gauge.delta), "unit": read.budget.unit},
    }
    labels = sum(campaign.recipe.labels_planned(phase) for phase in range(campaign.recipe.phases))
    text = (
        f"{campaign.name}: {campaign.recipe.phases} trainings, {labels} labels, epsilon {gauge.epsilon} at delta "
        f"{gauge.delta} per {read.budget.unit}\n{where(campaign)}"
    )
    facts, further = spec_of(read).created(campaign)
    form |= facts
    lines = [text, *further]
    show(form, "\n".join(lines), as_json=as_json)


def _agreed(config: CampaignFile, *, as_json: bool) -> bool:
    """Show the owner, who is there, what only they may see, and let them decide. False: nobody is there."""
    from discreet.recipes.opening import needs_confirmation
    from discreet.recipes.specification import spec_of

    confirmation = spec_of(config).confirmation
    if confirmation is None or as_json or not _attended() or not needs_confirmation(config):
        return False
    typer.echo(confirmation(config), err=True)
    if not typer.confirm("Begin the campaign?", err=True):
        typer.echo("Nothing was begun or charged.", err=True)
        raise typer.Exit(0)
    return True


def _attended() -> bool:
    """Whether somebody sits at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _write(path: Path, name: str) -> None:
    from discreet.config import example

    text = example(name)
    if path.exists():
        raise BadInput(f"writing {path.name}", "it is there already", "Choose another name")
    path.write_text(text, encoding="utf-8")
