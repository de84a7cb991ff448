"""Views of a campaign: `discreet report` (a page for an audience), `discreet gallery` (public records), `discreet
exposure`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, check_output, opened, show
from discreet.errors import BadInput


def report_command(
    config: ConfigArgument,
    audience: Annotated[str, typer.Option(help="public: what is public or paid for. owner: counts, too.")] = "public",
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
    from discreet.report.page import to_html
    from discreet.report.report_data import report_of

    target = out or (None if as_json else Path("report.html"))
    if target is not None:
        check_output(target, (".html", ".htm"), b"discreet.report/", "page")
    with opened(config, read_only=True) as campaign, working("certifying"):
        report = report_of(campaign, audience, scores=scores, certificate=certificate)  # type: ignore[arg-type]
    if target is not None:
        write_whole(target, to_html(report), private=report.audience == "owner")
    text = "" if target is None else f"{target.name} is a report on {report.name}, for the {report.audience}"
    show(report.to_json(), text, as_json=as_json)


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
    from discreet.report.gallery import gallery_html, gallery_of, gallery_png

    target = out or (None if as_json else Path("gallery.html"))
    if target is not None:
        check_output(target, (".html", ".htm", ".png"), b"discreet.gallery/", "page or sheet")
    with opened(config, read_only=True) as campaign:
        gallery = gallery_of(campaign, phase)
    if target is not None:
        write_whole(target, gallery_png(gallery) if target.suffix == ".png" else gallery_html(gallery))
    counts = f"{len(gallery.shown)} of {gallery.asked} records of round {gallery.phase}"
    text = "" if target is None else f"{target.name} shows {counts}"
    show(gallery.to_json(), text, as_json=as_json)


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
        exposures = campaign.exposures(annotator)
        form = exposure_form(exposures, simulation=campaign.simulation, file=None if out is None else out.name)
    if out is not None:
        _write(out, form)
    lines = [
        f"{row['kind']:10} {row['audience'] or '(no name)':24} {row['questions']:6} questions" for row in form["shown"]
    ]
    lines.append(
        f"{len(exposures)} rows are in {out.name}" if out else f"{len(exposures)} rows; --out FILE.csv writes them"
    )
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
