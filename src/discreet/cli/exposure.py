"""`discreet exposure`: who was shown which record, and when; for the owner, and an auditor."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show
from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.records import Exposure

FORMAT = "discreet.exposure/1"
COLUMNS = ("at", "kind", "audience", "question_id", "record", "phase")
"""``kind``: annotator (by name), hand-out (a file or list, for people who are not known here), program."""


def exposure_command(
    config: ConfigArgument,
    annotator: Annotated[str | None, typer.Option(help="Only what this audience was shown.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write all rows into a new CSV or JSON file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Who was shown which record, and when first: written before a question is handed out. Audience: owner.

    Rows name records by their ids; a withdrawn record has a code. Example: discreet exposure scans.toml --out seen.csv
    """
    with opened(config) as campaign:
        rows = [_row(one) for one in campaign.exposures(annotator)]
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        counts[row["kind"], row["audience"]] = counts.get((row["kind"], row["audience"]), 0) + 1
    form: dict[str, Any] = {
        "format": FORMAT,
        "simulation": campaign.simulation,
        "audience": "owner",
        "file": None if out is None else out.name,
        "shown": [{"kind": kind, "audience": who, "questions": count} for (kind, who), count in sorted(counts.items())],
        "exposures": rows,
    }
    if out is not None:
        _write(out, form)
    lines = [f"{kind:10} {who or '(no name)':24} {count:6} questions" for (kind, who), count in sorted(counts.items())]
    lines.append(f"{len(rows)} rows are in {out.name}" if out else f"{len(rows)} rows; --out FILE.csv writes them")
    show(form, "\n".join(lines), as_json=as_json)


def _row(one: Exposure) -> dict[str, Any]:
    return {
        "at": one.at.isoformat(),
        "kind": one.kind,
        "audience": one.audience,
        "question_id": one.question_id,
        "record": one.record,
        "phase": one.phase,
    }


def _write(out: Path, form: dict[str, Any]) -> None:
    from discreet.oracles.cells import guarded
    from discreet.privacy.files import write_whole

    if out.suffix.lower() not in (".csv", ".json"):
        raise BadInput(f"writing {out.name}", "its name does not say what it is", "End it with .csv or .json")
    if out.exists():
        raise BadInput(f"writing {out.name}", "there is a file of that name", "Take another name")
    if out.suffix.lower() == ".json":
        content = json.dumps(form, indent=1) + "\n"
    else:
        made = io.StringIO(newline="")
        writer = csv.writer(made, quoting=csv.QUOTE_ALL)
        writer.writerow(COLUMNS)
        writer.writerows([[guarded(str(row[name])) for name in COLUMNS] for row in form["exposures"]])
        content = made.getvalue()
    try:
        write_whole(out, content, private=True)
    except OSError as problem:
        raise BadInput(f"writing {out.name}", f"it cannot be written ({problem.strerror})", "See to the disk") from None
