"""Predictions into files, piece by piece: CSV, JSONL or Parquet, whole or not at all, for their owner alone."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from discreet.errors import BadInput
from discreet.records import Value

KINDS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
SEPARATOR = "|"


class Rows(Protocol):
    """Takes rows as they come."""

    def write(self, ids: Sequence[str], labels: Sequence[Value], chances: Any) -> None:
        """Some rows; None for the label of a record that could not be read, and of its chances."""


def kind_of(path: Path) -> str:
    """By the end of its name."""
    found = KINDS.get(path.suffix.lower())
    if found is None:
        raise BadInput(
            f"writing {path.name}", "its name does not say what it is", "End it with .csv, .jsonl or .parquet"
        )
    return found


@contextmanager
def rows_into(path: Path, *, classes: Sequence[str], several: bool, chances: bool, overwrite: bool) -> Iterator[Rows]:
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
        with makers[kind](scratch, classes, several, chances) as rows:
            yield rows
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def _chances(found: Any, row: int, label: Value, classes: Sequence[str]) -> list[float | None]:
    """Of one record; nothing where it could not be read."""
    return [None] * len(classes) if label is None else [float(f"{one:.7g}") for one in found[row]]


@contextmanager
def _csv(path: Path, classes: Sequence[str], several: bool, chances: bool) -> Iterator[Rows]:
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["id", "label", *(f"p_{name}" for name in classes if chances)])

        class Writer:
            def write(self, ids: Sequence[str], labels: Sequence[Value], found: Any) -> None:
                for row, (name, label) in enumerate(zip(ids, labels, strict=True)):
                    cell = SEPARATOR.join(label) if isinstance(label, tuple) else label
                    numbers = ["" if one is None else f"{one:.7g}" for one in _chances(found, row, label, classes)]
                    out.writerow([name, "" if cell is None else cell, *(numbers if chances else [])])

        yield Writer()


@contextmanager
def _jsonl(path: Path, classes: Sequence[str], several: bool, chances: bool) -> Iterator[Rows]:
    with path.open("w", encoding="utf-8") as file:

        class Writer:
            def write(self, ids: Sequence[str], labels: Sequence[Value], found: Any) -> None:
                for row, (name, label) in enumerate(zip(ids, labels, strict=True)):
                    form: dict[str, Any] = {"id": name, "label": list(label) if isinstance(label, tuple) else label}
                    if chances:
                        said = _chances(found, row, label, classes)
                        form["probabilities"] = dict(zip(classes, said, strict=True))
                    file.write(json.dumps(form, ensure_ascii=False) + "\n")

        yield Writer()


@contextmanager
def _parquet(path: Path, classes: Sequence[str], several: bool, chances: bool) -> Iterator[Rows]:
    import pyarrow
    from pyarrow import parquet

    kind = pyarrow.list_(pyarrow.string()) if several else pyarrow.string()
    numbers = [(f"p_{name}", pyarrow.float32()) for name in classes if chances]
    schema = pyarrow.schema([("id", pyarrow.string()), ("label", kind), *numbers])
    with parquet.ParquetWriter(path, schema) as out:

        class Writer:
            def write(self, ids: Sequence[str], labels: Sequence[Value], found: Any) -> None:
                columns: list[Any] = [list(ids), [list(one) if isinstance(one, tuple) else one for one in labels]]
                if chances:
                    said = [_chances(found, row, label, classes) for row, label in enumerate(labels)]
                    columns += [[row[place] for row in said] for place in range(len(classes))]
                out.write_table(pyarrow.table(columns, schema=schema))

        yield Writer()
