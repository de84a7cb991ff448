"""`discreet pool`: add records to a campaign, or check them; `discreet withdraw`: take records back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show, where
from discreet.cli.progress import interruptible, watching
from discreet.errors import BadInput

pool_app = typer.Typer(name="pool", no_args_is_help=True, help="The records of a campaign.")


@pool_app.command("extend")
def extend_command(
    config: ConfigArgument,
    file: Annotated[Path, typer.Argument(help="Further records, declared as the pool's are.", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Enrol more records, under new ids. They can be asked from the next query on.

    Example: discreet pool extend scans.toml march.parquet
    """
    from discreet.config import CampaignConfig
    from discreet.recipes.pool_changes import extend

    read = CampaignConfig.read(config)
    with opened(config) as campaign:
        number, size = extend(campaign, read, file)
    form = {
        "format": "discreet.extended/1",
        "simulation": campaign.simulation,
        "audience": "public",
        "cohort": number,
        "records": size,
    }
    show(form, f"{size} records joined the pool of {campaign.name}", as_json=as_json)


@pool_app.command("check")
def check_command(config: ConfigArgument, as_json: JsonOption = False) -> None:
    """Compare every record with what it was when it was enrolled, and count what cannot be read, by column.

    Of the held-out records of a paid evaluation, too, with those that have no label of a declared class. Exit code 1 if
    a record of the pool differs; what cannot be read does not change it. A decision that you take because of these
    counts is not covered by the guarantee. Audience: owner.

    Example: discreet pool check scans.toml
    """
    from discreet.config import read_campaign
    from discreet.recipes.pool_changes import changes, unread, unread_held_out

    read = read_campaign(config)
    with opened(config) as campaign:
        differences = changes(campaign)
        cells = unread(campaign, read)
    held_out = unread_held_out(read)
    counts = {"changed": len(differences.changed), "missing": len(differences.missing), "added": len(differences.added)}
    form = {"format": "discreet.pool-check/1", "simulation": campaign.simulation, "audience": "owner", **counts}
    told = (
        [", ".join(f"{count} {name}" for name, count in counts.items())]
        if differences
        else ["every record is what it was"]
    )
    if cells is not None:
        form |= {"records": cells.records, "nulls": cells.nulls, "columns": cells.columns}
        told.append(cells.text())
    if held_out is not None:
        form["held_out"] = held_out.to_json()
        told.append(f"held-out records: {held_out.text()}")
    show(form, "\n".join(told), as_json=as_json)
    if differences:
        raise typer.Exit(1)


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
    from discreet.config import CampaignConfig
    from discreet.recipes.pool_changes import REMAINS, elsewhere, withdraw

    named = [*(ids or ()), *(_listed(ids_file) if ids_file is not None else ())]
    if not named and not person:
        raise BadInput("withdrawing records", "none is named", "Give ids, --ids FILE or --person NAME")
    read = CampaignConfig.read(config)
    with watching() as watch, interruptible():
        campaign, done = withdraw(read, named, persons=person or (), later=later, watch=watch)
    form = {
        "format": "discreet.withdrawal/1",
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
    ids = [line for line in text.splitlines() if line.strip()]
    if not ids:
        raise BadInput(f"reading {path.name}", "there is no id in it", "Write an id a line")
    return ids
