"""Predictions of a file of records, in pieces: memory does not grow with it (but for CSV, which is read whole).

A record that cannot be read is a null: it keeps its row, its label and chances are empty. What a model says of private
records is private: audience owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.exports.loading import ExportedModel
from discreet.exports.rows_out import rows_into
from discreet.pools import Pool, open_pool
from discreet.pools.declared import kind_of as pool_kind
from discreet.records import Value

ROWS = 1024
DECLARED = ("id", "columns", "text", "array", "shape")
_OF_KIND: dict[str, tuple[str, ...]] = {
    "images": ("shape",),
    "npy": ("id", "shape"),
    "npz": ("id", "array", "shape"),
    "parquet": ("id", "columns", "text", "shape"),
    "arrow": ("id", "columns", "text", "shape"),
    "csv": ("id", "columns", "text", "shape"),
}
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
    several, place = model.task == "multilabel", Path(out)
    blank = 0
    with rows_into(place, classes=model.classes, several=several, chances=probabilities, overwrite=overwrite) as target:
        for start in range(0, len(pool), rows):
            stop = min(start + rows, len(pool))
            found, fine = _chances(model, pool, slice(start, stop))
            labels: list[Value] = list(model.labels_of(found, threshold))
            target.write(
                pool.ids[start:stop], [one if ok else None for one, ok in zip(labels, fine, strict=True)], found
            )
            blank += int((~fine).sum())
            if progress is not None:
                progress(stop, len(pool))
    return Predicted(records=len(pool), blank=blank)


def records_in(model: ExportedModel, path: Path, kind: str | None, declared: Mapping[str, Any]) -> Pool:
    """The records of a file, as the model's were declared but for what ``declared`` says."""
    read = model.form["preprocessing"]
    chosen = kind or (read["kind"] if _fits(path, read["kind"]) else None)
    own = pool_kind(path, chosen)
    known = {name: read[name] for name in DECLARED if name in read and name in _OF_KIND[own]}
    given = {name: value for name, value in declared.items() if value is not None}
    if "text" in given:
        known.pop("columns", None)
    numbers = {} if model.reads_text else {"center": read.get("center", 0.0), "scale": read.get("scale", 1.0)}
    pool = open_pool(path, kind=own, **{**known, **given}, **numbers)  # type: ignore[arg-type]
    if model.reads_text and pool.text is None:
        raise BadInput(f"predicting {path.name}", "the model reads texts", "Declare the column: --text")
    shape = None if pool.x is None else tuple(int(size) for size in pool.x.shape[1:])
    if not model.reads_text and shape != tuple(model.form["inputs"]):
        raise BadInput(
            f"predicting {path.name}",
            f"its records have shape {shape}, those of the model {tuple(model.form['inputs'])}",
            "Declare columns or shape",
        )
    return pool


def _fits(path: Path, kind: str) -> bool:
    """Whether a file may be of the pool's kind: its name says no other."""
    try:
        return pool_kind(path, None) == kind
    except BadInput:
        return kind in _OF_KIND and path.exists()


def _chances(model: ExportedModel, pool: Pool, span: slice) -> tuple[Any, Any]:
    part: Any = pool.text if model.reads_text else pool.x
    rows, fine = part.readable(span)
    return model.predict_proba(rows), fine
