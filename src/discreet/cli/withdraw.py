"""`discreet withdraw`: records that people take back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, show, where
from discreet.cli.progress import going_on, watching
from discreet.errors import BadInput

FORMAT = "discreet.withdrawal/1"


def withdraw_command(
    config: ConfigArgument,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of records.", show_default=False)] = None,
    ids_file: Annotated[Path | None, typer.Option("--ids", help="A text file with an id a line, too.")] = None,
    person: Annotated[list[str] | None, typer.Option(help="All records of this person. May be repeated.")] = None,
    later: Annotated[
        bool, typer.Option(help="If a query or training was begun with them: mark them now, erase them after it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Erase records from the store and everything to come; their places stay empty, and the claim stays.

    A query or training that was begun with them is finished first. Repeating is safe, also after a crash. The owner
    alone sees the output. Audience: owner.

    Example: discreet withdraw scans.toml scan-0017 scan-0018
    """
    from discreet.config import read_config
    from discreet.recipes.withdrawing import REMAINS, elsewhere, withdraw

    named = [*(ids or ()), *(_listed(ids_file) if ids_file is not None else ())]
    if not named and not person:
        raise BadInput("withdrawing records", "none is named", "Give ids, --ids FILE or --person NAME")
    read = read_config(config)
    with watching() as watch, going_on():
        campaign, done = withdraw(read, named, persons=person or (), later=later, watch=watch)
    form = {
        "format": FORMAT,
        "simulation": campaign.simulation,
        "audience": "owner",
        "withdrawn": done.new,
        "withdrawn_before": done.known,
        "waiting": done.waiting,
        "remains": list(REMAINS),
        "elsewhere": list(elsewhere(read)),
    }
    lines = [f"{done.new} records withdrawn, {done.known} were before"]
    if done.waiting:
        lines.append(f"{done.waiting} are marked; they are erased when the step that is under way is over")
    else:
        lines.append("nothing of them is left in the store and its files")
    lines += ["what remains:", *(f"  {line}" for line in REMAINS)]
    lines += ["what this command does not delete:", *(f"  {line}" for line in elsewhere(read))]
    show(form, "\n".join([*lines, where(campaign)]), as_json=as_json)


def _listed(path: Path) -> list[str]:
    """An id a line; blank lines do not count."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"reading {path.name}", "it is not text in UTF-8", "Write an id a line") from None
    found = [line for line in text.splitlines() if line.strip()]
    if not found:
        raise BadInput(f"reading {path.name}", "there is no id in it", "Write an id a line")
    return found
