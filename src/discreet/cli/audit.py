"""`discreet audit`: attack the claim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.campaign_files import JsonOption
from discreet.cli.plan import check_plot

if TYPE_CHECKING:
    from discreet.audit import Audit
    from discreet.audit.planted import Plant

PLANTS = "no-noise, no-clipping, uncharged-selection, redraw, half-noise, fixed-batches"


def audit_command(
    config: Annotated[
        Path | None, typer.Argument(help="A campaign's TOML file; else the usual settings.", show_default=False)
    ] = None,
    plant: Annotated[str | None, typer.Option(help=f"Plant a mistake, which must be caught: {PLANTS}.")] = None,
    canaries: Annotated[int, typer.Option(help="Made-up records, each there by a coin.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Of coins and noise: another seed, another run.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw claims and what was proved (.png, .svg or .pdf).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Attack twins of a campaign, planned at a small epsilon, with records that are there or not by a coin.

    Says of each attack what it proves, and the most it could have proved. Exit code 1: a claim is broken. Reads no data
    of anybody's. Audience: world.

    Example: discreet audit --plant no-noise
    """
    from discreet.audit import audit_pool
    from discreet.cli.progress import watching
    from discreet.config import CampaignConfig, read_campaign
    from discreet.errors import BadInput

    chosen: Plant | None = _plant(plant)
    found = None if config is None else read_campaign(config)
    if found is not None and not isinstance(found, CampaignConfig):
        raise BadInput("an audit of this file", "only private-pool has twins so far", "Audit a private pool")
    check_plot(plot)
    with watching() as told:
        made = audit_pool(found, plant=chosen, canaries=canaries, seed=seed, told=told)
    if plot is not None:
        from discreet.report.audit_figure import draw_audit

        draw_audit(made.to_json(), plot)
    typer.echo(json.dumps(made.to_json()) if as_json else _words(made))
    if made.verdict == "broken":
        raise typer.Exit(1)


def _plant(name: str | None) -> Plant | None:
    from discreet.audit import PLANTS as KNOWN
    from discreet.errors import BadInput

    for one in KNOWN:
        if one == name:
            return one
    if name is not None:
        raise BadInput(f"--plant {name}", "there is no such mistake", f"Choose one of {PLANTS}")
    return None


def _words(made: Audit) -> str:
    planted = f" Planted: {made.plant}." if made.plant else ""
    lines = [f"{made.canaries} canaries; who is asked: {made.selector}.{planted}"]
    for one in made.twins:
        lines.append(f"{one.twin}: claims epsilon {one.claimed:.3f}")
        for found in one.findings:
            said = {"exceeded": "EXCEEDED", "not exceeded": "not exceeded", "none": "no verdict"}[found.verdict]
            lines.append(
                f"  {found.attack:<8} {found.guesses.right} of {found.guesses.made} guesses right: "
                f"above {found.proved:.3f}; could prove {found.highest:.2f} at most. {said}."
            )
        lines += [
            f"  {test.test:<8} variance {test.ratio:.2f} of the planned, of {test.numbers} numbers. "
            f"{'TOO SMALL' if test.verdict == 'smaller' else 'Not too small'}."
            for test in one.variances
        ]
    end = "A claim is broken." if made.verdict == "broken" else "No claim was shown to be broken, at 99.9%."
    return "\n".join([*lines, end])
