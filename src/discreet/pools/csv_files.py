"""CSV files as pools: UTF-8, commas, a header, quotes around what needs them (also line breaks); ``.gz``, ``.zst``.

A line of a CSV file cannot be found without reading those before it. So the file is read once, in blocks, and of it
the declared columns are kept: four bytes a number, and the texts. Store a pool that is too large for that as Parquet.

Ids stay as they are written ("007" is not "7"). A cell that is no number, or not UTF-8, breaks its record. A line with
more or fewer cells than the header has no sure id, so the file is refused: it says how many there are.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.cells import NUMBER, Codes, States
from discreet.pools.checks import encodable, existing_file, ids_of, names_of, reading
from discreet.pools.declaration import PoolDeclaration
from discreet.pools.encoded import EncodedRows
from discreet.pools.pool import ArrayRows, Pool
from discreet.pools.rows import ListedTexts, Scaling
from discreet.pools.table_files import check_columns, check_columns_declared, declared_columns
from discreet.pools.tables import shape_of_columns

BLOCK_BYTES, LONGEST_LINE = 4 << 20, 1 << 30
_CONVERT = "Convert it, as by: iconv -f ISO-8859-1 -t UTF-8 old.csv > new.csv"


def open_csv(path: Path, declared: PoolDeclaration, _first: int = 0) -> Pool:
    """A pool of a CSV file."""
    existing_file(path)
    asked = f"opening {path.name}"
    check_columns_declared(asked, declared)
    scaling = None
    if declared.columns is not None:
        shape = shape_of_columns(asked, declared.columns, declared.shape)
        scaling = Scaling(declared.center, declared.scale, shape)
    with reading(path, otherwise="it cannot be read as CSV"):
        check_header(path, declared_columns(declared))
        columns, x = _contents(path, asked, declared, scaling)
    assert declared.id is not None
    name = path.name if declared.schema is None else ""
    return Pool(
        ids=ids_of(columns[declared.id], f"column {declared.id!r}"),
        x=x,
        text=None if declared.text is None else ListedTexts(columns[declared.text], name=name),
        persons=None if declared.person is None else names_of(columns[declared.person], f"column {declared.person!r}"),
        declared=declared,
    )


def header_of(path: Path) -> list[str]:
    """The names in the first line; none of an empty file. What is not UTF-8 in later lines does not matter."""
    with _stream(path) as stream:
        lines = io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")
        header = next(csv.reader(lines), [])
    if not all(encodable(name) and "\0" not in name for name in header):
        raise BadInput(f"opening {path.name}", "its first line is not text in UTF-8", _CONVERT)
    return header


def _stream(path: Path) -> Any:
    """The file's bytes without a byte order mark, decompressed if its name ends so."""
    import pyarrow

    stream = pyarrow.input_stream(str(path), compression="detect")
    return stream if stream.read(3) == codecs.BOM_UTF8 else pyarrow.input_stream(str(path), compression="detect")


def check_header(path: Path, names: Iterable[str]) -> None:
    """The names stand in the header, once."""
    check_columns(f"opening {path.name}", header_of(path), names, sure=False)


def _contents(
    path: Path, asked: str, declared: PoolDeclaration, scaling: Scaling | None
) -> tuple[dict[str, list[Any]], ArrayRows | EncodedRows | None]:
    """The declared columns: names and texts as lists; numbers as one scaled matrix, or as cells of the schema."""
    named = [name for name in (declared.id, declared.text, declared.person) if name is not None]
    columns: dict[str, list[Any]] = {name: [] for name in named}
    shape = declared.shape or (len(declared.columns or ()),)
    schema, matrices, cells = declared.schema, list[NDArray[Any]](), list[tuple[Codes, States]]()
    for batch in batches_of(path, asked, declared_columns(declared)):
        for name in columns:
            columns[name] += schema.texts(batch) if schema and name == schema.text else batch[name].to_pylist()
        if schema is not None:
            cells.append(schema.parse(batch))
        elif scaling is not None:
            raw = np.stack([_numbers_of_cells(batch[name]) for name in declared.columns or ()], axis=1)
            matrices.append(scaling.applied(raw.reshape(len(raw), *shape)))
    for name in filter(None, (declared.id, declared.person)):
        if None in columns[name]:
            raise BadInput(asked, f"{columns[name].count(None)} names in column {name!r} are not UTF-8", _CONVERT)
    if schema is not None and schema.width:
        return columns, EncodedRows.of_parts(schema, cells)
    if scaling is None:
        return columns, None
    x = np.concatenate([np.zeros((0, *shape), dtype=np.float32), *matrices])
    return columns, ArrayRows(x, name=path.name, shape=declared.shape)


def batches_of(path: Path, asked: str, names: list[str]) -> Iterator[dict[str, Any]]:
    """Some columns of cells as text, block by block; null for a cell that is not UTF-8."""
    import pyarrow

    given, whole = 0, False
    with suppress(pyarrow.ArrowInvalid):
        for batch in _blocks(_stream(path), names, BLOCK_BYTES):
            given += batch.num_rows
            yield dict(zip(names, batch.columns, strict=True))
        whole = True
    if not whole:
        yield from _one_by_one(path, asked, names, given)


def _one_by_one(path: Path, asked: str, names: list[str], given: int) -> Iterator[dict[str, Any]]:
    """What follows the first ``given`` rows, with long lines, uneven ones, and cells that are not UTF-8: bytes are read
    as if they were Latin-1, which every byte is, and each cell is decoded by itself.
    """
    import pyarrow

    uneven = seen = 0

    def skip(_: Any) -> str:
        nonlocal uneven
        uneven += 1
        return "skip"

    stream = pyarrow.transcoding_input_stream(_stream(path), "latin-1", "utf-8")
    for batch in _blocks(stream, [name.encode().decode("latin-1") for name in names], LONGEST_LINE, skip):
        seen += batch.num_rows
        if seen > given:
            new = batch.slice(batch.num_rows - (seen - given))
            given = seen
            yield {name: _decoded(column) for name, column in zip(names, new.columns, strict=True)}
    if uneven:
        raise BadInput(
            asked, f"{uneven} lines have more or fewer cells than the header", "Put quotes around cells with commas"
        )


def _blocks(stream: Any, names: list[str], size: int, skip: Any = None) -> Iterator[Any]:
    import pyarrow
    from pyarrow import csv as arrow_csv

    try:
        yield from arrow_csv.open_csv(
            stream,
            read_options=arrow_csv.ReadOptions(block_size=size, use_threads=False),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=names, column_types={name: pyarrow.string() for name in names}
            ),
        )
    except pyarrow.ArrowInvalid as failed:
        if not str(failed).startswith("CSV parse error: Empty CSV file"):  # a header without the end of its line
            raise


def _decoded(cells: Any) -> Any:
    import pyarrow

    texts = [cell.encode("latin-1").decode(errors="surrogateescape") for cell in cells.to_pylist()]
    return pyarrow.array([text if encodable(text) else None for text in texts], pyarrow.string())


def _numbers_of_cells(column: Any) -> NDArray[np.float64]:
    """Cells as numbers, NaN for one that is none. Spaces around it do not count."""
    import pyarrow
    from pyarrow import compute

    try:
        numbers_of_cells = compute.cast(column, pyarrow.float64())
    except pyarrow.ArrowInvalid:
        trimmed = compute.utf8_trim_whitespace(column)
        numbers = compute.match_substring_regex(trimmed, NUMBER)
        numbers_of_cells = compute.cast(compute.if_else(numbers, trimmed, None), pyarrow.float64())
    return np.asarray(numbers_of_cells.to_numpy(zero_copy_only=False), dtype=np.float64)
