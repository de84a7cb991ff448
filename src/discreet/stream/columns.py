"""What a record's columns are, declared beforehand, and a record as a vector of numbers.

A number is brought to (value - center) / scale. A choice becomes one number for each of its declared values: 1 for the
one that is equal, 0 for the others (one-hot).

Guarantee: row i is computed from record i and from what was declared, and from nothing else. A value that is missing,
is not a number, is not finite, or is none of the declared ones gives zeros. Nothing is raised and nothing is counted:
an error would say that such a record was there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.noise.stream import Floats

Record = Mapping[str, Any]
MOST_FEATURES = 1_000_000
_LARGEST_WORD = 10**18
"""Python refuses to write whole numbers of thousands of digits, and nobody declares them."""


@dataclass(frozen=True, kw_only=True)
class NumberColumn:
    """A column of numbers; ``center`` and ``scale`` are publicly known, or come from a public sample."""

    name: str
    center: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        _check_name(self.name)
        for what in ("center", "scale"):
            value = getattr(self, what)
            real = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            if not real or (what == "scale" and value <= 0):
                kind = "a finite number above 0" if what == "scale" else "a finite number"
                raise BadInput(f"{what} of column {self.name}", f"it is not {kind}", "Declare what is publicly known")
            object.__setattr__(self, what, float(value))

    @property
    def width(self) -> int:
        """One feature."""
        return 1

    def fill(self, into: Floats, values: Any) -> None:
        """Write (n, 1) features of the n ``values``."""
        with np.errstate(all="ignore"):  # a warning would tell of a value
            scaled = (_numbers(values) - self.center) / self.scale
        into[:, 0] = np.where(np.isfinite(scaled), scaled, 0.0)

    def to_json(self) -> dict[str, Any]:
        """A form that reads back to an equal value."""
        return {"name": self.name, "kind": "number", "center": self.center, "scale": self.scale}


@dataclass(frozen=True, kw_only=True)
class ChoiceColumn:
    """A column whose values are of a declared list: texts, whole numbers, true and false."""

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_name(self.name)
        declared = self.values if isinstance(self.values, (list, tuple)) else ()
        words = tuple(_word(value) for value in declared)
        if not words or None in words or len(set(words)) != len(words):
            raise BadInput(
                f"the values of column {self.name}",
                "they are not a list of different texts or whole numbers",
                'Write values = ["...", "..."]',
            )
        object.__setattr__(self, "values", words)

    @property
    def width(self) -> int:
        """A feature for each declared value."""
        return len(self.values)

    @cached_property
    def _places(self) -> dict[str | None, int]:
        return {value: index for index, value in enumerate(self.values)}

    def fill(self, into: Floats, values: Any) -> None:
        """Write (n, width) features of the n ``values``."""
        into[:] = 0.0
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuU" and values.ndim == 1:
            different, which = np.unique(values, return_inverse=True)  # few different ones: each is looked up once
            places = np.array([self._places.get(_word(value.item()), -1) for value in different], dtype=np.int64)[which]
        else:
            places = np.fromiter((self._places.get(_word(value), -1) for value in values), np.int64, len(values))
        known = np.flatnonzero(places >= 0)
        into[known, places[known]] = 1.0

    def to_json(self) -> dict[str, Any]:
        """A form that reads back to an equal value."""
        return {"name": self.name, "kind": "choice", "values": list(self.values)}


Column = NumberColumn | ChoiceColumn


@dataclass(frozen=True, kw_only=True)
class RecordSchema:
    """The declared columns of a record, in the order of their features. What else a record has is not looked at."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        columns = tuple(self.columns)
        names = [column.name for column in columns if isinstance(column, (NumberColumn, ChoiceColumn))]
        if not columns or len(names) != len(columns) or len(set(names)) != len(names):
            raise BadInput("a schema", "it is not a list of columns with different names", "Declare each column once")
        object.__setattr__(self, "columns", columns)
        if self.width > MOST_FEATURES:
            raise BadInput("a schema", f"it has more than {MOST_FEATURES} features", "Declare fewer values")

    @property
    def width(self) -> int:
        """How many features a record has."""
        return sum(column.width for column in self.columns)

    def many(self, records: Sequence[Any]) -> Floats:
        """Records as rows; something that is no record gives zeros."""
        known = [record if isinstance(record, (dict, Mapping)) else {} for record in records]
        columns: dict[str, Any] = {}
        for column in self.columns:
            values: Any = [record.get(column.name) for record in known]
            if type(column) is NumberColumn and {*map(type, values)} <= {int, float}:  # as an array: much faster
                array = np.array(values)
                values = array if array.dtype.kind in "iuf" else values  # else whole numbers of many digits
            columns[column.name] = values
        return self.table(columns, len(known))

    def table(self, columns: Mapping[str, Any], count: int) -> Floats:
        """The same of ``count`` records that are held by columns; a column that is not there is missing everywhere."""
        rows, start = np.zeros((count, self.width)), 0
        for column in self.columns:
            values = columns.get(column.name)
            if values is not None:
                if len(values) != count:
                    raise BadInput(f"column {column.name}", f"it has not {count} values", "Give one for each record")
                column.fill(rows[:, start : start + column.width], values)
            start += column.width
        return rows

    def to_json(self) -> list[dict[str, Any]]:
        """A form that reads back to an equal value."""
        return [column.to_json() for column in self.columns]

    @classmethod
    def from_json(cls, form: Any) -> RecordSchema:
        """The inverse of `to_json`; strict about its keys."""
        if not isinstance(form, list):
            raise BadInput("a stored schema", "it is not a list of columns", "Restore the file")
        return cls(columns=tuple(_column(column) for column in form))


def _column(form: Any) -> Column:
    kind = form.get("kind") if isinstance(form, dict) else None
    keys = {"number": {"name", "kind", "center", "scale"}, "choice": {"name", "kind", "values"}}.get(str(kind))
    if keys is None or set(form) != keys:
        raise BadInput("a stored schema", "a column is not in the one form we write", "Restore the file")
    parts = {key: value for key, value in form.items() if key != "kind"}
    return NumberColumn(**parts) if kind == "number" else ChoiceColumn(**parts)


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise BadInput("a column", "its name is not a text", 'Write name = "..."')


def _numbers(values: Any) -> Floats:
    """Values as floats; what is no number is not a number."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and values.ndim == 1:
        return values.astype(np.float64)
    return np.fromiter((_number(value) for value in values), np.float64, len(values))


def _number(value: Any) -> float:
    if isinstance(value, np.ndarray):  # even of one value: numpy would warn
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _word(value: Any) -> str | None:
    """A value as it is compared: 1, 1.0 and "1" are the same, true is "true"; None for what cannot be declared."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)) and not (math.isfinite(value) and float(value).is_integer()):
        return None
    if not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    number = int(value)
    return str(number) if abs(number) <= _LARGEST_WORD else None
