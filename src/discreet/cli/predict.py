"""`discreet predict`: an exported model on a file of records, without its campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.campaign_files import JsonOption, show
from discreet.errors import BadInput

FORMAT = "discreet.predictions/1"


def predict_command(
    directory: Annotated[Path, typer.Argument(help="What discreet export wrote.", show_default=False)],
    data: Annotated[Path, typer.Argument(help="Records: any kind of file that a pool may be.", show_default=False)],
    out: Annotated[Path, typer.Option(help="A CSV, JSONL or Parquet file.", show_default=False)],
    probabilities: Annotated[bool, typer.Option(help="Write the chance of every class, too.")] = False,
    threshold: Annotated[
        list[str] | None, typer.Option(help="Of several labels: 0.3 for all, or label=0.3. May be repeated.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Of the file, if its name does not say it.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The column (array) of ids, or position.")] = None,
    columns: Annotated[str | None, typer.Option(help="Columns of numbers, with commas between them.")] = None,
    text: Annotated[str | None, typer.Option(help="The column of texts.")] = None,
    array: Annotated[str | None, typer.Option(help="Of an npz file: the array of records.")] = None,
    rows: Annotated[int, typer.Option(help="Records at a time.", min=1)] = 1024,
    overwrite: Annotated[bool, typer.Option(help="Replace the file that is there.")] = False,
    model: Annotated[str | None, typer.Option(help="Of somebody's own model: module:callable, to let it run.")] = None,
    encoder: Annotated[Path | None, typer.Option(help="Folder of the encoder, if the export has no copy.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: JsonOption = False,
) -> None:
    """Id and label of every record, in the file's order. What is said of private records is private: audience owner.

    Read as the campaign's pool was declared, unless options say otherwise. A record that cannot be read has no label.

    Example: discreet predict model new-scans.parquet --out predictions.csv
    """
    from discreet.cli.progress import counting
    from discreet.exports import load_model, predict_file

    loaded = load_model(directory, model=model, encoder=encoder, device=device)
    declared = {
        "id": id_column,
        "columns": None if columns is None else [one.strip() for one in columns.split(",")],
        "text": text,
        "array": array,
    }
    with counting("predicting", 1) as progress:
        found = predict_file(
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
        "format": FORMAT,
        "simulation": bool(loaded.form["simulation"]),
        "audience": "owner",
        "model": loaded.form["name"],
        "phase": loaded.form["phase"],
        "records": found.records,
        "blank": found.blank,
        "file": out.name,
    }
    text_out = f"{found.records} records are predicted in {out.name}"
    blank = f"; {found.blank} could not be read, and have no label" if found.blank else ""
    show(form, text_out + blank, as_json=as_json)


def _thresholds(given: list[str]) -> float | dict[str, float] | None:
    """One for all, or by label."""
    if not given:
        return None
    try:
        if len(given) == 1 and "=" not in given[0]:
            return float(given[0])
        parts = [one.rpartition("=") for one in given]
        if not all(name for name, _, _ in parts):
            raise ValueError
        return {name: float(number) for name, _, number in parts}
    except ValueError:
        raise BadInput("--threshold", "it is neither a number nor label=number", "Write 0.3, or label=0.3") from None
