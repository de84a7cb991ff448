"""CSV files as pools: UTF-8, commas, a header, quotes around what needs them (also line breaks); ``.gz``, ``.zst``.

A line of a CSV file cannot be found without reading those before it. So the file is read once, in blocks, and of it
the declared columns are kept: four bytes a number, and the texts. Store a pool that is too large for that as Parquet.

Ids stay as they are written ("007" is not "7"). A cell that is no number, or not UTF-8, breaks its record. Of a line
with more or fewer cells than the header only the names in the first columns are sure: where ids and persons stand
there, all its other cells are missing; else the file is refused.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.cells import NUMBER, Codes, States
from discreet.pools.checks import encodable, existing_file, ids_of, names_of, reading
from discreet.pools.pool import ArrayRows, Pool, PoolDeclaration
from discreet.pools.rows import ListedTexts, Scaling
from discreet.pools.table_files import check_columns, check_columns_declared, declared_columns
from discreet.pools.tables import EncodedRows, shape_of_columns

BLOCK_BYTES, LONGEST_LINE = 4 << 20, 1 << 30
_NAMES_END = 100_000
"""Characters of a line in which the names stand."""
_CONVERT = "Convert it, as by: iconv -f {} -t UTF-8 old.csv > new.csv"


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
    return Pool(
        ids=ids_of(columns[declared.id], f"column {declared.id!r}"),
        x=x,
        text=None if declared.text is None else ListedTexts(columns[declared.text], name=""),
        persons=None if declared.person is None else names_of(columns[declared.person], f"column {declared.person!r}"),
        declared=declared,
    )


def header_of(path: Path) -> list[str]:
    """The names in the first line. What is not UTF-8 in later lines does not matter."""
    with _stream(path) as stream:
        lines = io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")
        header = next(csv.reader(lines), [])
    if not header:
        remedy = "Check the path; the first line names the columns"
        raise BadInput(f"opening {path.name}", "its first line is empty", remedy)
    if not all(encodable(name) and "\0" not in name for name in header):
        with _stream(path) as stream:
            wide = stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        remedy = _CONVERT.format("UTF-16" if wide else "ISO-8859-1")
        raise BadInput(f"opening {path.name}", "its first line is not text in UTF-8", remedy)
    return header


def _stream(path: Path) -> Any:
    """The file's bytes without a byte order mark, decompressed if its name ends so."""
    import pyarrow

    stream = pyarrow.input_stream(str(path), compression="detect")
    return stream if stream.read(3) == codecs.BOM_UTF8 else pyarrow.input_stream(str(path), compression="detect")


_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def check_header(path: Path, names: Collection[str]) -> None:
    """The names stand in the header, once."""
    asked, header = f"opening {path.name}", header_of(path)
    if not set(header) & set(names):
        check_separator(asked, header)
    check_columns(asked, header, names, sure=False)


def check_separator(asked: str, header: list[str]) -> None:
    """Refuse a header of one cell with other separators than commas in it."""
    others = [name for sign, name in _SEPARATORS.items() if len(header) == 1 and sign in header[0]]
    if others:
        fact = f"its first line has no comma, but {others[0]}"
        raise BadInput(asked, fact, "Write it with commas between cells")


def _contents(
    path: Path, asked: str, declared: PoolDeclaration, scaling: Scaling | None
) -> tuple[dict[str, list[Any]], ArrayRows | EncodedRows | None]:
    """The declared columns: names and texts as lists; numbers as one scaled matrix, or as cells of the schema."""
    named = [name for name in (declared.id, declared.text, declared.person) if name is not None]
    columns: dict[str, list[Any]] = {name: [] for name in named}
    shape = declared.shape or (len(declared.columns or ()),)
    schema, matrices, cells = declared.schema, list[NDArray[Any]](), list[tuple[Codes, States]]()
    naming = [name for name in (declared.id, declared.person) if name is not None]
    for batch in batches_of(path, asked, declared_columns(declared), naming):
        for name in columns:
            columns[name] += schema.texts(batch) if schema and name == schema.text else batch[name].to_pylist()
        if schema is not None:
            cells.append(schema.parse(batch))
        elif scaling is not None:
            raw = np.stack([_numbers_of_cells(batch[name]) for name in declared.columns or ()], axis=1)
            matrices.append(scaling.applied(raw.reshape(len(raw), *shape)))
    for name in filter(None, (declared.id, declared.person)):
        if None in columns[name]:
            raise BadInput(
                asked,
                f"{columns[name].count(None)} names in column {name!r} are not UTF-8",
                _CONVERT.format("ISO-8859-1"),
            )
    if schema is not None and schema.width:
        return columns, EncodedRows.of_parts(schema, cells)
    if scaling is None:
        return columns, None
    x = np.concatenate([np.zeros((0, *shape), dtype=np.float32), *matrices])
    return columns, ArrayRows(x, name="", shape=declared.shape)


def batches_of(path: Path, asked: str, names: list[str], naming: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Some columns of cells as text, block by block; null for a cell that is not UTF-8.

    ``naming``: those of ids and persons, which every line must have.
    """
    import pyarrow

    given, whole = 0, False
    with suppress(pyarrow.ArrowInvalid):
        for batch in _blocks(_stream(path), names, BLOCK_BYTES):
            given += batch.num_rows
            yield dict(zip(names, batch.columns, strict=True))
        whole = True
    if not whole:
        yield from _one_by_one(path, asked, names, given, naming)


def _one_by_one(
    path: Path, asked: str, names: list[str], given: int, naming: Collection[str]
) -> Iterator[dict[str, Any]]:
    """What follows the first ``given`` rows, with long lines, uneven ones, and cells that are not UTF-8: bytes are read
    as if they were Latin-1, which every byte is, and each cell is decoded by itself.
    """
    import pyarrow

    uneven, seen = dict[int, str](), 0

    def skip(row: Any) -> str:
        uneven[row.number - 2] = row.text  # the header is row 1
        return "skip"

    def whose_turn_it_is(*, last: bool = False) -> Iterator[dict[str, Any]]:
        """Uneven rows before the next even one, or the last."""
        nonlocal seen
        while uneven and (last or min(uneven) == seen):
            row = _uneven_row(uneven.pop(min(uneven)), asked, header, naming)
            seen += 1
            yield {name: pyarrow.array([row.get(name)], pyarrow.string()) for name in names}

    header = header_of(path)
    stream = pyarrow.transcoding_input_stream(_stream(path), "latin-1", "utf-8")
    for batch in _blocks(stream, [name.encode().decode("latin-1") for name in names], LONGEST_LINE, skip):
        rest = batch
        while rest.num_rows:
            yield from whose_turn_it_is()
            whole = min([rest.num_rows, *(place - seen for place in uneven)])
            some, rest = rest.slice(0, whole), rest.slice(whole)
            seen += whole
            new = some.slice(max(0, whole - max(0, seen - given)))
            if new.num_rows:
                yield {name: _decoded(column) for name, column in zip(names, new.columns, strict=True)}
    yield from whose_turn_it_is(last=True)


def _uneven_row(line: str, asked: str, header: list[str], naming: Collection[str]) -> dict[str, str | None]:
    """The names in a line that has more or fewer cells than the header. Its other cells are not sure."""
    cells = next(csv.reader(io.StringIO(line[:_NAMES_END], newline="")), [])
    sure = dict(zip(header[: len(naming)], cells, strict=False))
    if line.count('"') % 2:
        raise BadInput(asked, "a quote in it stays open", "Close it; a quote within a cell is written twice")
    if set(sure) < set(naming) or not set(naming) <= set(header[: len(naming)]):
        fact = "a line has more or fewer cells than the header, so that its id is not sure"
        raise BadInput(asked, fact, "Put quotes around cells with commas, or ids and persons into the first columns")
    return {name: _utf8(cell) for name, cell in sure.items() if name in naming}


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

    return pyarrow.array([_utf8(cell) for cell in cells.to_pylist()], pyarrow.string())


def _utf8(cell: str) -> str | None:
    """A cell that was read as Latin-1; None if it is not UTF-8."""
    text = cell.encode("latin-1").decode(errors="surrogateescape")
    return text if encodable(text) else None


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
