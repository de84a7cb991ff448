"""`discreet export` writes a trained model as a directory that may be published; `discreet predict` applies it to a
file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show
from discreet.cli.progress import counting, working
from discreet.errors import BadInput


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
