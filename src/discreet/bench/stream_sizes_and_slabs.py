"""The stream paper's Fig. 4, sizes of mini-batches and windows, and Fig. 5, slabs that are fixed or shrink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from discreet.bench.charts import Chart, Panel, Series
from discreet.bench.results import Row
from discreet.bench.stream_figures import KDD, MNIST, error_panel
from discreet.bench.stream_methods import NOT_PRIVATE, StreamMethod, ours, papers
from discreet.bench.stream_tables import (
    PAIRED,
    Found,
    answer,
    by_problem,
    difference,
    error_table,
    points_of,
    questions_table,
    spread_difference,
)
from discreet.bench.tables import Table

SIZES = (1, 2, 5, 10, 20)
"""Of mini-batches, and of windows."""
AT = {MNIST.name: 100, "kdd99, short": 200}
KDD_SHORT = replace(KDD, name="kdd99, short", labels=200, updates=40, marks=(100, 200))
FAMILIES = ("paper: Bernoulli, FLMB", "paper: Bernoulli, FLSW", "ours: one-sided 0.5, Gaussian, FLMB")


def _sized(size: int) -> tuple[StreamMethod, ...]:
    made = (papers("bernoulli", "flmb"), papers("bernoulli", "flsw"), ours("0.5", "flmb"))
    return tuple(replace(method, size=size, name=_named(method.name, size)) for method in made)


def _named(name: str, size: int) -> str:
    """The usual size has no ending, so that the same case in two experiments is run once."""
    return name if size == 5 else f"{name}, of {size}"


FIG_4 = (((MNIST, KDD_SHORT), tuple(method for size in SIZES for method in _sized(size))),)


def fig_4_tables(rows: Sequence[Row]) -> list[Table]:
    """Means and deviations by size, and whether they fall."""
    tables = []
    for found in by_problem(rows):
        at = AT[found.problem]
        tables.append(_sizes(found, at))
        tables.append(_spreads(found, at))
    return tables


def _sizes(found: Found, at: int) -> Table:
    lines = []
    for family in FAMILIES:
        samples = [list(found.errors(_named(family, size), at).values()) for size in SIZES]
        lines.append((family, *(_mean_and_deviation(sample) for sample in samples)))
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


def _spreads(found: Found, at: int) -> Table:
    lines = []
    for family in FAMILIES:
        one = found.errors(_named(family, 1), at)
        for size in SIZES[1:]:
            other = found.errors(_named(family, size), at)
            spread, error = spread_difference(one, other), difference(one, other)
            if spread is not None and error is not None:
                told = (points_of(spread), answer(spread), points_of(error), answer(error))
                lines.append((family, str(size), *told))
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
        series = tuple(one for family in FAMILIES if (one := _by_size(found, family, at)) is not None)
        panels.append(
            Panel(
                title=f"{found.problem}, {at} labels, and one deviation",
                x_label="size",
                y_label="error, %",
                series=series,
            )
        )
    return [Chart(name="stream-fig-4", panels=tuple(panels))] if panels else []


def _by_size(found: Found, family: str, at: int) -> Series | None:
    samples = {size: list(found.errors(_named(family, size), at).values()) for size in SIZES}
    known = {size: np.array(sample) for size, sample in samples.items() if len(sample) > 1}
    if not known:
        return None
    means = {size: float(100 * sample.mean()) for size, sample in known.items()}
    deviations = {size: float(100 * sample.std(ddof=1)) for size, sample in known.items()}
    return Series(
        name=family,
        x=tuple(map(float, known)),
        y=tuple(means.values()),
        low=tuple(means[size] - deviations[size] for size in known),
        high=tuple(means[size] + deviations[size] for size in known),
    )


# -- Fig. 5


def _slabs(method: StreamMethod) -> tuple[StreamMethod, StreamMethod]:
    return method, replace(method, shrinking=True, name=f"{method.name}, shrinking")


SLABBED = (papers("bernoulli", "flsw"), papers("bernoulli", "flmb"), ours("0.5", "flsw"), ours("0.5", "flmb"))
FIG_5 = (((KDD,), (*(each for method in SLABBED for each in _slabs(method)), NOT_PRIVATE)),)
ARRIVALS = (250, 500, 1000)


def fig_5_tables(rows: Sequence[Row]) -> list[Table]:
    """Labels of the first arrivals, and errors at equal labels."""
    tables = []
    for found in by_problem(rows):
        tables.append(error_table(found, found.methods, KDD.marks, f"{found.problem}: error rates"))
        tables.append(_labels_cut(found))
        asked = [(f"shrinking is better: {fixed.name}", fixed.name, slim.name) for fixed, slim in map(_slabs, SLABBED)]
        tables.append(questions_table(found, asked, [*KDD.marks, "mean"], f"{found.problem}: errors at equal labels"))
    return tables


def _labels_cut(found: Found) -> Table:
    lines = []
    for fixed, slim in map(_slabs, SLABBED):
        for at in ARRIVALS:
            before, after = found.asked(fixed.name, at), found.asked(slim.name, at)
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
        for slim in (False, True):
            title = "shrinking slab" if slim else "fixed slab"
            names = [_slabs(method)[slim].name for method in SLABBED]
            panels.append(_asked_panel(found, names, title))
        for slim in (False, True):
            title = "shrinking slab" if slim else "fixed slab"
            names = [*(_slabs(method)[slim].name for method in SLABBED), NOT_PRIVATE.name]
            panels.append(_plain(error_panel(found, names, "labels", title)))
    return [Chart(name="stream-fig-5", panels=tuple(panels))] if panels else []


def _asked_panel(found: Found, names: Sequence[str], title: str) -> Panel:
    series = []
    for name in names:
        rows: list[dict[str, Any]] = found.of(name, "arrivals")
        points = sorted({row["at"] for row in rows})
        means = [float(np.mean([row["asked"] for row in rows if row["at"] == at])) for at in points]
        if points:
            series.append(Series(name=name, x=tuple(points), y=tuple(means)))
    return _plain(Panel(title=title, x_label="arrivals", y_label="labels asked for", series=tuple(series)))


def _plain(panel: Panel) -> Panel:
    """The same method has one name, and so one line of the legend, in all panels."""
    series = tuple(replace(one, name=one.name.removesuffix(", shrinking")) for one in panel.series)
    return replace(panel, series=series)
