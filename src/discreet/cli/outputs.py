"""What is made of a campaign: `discreet report` (a page for an audience), `discreet gallery` (public records),
`discreet exposure`; `discreet export` (a trained model, as a directory that may be published) and `discreet predict`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, check_output, opened, show
from discreet.cli.progress import counting, working
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
    from discreet.report.report_data import exposure_form

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
    from discreet.report.report_data import exposure_csv

    if out.suffix.lower() not in (".csv", ".json"):
        raise BadInput(f"writing {out.name}", "its name does not say what it is", "End it with .csv or .json")
    if out.exists():
        raise BadInput(f"writing {out.name}", "there is a file of that name", "Take another name")
    content = json.dumps(form, indent=1) + "\n" if out.suffix.lower() == ".json" else exposure_csv(form)
    try:
        write_whole(out, content, private=True)
    except OSError as problem:
        raise BadInput(f"writing {out.name}", f"it cannot be written ({problem.strerror})", "See to the disk") from None


def export_command(
    config: ConfigArgument,
    directory: Annotated[Path, typer.Argument(help="A new directory.", show_default=False)],
    phase: Annotated[
        int | None, typer.Option(help="The model after this phase; the last finished one, if left out.", min=0)
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace an earlier export in that directory.")] = False,
    onnx: Annotated[bool, typer.Option(help="Write an ONNX file, too, if the extra onnx is installed.")] = True,
    encoder: Annotated[bool, typer.Option(help="Copy the public encoder of texts or pictures.")] = True,
    sign: Annotated[
        Path | None, typer.Option(help="Sign certificate and model.json with this Ed25519 key (PEM).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Weights, preprocessing, classes, model card and certificate: all public or paid for. Audience: public.

    Example: discreet export scans.toml model
    """
    from discreet.exports import export_model

    with opened(config, read_only=True) as campaign, working("exporting"):
        exported = export_model(campaign, directory, phase=phase, force=force, onnx=onnx, encoder=encoder, sign=sign)
    form = {
        "format": "discreet.export/1",
        "simulation": campaign.simulation,
        "audience": "public",
        "phase": exported.phase,
        "directory": exported.directory.name,
        "files": sorted(exported.files),
        "no_onnx": exported.no_onnx,
        "claim": exported.form["claim"],
        "signed": sign is not None,
    }
    lines = [
        f"the model of phase {exported.phase} is in {exported.directory.name}: {', '.join(sorted(exported.files))}"
    ]
    if exported.no_onnx is not None and onnx:
        lines.append(f"no ONNX file: {exported.no_onnx}")
    if campaign.simulation:
        lines.append("SIMULATION: its noise was seeded; it proves nothing about people.")
    lines.append(f"next: discreet predict {exported.directory.name} DATA --out predictions.csv")
    show(form, "\n".join(lines), as_json=as_json)


def predict_command(
    directory: Annotated[Path, typer.Argument(help="What discreet export wrote.", show_default=False)],
    data: Annotated[Path, typer.Argument(help="Records: any kind of file that a pool may be.", show_default=False)],
    out: Annotated[Path, typer.Option(help="A CSV, JSONL or Parquet file.", show_default=False)],
    probabilities: Annotated[bool, typer.Option(help="Write the chance of every class, too.")] = False,
    threshold: Annotated[
        list[str] | None,
        typer.Option(help="Of two classes: 0.3. Of several labels: 0.3 for all, or label=0.3. May be repeated."),
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Of the file, if its name does not say it.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The column (array) of ids, or position.")] = None,
    columns: Annotated[str | None, typer.Option(help="Columns of numbers, with commas between them.")] = None,
    text: Annotated[str | None, typer.Option(help="The column of texts.")] = None,
    array: Annotated[str | None, typer.Option(help="Of an npz file: the array of records.")] = None,
    rows: Annotated[int, typer.Option(help="Records at a time.", min=1)] = 1024,
    overwrite: Annotated[bool, typer.Option(help="Replace the file that is there.")] = False,
    model: Annotated[str | None, typer.Option(help="Of somebody's own model: module:callable, to let it run.")] = None,
    encoder: Annotated[
        Path | None, typer.Option(help="The encoder, if the export has no copy: a path, or module:callable.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: JsonOption = False,
) -> None:
    """Id and label of every record, in the file's order. What is said of private records is private: audience owner.

    Read as the campaign's pool was declared, unless options say otherwise. A record that cannot be read has no label.

    Example: discreet predict model new-scans.parquet --out predictions.csv
    """
    from discreet.exports import load_model, predict_file

    loaded = load_model(directory, model=model, encoder=encoder, device=device)
    declared = {
        "id": id_column,
        "columns": None if columns is None else [column.strip() for column in columns.split(",")],
        "text": text,
        "array": array,
    }
    with counting("predicting", 1) as progress:
        predicted = predict_file(
            loaded,
            data,
            out,
            kind=kind,
            declared=declared,
            probabilities=probabilities,
            threshold=_thresholds(threshold or []),
            rows=rows,
            overwrite=overwrite,
            progress=progress,
        )
    form = {
        "format": "discreet.predictions/1",
        "simulation": bool(loaded.form["simulation"]),
        "audience": "owner",
        "model": loaded.form["name"],
        "phase": loaded.form["phase"],
        "records": predicted.records,
        "blank": predicted.blank,
        "file": out.name,
    }
    text_out = f"{predicted.records} records are predicted in {out.name}"
    blank = f"; {predicted.blank} could not be read, and have no label" if predicted.blank else ""
    show(form, text_out + blank, as_json=as_json)


def _thresholds(options: list[str]) -> float | dict[str, float] | None:
    """One for all, or by label."""
    if not options:
        return None
    try:
        if len(options) == 1 and "=" not in options[0]:
            return float(options[0])
        parts = [option.rpartition("=") for option in options]
        if not all(name for name, _, _ in parts):
            raise ValueError
        return {name: float(number) for name, _, number in parts}
    except ValueError:
        raise BadInput("--threshold", "it is neither a number nor label=number", "Write 0.3, or label=0.3") from None
