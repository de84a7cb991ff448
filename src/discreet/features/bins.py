"""What the feature maps of tables make of numbers.

    bins          +1 for each edge it is above and -1 for each other, divided by the root of their number (thermometer)
    spline        the linear B-spline basis on the edges: at most two neighbours are not 0
    standardise   (value - mean) / scale / 4, clipped to [-1, 1]
    one-hot       its place within its bounds, in [-1, 1]

Edges, means and scales are declared, are read off a public table, or follow from the bounds. A fitted map is stored
with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.features.feature_map import FeatureRequest, Features
from discreet.features.table_map import TableMap, as_table
from discreet.features.table_options import (
    CROSSES_OPTION,
    EDGES_OPTION,
    SCALES_OPTION,
    USUAL_EDGES,
    checked_scales,
    edges_within,
    mean_and_scale,
    numeric_columns,
    public_edges,
)
from discreet.parts import Option, Part
from discreet.pools.columns import Column
from discreet.pools.schema import Schema

CLIP = 4.0


class Bins(TableMap):
    """Numbers as thermometers on their edges."""

    name = "bins"

    def _width(self, column: Column) -> int:
        return len(self.edges[column.name])

    def _write(self, into: Features, values: NDArray[np.float64], column: Column) -> None:
        edges = np.array(self.edges[column.name])
        into[:] = np.where(values[:, None] > edges, 1, -1) / math.sqrt(len(edges))


class Spline(TableMap):
    """Numbers by the linear B-spline basis on their edges; beyond the first and the last edge it is constant."""

    name = "spline"

    def _width(self, column: Column) -> int:
        return len(np.unique(self.edges[column.name]))

    def _write(self, into: Features, values: NDArray[np.float64], column: Column) -> None:
        knots = np.unique(self.edges[column.name])
        for place in range(len(knots)):
            into[:, place] = np.interp(values, knots, np.eye(len(knots))[place])


@dataclass(frozen=True, kw_only=True)
class Standardise(TableMap):
    """Numbers less a mean, divided by a scale, clipped at four scales."""

    name = "standardise"
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", checked_scales(self.scales, self.schema, "standardise features"))
        super().__post_init__()

    def options(self) -> dict[str, Any]:
        """The schema, means and scales."""
        return super().options() | {"scales": {name: list(pair) for name, pair in self.scales.items()}}

    def _width(self, column: Column) -> int:
        return 1

    def _write(self, into: Features, values: NDArray[np.float64], column: Column) -> None:
        mean, scale = self.scales[column.name]
        into[:, 0] = np.clip((values - mean) / (CLIP * scale), -1, 1)


class OneHot(TableMap):
    """Numbers by their place within their bounds."""

    name = "one-hot"

    def _width(self, column: Column) -> int:
        return 1

    def _write(self, into: Features, values: NDArray[np.float64], column: Column) -> None:
        low, high = column.code(column.low), column.code(column.high)
        into[:, 0] = (values - (low + high) / 2) / ((high - low) / 2)


def _built(kind: type[TableMap]) -> Callable[[FeatureRequest], TableMap]:
    """Declared edges and scales come first, then those of a public table, then those of the bounds."""

    def build(request: FeatureRequest) -> TableMap:
        schema, options = request.table_schema(kind.name), dict(request.options)
        edges = options.pop("edges", USUAL_EDGES)
        count, declared = (edges, {}) if isinstance(edges, int) else (USUAL_EDGES, edges)
        fitted: dict[str, Any] = {}
        bounds = {
            name: (column.code(column.low), column.code(column.high))
            for name, column in numeric_columns(schema).items()
        }
        fitted["edges"] = {name: edges_within(*pair, count) for name, pair in bounds.items()}
        if request.public is not None:
            values = _public_values(request.public, schema, kind.name)
            fitted["edges"] |= {name: public_edges(known, count) for name, known in values.items()}
            if kind is Standardise:
                fitted["scales"] = {name: mean_and_scale(known) for name, known in values.items()}
        fitted["edges"] |= declared
        if "scales" in options:
            fitted["scales"] = fitted.get("scales", {}) | options.pop("scales")
        return kind(schema=schema, **fitted, **options)

    return build


def _public_values(public: Any, schema: Schema, name: str) -> dict[str, NDArray[np.float64]]:
    """The known values of columns of numbers in a public table, of those that have two different ones."""
    codes, states = schema.parse(as_table(public, schema, f"fitting {name} features on public rows"))
    values = {}
    for place, column in enumerate(schema.columns):
        if column.type in ("number", "date"):
            cells = column.resolve(codes[:, place], states[:, place])
            known = cells.codes[cells.known & ~cells.nulls]
            if len(np.unique(known)) > 1:
                values[column.name] = known
    return values


def _part(kind: type[TableMap], summary: str, *options: Option) -> Part:
    return Part(
        kind="feature",
        name=kind.name,
        summary=summary,
        build=_built(kind),
        options=(*options, EDGES_OPTION, CROSSES_OPTION),
        reads=(),
        makes=(kind,),
    )


PARTS = (
    _part(Bins, "tables: a number as a thermometer on edges"),
    _part(Spline, "tables: a number by the linear B-spline basis on edges"),
    _part(Standardise, "tables: a number less a mean, divided by a scale", SCALES_OPTION),
    _part(OneHot, "tables: a number by its place within its bounds"),
)
