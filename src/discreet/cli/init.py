"""`discreet init`: create a campaign from its file, or write a file to begin with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, show, where
from discreet.cli.log_json import LogOption, logged
from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.campaign import Campaign
    from discreet.config import AnyCampaign

FORMAT = "discreet.created/1"


def init_command(
    config: ConfigArgument,
    example: Annotated[
        str | None,
        typer.Option(help="Write a commented file of this recipe (private-pool, public-data, crowd, stream) instead."),
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
    from discreet.cli.progress import watching, working
    from discreet.config import read_campaign
    from discreet.recipes.opening import create

    read = read_campaign(config)
    confirmed = yes or _agreed(read, as_json=as_json)
    with logged(log_json, "init") as log, working("planning"), watching() as watch:
        campaign = create(read, watch=log.beside(watch), confirm=confirmed)
        log.follow(campaign)
    gauge = campaign.gauge()
    form = {
        "format": FORMAT,
        "simulation": campaign.simulation,
        "audience": "world",
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
    told = gate_facts(campaign, read)
    form |= {"released": told[0]} if told else {}
    if (price := teacher_facts(campaign)) is not None:
        form |= {"price": price[0]}
        told = ({}, [price[1]])
    bound = bound_fact(campaign)
    form |= {} if bound is None else {"checkpoint_bound": bound}
    lines = [text, *(told[1] if told else []), *([UNBOUND] if bound is False else [])]
    show(form, "\n".join(lines), as_json=as_json)


def _agreed(config: AnyCampaign, *, as_json: bool) -> bool:
    """Show the owner, who is there, what only they may see, and let them decide. False: nobody is there."""
    from discreet.config import TeachersConfig

    if not isinstance(config, TeachersConfig) or as_json or not _attended():
        return False
    from discreet.recipes.teachers_opening import begins, private_tallies

    if not begins(config):
        return False
    typer.echo(private_tallies(config).text(), err=True)
    if not typer.confirm("Begin the campaign?", err=True):
        typer.echo("Nothing was begun or charged.", err=True)
        raise typer.Exit(0)
    return True


def _attended() -> bool:
    """Whether somebody sits at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


UNBOUND = "the certificate names no weights, as earlier versions wrote it: that it is of this checkpoint is your word"


def bound_fact(campaign: Campaign) -> bool | None:
    """Of a campaign on public data whose checkpoint has a certificate: whether that names the checkpoint's weights."""
    from discreet.recipes.public_data import PublicData

    recipe = campaign.recipe
    return recipe.plan.bound if isinstance(recipe, PublicData) else None


def gate_facts(campaign: Campaign, config: AnyCampaign) -> tuple[dict[str, Any], list[str]] | None:
    """Of a crowd campaign: how many texts its gate released, which was paid for, and whom it does not protect."""
    from discreet.config import CrowdConfig

    if not isinstance(config, CrowdConfig):
        return None
    from discreet.gates.gate import NOT_PROMISED

    gate, count = config.gate, len(campaign.pool)
    lines = [
        f"the gate released {count} texts that {gate.k} or more {config.budget.unit}s kept, by coins of {gate.beta:g}"
    ]
    if config.log.person is None:
        lines.append(NOT_PROMISED)
    promised = config.log.person is not None
    return {"values": count, "k": gate.k, "beta": gate.beta, "persons": promised}, lines


def teacher_facts(campaign: Campaign) -> tuple[dict[str, Any], str] | None:
    """Of a campaign of teachers: what their answers cost, and how clear a vote must be to be heard. Public."""
    from discreet.recipes.teachers import Teachers

    if not isinstance(campaign.recipe, Teachers):
        return None
    price = campaign.recipe.plan.price
    words = (
        f"{price.teachers} teachers voted, and stay with you; {price.aggregator}: a class that leads by "
        f"{price.lead():.0f} votes is the answer 95 times of 100"
    )
    return price.to_json(), words


def _write(path: Path, name: str) -> None:
    from discreet.config import example

    text = example(name)
    if path.exists():
        raise BadInput(f"writing {path.name}", "it is there already", "Choose another name")
    path.write_text(text, encoding="utf-8")
