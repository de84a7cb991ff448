"""The stream paper's Fig. 4, sizes of mini-batches and windows, and Fig. 5, slabs that are fixed or shrink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from discreet.bench.charts import Chart, Panel, Series
from discreet.bench.results import Row
from discreet.bench.stream_figures import COLORS, error_panel, errors_of
from discreet.bench.stream_grid import AT, KDD, SIZED, SIZES, SLABBED, shrinking, sized_name
from discreet.bench.stream_methods import NOT_PRIVATE
from discreet.bench.stream_tables import (
    MEAN,
    PAIRED,
    Found,
    answer,
    by_problem,
    difference,
    points_of,
    questions_table,
    spread_difference,
)
from discreet.bench.tables import Table


def fig_4_tables(rows: Sequence[Row]) -> list[Table]:
    """Means and deviations by size, and whether they fall."""
    tables = []
    for found in by_problem(rows):
        at = AT[found.problem]
        tables += [_sizes(found, at), spreads_of(found, at)]
    return tables


def _sizes(found: Found, at: int) -> Table:
    lines = []
    for family in SIZED:
        samples = [list(found.errors(sized_name(family.name, size), at).values()) for size in SIZES]
        lines.append((family.name, *(_mean_and_deviation(sample) for sample in samples)))
    return Table(
        title=f"{found.problem}: error at {at} labels, %, by the size of mini-batches or windows",
        columns=("method", *(str(size) for size in SIZES)),
        rows=tuple(lines),
        note="Means over permutations, and behind ± one standard deviation, as in the paper's figure.",
    )


def _mean_and_deviation(sample: Sequence[float]) -> str:
    if len(sample) < 2:
        return "-"
    return f"{100 * np.mean(sample):.1f} ± {100 * np.std(sample, ddof=1):.1f}"


def spreads_of(found: Found, at: int) -> Table:
    """Sizes above 1 against 1."""
    lines = []
    for family in SIZED:
        one = found.errors(sized_name(family.name, 1), at)
        for size in SIZES[1:]:
            other = found.errors(sized_name(family.name, size), at)
            spread, error = spread_difference(one, other), difference(one, other)
            if spread is not None and error is not None:
                told = (points_of(spread), answer(spread), points_of(error), answer(error))
                lines.append((family.name, str(size), *told))
    return Table(
        title=f"{found.problem}: does a size above 1 help, at {at} labels?",
        columns=(
            "method",
            "size",
            "spread of size 1 less this",
            "less spread",
            "error of size 1 less this",
            "less error",
        ),
        rows=tuple(lines),
        note="Spread: the mean distance from the median over permutations (Brown and Forsythe), in points. " + PAIRED,
    )


def fig_4_charts(rows: Sequence[Row]) -> list[Chart]:
    """Error by size, with one standard deviation."""
    panels = []
    for found in by_problem(rows):
        at = AT[found.problem]
        series = tuple(one for family in SIZED if (one := _by_size(found, family.name, at)) is not None)
        title = f"{found.problem}, {at} labels, and one standard deviation"
        panels.append(Panel(title=title, x_label="size", y_label="error, %", series=series))
    return [Chart(name="stream-fig-4", panels=tuple(panels))] if panels else []


def _by_size(found: Found, family: str, at: int) -> Series | None:
    samples = {size: list(found.errors(sized_name(family, size), at).values()) for size in SIZES}
    known = {size: np.array(sample) for size, sample in samples.items() if len(sample) > 1}
    if not known:
        return None
    means = [float(100 * sample.mean()) for sample in known.values()]
    deviations = [float(100 * sample.std(ddof=1)) for sample in known.values()]
    return Series(
        name=family,
        x=tuple(map(float, known)),
        y=tuple(means),
        low=tuple(max(mean - apart, 0.0) for mean, apart in zip(means, deviations, strict=True)),
        high=tuple(mean + apart for mean, apart in zip(means, deviations, strict=True)),
        color=COLORS[family],
    )


# -- Fig. 5

ARRIVALS = (250, 500, 1000)


def fig_5_tables(rows: Sequence[Row]) -> list[Table]:
    """Labels of the first arrivals, and errors at equal labels."""
    tables = []
    for found in by_problem(rows):
        tables += [errors_of(found), *slabs_of(found, [*KDD.marks, MEAN])]
    return tables


def slabs_of(found: Found, marks: Sequence[float | str]) -> list[Table]:
    """Does a shrinking slab ask for fewer, and what does that cost?"""
    asked = [(fixed.name, fixed.name, shrinking(fixed).name) for fixed in SLABBED]
    title = f"{found.problem}: is a shrinking slab better, at equal labels?"
    return [_labels_cut(found), questions_table(found, asked, marks, title)]


def _labels_cut(found: Found) -> Table:
    lines = []
    for fixed in SLABBED:
        for at in ARRIVALS:
            before, after = found.asked(fixed.name, at), found.asked(shrinking(fixed).name, at)
            gap = difference(before, after)
            if gap is not None:
                means = (f"{np.mean(list(before.values())):.0f}", f"{np.mean(list(after.values())):.0f}")
                told = f"{gap.value:+.0f} ({gap.low:+.0f} to {gap.high:+.0f})"
                lines.append((fixed.name, str(at), *means, told, answer(gap)))
    return Table(
        title=f"{found.problem}: does a shrinking slab ask for fewer labels?",
        columns=("method", "arrivals", "fixed", "shrinking", "fewer", "answer"),
        rows=tuple(lines),
        note="Labels asked for, means over permutations; differences are paired, with 95% intervals.",
    )


def fig_5_charts(rows: Sequence[Row]) -> list[Chart]:
    """Labels by arrivals, and error by labels, fixed and shrinking."""
    panels: list[Panel] = []
    for found in by_problem(rows):
        names = {"fixed slab": [method.name for method in SLABBED]}
        names["shrinking slab"] = [shrinking(method).name for method in SLABBED]
        panels += [_plain(_asked_panel(found, mine, title)) for title, mine in names.items()]
        panels += [
            _plain(error_panel(found, [*mine, NOT_PRIVATE.name], "labels", title)) for title, mine in names.items()
        ]
    return [Chart(name="stream-fig-5", panels=tuple(panels))] if panels else []


def _asked_panel(found: Found, names: Sequence[str], title: str) -> Panel:
    series = []
    for name in names:
        rows: list[dict[str, Any]] = found.of(name, "arrivals")
        points = sorted({row["at"] for row in rows})
        means = [float(np.mean([row["asked"] for row in rows if row["at"] == at])) for at in points]
        if points:
            series.append(Series(name=name, x=tuple(points), y=tuple(means)))
    return Panel(title=title, x_label="arrivals", y_label="labels asked for", series=tuple(series))


def _plain(panel: Panel) -> Panel:
    """The same method has one name and one colour in all panels."""
    names = [one.name.removesuffix(", shrinking") for one in panel.series]
    series = tuple(replace(one, name=name, color=COLORS[name]) for one, name in zip(panel.series, names, strict=True))
    return replace(panel, series=series)
