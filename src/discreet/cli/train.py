"""`discreet train`: train the phase whose questions are answered."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show, where
from discreet.cli.log_json import LogOption, logged
from discreet.cli.progress import going_on

FORMAT = "discreet.trained/1"


def train_command(
    config: ConfigArgument,
    partial: Annotated[
        bool,
        typer.Option(help="Train although questions are open; the guarantee stays. Refused under hidden selection."),
    ] = False,
    log_json: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Charge and train; after a crash or an interrupt, go on where it was.

    Example: discreet train scans.toml
    """
    from discreet.campaign.view import evaluations_of

    with logged(log_json, "train") as log, opened(config, log) as campaign:
        phase = campaign.standing.phase
        with going_on():
            campaign.train(partial=partial)
        found = evaluations_of(campaign.store.transitions()).get(phase)
    form = {
        "format": FORMAT,
        "simulation": campaign.simulation,
        "audience": "world" if campaign.releases() is None else "owner",
        "phase": phase,
        "evaluation": found,
    }
    show(form, f"phase {phase} is trained{accuracy(found)}\n{where(campaign)}", as_json=as_json)


def accuracy(found: Any) -> str:
    """An evaluation in a few words."""
    if not found:
        return ""
    low, high = found["interval"]
    return f"; accuracy {found['accuracy']:.1%} ({low:.1%} to {high:.1%}, {found['kind']})"
