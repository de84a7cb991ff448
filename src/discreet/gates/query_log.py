"""A log of texts, perhaps with the person of each: files or tables, read in batches of bounded size.

Guarantee: what cannot be read is counted, and never shown. A batch holds a row for every row of the file that could be
taken apart; its text or unit may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.gates.values import offsets_of, raw_bytes

MOST_ROWS = 1 << 18
"""In a batch: some ten megabytes of texts."""

Progress = Callable[[str, int, int], None]
"""What is being done, how much is done, and of how much: parts of a whole, for its size is the owner's."""
HUNDRED = 100


def unwatched(what: str, done: int, of: int) -> None:
    """For nobody."""


@dataclass(frozen=True, kw_only=True)
class OwnersFigures:
    """Counts of a log as it was read. Audience: owner. They are exact and unpaid for: never publish them."""

    rows: int
    """All that were read, the broken among them."""
    broken: int = 0
    """Lines that could not be taken apart, or held no UTF-8."""
    without_text: int = 0
    """Rows whose text is missing, empty, or not to be counted."""
    without_unit: int = 0
    """Rows with a text that name no person (or row)."""
    units: int | None = None
    """Distinct persons or row ids, where the engine counted them."""
    kept: int | None = None
    """Coins that fell: rows, or (unit, value) pairs."""
    values_about: int | None = None
    """Distinct values, estimated to a percent or so, where the engine keeps a sketch of them."""
    units_about: int | None = None
    """Distinct persons or row ids, in the same way."""

    def to_json(self) -> dict[str, int | None]:
        """Plain numbers, for the owner."""
        return dict(self.__dict__)

    def with_rows(self, rows: LogRows, *, empty: int, unnamed: int = 0) -> OwnersFigures:
        """These, and more rows: so many of them have an ``empty`` text or none, or a text and no unit."""
        return replace(
            self,
            rows=self.rows + len(rows) + rows.left_out,
            broken=self.broken + rows.broken + rows.left_out,
            without_text=self.without_text + empty - rows.broken,
            without_unit=self.without_unit + unnamed,
        )


@dataclass(frozen=True)
class LogRows:
    """Consecutive rows of one part of a log. Private.

    ``texts`` and ``units`` are Arrow arrays of strings, plain or coded by a dictionary; texts are UTF-8, or missing.
    ``first`` is the number of the first row among those of its part that could be taken apart; ``left_out`` is how many
    could not be since the last batch, and ``broken`` how many of these rows are without a text as it was no UTF-8.
    """

    first: int
    texts: Any = field(repr=False)
    units: Any | None = field(repr=False)
    broken: int = 0
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Piece:
    """A piece of a part that can be read by itself: ``weight`` of its part's size."""

    part: int
    weight: int
    read: Callable[[], Iterator[LogRows]] = field(repr=False)


class LogPart(Protocol):
    """One file of a log, or one table."""

    def pieces(self, number: int, text: str, unit: str | None) -> Iterator[Piece]:
        """Its rows, as pieces of part ``number`` that may be read in any order."""

    def check_readable(self, text: str, unit: str | None) -> None:
        """Refuse what cannot be read to its end: a file that is cut off or damaged."""

    def check_unchanged(self) -> None:
        """Refuse to go on with a file that was written to since it was opened."""


@dataclass(frozen=True, kw_only=True)
class QueryLog:
    """A log: its parts in the order by which rows are numbered, and the names of its columns."""

    parts: Sequence[LogPart] = field(repr=False)
    text: str
    person: str | None = None
    row_id: str | None = None

    def __post_init__(self) -> None:
        if "" in (self.text, self.person, self.row_id):
            raise BadInput("the columns of a log", "one is named by an empty word", "Name it, or leave it out")
        if self.person is not None and self.row_id is not None:
            raise BadInput(
                "a log with persons and row ids", "the person is the unit, and its rows need no name", "Give one"
            )
        if len({name for name in (self.text, self.person, self.row_id) if name is not None}) < 1 + (
            self.unit is not None
        ):
            raise BadInput(f"the columns of a log: {self.text}", "one column is text and unit at once", "Name two")

    @property
    def unit(self) -> str | None:
        """The column whose values are units: persons, or ids of rows. Without one a unit is (part, row number)."""
        return self.row_id if self.person is None else self.person

    def pieces(self) -> Iterator[Piece]:
        """All pieces of all parts."""
        for number, part in enumerate(self.parts):
            yield from part.pieces(number, self.text, self.unit)

    def check_readable(self) -> None:
        """Read everything once, before anything is charged: a damaged file would be refused after it."""
        for part in self.parts:
            part.check_readable(self.text, self.unit)

    def check_unchanged(self) -> None:
        """A closed batch: what was read twice must have been the same."""
        for part in self.parts:
            part.check_unchanged()

    def __repr__(self) -> str:
        """Names of columns only."""
        return f"<QueryLog of {len(self.parts)} parts, text {self.text!r}>"


@dataclass(frozen=True)
class TablePart:
    """An Arrow table in memory."""

    table: Any = field(repr=False)

    def pieces(self, number: int, text: str, unit: str | None) -> Iterator[Piece]:
        """One."""
        yield Piece(number, max(1, int(self.table.nbytes)), lambda: self._batches(text, unit))

    def _batches(self, text: str, unit: str | None) -> Iterator[LogRows]:
        first = 0
        names = [text] if unit is None else [text, unit]
        for batch in self.table.select(names).to_batches(max_chunksize=MOST_ROWS):
            yield valid_rows(first, batch.column(0), None if unit is None else batch.column(1))
            first += len(batch)

    def check_readable(self, text: str, unit: str | None) -> None:
        """Tables are in memory."""

    def check_unchanged(self) -> None:
        """Tables do not change."""


def table_log(table: Any, *, text: str, person: str | None = None, row_id: str | None = None) -> QueryLog:
    """A log of an Arrow table, or of a record batch."""
    import pyarrow

    if isinstance(table, pyarrow.RecordBatch):
        table = pyarrow.Table.from_batches([table])
    if not isinstance(table, pyarrow.Table):
        raise BadInput("a log of a table", "it is not an Arrow table", "Use pyarrow.table(...)")
    for name in (text, person, row_id):
        if name is not None:
            check_column(table.schema, name, "the table")
    return QueryLog(parts=[TablePart(table)], text=text, person=person, row_id=row_id)


def text_log(texts: Iterable[str | None], persons: Iterable[str | None] | None = None) -> QueryLog:
    """A log of a list of texts, and of the persons beside them."""
    import pyarrow

    columns = {"text": pyarrow.array(list(texts), pyarrow.string())}
    if persons is not None:
        columns["person"] = pyarrow.array(list(persons), pyarrow.string())
    if len({len(column) for column in columns.values()}) != 1:
        raise BadInput("a log of two lists", "they are not equally long", "Give a person, or None, for every text")
    return table_log(pyarrow.table(columns), text="text", person=None if persons is None else "person")


def check_column(schema: Any, name: str, where: str, *, binary: bool = False) -> None:
    """Refuse a column that is not there once, or whose values are no texts or whole numbers."""
    import pyarrow

    kinds = [schema.field(column).type for column in schema.get_all_field_indices(name)]
    if len(kinds) != 1:
        raise BadInput(f"column {name} of {where}", "there is not exactly one of that name", "Check the column's name")
    kind = kinds[0].value_type if pyarrow.types.is_dictionary(kinds[0]) else kinds[0]
    raw = binary and (pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind))
    if not (raw or is_text(kind) or pyarrow.types.is_integer(kind)):
        raise BadInput(f"column {name} of {where}", "it holds neither texts nor whole numbers", "Write it as text")


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of strings."""
    import pyarrow

    types = pyarrow.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def valid_rows(first: int, texts: Any, units: Any | None, left_out: int = 0) -> LogRows:
    """A batch of whatever columns a reader gave: as strings, without texts where a text or unit is no UTF-8."""
    import pyarrow

    texts, wrong = as_text(texts)
    if units is not None:
        units, other = as_text(units)
        wrong = other if wrong is None else wrong if other is None else wrong | other
    if wrong is None:
        return LogRows(first, texts, units, 0, left_out)
    broken = int(wrong.sum())
    if pyarrow.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    texts = pyarrow.compute.if_else(pyarrow.array(wrong), pyarrow.scalar(None, texts.type), texts)
    return LogRows(first, texts, units, broken, left_out)


def as_text(column: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """A column as strings, dictionaries kept; and where it is no UTF-8, which is emptied there, if it is anywhere."""
    import pyarrow

    types, kind = pyarrow.types, column.type
    if types.is_dictionary(kind):
        entries, wrong = as_text(column.dictionary)
        coded = pyarrow.DictionaryArray.from_arrays(column.indices, entries)
        if wrong is None:
            return coded, None
        at = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        valid = column.indices.is_valid().to_numpy(zero_copy_only=False)
        return coded, wrong[at] & valid
    if types.is_large_binary(kind) or types.is_binary(kind):
        column = column.view(pyarrow.large_string() if types.is_large_binary(kind) else pyarrow.string())
    elif not (types.is_string(kind) or types.is_large_string(kind)):
        column = column.cast(pyarrow.large_binary() if types.is_string_view(kind) else pyarrow.string())
        if types.is_string_view(kind):
            return as_text(column)
    return _only_utf8(column)


def _only_utf8(column: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    import pyarrow

    raw = raw_bytes(column)
    if raw.isascii():
        return column, None
    ends = offsets_of(column)
    inside = ends[(ends > 0) & (ends < len(raw))]
    letters = np.frombuffer(raw, dtype=np.uint8)
    with suppress(UnicodeDecodeError):
        raw.decode()
        if not ((letters[inside] & 0xC0) == 0x80).any():  # no text begins in the middle of a letter
            return column, None
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    wrong = valid & np.array([not _is_utf8(raw[a:b]) for a, b in pairwise(ends)], dtype=bool)
    if not wrong.any():
        return column, None
    good = valid & ~wrong
    texts = [raw[a:b].decode() if fine else None for fine, (a, b) in zip(good, pairwise(ends), strict=True)]
    return pyarrow.array(texts, column.type), wrong


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
