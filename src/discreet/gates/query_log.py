"""A log of texts, perhaps with the person of each: files or tables, read in batches of bounded size.

Guarantee: what cannot be read is counted, and never shown. A batch holds a row for every row of the file that could be
taken apart; its text or unit may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from discreet.errors import BadInput

Told = Callable[[str, int, int], None]
"""What is being done, how much is done, and of how much: sizes of files, which are the owner's."""


def unwatched(what: str, done: int, of: int) -> None:
    """For nobody."""


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of one part of a log. Private.

    ``texts`` and ``units`` are Arrow arrays of strings, plain or coded by a dictionary, missing where a row has none;
    ``first`` is the number of the first row among those of its part that could be taken apart.
    """

    first: int
    texts: Any = field(repr=False)
    units: Any | None = field(repr=False)

    def __len__(self) -> int:
        return len(self.texts)


class Part(Protocol):
    """One file of a log, or one table."""

    @property
    def size(self) -> int:
        """In bytes, about: for progress."""

    def batches(self, text: str, unit: str | None) -> Iterator[tuple[Rows, int]]:
        """Its rows, and beside each batch how many broken ones were left out of it."""


@dataclass(frozen=True, kw_only=True)
class QueryLog:
    """A log: its parts in the order by which rows are numbered, and the names of its columns."""

    parts: Sequence[Part] = field(repr=False)
    text: str
    person: str | None = None
    row_id: str | None = None

    def __post_init__(self) -> None:
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
        return self.person or self.row_id

    def __repr__(self) -> str:
        """Names of columns only."""
        return f"<QueryLog of {len(self.parts)} parts, text {self.text!r}>"


@dataclass(frozen=True)
class TablePart:
    """An Arrow table in memory."""

    table: Any = field(repr=False)

    @property
    def size(self) -> int:
        """In bytes."""
        return int(self.table.nbytes)

    def batches(self, text: str, unit: str | None) -> Iterator[tuple[Rows, int]]:
        """Its batches."""
        first = 0
        names = [text] if unit is None else [text, unit]
        for batch in self.table.select(names).to_batches(max_chunksize=1 << 20):
            yield (
                Rows(first, as_text(batch.column(0), text), None if unit is None else as_text(batch.column(1), unit)),
                0,
            )
            first += len(batch)


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


def check_column(schema: Any, name: str, where: str) -> None:
    """Refuse a column that is not there once, or whose values are no texts or whole numbers."""
    import pyarrow

    found = [schema.field(place).type for place in schema.get_all_field_indices(name)]
    if len(found) != 1:
        raise BadInput(f"column {name} of {where}", "there is not exactly one of that name", "Check the column's name")
    kind = found[0].value_type if pyarrow.types.is_dictionary(found[0]) else found[0]
    if not (is_text(kind) or pyarrow.types.is_integer(kind)):
        raise BadInput(f"column {name} of {where}", "it holds neither texts nor whole numbers", "Write it as text")


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of strings."""
    import pyarrow

    types = pyarrow.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def as_text(column: Any, name: str) -> Any:
    """A column as strings; dictionaries stay."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_dictionary(kind):
        if pyarrow.types.is_string(kind.value_type):
            return column
        return pyarrow.DictionaryArray.from_arrays(column.indices, as_text(column.dictionary, name))
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        return column
    return column.cast(pyarrow.string())
