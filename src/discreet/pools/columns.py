"""One declared column of a table: its type, bounds or values, and what becomes of missing and other cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.checks import Check, Wrong, choice, day, listed, nearest, number, shown, text
from discreet.parts import Option
from discreet.pools.cells import MISSING, OUTSIDE, UNREADABLE, Codes, States, cell_text, days_of
from discreet.pools.rows import Mask

REQUIRED = "required"


def declared_word(value: Any) -> str:
    """A declared value as it is compared: 1, 1.0 and "1" are the same, true is "true"."""
    word = cell_text(value, "category") if not isinstance(value, str) else value
    return str(text(what="a value", most=200)(word if word is not None else value))


def _choice(name: str, meaning: str, *words: str) -> Option:
    """An option that is one of some words; the first is its default."""
    return Option(name=name, check=choice(*words), type=" or ".join(words), default=words[0], meaning=meaning)


def _bounded(what: str, check: Check, kind: str) -> tuple[Option, ...]:
    return (
        Option(name="low", check=check, type=kind, default=REQUIRED, meaning=f"the least {what} that can be"),
        Option(
            name="high",
            check=check,
            type=kind,
            default=REQUIRED,
            meaning=f"the largest {what} that can be",
        ),
        _choice("missing", _MISSING, "indicator", "null"),
        Option(name="fill", check=check, type=kind, meaning=_FILL),
        _choice("outside", "what becomes of values beyond the bounds", "clip", "missing", "null"),
    )


_MISSING = "what a missing cell becomes: an input of its own, or it makes the record a null"
_FILL = "instead of `missing`: a declared value in place of a missing one"
_VALUES = listed(declared_word, least=1, distinct=True, such_as='["admin", "technician"]')
_CATEGORY = (
    Option(name="values", check=_VALUES, type="list", default=REQUIRED, meaning="the values that are publicly known"),
    _choice("missing", _MISSING, "category", "null"),
    Option(name="fill", check=declared_word, type="text", meaning=_FILL),
    _choice("outside", "what becomes of values that are not declared", "other", "missing", "null"),
)
_TEXT = (_choice("missing", "what a missing text is: an empty one, or it makes the record a null", "empty", "null"),)
_TYPES = {
    "number": _bounded("value", number(-1e30, 1e30, such_as="40"), "number"),
    "category": _CATEGORY,
    "date": _bounded("day", day, "date"),
    "text": _TEXT,
}
OPTIONS: Mapping[str, Mapping[str, Option]] = {
    kind: {option.name: option for option in options} for kind, options in _TYPES.items()
}
"""The keys of a column, by its type. Files, Python and the documentation read them."""


class ResolvedCells(NamedTuple):
    """Cells of a column by its declaration. ``known`` have a code; others are ``other``, ``missing``, or of nulls."""

    codes: Codes
    known: Mask
    other: Mask
    missing: Mask
    nulls: Mask


@dataclass(frozen=True, kw_only=True)
class Column:
    """One declared column. Made by `Schema`, which checks it.

    type      number, category, date or text
    low, high the bounds of a number or a date
    values    of a category
    missing   what a missing cell is: an input of its own (``indicator``, ``category``), ``fill``, ``empty`` or ``null``
    fill      the value in place of a missing one
    outside   what other values are: ``clip``, ``other``, ``missing`` or ``null``
    """

    name: str
    type: str
    low: Any = None
    high: Any = None
    values: tuple[str, ...] = ()
    missing: str
    fill: Any = None
    outside: str = ""

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs that it becomes."""
        if self.type == "text":
            return ()
        inputs = [f"{self.name}={value}" for value in self.values] if self.values else [self.name]
        inputs += [f"{self.name} is other"] * (self.outside == "other")
        return (*inputs, *[f"{self.name} is missing"] * (self.missing in ("indicator", "category")))

    def code(self, value: Any) -> float:
        """The number that stands for a declared value."""
        code = self.values.index(value) if self.type == "category" else value
        return float(days_of(value) or 0 if self.type == "date" else code)

    def nulls(self, states: States) -> Mask:
        """Which of the records become nulls by these cells."""
        nulls: Mask = (self._blank(states) & (self.missing == "null")) | (
            (states == OUTSIDE) & (self.outside == "null")
        )
        return nulls

    def _blank(self, states: States) -> Mask:
        blank: Mask = (states == MISSING) | (states == UNREADABLE)
        return blank | (states == OUTSIDE) if self.outside == "missing" else blank

    def resolve(self, codes: Codes, states: States) -> ResolvedCells:
        """What the declaration makes of cells: which are known, with codes within the bounds, and what others are."""
        outside, blank = states == OUTSIDE, self._blank(states)
        known = ~blank & ~(outside & (self.outside != "clip"))
        if self.fill is not None:
            codes, known = np.where(blank, self.code(self.fill), codes), known | blank
        if self.type in ("number", "date"):
            codes = np.clip(codes, self.code(self.low), self.code(self.high))
        missing = blank & (self.missing in ("indicator", "category"))
        other = outside & (self.outside == "other")
        return ResolvedCells(codes, known, other=other, missing=missing, nulls=self.nulls(states))

    def expand(self, into: NDArray[np.float32], codes: Codes, states: States) -> None:
        """Write the inputs of cells."""
        cells = self.resolve(codes, states)
        if self.type == "category":
            rows = np.flatnonzero(cells.known)
            into[rows, cells.codes[rows].astype(np.int64)] = 1
            if self.outside == "other":
                into[cells.other, len(self.values)] = 1
        elif self.type != "text":
            low, high = self.code(self.low), self.code(self.high)
            into[cells.known, 0] = (cells.codes[cells.known] - (low + high) / 2) / ((high - low) / 2)
        if self.missing in ("indicator", "category"):
            into[cells.missing, -1] = 1

    def resolve_inputs(self, inputs: NDArray[Any]) -> ResolvedCells:
        """The cells whose inputs `expand` wrote, of records that are no nulls; codes in single precision."""
        nothing = np.zeros(len(inputs), dtype=bool)
        missing = inputs[:, -1] != 0 if self.missing in ("indicator", "category") else nothing
        if self.type == "category":
            count = len(self.values)
            other = inputs[:, count] != 0 if self.outside == "other" else nothing
            codes = inputs[:, :count].argmax(axis=1).astype(np.float64)
            return ResolvedCells(codes, ~missing & ~other, other, missing, nothing)
        low, high = self.code(self.low), self.code(self.high)
        codes = np.clip((low + high) / 2 + inputs[:, 0].astype(np.float64) * ((high - low) / 2), low, high)
        return ResolvedCells(codes, ~missing, nothing, missing, nothing)

    def shown(self, inputs: NDArray[Any]) -> str:
        """The value that a record's inputs stand for, for people."""
        if self.missing in ("indicator", "category") and inputs[-1]:
            return "(missing)"
        if self.type == "category":
            place = int(np.argmax(inputs))
            return self.values[place] if place < len(self.values) else "(other)"
        low, high = self.code(self.low), self.code(self.high)
        value = (low + high) / 2 + inputs[0] * (high - low) / 2
        return f"{value:.6g}" if self.type == "number" else str(np.datetime64(round(value), "D"))

    def to_json(self) -> dict[str, Any]:
        """As a file has it, with its name."""
        form: dict[str, Any] = {"name": self.name, "type": self.type}
        form |= {key: getattr(self, key) for key in OPTIONS[self.type] if getattr(self, key) is not None}
        if self.fill is not None:
            del form["missing"]
        return {key: list(value) if isinstance(value, tuple) else value for key, value in form.items()}


def column_of(name: Any, table: Any, problems: list[Wrong]) -> Column | None:
    """The column that a table declares. What is wrong joins ``problems``; then there is none."""
    before = len(problems)
    if not isinstance(name, str) or not name or not isinstance(table, Mapping):
        problems.append(Wrong(f"{shown(table)} is not a column", f'Write [{name}] with type = "number"', (str(name),)))
        return None
    if "type" not in table:
        problems.append(Wrong("it is missing", f"Add type: one of {', '.join(OPTIONS)}", (name, "type")))
        return None
    kind = within(choice(*OPTIONS), table["type"], (name, "type"), problems)
    if kind is None:
        return None
    values = _values(name, table, kind, problems)
    if len(problems) > before:
        return None
    values["missing"] = "fill" if "fill" in table else values["missing"]
    column = Column(name=name, type=kind, **values)
    if kind in ("number", "date") and not (column.code(column.high) - column.code(column.low)) / 2 > 0:
        fact = f"low = {shown(column.low)} is not below high = {shown(column.high)}"
        problems.append(Wrong(fact, "Declare the range that is publicly known", (name, "low")))
    elif "fill" in table:
        known = column.fill in column.values if column.values else _between(column)
        if not known:
            problems.append(
                Wrong(f"{shown(column.fill)} is outside of what is declared", "Choose another", (name, "fill"))
            )
    return column


def _values(name: str, table: Mapping[Any, Any], kind: str, problems: list[Wrong]) -> dict[str, Any]:
    """The checked keys of a column."""
    options = OPTIONS[kind]
    values: dict[str, Any] = {key: option.default for key, option in options.items() if key in ("missing", "outside")}
    for key in table:
        if key in options:
            values[key] = within(options[key].check, table[key], (name, key), problems)
        elif key not in ("type", "name"):
            problems.append(
                Wrong(f"a column of type {kind} has no such key", nearest(str(key), [*options]), (name, str(key)))
            )
    for key, option in options.items():
        if option.default == REQUIRED and key not in table:
            problems.append(Wrong("it is missing", f"Add {key}: {option.meaning}", (name, key)))
    if "fill" in table and "missing" in table:
        problems.append(Wrong("it and missing both say what a missing cell is", "Keep one of them", (name, "fill")))
    return values


def _between(column: Column) -> bool:
    return column.code(column.low) <= column.code(column.fill) <= column.code(column.high)


def within(check: Check, value: Any, path: tuple[str, ...], problems: list[Wrong]) -> Any:
    """The checked value; what is wrong with it joins ``problems``."""
    try:
        return check(value)
    except Wrong as wrong:
        problems += [Wrong(each.fact, each.remedy, (*path, *each.at)) for each in (wrong, *wrong.others)]
        return None
