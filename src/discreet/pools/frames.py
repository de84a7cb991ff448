"""Tables in memory as pools: frames of pandas and polars, Arrow tables, and data sets of Hugging Face ``datasets``.

None of these libraries is imported here: a frame is what has columns by name.

Guarantee: libraries infer the type of a column from its cells, so a type is private, and nothing depends on it: no
error, and not how another cell is read. A column of a type that cannot be read as declared is read cell by cell, as one
without a type (``object`` in pandas) is; a cell that cannot be read is missing, and no error tells of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.pools.cells import can_be_read, cell_text, cells_of, read_cells
from discreet.pools.checks import check_size, ids_of, names_of
from discreet.pools.opening import ARRAYS
from discreet.pools.pool import Pool, PoolDeclaration, declare
from discreet.pools.rows import or_none
from discreet.pools.schema import Schema
from discreet.pools.table_files import (
    LoadedTable,
    check_columns,
    check_columns_declared,
    contents_of,
    declared_columns,
)

_NAME = "the table"


def open_frame(
    frame: Any,
    *,
    id: str,  # noqa: A002 - as a campaign's file says it
    columns: Sequence[str] | None = None,
    text: str | None = None,
    person: str | None = None,
    shape: Sequence[int] | None = None,
    center: float | Sequence[float] = 0,
    scale: float | Sequence[float] = 1,
    schema: Schema | Mapping[str, Any] | Path | str | None = None,
) -> Pool:
    """A table in memory as a pool of kind "arrays".

    frame     a DataFrame of pandas or polars, a Table or RecordBatch of pyarrow, or a Dataset of Hugging Face
    id        the column (or the index) of ids; the other options are those of `open_pool`
    """
    words = {"id": id, "columns": columns, "text": text, "person": person, "array": None, "schema": schema}
    declared = declare(Path(_NAME), ARRAYS, **words, shape=shape, center=center, scale=scale, size=None)
    asked = f"opening {_NAME}"
    check_columns_declared(asked, declared)
    table = named_columns(frame)
    check_columns(asked, names_in(table), declared_columns(declared))
    ids = ids_of(_listed(table[id]), f"column {id!r}")
    check_size(asked, len(ids), None)
    persons = None if person is None else names_of(_listed(table[person]), f"column {person!r}")
    x, texts = contents_of(LoadedTable(_arrow(table, declared), _NAME), _NAME, declared)
    return Pool(ids=ids, x=x, text=texts, persons=persons, declared=declared)


def schema_table(frame: Any, schema: Schema, *, asked: str) -> Any:
    """The columns of a schema as an Arrow table; refuses a table that has not all of them."""
    table = named_columns(frame)
    check_columns(asked, names_in(table), schema.names)
    return _of_schema(table, schema)


def _of_schema(table: Any, schema: Schema) -> Any:
    import pyarrow

    return pyarrow.table({column.name: _cells(table, column.name, column.type) for column in schema.columns})


def _cells(table: Any, name: str, kind: str) -> Any:
    """The cells of a column, of a type that can be read as ``kind``: as texts, one by one, if its own cannot."""
    import pyarrow

    cells = cells_of(table, name, kind)
    if can_be_read(kind, cells.type):
        return cells
    values = (or_none(cell.as_py) if hasattr(cell, "as_py") else cell for cell in _listed(table[name]))
    return pyarrow.array([cell_text(value, kind) for value in values], pyarrow.string())


def numbers_in(table: Any, name: str) -> Any:
    """A column's cells as numbers, NaN for one that is none."""
    return read_cells(_cells(table, name, "number"), "number", (), ("",))[0]


def is_frame(value: Any) -> bool:
    """Whether a value is a table in memory."""
    return any(hasattr(type(value), name) for name in ("columns", "with_format"))


def named_columns(frame: Any) -> Any:
    """The frame, as what gives a column by its name: data sets as Arrow tables, an index with a name as a column."""
    streamed = hasattr(type(frame), "with_format") and not hasattr(frame, "num_rows")
    if isinstance(frame, Mapping) or hasattr(type(frame), "collect") or streamed or not is_frame(frame):
        remedy = "Give one DataFrame (of a LazyFrame: collect it), Arrow table, or split of a data set on disk"
        raise BadInput(f"opening {_NAME}", "it is not one table in memory", remedy)
    if hasattr(frame, "with_format"):
        return frame.with_format("arrow")[:]
    named = [name for name in getattr(getattr(frame, "index", None), "names", ()) if name is not None]
    return frame.reset_index() if named and not set(named) & set(frame.columns) else frame


def names_in(table: Any) -> list[str]:
    """Names of the columns, those that are text."""
    names = table.schema.names if hasattr(table, "num_columns") else table.columns
    return [name for name in names if isinstance(name, str)]


def _listed(column: Any) -> Any:
    """A column's cells as Python has them."""
    return column.to_list() if hasattr(column, "to_list") else column


def _arrow(table: Any, declared: PoolDeclaration) -> Any:
    """The declared columns as an Arrow table."""
    import pyarrow
    from pyarrow import types

    if declared.schema is not None:
        return _of_schema(table, declared.schema)
    lists = declared.shape is not None and len(declared.columns or ()) == 1
    arrays = {name: (_lists if lists else _number_cells)(table, name) for name in declared.columns or ()}
    if declared.text is not None:
        texts = _cells(table, declared.text, "text")
        arrays[declared.text] = texts.cast(pyarrow.string()) if types.is_null(texts.type) else texts
    return pyarrow.table(arrays)


def _number_cells(table: Any, name: str) -> Any:
    """The cells of a column of numbers, of a type that was not inferred from them; null where one is no number."""
    import pyarrow
    from pyarrow import types

    cells = cells_of(table, name, "number")
    if types.is_nested(cells.type) or types.is_integer(cells.type) or types.is_floating(cells.type):
        return cells
    return pyarrow.array(numbers_in(table, name))


def _lists(table: Any, name: str) -> Any:
    """The cells of a column of lists; null for what is no list of numbers."""
    import pyarrow

    cells = table[name]
    if getattr(cells, "dtype", None) != np.dtype(object):  # it has a type
        return cells_of(table, name, "number")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's would tell of a cell
        numbers = [or_none(lambda cell: np.asarray(cell, dtype=np.float64).ravel(), cell) for cell in cells]
    return pyarrow.array(numbers, pyarrow.list_(pyarrow.float64()))
