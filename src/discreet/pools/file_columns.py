"""Columns of a pool's files beside what the model reads: labels of public records, and what annotators are shown."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from discreet.errors import BadInput
from discreet.pools.cells import READ, cells_of, read_cells
from discreet.pools.checks import existing_file, reading
from discreet.pools.csv_files import batches_of, check_header
from discreet.pools.opening import READERS, parts_of
from discreet.pools.rows import or_none
from discreet.pools.table_files import check_columns, table_of
from discreet.pools.tables import TEXT_BYTES, rows_of_block

PATH = "path"
"""Of pictures: the column that has each record's file."""


def columns_of(path: Path, kind: str, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Columns of a table as Arrow has them, block by block; of a CSV file as text. Audience: owner."""
    for file in parts_of(path, kind):
        if kind == "csv":
            existing_file(file)
            with reading(file, otherwise="it cannot be read as CSV"):
                check_header(file, names)
                yield from batches_of(file, f"reading {file.name}", list(names))
            continue
        table = table_of(file, kind)
        with reading(file):
            check_columns(f"reading {file.name}", table.schema.names, names)
            blocks = table.blocks(list(names), rows_of_block(len(names) * TEXT_BYTES))
            for block in range(len(blocks.counts)):
                batch = blocks.read(block)
                yield {name: batch.column(name) for name in names}


def table_columns(path: Path, kind: str, names: Sequence[str]) -> dict[str, Any]:
    """Columns of a whole table of public rows as Arrow has them; refused, if it has no rows."""
    import pyarrow

    blocks = list(columns_of(path, kind, names))
    if not any(len(block[name]) for block in blocks for name in names):
        raise BadInput(f"reading public rows of {path.name}", "it has no rows", "Name a table of public rows")
    return {name: pyarrow.chunked_array(_chunks(block[name] for block in blocks)) for name in names}


def _chunks(columns: Any) -> list[Any]:
    """Arrow arrays of columns that are some, or were chunked."""
    return [chunk for column in columns for chunk in getattr(column, "chunks", [column])]


def check_columns_of(path: Path, kind: str, id_column: str | None, shown: Sequence[str]) -> None:
    """Refuse to show columns that the records of a file do not have."""
    if kind in READERS.having("columns") and id_column is not None:
        next(columns_of(path, kind, list(dict.fromkeys([id_column, *shown]))), None)
    elif kind != "images" or set(shown) - {PATH}:
        has = f"Pictures have {PATH} alone" if kind == "images" else "Store the pool as a table to show columns of it"
        raise BadInput(f"columns of {path.name}", f"a pool of kind {kind} has no such columns", has)


def cells_of_records(
    path: Path, kind: str, id_column: str, shown: Sequence[str], wanted: Collection[str]
) -> dict[str, dict[str, str]]:
    """By column and record, the cells of the ``wanted`` records as people read them. Audience: annotator.

    A cell that cannot be read is empty, and raises nothing.
    """
    import pyarrow
    from pyarrow import compute

    if kind == "images":
        return {PATH: {record: str(path / record) for record in wanted if (path / record).is_file()}}
    cells: dict[str, dict[str, str]] = {name: {} for name in shown}
    some = pyarrow.array(sorted(wanted), pyarrow.string())
    for block in columns_of(path, kind, list(dict.fromkeys([id_column, *shown]))):
        ids = block[id_column].cast(pyarrow.string())
        for row in compute.indices_nonzero(compute.is_in(ids, some)).to_pylist():
            for name in shown:
                cells[name][ids[row].as_py()] = or_none(_as_text, block[name][row]) or ""
    return cells


def categories_of_records(path: Path, kind: str, id_column: str, name: str, values: Sequence[str]) -> dict[str, int]:
    """By record, the place of its cell in ``values``, read as a category of a schema is; others are not in it.

    Audience: owner.
    """
    import pyarrow

    places: dict[str, int] = {}
    for block in columns_of(path, kind, list(dict.fromkeys([id_column, name]))):
        ids = block[id_column].cast(pyarrow.string()).to_pylist()
        codes, states = read_cells(cells_of(block, name, "category"), "category", values, ("",))
        places |= {record: int(code) for record, code, state in zip(ids, codes, states, strict=True) if state == READ}
    return places


def _as_text(cell: Any) -> str:
    import pyarrow
    from pyarrow import types

    if not cell.is_valid:
        return ""
    if types.is_nested(cell.type):
        return json.dumps(cell.as_py(), ensure_ascii=False, default=str)
    text = str(cell.cast(pyarrow.string()).as_py())
    return "" if text == "nan" and types.is_floating(cell.type) else text
