"""`discreet train`: train the phase whose questions are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show, where
from discreet.cli.log_json import LogOption, logged
from discreet.cli.progress import going_on

if TYPE_CHECKING:
    from discreet.campaign import Campaign

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
    """Charge and train; after a crash or an interrupt, go on where it was. A phase that is trained stays as it is.

    Example: discreet train scans.toml
    """
    from discreet.campaign.view import evaluations_of

    with logged(log_json, "train") as log, opened(config, log) as campaign:
        trained = _trained(campaign)
        phase = campaign.standing.phase if trained is None else trained
        if trained is None:
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
    words = "is trained" if trained is None else "was trained before, and stays as it is"
    show(form, f"phase {phase} {words}{accuracy(found)}\n{where(campaign)}", as_json=as_json)


def _trained(campaign: Campaign) -> int | None:
    """The phase that is trained when none is to be trained now: the process before this one got that far."""
    now = campaign.standing
    if now.step == "done":
        return now.phase
    return now.phase - 1 if now.step == "ask" and now.phase else None


def accuracy(found: Any) -> str:
    """An evaluation in a few words."""
    if not found:
        return ""
    low, high = found["interval"]
    return f"; accuracy {found['accuracy']:.1%} ({low:.1%} to {high:.1%}, {found['kind']})"
