"""Tables as pools: Parquet and Arrow (IPC, Feather 2) files, and data sets that Hugging Face ``datasets`` stored.

Parquet and Arrow files are memory-mapped and decoded in blocks. A row group of a Parquet file can only be decoded from
its beginning. A large one is walked through in steps, so memory stays bounded; rows in any order are quick if row
groups are small (some thousand rows), or the pool fits the cache. An Arrow file is read batch by batch; a compressed
batch is in memory while it is used.

A folder of ``Dataset.save_to_disk`` holds Arrow streams, and a list of them; it is read without that library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from discreet.errors import BadInput
from discreet.pools.cells import can_be_read
from discreet.pools.checks import Unchanged, check_size, existing_file, existing_folder, ids_of, names_of, reading
from discreet.pools.pool import Pool, PoolDeclaration
from discreet.pools.schema import Schema
from discreet.pools.tables import (
    TEXT_BYTES,
    Blocks,
    EncodedRows,
    TableRows,
    TableTexts,
    rows_of_block,
    stored_type,
)

_NAMED, _LONGEST = 50, 64
"""Of columns in an error: so many, with names of so many characters."""


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


STORED_DATASET = ("state.json", "dataset_dict.json")
"""One of these files is in a folder that ``Dataset.save_to_disk`` or ``DatasetDict.save_to_disk`` wrote."""


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
    check_columns(f"opening {name}", table.schema.names, declared_columns(declared))
    assert declared.id is not None
    ids, persons = ids_of(_named(table, declared.id), f"column {declared.id!r}"), None
    if declared.person is not None:
        persons = names_of(_named(table, declared.person), f"column {declared.person!r}")
    x, text = contents_of(table, name, declared)
    return Pool(ids=ids, x=x, text=text, persons=persons, declared=declared)


def contents_of(
    table: Table, name: str, declared: PoolDeclaration
) -> tuple[TableRows | EncodedRows | None, TableTexts | None]:
    """What a model reads: the numbers of the declared columns, and the texts."""
    if declared.schema is not None:
        check_types(f"opening {name}", table.schema, declared.schema)
    return _numbers(table, name, declared), _texts(table, name, declared)


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


def _numbers(table: Table, name: str, declared: PoolDeclaration) -> TableRows | EncodedRows | None:
    if declared.schema is not None:
        return EncodedRows.of_blocks(declared.schema, table) if declared.schema.width else None
    if declared.columns is None:
        return None
    stored = stored_type(table.schema, declared, f"opening {name}")
    numbers = int(np.prod(declared.shape or (len(declared.columns),)))
    blocks = table.blocks(list(declared.columns), rows_of_block(numbers * stored.itemsize))
    return TableRows(blocks, stored=stored, declared=declared)


def _texts(table: Table, name: str, declared: PoolDeclaration) -> TableTexts | None:
    if declared.text is None:
        return None
    if declared.schema is None and not _is_text(table.schema.field(declared.text).type):
        raise BadInput(f"opening {name}", f"column {declared.text!r} does not hold text", "Declare another column")
    blocks = table.blocks([declared.text], rows_of_block(TEXT_BYTES))
    return TableTexts(blocks, column=declared.text, schema=declared.schema)


def check_columns(asked: str, header: Sequence[str], names: Iterable[str], *, sure: bool = True) -> None:
    """Each of the names is that of one column; else an error lists the names in ``header``.

    ``sure``: it is a header. The first line of a CSV file may be a record: it is listed if one of the names is there.
    """
    wanted = list(names)
    wrong = [name for name in wanted if header.count(name) != 1]
    if not wrong:
        return
    counts = [f"{header.count(name) or 'no'} column {name!r}" for name in wrong[:_NAMED]]
    sure = sure or bool(set(header) & set(wanted))
    known = ", ".join(name for name in header[:_NAMED] if sure and len(name) <= _LONGEST and name.isprintable())
    remedy = f"Its columns: {known}. Declare names of these" if known else "Check the names, and that it has a header"
    raise BadInput(asked, f"it has {', '.join(counts)}", remedy)


def check_types(asked: str, stored: Any, schema: Schema) -> None:
    """Columns of a schema hold what can be read so. It is a fact of the file's header, not of its cells."""
    for column in schema.columns:
        kind = stored.field(column.name).type
        if not can_be_read(column.type, kind):
            fact = f"column {column.name!r} is declared as {column.type}, and holds {kind}"
            raise BadInput(asked, fact, "Declare what it holds, or store it as text")


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
