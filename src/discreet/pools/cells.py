"""Cells of tables, of Arrow, frames or Python, as codes: a number, a day, or the place of a category in its list.

Guarantee: a cell's code and state follow from the cell and the declaration alone; no cell raises an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.checks import encodable

READ, MISSING, UNREADABLE, OUTSIDE = range(4)
"""States of a cell."""
Codes = NDArray[np.float64]
States = NDArray[np.uint8]
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_EPOCH = date(1970, 1, 1).toordinal()
_DAY = re.compile(r"\d{4}-\d\d-\d\d(?=$|[T ]\d\d:)", re.ASCII)


def cells_of(table: Any, name: str, kind: str) -> Any:
    """The cells of a column as one Arrow array. ``table``: of Arrow, a frame, or columns by name."""
    import pyarrow

    try:
        cells = table[name]
    except Exception:  # noqa: BLE001 - a table of any library
        raise BadInput("reading a table", f"it has no column {name!r}", "Check the names of the schema") from None
    if hasattr(cells, "to_arrow") and str(cells.dtype) != "Object":  # of polars: any Python values
        cells = cells.to_arrow()
    if isinstance(cells, pyarrow.Array | pyarrow.ChunkedArray):
        return _plain(cells)
    if hasattr(cells, "dtype") and cells.dtype != object:
        try:
            return _plain(pyarrow.array(cells, from_pandas=True))
        except Exception:  # noqa: BLE001 - such as categories of several types
            pass
    return pyarrow.array([cell_text(cell, kind) for cell in cells], pyarrow.string())


def read_cells(cells: Any, kind: str, values: Sequence[str], blanks: Sequence[str]) -> tuple[Codes, States]:
    """Codes and states of the cells of a column that is declared as ``kind``, with ``values`` if it is a category.

    ``blanks``: the words of missing cells, as they are without spaces around them.
    """
    import pyarrow
    from pyarrow import compute, types

    cells = _words(cells) if kind == "category" else cells
    codes, states = np.full(len(cells), np.nan), np.full(len(cells), UNREADABLE, dtype=np.uint8)
    missing = np.array(compute.is_null(cells, nan_is_null=types.is_floating(cells.type)))
    if types.is_string(cells.type):
        cells = compute.utf8_trim_whitespace(cells)
        missing |= np.array(compute.is_in(cells, pyarrow.array(blanks, pyarrow.string())))
    numbers = _codes(cells, kind, values)
    if numbers is not None:
        codes = np.array(numbers.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False))
        states[np.isnan(codes)] = OUTSIDE if kind == "category" else UNREADABLE
    states[~np.isnan(codes)] = READ
    if kind == "number":
        missing |= np.isin(codes, [float(word) for word in blanks if re.match(NUMBER, word)])
    states[missing] = MISSING
    codes[missing] = np.nan
    return codes, states


def can_be_read(kind: str, stored: Any) -> bool:
    """Whether some value of an Arrow type can be read as a column of ``kind``; a column without values can."""
    import pyarrow
    from pyarrow import types

    empty = _plain(pyarrow.chunked_array([], stored))
    cells = _words(empty) if kind == "category" else empty
    return types.is_null(stored) or _codes(cells, kind, ()) is not None


def cell_text(value: Any, kind: str) -> str | None:
    """A Python value as text, as the same value of a typed column is read; None for what is none of these."""
    if isinstance(value, str):
        return value if value.isascii() or encodable(value) else None
    if isinstance(value, bool | np.bool_):
        return str(int(value)) if kind == "number" else str(bool(value)).lower()
    if isinstance(value, date | datetime | np.datetime64):
        return str(value)[:10] if kind == "date" else None
    if not hasattr(value, "__float__") or isinstance(value, np.ndarray | np.complexfloating):
        return None  # of a complex number numpy would warn
    try:
        real = float(value)
        return str(int(value)) if math.isfinite(real) and real == int(value) else _finite(real)
    except Exception:  # noqa: BLE001 - a value of any class
        return None


def _finite(real: float) -> str | None:
    return None if math.isnan(real) else "1e999" if real > 1e308 else "-1e999" if real < -1e308 else repr(real)


def _plain(cells: Any) -> Any:
    """One array, of texts where it is of any kind of text; a text that is not UTF-8 is missing."""
    import pyarrow
    from pyarrow import types

    if isinstance(cells, pyarrow.ChunkedArray):
        cells = cells.combine_chunks()
    if isinstance(cells, pyarrow.ChunkedArray):  # of no chunks
        cells = pyarrow.array([], cells.type)
    if types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if types.is_large_string(cells.type) or types.is_string_view(cells.type):
        cells = cells.cast(pyarrow.string())
    if types.is_string(cells.type):
        try:
            cells.validate(full=True)
        except pyarrow.ArrowInvalid:
            cells = pyarrow.array([decoded_text(cell) for cell in cells], pyarrow.string())
    return cells


def decoded_text(cell: Any) -> str | None:
    """The text of an Arrow scalar; None if there is none, or if it is not UTF-8."""
    try:
        text = cell.as_py()
    except UnicodeDecodeError:
        return None
    return None if text is None else str(text)


def _words(cells: Any) -> Any:
    """Numbers and truth values of a category as texts."""
    import pyarrow
    from pyarrow import types

    kind = cells.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)):
        return cells
    different = cells.dictionary_encode()
    words = [cell_text(value, "category") for value in different.dictionary.to_pylist()]
    return pyarrow.array(words, pyarrow.string()).take(different.indices)


def _codes(cells: Any, kind: str, values: Sequence[str]) -> Any | None:
    """The codes of cells; null for a cell that has none. None: no cell of this type can be read as declared."""
    import pyarrow
    from pyarrow import compute, types

    stored = cells.type
    if kind == "number" and (types.is_integer(stored) or types.is_floating(stored) or types.is_boolean(stored)):
        return cells
    if kind == "number" and types.is_decimal(stored):
        return cells.cast(pyarrow.float64(), safe=False)
    if kind == "date" and (types.is_date(stored) or types.is_timestamp(stored)):
        return cells.cast(pyarrow.date32(), safe=False).cast(pyarrow.int32())
    if not types.is_string(stored):
        return None
    if kind == "number":
        readable = compute.match_substring_regex(cells, NUMBER)
        return compute.if_else(readable, cells, None).cast(pyarrow.float64())
    if kind == "category":
        return compute.index_in(cells, pyarrow.array(list(values), pyarrow.string()))
    different = cells.dictionary_encode()
    days = [0.0 if kind == "text" else days_of(word) for word in different.dictionary.to_pylist()]
    return pyarrow.array(days, pyarrow.float64()).take(different.indices)


def days_of(word: str | None) -> float | None:
    """Days since 1970 of a day as ISO 8601 writes it, also with a time after it."""
    written = _DAY.match(word or "")
    try:
        return None if written is None else float(date.fromisoformat(written[0]).toordinal() - _EPOCH)
    except ValueError:
        return None
