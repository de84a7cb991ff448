"""The declared schema of a table: what its columns mean, which values they have, and what becomes of other cells.

Guarantee: row i is computed from record i and the declaration alone, and no cell raises an error. A cell that is empty,
that is one of the declared ``missing_values``, or that cannot be read as its column is declared is missing; a number
beyond its bounds and a value that is not declared are outside. The declaration says what becomes of both: an input of
its own, a declared value, or a null record. A value that is met first when a model predicts follows the same rules.

Numbers and dates become (value - middle) / half range, in [-1, 1]; a category becomes one input for each value
(one-hot). Nothing is fitted to records: bounds and values are declared from what is publicly known.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from discreet.checks import Wrong, listed, shown, text
from discreet.errors import InvalidConfig
from discreet.pools.cells import (
    MISSING,
    OUTSIDE,
    READ,
    UNREADABLE,
    Codes,
    States,
    cells_of,
    read_cells,
)
from discreet.pools.columns import Column, column_of, declared_word, within
from discreet.pools.rows import Mask
from discreet.toml_lines import line_index

MOST_INPUTS = 10_000


@dataclass(frozen=True, kw_only=True, repr=False)
class CellCounts:
    """What became of the cells of a table. Audience: owner.

    columns   by name: how many cells are missing, unreadable and outside, and how many records they make nulls
    nulls     how many records become nulls
    """

    records: int
    nulls: int
    columns: Mapping[str, Mapping[str, int]]

    def __add__(self, other: CellCounts) -> CellCounts:
        sums = {
            name: {key: count + other.columns[name][key] for key, count in counts.items()}
            for name, counts in self.columns.items()
        }
        return CellCounts(records=self.records + other.records, nulls=self.nulls + other.nulls, columns=sums)

    def text(self, effect: str = "teach nothing") -> str:
        """For the owner's terminal: columns of which a cell is missing, cannot be read or is outside are named.

        ``effect``: what nulls do.
        """
        lines = [f"{self.nulls} of {self.records} records are nulls, and {effect}"]
        words = {"missing": "are missing", "unreadable": "cannot be read", "outside": "are outside of what is declared"}
        for name, counts in self.columns.items():
            cells = ", ".join(f"{counts[kind]} {said}" for kind, said in words.items() if counts[kind])
            nulls = f"; {counts['nulls']} records are nulls by them" if counts["nulls"] else ""
            lines += [f"  column {name}, cells: {cells}{nulls}"] * bool(cells)
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The declared columns of a table, in the order in which a model sees them. Public. Made by `of` or `read`."""

    columns: tuple[Column, ...]
    missing_values: tuple[str, ...] = ()
    proposed_from: tuple[str, ...] = field(default=(), compare=False)
    """Hashes of the public files that `discreet schema` looked at: not those of a private pool."""

    @classmethod
    def of(cls, form: Schema | Path | str | Mapping[str, Any]) -> Schema:
        """A schema, a file's path, or a mapping: a table for each column, as a TOML file has it."""
        return cls.read(form) if isinstance(form, (str, Path)) else cls.from_json(form)

    @classmethod
    def from_json(cls, form: Any) -> Schema:
        """The inverse of `to_json`; takes a mapping of columns, too."""
        try:
            return checked_schema(form)
        except Wrong as wrong:
            _refuse(wrong, "the schema", {})

    @classmethod
    def read(cls, path: Path | str) -> Schema:
        """The schema in a TOML file: every mistake at once, each with its line."""
        name = Path(path).name
        try:
            content = Path(path).read_bytes().decode("utf-8-sig")
        except (OSError, ValueError) as problem:
            missing = isinstance(problem, FileNotFoundError)
            fact = "there is no such file" if missing else f"it is not a TOML file in UTF-8 ({type(problem).__name__})"
            raise InvalidConfig(f"the schema {name}", fact, "Check the path, and the file") from None
        return cls.from_toml(content, name)

    @classmethod
    def from_toml(cls, content: str, name: str) -> Schema:
        """The schema in a TOML text, which errors call ``name``."""
        try:
            form = tomllib.loads(content)
        except (ValueError, RecursionError) as problem:
            fact = str(problem) if isinstance(problem, tomllib.TOMLDecodeError) else "a value is too long, or too deep"
            raise InvalidConfig(f"the schema {name}", f"it is not TOML: {fact}", "Mend that line") from None
        try:
            return checked_schema(form)
        except Wrong as wrong:
            _refuse(wrong, name, line_index(content))

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs of a model."""
        return tuple(name for column in self.columns for name in column.inputs)

    @property
    def blanks(self) -> tuple[str, ...]:
        """The words of missing cells."""
        return ("", *self.missing_values)

    @property
    def width(self) -> int:
        """How many inputs a record becomes; 0: there is text alone."""
        return len(self.inputs)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def text(self) -> str | None:
        """The name of the column of texts."""
        return next((column.name for column in self.columns if column.type == "text"), None)

    def parse(self, table: Any) -> tuple[Codes, States]:
        """Codes and states of all cells. ``table``: an Arrow table or batch, a frame, or columns by name."""
        parsed = [self._parsed(column, table) for column in self.columns]
        codes, states = zip(*parsed, strict=True)
        return np.stack(codes, axis=1), np.stack(states, axis=1)

    def expand(self, codes: Codes, states: States) -> tuple[NDArray[np.float32], Mask]:
        """The inputs of records, nulls as zeros, and which records are none. Audience: owner."""
        matrix, nulls = np.zeros((len(codes), self.width), dtype=np.float32), np.zeros(len(codes), dtype=bool)
        start = 0
        for index, column in enumerate(self.columns):
            stop = start + len(column.inputs)
            column.expand(matrix[:, start:stop], codes[:, index], states[:, index])
            nulls |= column.nulls(states[:, index])
            start = stop
        matrix[nulls] = 0
        return matrix, ~nulls

    def encode(self, table: Any) -> tuple[NDArray[np.float32], Mask]:
        """The inputs of a table's records, nulls as zeros, and which records are none. Audience: owner."""
        return self.expand(*self.parse(table))

    def texts(self, table: Any) -> list[str | None]:
        """The texts of a table's records; None where a record becomes a null by it."""
        column = next(column for column in self.columns if column.type == "text")
        cells, blank = cells_of(table, column.name, "text"), self._parsed(column, table)[1] != READ
        gap = None if column.missing == "null" else ""
        return [gap if empty else cell for cell, empty in zip(cells.to_pylist(), blank.tolist(), strict=True)]

    def count(self, table: Any) -> CellCounts:
        """How many cells are missing, unreadable and outside, by column, and how many records become nulls."""
        return self.counts(self.parse(table)[1])

    def counts(self, states: States) -> CellCounts:
        """The same of parsed cells."""
        columns, nulls = {}, np.zeros(len(states), dtype=bool)
        for index, column in enumerate(self.columns):
            by_column = column.nulls(states[:, index])
            kinds = {"missing": MISSING, "unreadable": UNREADABLE, "outside": OUTSIDE}
            of_kinds = {kind: int((states[:, index] == state).sum()) for kind, state in kinds.items()}
            columns[column.name] = of_kinds | {"nulls": int(by_column.sum())}
            nulls |= by_column
        return CellCounts(records=len(states), nulls=int(nulls.sum()), columns=columns)

    def shown(self, inputs: NDArray[Any]) -> dict[str, str]:
        """A record for people, by column, from its inputs: a number is within its bounds. The text is not in it."""
        columns = [column for column in self.columns if column.inputs]
        parts = np.split(inputs, np.cumsum([len(column.inputs) for column in columns])[:-1])
        return {column.name: column.shown(part) for column, part in zip(columns, parts, strict=True)}

    def to_json(self) -> dict[str, Any]:
        """A form that reads back to an equal value; columns are a list, for their order counts."""
        return {
            "missing_values": list(self.missing_values),
            "columns": [column.to_json() for column in self.columns],
        }

    def _parsed(self, column: Column, table: Any) -> tuple[Codes, States]:
        codes, states = read_cells(cells_of(table, column.name, column.type), column.type, column.values, self.blanks)
        if column.type in ("number", "date"):
            low, high = column.code(column.low), column.code(column.high)
            states[(states == READ) & ((codes < low) | (codes > high))] = OUTSIDE
        return codes, states


def checked_schema(form: Any) -> Schema:
    """The schema of a table of tables, or of `Schema.to_json`; or `Wrong`, with everything that is wrong with it."""
    if isinstance(form, Schema):
        return form
    if not isinstance(form, Mapping):
        raise Wrong(f"{shown(form)} is not a table of columns", 'Write it like [age] with type = "number"')
    tables, problems = dict(form), list[Wrong]()
    lists: dict[str, tuple[str, ...]] = {}
    for key, check in (("missing_values", declared_word), ("proposed_from", text(what="a hash", most=200))):
        if not isinstance(tables.get(key, {}), Mapping):
            words = listed(check, such_as='["?", "NA"]')
            lists[key] = tuple(within(words, tables.pop(key), (key,), problems) or ())
    pairs = [*tables.items()]
    if isinstance(tables.get("columns"), list | tuple):  # the stored form
        pairs = [(table.get("name") if isinstance(table, Mapping) else None, table) for table in tables["columns"]]
    columns = [column_of(name, table, problems) for name, table in pairs]
    made = [column for column in columns if column is not None]
    width = sum(len(column.inputs) for column in made)
    if not columns:
        problems.append(Wrong("it declares no column", 'Write a table for each: [age] with type = "number"'))
    if width > MOST_INPUTS:
        widest = max(made, key=lambda column: len(column.inputs)).name
        fact = f"its columns become {width} inputs, and {MOST_INPUTS} are allowed"
        problems.append(Wrong(fact, f"Declare the frequent values of {widest} alone: others are 'other'", (widest,)))
    for column in made:
        never = set(column.values) & set(lists.get("missing_values", ()))
        if never:
            fact = f"{', '.join(map(shown, sorted(never)))} is one of missing_values, so no cell has that value"
            problems.append(Wrong(fact, "Keep it in one of them", (column.name, "values")))
    if len({column.name for column in made}) < len(made):
        problems.append(Wrong("it declares a column twice", "Declare each column once"))
    if sum(column.type == "text" for column in made) > 1:
        problems.append(Wrong("it has several columns of text", "Declare one; join the others to it beforehand"))
    if problems:
        first, *others = problems
        raise Wrong(first.fact, first.remedy, first.at, others=tuple(others))
    return Schema(columns=tuple(made), **lists)


def _refuse(wrong: Wrong, name: str, lines: Mapping[tuple[str | int, ...], int]) -> NoReturn:
    """Everything that is wrong, each with its line."""
    errors = []
    for each in (wrong, *wrong.others):
        line = next((lines[each.at[:n]] for n in range(len(each.at), 0, -1) if each.at[:n] in lines), None)
        where = name if line is None else f"{name}, line {line}"
        label = f": [{each.at[0]}] {' '.join(map(str, each.at[1:]))}".rstrip() if each.at else ""
        errors.append(InvalidConfig(where + label, each.fact, each.remedy, line=line))
    errors.sort(key=lambda error: error.line or 0)
    first = errors[0]
    raise InvalidConfig(first.asked, first.fact, first.remedy, line=first.line, others=tuple(errors[1:])) from None
