"""`discreet run`: the whole loop, as far as the answers go."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, oracle_of, show, where
from discreet.cli.log_json import LogOption, logged
from discreet.cli.progress import going_on
from discreet.cli.train import accuracy

FORMAT = "discreet.run/1"


def run_command(
    config: ConfigArgument,
    partial: Annotated[
        bool,
        typer.Option(help="Train although questions are open that nobody answers now. Refused under hidden selection."),
    ] = False,
    log_json: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask, hand over to who answers, tell, train; until it is done, or people are waited for. Run it again then.

    Example: discreet run scans.toml
    """
    from discreet.campaign.running import run
    from discreet.campaign.view import evaluations_of
    from discreet.config import read_campaign

    read = read_campaign(config)
    with logged(log_json, "run") as log, opened(config, log) as campaign, going_on():
        ran = run(campaign, oracle_of(read, campaign), partial=partial)
        found = evaluations_of(campaign.store.transitions())
    form = {
        "format": FORMAT,
        "simulation": campaign.simulation,
        "audience": "owner",
        "phase": ran.standing.phase,
        "step": ran.standing.step,
        "done": ran.done,
        "waiting": ran.waiting,
        "evaluations": {str(phase): one for phase, one in found.items()},
    }
    lines = [f"phase {phase}{accuracy(one)}" for phase, one in found.items()]
    lines.append(f"{ran.waiting} questions wait for answers" if ran.waiting else "no question waits")
    show(form, "\n".join([*lines, where(campaign)]), as_json=as_json)
