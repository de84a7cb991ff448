"""Feature maps of tables: rows of a declared schema, cell by cell, as numbers that a linear model can use.

What becomes of a cell that is missing, that cannot be read or that is outside of its declaration is for the schema to
say (`discreet.pools.Schema`): an indicator of its own, a declared value, or a null record. Each column has one group of
features, no longer than 1, and so has each cross; together they are divided by the root of the number of groups, so
that a record is no longer than 1.

A category is one-hot. A cross of columns is one-hot, too: an indicator for each combination of their categories, of the
intervals between their edges, and of what is missing or other. Columns of text are left out. What a number becomes is
for the map to say.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.features.feature_map import ROUNDING, FeatureMap, Features
from discreet.features.table_options import checked_crosses, checked_edges
from discreet.pools.cells import Codes, States
from discreet.pools.columns import Column, ResolvedCells
from discreet.pools.frames import is_frame, schema_table
from discreet.pools.rows import Mask
from discreet.pools.schema import Schema

MOST_FEATURES = 100_000


@dataclass(frozen=True, kw_only=True)
class TableMap(FeatureMap):
    """Features of rows of ``schema``. ``crosses``: lists of columns. A batch is a table, or an array with the columns
    of the schema in their order.
    """

    reads = "tables"
    schema: Schema
    edges: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    crosses: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        asked = f"{self.name} features"
        object.__setattr__(self, "edges", checked_edges(self.edges, self.schema, asked))
        object.__setattr__(self, "crosses", checked_crosses(self.crosses, self.schema, asked))
        if not self._columns:
            raise BadInput(asked, "the schema declares text alone", "Declare a column of numbers or categories")
        if self.output_size > MOST_FEATURES:
            widest = max(self._groups, key=lambda group: group.width)
            raise BadInput(
                asked,
                f"a record becomes {self.output_size} features, {widest.width} of them for {widest.label}; "
                f"{MOST_FEATURES} are allowed",
                "Cross fewer columns, or declare fewer edges",
            )

    @abstractmethod
    def _width(self, column: Column) -> int:
        """How many features a number becomes."""

    @abstractmethod
    def _write(self, into: Features, values: NDArray[np.float64], column: Column) -> None:
        """The features of known numbers, no longer than 1."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """One axis."""
        return (sum(group.width for group in self._groups),)

    @property
    def norm_bound(self) -> float:
        """1: each group of features is no longer than the root of its share."""
        return ROUNDING

    def options(self) -> dict[str, Any]:
        """The schema, and what was declared or fitted."""
        return {
            "schema": self.schema.to_json(),
            "edges": {name: list(edges) for name, edges in self.edges.items()},
            "crosses": [list(names) for names in self.crosses],
        }

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """The inverse of `options`."""
        return cls(**{**options, "schema": Schema.of(options["schema"])})

    def readable(self, batch: Any) -> tuple[Features, Mask]:
        """The features of rows, nulls as zeros, and which rows are none. Audience: owner."""
        return self.of_cells(*self.schema.parse(as_table(batch, self.schema, f"{self.name} features")))

    def of_cells(self, codes: Codes, states: States) -> tuple[Features, Mask]:
        """The same of cells that the schema has parsed."""
        resolved = {
            column.name: column.resolve(codes[:, place], states[:, place])
            for place, column in enumerate(self.schema.columns)
        }
        nulls = np.zeros(len(codes), dtype=bool)
        for cells in resolved.values():
            nulls |= cells.nulls
        return self._of_resolved(resolved, nulls)

    def of_inputs(self, inputs: Any) -> tuple[Features, Mask]:
        """The same of rows as the schema encodes them (`Schema.encode`). A row that is not finite is a null."""
        return self._of_resolved(*self.resolve_inputs(inputs))

    def resolve_inputs(self, inputs: Any) -> tuple[dict[str, ResolvedCells], Mask]:
        """The cells of such rows by column, and which rows are nulls. Audience: owner."""
        rows = np.asarray(inputs, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.schema.width:
            fact = f"the records are not rows of the {self.schema.width} inputs that the schema makes"
            raise BadInput(f"{self.name} features", fact, "Encode a table by its schema: schema.encode(table)[0]")
        nulls = np.zeros(len(rows), dtype=bool) | ~np.isfinite(rows).all(axis=1)
        rows = np.where(nulls[:, None], np.float32(0), rows)
        resolved, start = {}, 0
        for column in self.schema.columns:
            if column.type != "text":
                cells = column.resolve_inputs(rows[:, start : start + len(column.inputs)])
                resolved[column.name] = self._on_edges(column, cells)
                start += len(column.inputs)
        return resolved, nulls

    def _on_edges(self, column: Column, cells: ResolvedCells) -> ResolvedCells:
        """``cells`` read back from inputs in single precision: those that are the inputs of an edge are that edge."""
        if column.name not in self.edges:
            return cells
        edges = np.array(self.edges[column.name])
        into = np.zeros((len(edges), len(column.inputs)), dtype=np.float32)
        column.expand(into, edges, np.zeros(len(edges), dtype=np.uint8))
        rounded = column.resolve_inputs(into).codes
        place = np.searchsorted(rounded, cells.codes).clip(max=len(edges) - 1)
        return cells._replace(codes=np.where(rounded[place] == cells.codes, edges[place], cells.codes))

    def _of_resolved(self, resolved: Mapping[str, ResolvedCells], nulls: Mask) -> tuple[Features, Mask]:
        values, start = np.zeros((len(nulls), self.output_size), dtype=np.float32), 0
        for group in self._groups:
            group.write(values[:, start : start + group.width], resolved)
            start += group.width
        values *= np.float32(1 / math.sqrt(len(self._groups)))
        values[nulls] = 0
        return values, ~nulls

    @property
    def _columns(self) -> tuple[Column, ...]:
        return tuple(column for column in self.schema.columns if column.type != "text")

    @cached_property
    def _groups(self) -> list[_Group]:
        groups = [self._group(column) for column in self._columns]
        by_name = {column.name: column for column in self._columns}
        return groups + [
            _cross([_Levels(by_name[name], self.edges.get(name, ())) for name in names]) for names in self.crosses
        ]

    def _group(self, column: Column) -> _Group:
        indicator = column.missing in ("indicator", "category")
        others = column.outside == "other"
        width = len(column.values) + others if column.values else self._width(column)

        def write(into: Features, resolved: Mapping[str, ResolvedCells]) -> None:
            cells = resolved[column.name]
            if column.values:
                rows = np.flatnonzero(cells.known)
                into[rows, cells.codes[rows].astype(np.int64)] = 1
                into[cells.other, width - 1] = 1
            else:
                known = np.zeros((int(cells.known.sum()), width), dtype=np.float32)
                self._write(known, cells.codes[cells.known], column)
                into[cells.known, :width] = known
            if indicator:
                into[cells.missing, width] = 1

        return _Group(column.name, width + indicator, write)


@dataclass(frozen=True)
class _Group:
    """Features of one column or cross. ``write``: into the columns of the group, by resolved cells."""

    label: str
    width: int
    write: Callable[[Features, Mapping[str, ResolvedCells]], None]


@dataclass(frozen=True)
class _Levels:
    """The levels of a column in a cross: categories or intervals, and one each for what is other and missing."""

    column: Column
    edges: tuple[float, ...]

    @property
    def known(self) -> int:
        """How many categories or intervals there are."""
        return len(self.column.values) or len(self.edges) + 1

    @property
    def count(self) -> int:
        """All levels."""
        return self.known + (self.column.outside == "other") + (self.column.missing in ("indicator", "category"))

    def of(self, cells: ResolvedCells) -> NDArray[np.int64]:
        """The level of each cell; of a null any."""
        codes = np.where(cells.known, cells.codes, 0)
        levels = codes if self.column.values else np.searchsorted(np.array(self.edges), codes)
        levels = np.where(cells.other, self.known, levels.astype(np.int64))
        return np.where(cells.missing, self.count - 1, levels)


def _cross(columns: list[_Levels]) -> _Group:
    def write(into: Features, resolved: Mapping[str, ResolvedCells]) -> None:
        place = np.zeros(len(into), dtype=np.int64)
        for levels in columns:
            place = place * levels.count + levels.of(resolved[levels.column.name])
        into[np.arange(len(into)), place] = 1

    label = " x ".join(levels.column.name for levels in columns)
    return _Group(label, math.prod(levels.count for levels in columns), write)


def as_table(batch: Any, schema: Schema, asked: str) -> Any:
    """A table of the schema's columns; an array has them in their order."""
    if isinstance(batch, Mapping):
        return batch
    if is_frame(batch):
        return schema_table(batch, schema, asked=asked)
    rows = np.asarray(batch)
    if rows.ndim != 2 or rows.shape[1] != len(schema.columns):
        fact = f"the records are not rows of the {len(schema.columns)} columns that the schema declares"
        raise BadInput(asked, fact, "Give a table, or an array with the schema's columns in their order")
    return {name: rows[:, place] for place, name in enumerate(schema.names)}
