"""`discreet exposure`: who was shown which record, and when; for the owner, and an auditor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show
from discreet.errors import BadInput


def exposure_command(
    config: ConfigArgument,
    annotator: Annotated[str | None, typer.Option(help="Only what this audience was shown.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write all rows into a new CSV or JSON file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Who was shown which record, and when first: written before a question is handed out. Audience: owner.

    Rows name records by their ids; a withdrawn record has a code. Example: discreet exposure scans.toml --out seen.csv
    """
    from discreet.report.exposure_table import exposure_form

    with opened(config, read_only=True) as campaign:
        found = campaign.exposures(annotator)
        form = exposure_form(found, simulation=campaign.simulation, file=None if out is None else out.name)
    if out is not None:
        _write(out, form)
    lines = [
        f"{one['kind']:10} {one['audience'] or '(no name)':24} {one['questions']:6} questions" for one in form["shown"]
    ]
    lines.append(f"{len(found)} rows are in {out.name}" if out else f"{len(found)} rows; --out FILE.csv writes them")
    show(form, "\n".join(lines), as_json=as_json)


def _write(out: Path, form: dict[str, Any]) -> None:
    from discreet.privacy.files import write_whole
    from discreet.report.exposure_table import exposure_csv

    if out.suffix.lower() not in (".csv", ".json"):
        raise BadInput(f"writing {out.name}", "its name does not say what it is", "End it with .csv or .json")
    if out.exists():
        raise BadInput(f"writing {out.name}", "there is a file of that name", "Take another name")
    content = json.dumps(form, indent=1) + "\n" if out.suffix.lower() == ".json" else exposure_csv(form)
    try:
        write_whole(out, content, private=True)
    except OSError as problem:
        raise BadInput(f"writing {out.name}", f"it cannot be written ({problem.strerror})", "See to the disk") from None
