"""`discreet gallery`: the public records that were asked about, on one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened
from discreet.errors import BadInput

PAGE = "gallery.html"
_OURS = b"discreet.gallery/"


def gallery_command(
    config: ConfigArgument,
    phase: Annotated[int | None, typer.Option(help="Of this round; else the newest.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write it (.html or .png); with --json, nowhere.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML file (or PNG sheet) with the most central record of each cluster, its prediction and its label.

    For public-data campaigns, whose records may be shown. Example: discreet gallery public.toml --out gallery.html
    """
    from discreet.privacy.files import write_whole
    from discreet.report.gallery import gallery_of
    from discreet.report.gallery_page import gallery_html
    from discreet.report.gallery_sheet import gallery_png

    place = out or (None if as_json else Path(PAGE))
    if place is not None:
        _check_out(place)
    with opened(config, read_only=True) as campaign:
        found = gallery_of(campaign, phase)
    if place is not None:
        write_whole(place, gallery_png(found) if place.suffix == ".png" else gallery_html(found))
    if as_json:
        print(json.dumps(found.to_json()))  # noqa: T201
    else:
        assert place is not None
        print(f"{place.name} shows {len(found.shown)} of {found.asked} records of round {found.phase}")  # noqa: T201


def _check_out(out: Path) -> None:
    if out.suffix not in (".html", ".htm", ".png") or out.is_dir() or not out.absolute().parent.is_dir():
        raise BadInput(f"writing {out.name}", "it is no page or sheet we can write", "Use an .html or .png file")
    if out.exists() and (out.suffix == ".png" or _OURS not in out.read_bytes()[:3000]):
        raise BadInput(f"writing {out.name}", "there is another file of that name", "Choose another name")
