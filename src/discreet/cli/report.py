"""`discreet report`: a campaign on one page, for those who may see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened
from discreet.errors import BadInput

PAGE = "report.html"
_OURS = b"discreet.report/"


def report_command(
    config: ConfigArgument,
    audience: Annotated[str, typer.Option(help="world: what is public or paid for. owner: counts, too.")] = "world",
    out: Annotated[Path | None, typer.Option(help="Where to write it (.html); with --json, nowhere.")] = None,
    scores: Annotated[bool, typer.Option(help="Owner: count the scores of every query again, exactly.")] = False,
    certificate: Annotated[
        Path | None, typer.Option(help="Show this (signed) certificate, checked, and not a new one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML file: budget, phases, labels, accuracy, scores, certificate. Nothing is charged.

    Example: discreet report scans.toml --audience owner --out report.html
    """
    from discreet.cli.progress import working
    from discreet.privacy.files import write_whole
    from discreet.report.gathering import report_of
    from discreet.report.page import to_html

    place = out or (None if as_json else Path(PAGE))
    if place is not None:
        _check_out(place)
    with opened(config, read_only=True) as campaign, working("certifying"):
        found = report_of(campaign, audience, scores=scores, certificate=certificate)  # type: ignore[arg-type]
    if place is not None:
        write_whole(place, to_html(found), private=found.audience == "owner")
    if as_json:
        print(json.dumps(found.to_json()))  # noqa: T201
    else:
        assert place is not None
        print(f"{place.name} is a report on {found.name}, for the {found.audience}")  # noqa: T201


def _check_out(out: Path) -> None:
    """Refused before anything is computed; only an older report is replaced."""
    if out.suffix not in (".html", ".htm") or out.is_dir() or not out.absolute().parent.is_dir():
        raise BadInput(f"writing {out.name}", "it is no page we can write", "Use an .html file in a directory")
    if out.exists() and _OURS not in out.read_bytes()[:2000]:
        raise BadInput(f"writing {out.name}", "there is another file of that name", "Choose another name")
