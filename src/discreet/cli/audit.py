"""`discreet audit`: attack the claim."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.campaign_files import JsonOption, is_campaign, is_stream
from discreet.cli.plan import check_plot

if TYPE_CHECKING:
    from discreet.audit import Audit, Audited, Audits
    from discreet.audit.auditing import Subject

RECIPES = "private-pool, public-data, crowd, teachers, stream"


def audit_command(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="CONFIG|STORE",
            help="A campaign's or a stream's TOML file; or a store, with --campaign. Else the usual settings.",
            show_default=False,
        ),
    ] = None,
    campaign: Annotated[
        str | None,
        typer.Option(help="The name of a campaign in the store; needless if it has one.", show_default=False),
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help=f"Without a file: {RECIPES}. Else all of them.", show_default=False)
    ] = None,
    plant: Annotated[
        str | None,
        typer.Option(help="Plant a mistake, which must be caught, such as no-noise; others are named on a typo."),
    ] = None,
    canaries: Annotated[int, typer.Option(help="Made-up records, each there by a coin.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Of coins and noise: another seed, another run.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw claims and what was proved (.png, .svg or .pdf).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Attack twins of a campaign, planned at a small epsilon, with records that are there or not by a coin.

    Says of each attack what it proves, and the most it could have proved. Exit code 1: a claim is broken. Of a store it
    reads the settings that the campaign was created with, and no data of anybody's. Audience: world.

    Example: discreet audit --recipe stream --plant no-noise
    """
    from discreet.audit import audit
    from discreet.cli.progress import watching

    subject = _subject(what, campaign)
    check_plot(plot)
    with watching() as told:
        made = audit(subject, recipe=recipe, plant=plant, canaries=canaries, seed=seed, told=told)
    if plot is not None:
        from discreet.report.audit_figure import draw_audit

        draw_audit(made.to_json(), plot)
    typer.echo(json.dumps(made.to_json()) if as_json else _words(made))
    if made.verdict == "broken":
        raise typer.Exit(1)


def _subject(what: str | None, campaign: str | None) -> Subject | None:
    from discreet.config import read_campaign, read_stream_config
    from discreet.errors import BadInput

    if campaign is not None and (what is None or is_campaign(Path(what))):
        raise BadInput(f"the campaign {campaign}", "there is no store to look for it in", "Name the store, too")
    if what is None:
        return None
    if not is_campaign(Path(what)):
        return _stored(what, campaign)
    return read_stream_config(Path(what)) if is_stream(Path(what)) else read_campaign(Path(what))


def _stored(url: str, campaign: str | None) -> Subject:
    """The settings that a campaign was created with."""
    from discreet.errors import BadInput
    from discreet.recipes.opening import stored_config
    from discreet.storage import open_storage

    shared = url.startswith(("postgresql://", "postgres://"))
    with open_storage(url, directory=Path.cwd() if shared else None, must_exist=True) as storage:
        names = storage.campaigns()
        if campaign is None and len(names) != 1:
            raise BadInput(
                "an audit of a campaign in a store", f"the store has {len(names)} of them", "Name one by --campaign"
            )
        return stored_config(storage, campaign or names[0], directory=Path.cwd())


def _words(made: Audits) -> str:
    lines = [line for one in made.recipes for line in _of_recipe(one)]
    end = "A claim is broken." if made.verdict == "broken" else "No claim was shown to be broken, at 99.9%."
    return "\n".join([*lines, end])


def _of_recipe(made: Audit) -> Iterator[str]:
    planted = f" Planted: {made.plant}." if made.plant else ""
    yield f"{made.recipe}, {made.way}; {made.canaries} canaries.{planted}"
    for one in made.twins:
        yield from _of_twin(one)


def _of_twin(one: Audited) -> Iterator[str]:
    yield f"  {one.twin}: claims epsilon {one.claimed:.3f}"
    for found in one.findings:
        said = {"exceeded": "EXCEEDED", "not exceeded": "not exceeded", "none": "no verdict"}[found.verdict]
        yield (
            f"    {found.attack:<8} {found.guesses.right} of {found.guesses.made} guesses right: "
            f"above {found.proved:.3f}; could prove {found.highest:.2f} at most. {said}."
        )
    for test in one.variances:
        if not test.numbers:
            yield f"    {test.test:<8} no noise was seen by itself."
            continue
        said = "TOO SMALL" if test.verdict == "smaller" else "Not too small"
        yield f"    {test.test:<8} variance {test.ratio:.2f} of the planned, of {test.numbers} numbers. {said}."
    for reach in one.reaches:
        said = "TOO FAR" if reach.verdict == "too far" else "Not too far"
        yield (
            f"    {reach.test:<8} one canary moves them by {reach.found:g} at most, of {reach.canaries} tried; "
            f"{reach.allowed:g} is paid for. {said}."
        )
