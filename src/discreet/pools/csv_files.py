"""CSV files: UTF-8, commas, a header, quotes around what needs them (also line breaks).

A line of a CSV file cannot be found without reading those before it. So the file is read once, in blocks, and of it the
declared columns are kept: four bytes a number, and the texts. Store a pool that is too large for that as Parquet.

Ids stay as they are written ("007" is not "7"). A cell that is no number breaks its record. A line with more or fewer
cells than the header has no sure id, so the file is refused: it says how many there are.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.declared import Declared
from discreet.pools.naming import check_size, ids_of, names_of
from discreet.pools.pool import ArrayRows, Pool
from discreet.pools.refusals import existing_file, reading
from discreet.pools.rows import ListedTexts, Scaling
from discreet.pools.table_files import check_columns_declared, declared_columns

BLOCK_BYTES = 4 << 20
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def open_csv(path: Path, declared: Declared) -> Pool:
    """A pool of a CSV file."""
    existing_file(path)
    asked = f"opening {path.name}"
    check_columns_declared(asked, declared)
    scaling = _scaling(asked, declared)
    with reading(path, otherwise="it is not a CSV file in UTF-8"):
        _check_header(path, asked, declared)
        columns, matrices = _contents(path, asked, declared, scaling)
    assert declared.id is not None
    check_size(asked, len(columns[declared.id]), declared.size)
    x = None
    if scaling is not None:
        x = ArrayRows(np.concatenate(matrices), name=path.name, shape=declared.shape)
    return Pool(
        ids=ids_of(columns[declared.id], f"column {declared.id!r}"),
        x=x,
        text=None if declared.text is None else ListedTexts(columns[declared.text], name=path.name),
        persons=None if declared.person is None else names_of(columns[declared.person], f"column {declared.person!r}"),
        declared=declared,
    )


def _scaling(asked: str, declared: Declared) -> Scaling | None:
    if declared.columns is None:
        return None
    width = len(declared.columns)
    shape = declared.shape or (width,)
    if int(np.prod(shape)) != width:
        raise BadInput(
            asked, f"shape = {list(shape)} is declared, and {width} columns", "Declare a shape of as many numbers"
        )
    return Scaling(declared.center, declared.scale, shape)


def _check_header(path: Path, asked: str, declared: Declared) -> None:
    """The names that are declared stand in the header, once. Others are not told: they may be a record."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file), [])
    for name in declared_columns(declared):
        if header.count(name) != 1:
            raise BadInput(
                asked,
                f"its first line has {'no' if name not in header else header.count(name)} column {name!r}",
                "Check the names that are declared, and that the first line is a header",
            )


def _contents(
    path: Path, asked: str, declared: Declared, scaling: Scaling | None
) -> tuple[dict[str, list[Any]], list[NDArray[Any]]]:
    """The declared columns: names and texts as lists, numbers as matrices, scaled."""
    named = [name for name in (declared.id, declared.text, declared.person) if name is not None]
    columns: dict[str, list[Any]] = {name: [] for name in named}
    shape = declared.shape or (len(declared.columns or ()),)
    matrices: list[NDArray[Any]] = []
    for batch in _batches(path, asked, declared):
        for name in columns:
            columns[name] += batch.column(name).to_pylist()
        if scaling is not None:
            raw = np.stack([_numbers(batch.column(name)) for name in declared.columns or ()], axis=1)
            matrices.append(scaling.applied(raw.reshape(len(raw), *shape)))
    return columns, matrices


def _batches(path: Path, asked: str, declared: Declared) -> Any:
    import pyarrow
    from pyarrow import csv as arrow_csv

    uneven = 0

    def skip(_: Any) -> str:
        nonlocal uneven
        uneven += 1
        return "skip"

    wanted = declared_columns(declared)
    yield from arrow_csv.open_csv(
        path,
        read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=wanted, column_types={name: pyarrow.string() for name in wanted}
        ),
    )
    if uneven:
        raise BadInput(
            asked, f"{uneven} lines have more or fewer cells than the header", "Put quotes around cells with commas"
        )


def _numbers(column: Any) -> NDArray[np.float64]:
    """Cells as numbers, NaN for one that is none. Spaces around it do not count."""
    import pyarrow
    from pyarrow import compute

    try:
        found = compute.cast(column, pyarrow.float64())
    except pyarrow.ArrowInvalid:
        trimmed = compute.utf8_trim_whitespace(column)
        numbers = compute.match_substring_regex(trimmed, _NUMBER)
        found = compute.cast(compute.if_else(numbers, trimmed, None), pyarrow.float64())
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.float64)
