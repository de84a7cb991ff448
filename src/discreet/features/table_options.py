"""Options of feature maps of tables: edges, scales and crosses of the columns of a schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.checks import Wrong, either, listed, number, shown, text, whole
from discreet.errors import BadInput
from discreet.parts import Option
from discreet.pools.columns import Column
from discreet.pools.schema import Schema

Floats = NDArray[np.float64]
USUAL_EDGES = 16
_NUMBER = number(-1e30, 1e30, such_as="40")
_COUNT = whole(1, 1000)


def numeric_columns(schema: Schema) -> dict[str, Column]:
    """Columns of numbers and dates, by name."""
    return {column.name: column for column in schema.columns if column.type in ("number", "date")}


def checked_edges(edges: Any, schema: Schema, asked: str) -> dict[str, tuple[float, ...]]:
    """Edges by column, rising, within the bounds; equally spaced where none are declared."""
    numeric = numeric_columns(schema)
    _check_names(edges, numeric, asked, "edges")
    complete = {}
    for name, column in numeric.items():
        low, high = column.code(column.low), column.code(column.high)
        try:
            given = EDGE_LIST(edges[name]) if name in edges else edges_within(low, high, USUAL_EDGES)
        except Wrong as wrong:
            raise BadInput(f"{asked} with edges of {name}", wrong.fact, wrong.remedy) from None
        if list(given) != sorted(given) or not low <= given[0] <= given[-1] <= high:
            fact = f"they do not rise within the bounds {low:g} to {high:g}"
            raise BadInput(f"{asked} with edges of {name}", fact, "Correct them, or the bounds in the schema")
        complete[name] = tuple(given)
    return complete


def checked_scales(scales: Any, schema: Schema, asked: str) -> dict[str, tuple[float, float]]:
    """Mean and scale by column; the middle and half the range where none are declared."""
    numeric = numeric_columns(schema)
    _check_names(scales, numeric, asked, "scales")
    complete = {}
    for name, column in numeric.items():
        low, high = column.code(column.low), column.code(column.high)
        try:
            mean, scale = PAIR(scales[name]) if name in scales else ((low + high) / 2, (high - low) / 2)
        except Wrong as wrong:
            raise BadInput(f"{asked} with scales of {name}", wrong.fact, wrong.remedy) from None
        if scale <= 0:
            raise BadInput(f"{asked} with scales of {name}", "the scale is not above 0", "Write [mean, scale]")
        complete[name] = (mean, scale)
    return complete


def _check_names(values: Any, numeric: Mapping[str, Column], asked: str, what: str) -> None:
    if not isinstance(values, Mapping):
        raise BadInput(f"{asked} with {what}", f"{shown(values)} is not a table", "Write {age = [...]}")
    for name in values:
        if name not in numeric:
            raise BadInput(
                f"{asked} with {what} of {name}", "it is no column of numbers", f"They are {', '.join(numeric)}"
            )


def checked_crosses(crosses: Any, schema: Schema, asked: str) -> tuple[tuple[str, ...], ...]:
    """Lists of two and more different columns."""
    names = [column.name for column in schema.columns if column.type != "text"]
    try:
        lists: tuple[tuple[str, ...], ...] = CROSSES(crosses)
    except Wrong as wrong:
        raise BadInput(f"{asked} with crosses", wrong.fact, wrong.remedy) from None
    for name in (name for columns in lists for name in columns):
        if name not in names:
            raise BadInput(f"{asked} with crosses of {name}", "there is no such column", f"They are {', '.join(names)}")
    return lists


EDGE_LIST = listed(_NUMBER, least=1, most=1000, such_as="[18, 30, 65]")
PAIR = listed(_NUMBER, least=2, most=2, such_as="[40.0, 12.5]")
CROSSES = listed(
    listed(text(), least=2, most=4, distinct=True, such_as='["job", "region"]'), most=100, such_as='[["job", "region"]]'
)


def by_column(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A table of such values, by the name of a column."""

    def check_all(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Wrong(f"{shown(value)} is not a table of columns", "Write {age = [18, 30, 65]}")
        return {str(name): check(entry) for name, entry in value.items()}

    return check_all


EDGES_OPTION = Option(
    name="edges",
    check=either(_COUNT, int, by_column(EDGE_LIST)),
    type="whole number, or a table of lists by column",
    default="16",
    meaning="how many: quantiles of the public table, or equally spaced within the bounds; or the edges themselves",
)
CROSSES_OPTION = Option(
    name="crosses", check=CROSSES, type="list of lists", default="none", meaning="columns whose combinations count"
)
SCALES_OPTION = Option(
    name="scales",
    check=by_column(PAIR),
    type="table of pairs by column",
    default="of the public table, or else of the bounds",
    meaning="mean and scale of a number",
)


# -- statistics of public rows


def public_edges(values: Floats, count: int) -> tuple[float, ...]:
    """At most ``count`` edges that cut public values into parts of about equal size; each lies between two values.

    A value that several quantiles fall on is cut off on both sides, and the quantiles that are left over go to the
    other values: of a column that is mostly 0, the rest is told apart. There are at least two different values.
    """
    distinct = np.unique(values)
    between = (distinct[:-1] + distinct[1:]) / 2
    if len(between) <= count:
        return tuple(map(float, between))
    edges: set[float] = set()
    rest = values
    while len(edges) < count and len(rest):
        missing = count - len(edges)
        levels = np.quantile(rest, np.arange(1, missing + 1) / (missing + 1), method="inverted_cdf")
        places, times = np.unique(np.searchsorted(distinct, levels), return_counts=True)
        for place, repeats in zip(places.tolist(), times.tolist(), strict=True):
            below = between[place - 1 : place] if place else between[:0]
            above = between[place : place + 1] if repeats > 1 or not place else between[:0]
            edges.update(map(float, (*below, *above)))
        rest = rest[~np.isin(rest, distinct[places])]
    return tuple(sorted(edges))


def edges_within(low: float, high: float, count: int) -> tuple[float, ...]:
    """``count`` edges that cut the bounds into equal parts."""
    return tuple(map(float, np.linspace(low, high, count + 2)[1:-1]))


def mean_and_scale(values: Floats) -> tuple[float, float]:
    """Mean and standard deviation of public values, at least two of which differ."""
    return float(values.mean()), float(values.std())
