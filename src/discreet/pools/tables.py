"""Numbers and texts of tables that are read block by block: blocks are of bounded size, and few are kept.

A record is a row: one number a declared column, in the declared order, or the list in one column, whose length is that
of the declared shape. A gap, or a list of another length, breaks the record it is in. Records with a schema keep codes
and states of their cells; inputs are made of them when they are asked for (`EncodedRows`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from math import prod
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.cells import Codes, States, decoded_text
from discreet.pools.pool import PoolDeclaration
from discreet.pools.rows import Mask, Places, RecordArray, Scaling, Span, StoredRows, StoredTexts, places_of, shared_out
from discreet.pools.schema import CellCounts, Schema

CACHE_BYTES = 128 << 20
"""Of decoded blocks, for numbers and for texts of a pool each: 100,000 pictures of 28 x 28 bytes fit."""
BLOCK_BYTES = 1 << 20
"""Of a block, as it is stored here; Arrow takes up to twenty times that while it decodes lists of bytes."""
_FEWEST, _MOST = 64, 65536
TEXT_BYTES = 512  # a guess: how long texts are is nobody's business before they are read


Content = TypeVar("Content")


class Blocks(Protocol):
    """Some columns of a table, in blocks."""

    counts: list[int]

    def read(self, block: int) -> Any:
        """A block as an Arrow record batch."""


def rows_of_block(record_bytes: int) -> int:
    """StoredRows of a block of records that have so many bytes."""
    return min(max(BLOCK_BYTES // max(record_bytes, 1), _FEWEST), _MOST)


class Kept(Generic[Content]):
    """Decoded blocks, the latest ones kept. One reader at a time: a block is found by walking on from the last one.

    ``decode`` makes of a batch what is kept, and says how many bytes that has.
    """

    def __init__(self, blocks: Blocks, decode: Callable[[Any], tuple[Content, int]]) -> None:
        self._blocks, self._decode, self._lock = blocks, decode, Lock()
        self._starts = np.concatenate([[0], np.cumsum(blocks.counts, dtype=np.int64)])
        self._kept: OrderedDict[int, tuple[Content, int]] = OrderedDict()
        self._held = 0

    def parts(self, span: Span) -> Iterator[tuple[Places, Places, Content]]:
        """For every block that is asked: which of the places are in it, where, and its decoded content."""
        for block, chosen, local in shared_out(places_of(span), self._starts):
            yield chosen, local, self._content(block)

    def _content(self, block: int) -> Content:
        with self._lock:
            if block in self._kept:
                self._kept.move_to_end(block)
                return self._kept[block][0]
            content, size = self._decode(self._blocks.read(block))
            self._kept[block] = content, size
            self._held += size
            while self._held > CACHE_BYTES and len(self._kept) > 1:
                self._held -= self._kept.popitem(last=False)[1][1]
            return content


class TableRows(StoredRows):
    """Numbers of declared columns."""

    def __init__(self, blocks: Blocks, *, stored: np.dtype[Any], declared: PoolDeclaration) -> None:
        assert declared.columns is not None
        shape = declared.shape or (len(declared.columns),)
        scaling = Scaling(declared.center, declared.scale, shape)
        super().__init__(name="", count=sum(blocks.counts), shape=shape, stored=stored, scaling=scaling)
        self._blocks, self._columns, self._stored = Kept(blocks, self._decode), declared.columns, stored

    def stored(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """StoredRows of the blocks that are asked, and which of them have all their numbers."""
        count, width = len(places_of(span)), prod(self.shape[1:])
        records, fine = np.zeros((count, width), dtype=self._stored), np.zeros(count, dtype=bool)
        for chosen, local, (matrix, readable) in self._blocks.parts(span):
            records[chosen], fine[chosen] = matrix[local], readable[local]
        return records.reshape(count, *self.shape[1:]), fine

    def _decode(self, batch: Any) -> tuple[tuple[NDArray[Any], Mask], int]:
        width = prod(self.shape[1:])
        matrix, fine = np.zeros((batch.num_rows, width), dtype=self._stored), np.ones(batch.num_rows, dtype=bool)
        if _is_list(batch.column(self._columns[0]).type):
            fine &= _fill_from_lists(matrix, batch.column(self._columns[0]))
        else:
            for index, name in enumerate(self._columns):
                fine &= _fill(matrix[:, index], batch.column(name))
        return (matrix, fine), matrix.nbytes


class TableTexts(StoredTexts):
    """Texts of a declared column, or of the text column of a schema."""

    def __init__(self, blocks: Blocks, *, column: str, schema: Schema | None = None) -> None:
        super().__init__(name="", count=sum(blocks.counts))
        self._blocks, self._column, self._schema = Kept(blocks, self._decode), column, schema

    def stored(self, span: Span) -> list[str | None]:
        """Texts of the blocks that are asked."""
        stored: list[str | None] = [None] * len(places_of(span))
        for chosen, local, texts in self._blocks.parts(span):
            for row, source in zip(chosen.tolist(), local.tolist(), strict=True):
                stored[row] = texts[source]
        return stored

    def _decode(self, batch: Any) -> tuple[list[str | None], int]:
        column = batch.column(self._column)
        try:
            texts = column.to_pylist() if self._schema is None else self._schema.texts(batch)
        except UnicodeDecodeError:
            texts = [decoded_text(value) for value in column]
        return texts, sum(len(text) for text in texts if text is not None) + 64 * len(texts)


def shape_of_columns(asked: str, columns: tuple[str, ...], shape: tuple[int, ...] | None) -> tuple[int, ...]:
    """The declared shape of a record that is one number a column; refuses one of another size."""
    if shape is not None and prod(shape) != len(columns):
        raise BadInput(
            asked,
            f"shape = {list(shape)} is declared, and {len(columns)} columns",
            "Declare a shape of as many numbers",
        )
    return shape or (len(columns),)


def stored_type(schema: Any, declared: PoolDeclaration, asked: str) -> np.dtype[Any]:
    """The one type that holds the numbers of all declared columns; refuses what holds no numbers."""
    assert declared.columns is not None
    kinds = [schema.field(name).type for name in declared.columns]
    if any(_is_list(kind) for kind in kinds):
        if len(kinds) > 1:
            raise BadInput(asked, "several columns are declared, and one holds lists", "Declare one column of lists")
        if declared.shape is None:
            raise BadInput(asked, f"column {declared.columns[0]!r} holds lists", "Declare the shape of one record")
    else:
        shape_of_columns(asked, declared.columns, declared.shape)
    numbers = [_number_type(kind, name, asked) for kind, name in zip(kinds, declared.columns, strict=True)]
    if set(numbers) <= {np.dtype(np.uint8)}:
        return np.dtype(np.uint8)
    return np.result_type(*numbers, np.float32)


def _number_type(kind: Any, name: str, asked: str) -> np.dtype[Any]:
    from pyarrow import types

    value = getattr(kind, "storage_type", kind).value_type if _is_list(kind) else kind
    if types.is_boolean(value):
        return np.dtype(np.uint8)
    if not (types.is_integer(value) or types.is_floating(value)):
        raise BadInput(asked, f"column {name!r} does not hold numbers", "Declare it as text, or store numbers")
    stored: np.dtype[Any] = np.dtype(value.to_pandas_dtype())
    return stored


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    kind = getattr(kind, "storage_type", kind)
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _fill(target: NDArray[Any], column: Any) -> Mask:
    """Write a column's numbers; which of them are there."""
    if column.null_count:
        present: Mask = column.is_valid().to_numpy(zero_copy_only=False)
        column = column.fill_null(False if str(column.type) == "bool" else 0)
    else:
        present = np.ones(len(column), dtype=bool)
    with np.errstate(all="ignore"):
        target[:] = column.to_numpy(zero_copy_only=False)
    if target.dtype.kind == "f":
        target[~present] = np.nan  # so that it is known which cell is missing
    return present


def _fill_from_lists(matrix: NDArray[Any], column: Any) -> Mask:
    """Write the lists that have as many numbers as a record; which of them have."""
    import pyarrow
    from pyarrow import compute

    column = getattr(column, "storage", column)
    width = matrix.shape[1]
    lengths = compute.fill_null(compute.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    fine: Mask = lengths == width
    numbers = (column if fine.all() else column.filter(pyarrow.array(fine))).flatten()
    filled = np.zeros(int(fine.sum()) * width, dtype=matrix.dtype)
    present = _fill(filled, numbers).reshape(-1, width).all(axis=1)
    matrix[fine] = filled.reshape(-1, width)
    fine[np.flatnonzero(fine)] = present
    return fine


CELL_BYTES = 9
_ROWS = 65536
Cells = Callable[[Span], tuple[Codes, States]]


class EncodedRows(RecordArray):
    """The inputs of records. ``cells``: codes and states of a span. It is no error if no record can be read."""

    def __init__(self, schema: Schema, cells: Cells, count: int) -> None:
        super().__init__(shape=(count, schema.width), dtype=np.float32)
        self.schema, self._cells = schema, cells

    @classmethod
    def of_parts(cls, schema: Schema, parts: Sequence[tuple[Codes, States]]) -> EncodedRows:
        """Of parsed cells that are in memory."""
        columns = len(schema.columns)
        codes = np.concatenate([np.zeros((0, columns)), *(part[0] for part in parts)])
        states = np.concatenate([np.zeros((0, columns), dtype=np.uint8), *(part[1] for part in parts)])
        return cls(schema, lambda span: (codes[span], states[span]), len(codes))

    @classmethod
    def of_blocks(cls, schema: Schema, file: Any) -> EncodedRows:
        """Of a file that is read block by block."""
        columns = len(schema.columns)
        blocks: Blocks = file.blocks(list(schema.names), rows_of_block(CELL_BYTES * columns))
        kept = Kept(blocks, lambda batch: (schema.parse(batch), CELL_BYTES * columns * batch.num_rows))

        def cells(span: Span) -> tuple[Codes, States]:
            count = len(places_of(span))
            codes, states = np.empty((count, columns)), np.empty((count, columns), dtype=np.uint8)
            for chosen, local, (block_codes, block_states) in kept.parts(span):
                codes[chosen], states[chosen] = block_codes[local], block_states[local]
            return codes, states

        return cls(schema, cells, sum(blocks.counts))

    def readable(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """The inputs of a span, nulls as zeros, and which records are none. Audience: owner."""
        return self.schema.expand(*self._cells(span))

    def counts(self) -> CellCounts:
        """What became of all cells. Audience: owner."""
        starts = range(0, len(self), _ROWS)
        first, *others = (self.schema.counts(self._cells(slice(at, min(at + _ROWS, len(self))))[1]) for at in starts)
        return sum(others, start=first)
