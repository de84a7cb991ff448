"""`discreet init`: create a campaign from its file, or write a file to begin with; `discreet schema`: propose the
schema of its pool from a public table of the same form.
"""

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
    tells it later. Simulations do not ask.
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


def schema_command(
    public: Annotated[
        Path, typer.Argument(help="A PUBLIC table: CSV, Parquet or Arrow. Never the private pool.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(help="The file to write, such as schema.toml; by default standard output.")
    ] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The column of ids: left out.")] = None,
    label: Annotated[str | None, typer.Option(help="The column of labels: left out.")] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="A further column that no model may read. May be repeated.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="csv, parquet, arrow or huggingface; by default, what its name says.")
    ] = None,
    max_categories: Annotated[
        int, typer.Option(min=1, max=5000, help="Values of a category at most; rarer ones are 'other'.")
    ] = 50,
    as_json: JsonOption = False,
) -> None:
    """Propose the schema of a pool: the type, bounds and values of each column, as a TOML file to be checked.

    The bounds and values are those of the file, so it must be public: a code book, published data, an earlier release.
    Change them to what is publicly known, then name the file in the table pool: schema = "schema.toml".
    Next: discreet init.

    Example: discreet schema public.csv --out schema.toml --id customer --label outcome
    """
    from discreet.pools import Schema
    from discreet.pools.schema_proposal import proposed_schema

    if out is not None and out.exists():
        raise BadInput(f"writing {out.name}", "it is there already", "Choose another name")
    spare = [name for name in (id_column, label, *(leave_out or ())) if name is not None]
    text = proposed_schema(public, kind=kind, leave_out=spare, max_categories=max_categories)
    schema = Schema.from_toml(text, "the proposed schema")
    if out is not None:
        out.write_text(text, encoding="utf-8")
    form = {
        "format": "discreet.schema/1",
        "simulation": False,
        "audience": "public",
        "file": None if out is None else out.name,
        "inputs": schema.width,
        "schema": schema.to_json(),
    }
    kinds = ", ".join(f"{column.name} ({column.type})" for column in schema.columns)
    note = f"{schema.width} inputs. Proposed from {public.name}, which must be public: check every bound in {out}."
    show(form, text if out is None else f"{kinds}\n{note}", as_json=as_json)
