"""`discreet pool`: the records of a campaign: more of them, or whether they are what they were."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show

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
    from discreet.config import read_config
    from discreet.recipes.pool_changes import extend

    read = read_config(config)
    with opened(config) as campaign:
        number, size = extend(campaign, read, file)
    form = {
        "format": "discreet.extended/1",
        "simulation": campaign.simulation,
        "audience": "world",
        "cohort": number,
        "records": size,
    }
    show(form, f"{size} records joined the pool of {campaign.name}", as_json=as_json)


@pool_app.command("check")
def check_command(config: ConfigArgument, as_json: JsonOption = False) -> None:
    """Compare every record with what it was when it was enrolled. Exit code 1 if one differs. Audience: owner.

    Example: discreet pool check scans.toml
    """
    from discreet.recipes.pool_changes import changes

    with opened(config) as campaign:
        found = changes(campaign)
    counts = {"changed": len(found.changed), "missing": len(found.missing), "added": len(found.added)}
    form = {"format": "discreet.pool-check/1", "simulation": campaign.simulation, "audience": "owner", **counts}
    text = ", ".join(f"{count} {name}" for name, count in counts.items())
    show(form, text if found else "every record is what it was", as_json=as_json)
    if found:
        raise typer.Exit(1)
