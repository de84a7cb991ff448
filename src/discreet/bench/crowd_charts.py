"""The crowd paper's Figs. 1 to 4 as charts, and scores beside random asking."""

from __future__ import annotations

import math
from collections.abc import Sequence

from discreet.bench.charts import Chart, Panel, Series
from discreet.bench.crowd_methods import BASELINE, BETAS, KS, gate_name
from discreet.bench.crowd_tables import accuracy_of, final
from discreet.bench.intervals import mean_interval
from discreet.bench.results import Row, values_in

_COLORS = ("tab:blue", "tab:orange", "tab:green", "tab:red")


def gate_charts(rows: Sequence[Row]) -> list[Chart]:
    """Four figures."""
    return [
        Chart(name="crowd-fig-1", panels=_views(rows)),
        Chart(name="crowd-fig-2-3-4", panels=(_fig_2(rows), _fig_3(rows), _fig_4(rows)), columns=3),
    ]


def _mean(rows: Sequence[Row], column: str) -> float:
    return mean_interval([row[column] for row in rows]).value


def _views(rows: Sequence[Row]) -> tuple[Panel, ...]:
    """What the first model thinks of the log's values, and how often they are there; of the first seed."""
    mine = [row for row in rows if row["method"] == BASELINE.name and row["seed"] == 0]

    def histogram(axis: str, title: str, x_label: str) -> Panel:
        points = sorted((row["at"], row["share"]) for row in mine if row["axis"] == axis)
        edges = (*(at for at, _ in points), 1.0)
        series = Series(name="share of values", x=edges, y=tuple(share for _, share in points), kind="filled")
        return Panel(title=title, x_label=x_label, y_label="share of distinct values", series=(series,))

    ranks = sorted((row["at"], row["share"]) for row in mine if row["axis"] == "rank")
    seen = sorted((row["at"], row["share"]) for row in mine if row["axis"] == "seen")
    curve = Series(
        name="times a value is there", x=tuple(math.log10(at) for at, _ in ranks), y=tuple(times for _, times in ranks)
    )
    bars = Series(
        name="share of values",
        x=(*(at - 0.5 for at, _ in seen), seen[-1][0] + 0.5),
        y=tuple(share for _, share in seen),
        kind="filled",
    )
    return (
        histogram("confidence", "(a) confidence of the bootstrapped model", "largest probability"),
        histogram("uncertainty", "(b) its uncertainty", "entropy, in bits"),
        Panel(
            title="(c) how often values are seen",
            x_label="times seen (10: ten or more)",
            y_label="share of distinct values",
            series=(bars,),
        ),
        Panel(
            title="(d) frequency by rank",
            x_label="rank, log10",
            y_label="times seen",
            series=(curve,),
            logarithmic=True,
        ),
    )


def _fig_2(rows: Sequence[Row]) -> Panel:
    series = []
    for beta, color in zip(BETAS, _COLORS, strict=True):
        points = [(k, accuracy_of(final(rows, gate_name(k, beta)))) for k in KS]
        known = [(k, found) for k, found in points if found is not None]
        series.append(
            Series(
                name=f"beta = {beta:g}",
                x=tuple(float(k) for k, _ in known),
                y=tuple(100 * found.value for _, found in known),
                low=tuple(100 * found.low for _, found in known),
                high=tuple(100 * found.high for _, found in known),
                color=color,
            )
        )
    base = accuracy_of(final(rows, BASELINE.name))
    if base is not None:
        level = 100 * base.value
        series.append(Series(name="k=1, beta=1: not private", x=(1.0, 500.0), y=(level, level), color="0.5"))
    begun = accuracy_of([row for row in rows if row["axis"] == "labels" and row["at"] == 0])
    if begun is not None:
        level = 100 * begun.value
        series.append(Series(name="bootstrap labels alone", x=(1.0, 500.0), y=(level, level), color="0.8"))
    return Panel(
        title="Fig. 2: accuracy at different k (k=1: no promise)",
        x_label="k",
        y_label="accuracy, %",
        series=tuple(series),
    )


def _fig_3(rows: Sequence[Row]) -> Panel:
    series = [
        Series(
            name=f"beta = {beta:g}",
            x=tuple(float(k) for k in KS),
            y=tuple(_mean(final(rows, gate_name(k, beta)), "released") for k in KS),
            color=color,
        )
        for beta, color in zip(BETAS, _COLORS, strict=True)
        if all(final(rows, gate_name(k, beta)) for k in KS)
    ]
    return Panel(
        title="Fig. 3: budget at different k",
        x_label="k",
        y_label="texts to label",
        series=tuple(series),
        logarithmic=True,
    )


def _fig_4(rows: Sequence[Row]) -> Panel:
    series = []
    for beta, color in zip(BETAS, _COLORS, strict=True):
        ends = [final(rows, gate_name(k, beta)) for k in KS]
        points = sorted((_mean(end, "released"), 100 * _mean(end, "accuracy")) for end in ends if end)
        series.append(
            Series(
                name=f"beta = {beta:g}",
                x=tuple(math.log10(labels) for labels, _ in points),
                y=tuple(accuracy for _, accuracy in points),
                color=color,
            )
        )
    return Panel(
        title="Fig. 4: accuracy by budget", x_label="labels, log10", y_label="accuracy, %", series=tuple(series)
    )


def asking_charts(rows: Sequence[Row]) -> list[Chart]:
    """Accuracy by questions: one panel for the gate, one for the whole log."""
    problem = values_in(rows, "problem")[:1]
    mine = [row for row in rows if row["problem"] in problem and row["axis"] == "labels"]
    panels = []
    for k, beta in dict.fromkeys((row["k"], row["beta"]) for row in mine):
        here = [row for row in mine if (row["k"], row["beta"]) == (k, beta)]
        name = gate_name(k, beta)
        series = [_line(here, method, method.removeprefix(f"{name}, ")) for method in values_in(here, "method")]
        title = f"{name}{': the whole log, not private' if beta == 1 else ''}"
        panels.append(Panel(title=title, x_label="questions", y_label="accuracy, %", series=tuple(series)))
    return [Chart(name="crowd-asking", panels=tuple(panels))] if panels else []


def _line(rows: Sequence[Row], method: str, name: str) -> Series:
    mine = [row for row in rows if row["method"] == method]
    marks = sorted({row["at"] for row in mine})
    found = [mean_interval([row["accuracy"] for row in mine if row["at"] == at]) for at in marks]
    return Series(
        name=name,
        x=tuple(marks),
        y=tuple(100 * one.value for one in found),
        low=tuple(100 * one.low for one in found),
        high=tuple(100 * one.high for one in found),
    )
