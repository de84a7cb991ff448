"""Tables as pools: Parquet and Arrow (IPC, Feather 2) files, and data sets that Hugging Face ``datasets`` stored.

Parquet and Arrow files are memory-mapped and decoded in blocks. A row group of a Parquet file can only be decoded from
its beginning. A large one is walked through in steps, so memory stays bounded; rows in any order are quick if row
groups are small (some thousand rows), or the pool fits the cache. An Arrow file is read batch by batch; a compressed
batch is in memory while it is used.

A folder of ``Dataset.save_to_disk`` holds Arrow streams, and a list of them; it is read without that library.
"""

from __future__ import annotations

<<<<<<< HEAD
import csv
from collections.abc import Iterator, Sequence
=======
import json
from collections.abc import Iterable, Iterator, Sequence
>>>>>>> integ
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from discreet.errors import BadInput
<<<<<<< HEAD
from discreet.pools.cells import NUMBER, can_be_read
from discreet.pools.checks import Unchanged, check_size, existing_file, ids_of, names_of, reading
from discreet.pools.declaration import PoolDeclaration
from discreet.pools.encoded import EncodedRows
from discreet.pools.pool import ArrayRows, Pool
from discreet.pools.rows import ListedTexts, Scaling
=======
from discreet.pools.checks import Unchanged, check_size, existing_file, existing_folder, ids_of, names_of, reading
from discreet.pools.declaration import PoolDeclaration
from discreet.pools.pool import Pool
>>>>>>> integ
from discreet.pools.tables import (
    TEXT_BYTES,
    Blocks,
    TableRows,
    TableTexts,
    rows_of_block,
    stored_type,
)


class Table(Protocol):
    """A table whose columns are read apart from each other. ``schema``: of Arrow."""

    schema: Any

    def column(self, name: str) -> Any:
        """A whole column."""

    def blocks(self, columns: list[str], rows: int) -> Blocks:
        """Some columns, in blocks of at most so many rows."""


def open_table(path: Path, declared: PoolDeclaration, _first: int = 0) -> Pool:
    """A pool of a Parquet or an Arrow file, or of a stored data set."""
    check_columns_declared(f"opening {path.name}", declared)
    table = table_of(path, declared.kind)
    with reading(path, otherwise=f"it cannot be read as {declared.kind}"):
        return pool_of_table(table, path.name, declared)


def table_of(path: Path, kind: str) -> Table:
    """The table of a file: "parquet" or "arrow"; or of a folder: "huggingface"."""
    if kind == "huggingface":
        return _stored_dataset(path)
    file = Unchanged(existing_file(path))
    with reading(path, otherwise=f"it cannot be read as {kind}"):
        return ParquetTable(file) if kind == "parquet" else ArrowTable(file)


def _stored_dataset(path: Path) -> Table:
    """What ``Dataset.save_to_disk`` of Hugging Face ``datasets`` wrote: Arrow streams, in the order of a list."""
    asked = f"opening {existing_folder(path).name}"
    with reading(path, otherwise="it is no folder of Dataset.save_to_disk"):
        if (path / "dataset_dict.json").is_file():
            splits = json.loads((path / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
            fact = f"it holds the splits {', '.join(map(str, splits))}"
            raise BadInput(asked, fact, "Name the folder of one of them")
        if not (path / "state.json").is_file():
            fact = "it is no folder of Dataset.save_to_disk: it has no state.json"
            raise BadInput(asked, fact, "Store the data set so, or declare another kind")
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        files = [Unchanged(path / Path(part["filename"]).name) for part in state["_data_files"]]
        check_size(asked, len(files), None)
        return LoadedTable(_streams(files), path.name, files)


def _streams(files: list[Unchanged]) -> Any:
    """Arrow streams one after another, memory-mapped."""
    import pyarrow
    from pyarrow import ipc

    return pyarrow.concat_tables(ipc.open_stream(pyarrow.memory_map(str(file.path))).read_all() for file in files)


def pool_of_table(table: Table, name: str, declared: PoolDeclaration) -> Pool:
    """The declared columns of a table as a pool; ``name``, for errors."""
    asked = f"opening {name}"
    check_columns(asked, table.schema, declared_columns(declared))
    assert declared.id is not None
    return Pool(
        ids=ids_of(_named(table, declared.id), f"column {declared.id!r}"),
        persons=None
        if declared.person is None
        else names_of(_named(table, declared.person), f"column {declared.person!r}"),
        x=_numbers(table, name, declared),
        text=_texts(table, name, declared),
        declared=declared,
    )


def check_columns_declared(asked: str, declared: PoolDeclaration) -> None:
    """Of a table, the id and what is in a record are declared."""
    if declared.id is None:
        raise BadInput(asked, "nothing says which column holds the ids", 'Declare id = "..."')
    if declared.columns is None and declared.text is None and declared.schema is None:
        raise BadInput(
            asked,
            "nothing says what of it a model may read",
            'Declare a schema, columns = ["...", "..."], or text = "..."',
        )


def declared_columns(declared: PoolDeclaration) -> list[str]:
    """All columns that are read, each once."""
    single = (declared.id, declared.text, declared.person)
    columns = (declared.columns or ()) if declared.schema is None else declared.schema.names
    return list(dict.fromkeys([*columns, *(name for name in single if name is not None)]))


<<<<<<< HEAD
def _numbers(file: ParquetTable | ArrowTable, path: Path, declared: PoolDeclaration) -> TableRows | EncodedRows | None:
    if declared.schema is not None:
        return EncodedRows.of_blocks(declared.schema, file) if declared.schema.width else None
=======
def _numbers(table: Table, name: str, declared: PoolDeclaration) -> TableRows | None:
>>>>>>> integ
    if declared.columns is None:
        return None
    stored = stored_type(table.schema, declared, f"opening {name}")
    numbers = int(np.prod(declared.shape or (len(declared.columns),)))
    blocks = table.blocks(list(declared.columns), rows_of_block(numbers * stored.itemsize))
    return TableRows(blocks, name=name, stored=stored, declared=declared)


def _texts(table: Table, name: str, declared: PoolDeclaration) -> TableTexts | None:
    if declared.text is None:
        return None
<<<<<<< HEAD
    if declared.schema is None and not _is_text(file.schema.field(declared.text).type):
        raise BadInput(f"opening {path.name}", f"column {declared.text!r} does not hold text", "Declare another column")
    blocks = file.blocks([declared.text], rows_of_block(TEXT_BYTES))
    return TableTexts(blocks, name=path.name, column=declared.text, schema=declared.schema)


def _check_columns(asked: str, schema: Any, declared: PoolDeclaration) -> None:
    check_header(asked, schema.names, declared)
    for column in () if declared.schema is None else declared.schema.columns:
        stored = schema.field(column.name).type
        if not can_be_read(column.type, stored):
            fact = f"column {column.name!r} is declared as {column.type}, and holds {stored}"
            raise BadInput(asked, fact, "Declare what it holds, or store it as text")


def check_header(asked: str, header: Sequence[str], declared: PoolDeclaration, *, sure: bool = True) -> None:
    """The declared names stand in the header, once; else an error lists the names that do.

    ``sure``: it is a header. The first line of a CSV file may be a record: it is listed if a declared name is there.
    """
    wanted = declared_columns(declared)
    wrong = [name for name in wanted if header.count(name) != 1]
    if not wrong:
        return
    counts = [f"{header.count(name) or 'no'} column {name!r}" for name in wrong[:_NAMED]]
    sure = sure or bool(set(header) & set(wanted))
    names = ", ".join(name for name in header[:_NAMED] if sure and len(name) <= _LONGEST and name.isprintable())
    remedy = f"Its columns: {names}. Set [pool] to them" if names else "Check the names, and that it has a header"
    raise BadInput(asked, f"it has {', '.join(counts)}", remedy)
=======
    if not _is_text(table.schema.field(declared.text).type):
        raise BadInput(f"opening {name}", f"column {declared.text!r} does not hold text", "Declare another column")
    return TableTexts(table.blocks([declared.text], rows_of_block(TEXT_BYTES)), name=name, column=declared.text)


def check_columns(asked: str, schema: Any, names: Iterable[str]) -> None:
    """Each of the names is that of one column."""
    for name in names:
        count = len(schema.get_all_field_indices(name))
        if count != 1:
            fact = f"it has no column {name!r}" if count == 0 else f"it has {count} columns {name!r}"
            raise BadInput(asked, fact, "Check the names that are declared")
>>>>>>> integ


def _named(table: Table, name: str) -> Any:
    from pyarrow import types

    kind = table.schema.field(name).type
    if not (_is_text(kind) or types.is_integer(kind)):
        raise BadInput(f"the names in column {name!r}", "they are neither text nor whole numbers", "Store them as text")
    return table.column(name)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    values = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(values) or types.is_large_string(values) or types.is_string_view(values))


class ParquetTable:
    """A Parquet file."""

    def __init__(self, file: Unchanged) -> None:
        from pyarrow import parquet

        self._unchanged, self._file = file, parquet.ParquetFile(file.path, memory_map=True)
        self.schema = self._file.schema_arrow

    def column(self, name: str) -> Any:
        """A whole column."""
        return self._file.read(columns=[name]).column(name)

    def blocks(self, columns: list[str], rows: int) -> Blocks:
        """Some columns, in pieces of row groups."""
        return _ParquetBlocks(self._file, self._unchanged, columns, rows)


class _ParquetBlocks:
    """Pieces of row groups; the one that follows the last is found without beginning again."""

    def __init__(self, file: Any, unchanged: Unchanged, columns: list[str], rows: int) -> None:
        self._file, self._unchanged, self._columns, self._rows = file, unchanged, columns, rows
        groups = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        self._where = [(group, piece) for group, size in enumerate(groups) for piece in range(-(-size // rows))]
        self.counts = [min(rows, groups[group] - piece * rows) for group, piece in self._where]
        self._walk: Iterator[Any] = iter(())
        self._at = (-1, 0)  # the group that is walked, and its next piece

    def read(self, block: int) -> Any:
        self._unchanged.check()
        group, piece = self._where[block]
        with reading(self._unchanged.path, otherwise="a part of it cannot be decoded"):
            if group != self._at[0] or piece < self._at[1]:
                self._at = (group, 0)
                self._walk = self._file.iter_batches(batch_size=self._rows, row_groups=[group], columns=self._columns)
            while self._at[1] <= piece:
                batch = next(self._walk)
                self._at = (group, self._at[1] + 1)
            if batch.num_rows != self.counts[block]:
                raise ValueError("a piece of another size")
        return batch


class ArrowTable:
    """An Arrow IPC file."""

    def __init__(self, file: Unchanged) -> None:
        self._unchanged = file
        self.schema = self._opened([]).schema
        self._sizes: list[int] | None = None

    def column(self, name: str) -> Any:
        """A whole column."""
        column = self._opened([name]).read_all().column(name)
        column.validate(full=True)
        self._sizes = [len(chunk) for chunk in column.chunks]
        return column

    def blocks(self, columns: list[str], rows: int) -> Blocks:
        """Some columns, in pieces of record batches."""
        if self._sizes is None:  # a column tells how long batches are; as a rule the ids were read before
            self.column(columns[0])
        assert self._sizes is not None
        return _ArrowBlocks(self._opened(columns), self._unchanged, self._sizes, rows)

    def _opened(self, columns: list[str]) -> Any:
        import pyarrow
        from pyarrow import ipc

        fields = [self.schema.get_field_index(name) for name in columns]
        options = ipc.IpcReadOptions(included_fields=fields)  # none: all of them
        return ipc.open_file(pyarrow.memory_map(str(self._unchanged.path)), options=options)


class _ArrowBlocks:
    """Pieces of record batches; the last batch is held, for it may have been decompressed."""

    def __init__(self, file: Any, unchanged: Unchanged, sizes: list[int], rows: int) -> None:
        self._file, self._unchanged, self._rows = file, unchanged, rows
        self._where = [(batch, start) for batch, size in enumerate(sizes) for start in range(0, size, rows)]
        self.counts = [min(rows, sizes[batch] - start) for batch, start in self._where]
        self._held: tuple[int, Any] = (-1, None)

    def read(self, block: int) -> Any:
        self._unchanged.check()
        batch, start = self._where[block]
        with reading(self._unchanged.path, otherwise="a part of it cannot be decoded"):
            if self._held[0] != batch:
                self._held = (batch, _sound(self._file.get_batch(batch)))
        return self._held[1].slice(start, self.counts[block])


class LoadedTable:
    """A table of Arrow, in memory or memory-mapped from ``files``."""

    def __init__(self, table: Any, name: str, files: Sequence[Unchanged] = ()) -> None:
        self._table, self._name, self._files = table, name, files
        self.schema = table.schema

    def column(self, name: str) -> Any:
        """A whole column."""
        column = self._table.column(name)
        column.validate(full=True)
        return column

    def blocks(self, columns: list[str], rows: int) -> Blocks:
        """Some columns, in pieces of chunks."""
        return _LoadedBlocks(self._table.select(columns).to_batches(max_chunksize=rows), self._name, self._files)


class _LoadedBlocks:
    """Pieces of chunks, without copies."""

    def __init__(self, batches: list[Any], name: str, files: Sequence[Unchanged]) -> None:
        self._batches, self._name, self._files = batches, name, files
        self.counts = [batch.num_rows for batch in batches]

    def read(self, block: int) -> Any:
        for file in self._files:
            file.check()
        with reading(Path(self._name), otherwise="a part of it cannot be decoded"):
            return _sound(self._batches[block])


def _sound(batch: Any) -> Any:
    """The batch, if no offset points outside of it: what is mapped is not checked by Arrow, and a wrong one ends the
    process. Texts are checked as bytes, for one that is not UTF-8 breaks its own record alone.
    """
    import pyarrow

    plain = {pyarrow.string(): pyarrow.binary(), pyarrow.large_string(): pyarrow.large_binary()}
    for column in batch.columns:
        (column.view(plain[column.type]) if column.type in plain else column).validate(full=True)
    return batch
<<<<<<< HEAD


# CSV files: UTF-8, commas, a header, quotes around what needs them (also line breaks).
#
# A line of a CSV file cannot be found without reading those before it. So the file is read once, in blocks, and of it
# the declared columns are kept: four bytes a number, and the texts. Store a pool that is too large for that as Parquet.
#
# Ids stay as they are written ("007" is not "7"). A cell that is no number breaks its record. A line with more or fewer
# cells than the header has no sure id, so the file is refused: it says how many there are.

BLOCK_BYTES = 4 << 20
_NAMED, _LONGEST = 50, 64
"""Of columns in an error: so many, with names of so many characters."""


def open_csv(path: Path, declared: PoolDeclaration, _first: int = 0) -> Pool:
    """A pool of a CSV file."""
    existing_file(path)
    asked = f"opening {path.name}"
    check_columns_declared(asked, declared)
    schema, scaling = declared.schema, None
    if declared.columns is not None:
        shape = shape_of_columns(asked, declared.columns, declared.shape)
        scaling = Scaling(declared.center, declared.scale, shape)
    with reading(path, otherwise="it is not a CSV file in UTF-8"):
        _check_header(path, asked, declared)
        columns, parts = _contents(path, asked, declared, scaling)
    assert declared.id is not None
    check_size(asked, len(columns[declared.id]), declared.size)
    x: EncodedRows | ArrayRows | None = None
    if schema is not None and schema.width:
        codes, states = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        x = EncodedRows.of_memory(schema, codes, states)
    elif scaling is not None:
        x = ArrayRows(np.concatenate(parts), name=path.name, shape=declared.shape)
    name = path.name if schema is None else ""
    return Pool(
        ids=ids_of(columns[declared.id], f"column {declared.id!r}"),
        x=x,
        text=None if declared.text is None else ListedTexts(columns[declared.text], name=name),
        persons=None if declared.person is None else names_of(columns[declared.person], f"column {declared.person!r}"),
        declared=declared,
    )


def _check_header(path: Path, asked: str, declared: PoolDeclaration) -> None:
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file), [])
    check_header(asked, header, declared, sure=False)


def _contents(
    path: Path, asked: str, declared: PoolDeclaration, scaling: Scaling | None
) -> tuple[dict[str, list[Any]], list[Any]]:
    """The declared columns: names and texts as lists; numbers as scaled matrices, or as cells of the schema."""
    named = [name for name in (declared.id, declared.text, declared.person) if name is not None]
    columns: dict[str, list[Any]] = {name: [] for name in named}
    shape = declared.shape or (len(declared.columns or ()),)
    matrices: list[Any] = []
    schema = declared.schema
    for batch in _batches(path, asked, declared):
        for name in columns:
            is_text = schema is not None and name == schema.text
            columns[name] += schema.texts(batch) if schema and is_text else batch.column(name).to_pylist()
        if schema is not None:
            matrices.append(schema.parse(batch))
        elif scaling is not None:
            raw = np.stack([_numbers_of_cells(batch.column(name)) for name in declared.columns or ()], axis=1)
            matrices.append(scaling.applied(raw.reshape(len(raw), *shape)))
    return columns, matrices


def _batches(path: Path, asked: str, declared: PoolDeclaration) -> Any:
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
=======
>>>>>>> integ
