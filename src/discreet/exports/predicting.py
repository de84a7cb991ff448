"""Predictions of a file of records, in pieces: memory does not grow with it (but for CSV, which is read whole).

A record that cannot be read is a null: it keeps its row, its label and chances are empty. What a model says of private
records is private: audience owner.

Files of predictions
--------------------
Predictions into files, piece by piece: CSV, JSONL or Parquet, whole or not at all, for their owner alone.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.exports.loading import ExportedModel
from discreet.pools import Pool, open_pool
from discreet.pools.opening import READERS, may_be
from discreet.pools.opening import kind_of as pool_kind
from discreet.records import Value

ROWS = 1024
DECLARED = ("id", "columns", "text", "array", "shape", "schema")
_OF_KIND = {part.name: tuple(name for name in DECLARED if part.option(name)) for part in READERS}
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """``records`` that were in the file, and how many of them were ``blank``. Audience: owner."""

    records: int
    blank: int


def predict_file(
    model: ExportedModel,
    data: Path | str,
    out: Path | str,
    *,
    kind: str | None = None,
    declared: Mapping[str, Any] | None = None,
    probabilities: bool = False,
    threshold: float | Mapping[str, float] | None = None,
    rows: int = ROWS,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Predicted:
    """Predict every record of ``data`` into ``out``, in its order: id, label, and if wanted ``probabilities``.

    The file is read as the campaign's pool was declared; ``kind`` and ``declared`` say what is otherwise (``id``,
    ``columns``, ``text``, ``array``, ``shape``).
    """
    if type(rows) is not int or rows < 1:
        raise BadInput(f"rows={rows}", "a piece has at least one record", "Leave it out")
    model.labels_of(np.zeros((1, len(model.classes))), threshold)  # refused before anything is read
    pool = records_in(model, Path(data), kind, declared or {})
    several, blank = model.task == "multilabel", 0
    with rows_into(
        Path(out), classes=model.classes, several=several, chances=probabilities, overwrite=overwrite
    ) as write:
        for start in range(0, len(pool), rows):
            stop = min(start + rows, len(pool))
            chances, fine = _chances(model, pool, slice(start, stop))
            labels: list[Value] = list(model.labels_of(chances, threshold))
            labels = [label if readable else None for label, readable in zip(labels, fine, strict=True)]
            write(pool.ids[start:stop], labels, chances)
            blank += int((~fine).sum())
            if progress is not None:
                progress(stop, len(pool))
    return Predicted(records=len(pool), blank=blank)


def records_in(model: ExportedModel, path: Path, kind: str | None, declared: Mapping[str, Any]) -> Pool:
    """The records of a file, as the model's were declared but for what ``declared`` says."""
    read = model.form["preprocessing"]
    chosen = kind or (read["kind"] if may_be(path, read["kind"]) else None)
    file_kind = pool_kind(path, chosen)
    known = {name: read[name] for name in DECLARED if name in read and name in _OF_KIND[file_kind]}
    changes = {name: value for name, value in declared.items() if value is not None}
    if "text" in changes:
        known.pop("columns", None)
    numbers = {} if model.reads_text else {"center": read.get("center", 0.0), "scale": read.get("scale", 1.0)}
    pool = open_pool(path, kind=file_kind, **{**known, **changes}, **numbers)  # type: ignore[arg-type]
    if model.reads_text and pool.text is None:
        raise BadInput(f"predicting {path.name}", "the model reads texts", "Declare the column: --text")
    shape = None if pool.x is None else tuple(int(size) for size in pool.x.shape[1:])
    if not model.reads_text and shape != model.record_shape:
        raise BadInput(
            f"predicting {path.name}",
            f"its records have shape {shape}, those of the model {model.record_shape}",
            "Declare columns or shape",
        )
    return pool


def _chances(model: ExportedModel, pool: Pool, span: slice) -> tuple[Any, Any]:
    part: Any = pool.text if model.reads_text else pool.x
    rows, fine = part.readable(span)
    return model.predict_proba(rows), fine


# -- files of predictions


KINDS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
SEPARATOR = "|"


Write = Callable[[Sequence[str], Sequence[Value], Any], None]
"""Takes ids, labels and probabilities of some rows; None for the label of a record that could not be read."""


def kind_of(path: Path) -> str:
    """By the end of its name."""
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise BadInput(
            f"writing {path.name}", "its name does not say what it is", "End it with .csv, .jsonl or .parquet"
        )
    return kind


@contextmanager
def rows_into(path: Path, *, classes: Sequence[str], several: bool, chances: bool, overwrite: bool) -> Iterator[Write]:
    """A writer of the kind that the name says. The file is there when all rows are."""
    makers: dict[str, Callable[..., Any]] = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}
    kind = kind_of(path)
    if not path.absolute().parent.is_dir():
        raise BadInput(f"writing {path.name}", "its directory does not exist", "Create the directory first")
    if path.exists() and not overwrite:
        raise BadInput(f"writing {path.name}", "there is a file of that name", "Take another, or add --overwrite")
    if kind == "csv" and several and any(SEPARATOR in name for name in classes):
        raise BadInput(f"writing {path.name}", f"a label has {SEPARATOR} in its name", "Write .jsonl or .parquet")
    scratch = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        os.close(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        with makers[kind](scratch, classes, several, chances) as write:
            yield write
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def _probabilities(rows: Any, row: int, label: Value, classes: Sequence[str]) -> list[float | None]:
    """Of one record; nothing where it could not be read."""
    return [None] * len(classes) if label is None else [float(f"{number:.7g}") for number in rows[row]]


@contextmanager
def _csv(path: Path, classes: Sequence[str], several: bool, chances: bool) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["id", "label", *(f"p_{name}" for name in classes if chances)])

        def write(ids: Sequence[str], labels: Sequence[Value], rows: Any) -> None:
            for row, (name, label) in enumerate(zip(ids, labels, strict=True)):
                cell = SEPARATOR.join(label) if isinstance(label, tuple) else label
                numbers = _probabilities(rows, row, label, classes) if chances else []
                cells = ["" if number is None else f"{number:.7g}" for number in numbers]
                out.writerow([name, "" if cell is None else cell, *cells])

        yield write


@contextmanager
def _jsonl(path: Path, classes: Sequence[str], several: bool, chances: bool) -> Iterator[Write]:
    with path.open("w", encoding="utf-8") as file:

        def write(ids: Sequence[str], labels: Sequence[Value], rows: Any) -> None:
            for row, (name, label) in enumerate(zip(ids, labels, strict=True)):
                form: dict[str, Any] = {"id": name, "label": list(label) if isinstance(label, tuple) else label}
                if chances:
                    form["probabilities"] = dict(zip(classes, _probabilities(rows, row, label, classes), strict=True))
                file.write(json.dumps(form, ensure_ascii=False) + "\n")

        yield write


@contextmanager
def _parquet(path: Path, classes: Sequence[str], several: bool, chances: bool) -> Iterator[Write]:
    import pyarrow
    from pyarrow import parquet

    kind = pyarrow.list_(pyarrow.string()) if several else pyarrow.string()
    fields = [(f"p_{name}", pyarrow.float32()) for name in classes if chances]
    schema = pyarrow.schema([("id", pyarrow.string()), ("label", kind), *fields])
    with parquet.ParquetWriter(path, schema) as out:

        def write(ids: Sequence[str], labels: Sequence[Value], rows: Any) -> None:
            columns: list[Any] = [list(ids), [list(label) if isinstance(label, tuple) else label for label in labels]]
            if chances:
                numbers = [_probabilities(rows, row, label, classes) for row, label in enumerate(labels)]
                columns += [[row[column] for row in numbers] for column in range(len(classes))]
            out.write_table(pyarrow.table(columns, schema=schema))

        yield write
