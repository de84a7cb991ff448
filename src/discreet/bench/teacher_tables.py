"""Tables of teachers: accuracy by epsilon for every aggregator and student; margins; overlap."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discreet.bench.charts import Chart, Panel, Series
from discreet.bench.intervals import mean_interval
from discreet.bench.results import Row, values_in
from discreet.bench.tables import Table, percent

NOTE = (
    "Accuracy on the test set, in percent, with 95% intervals over seeds; in brackets the cap on questions (of a "
    "sparse vector, T) and how many were answered on average. Of the caps that were tried the one is shown that was "
    "best with seed 0, which is not in the means. *Refused*: too few teachers; the number that would do."
)
TUNING_SEED = 0
"""Chooses caps, and is reported nowhere: choosing on the seeds that are shown would flatter every cell."""


def teacher_tables(rows: Sequence[Row]) -> list[Table]:
    """For each problem: what is not private, then every aggregator and student; margins and overlaps at the end."""
    tables = []
    for problem in values_in(rows, "problem"):
        mine = [row for row in rows if row["problem"] == problem]
        tables.append(_accuracy(problem, mine))
    reported = [row for row in rows if row["seed"] != TUNING_SEED]
    tables += [_margins(reported)] if any(row["aggregator"] == "margin" for row in reported) else []
    overlaps = _overlaps(reported)
    return [*tables, overlaps] if overlaps.rows else tables


def _accuracy(problem: str, rows: Sequence[Row]) -> Table:
    epsilons = sorted({row["epsilon"] for row in rows if row.get("epsilon") is not None})
    lines: list[tuple[str, ...]] = []
    free = [row for row in rows if row["aggregator"] == "not private" and row["seed"] != TUNING_SEED]
    for student in values_in(free, "student"):
        by_seed = {row["seed"]: row["accuracy"] for row in free if row["student"] == student}
        cell = percent(mean_interval(list(by_seed.values())))
        lines.append(("not private", student, *([cell] + [""] * (len(epsilons) - 1))))
    paid = [row for row in rows if row["aggregator"] not in ("not private", "margin")]
    for aggregator in values_in(paid, "aggregator"):
        of = [row for row in paid if row["aggregator"] == aggregator]
        for student in [name for name in values_in(of, "student") if name != "refused"] or ["-"]:
            cells = [_cell([row for row in of if row["epsilon"] == epsilon], student) for epsilon in epsilons]
            lines.append((aggregator, student, *cells))
    return Table(
        title=problem,
        columns=("aggregator", "student", *(f"eps {epsilon:g}" for epsilon in epsilons)),
        rows=tuple(lines),
        note=NOTE,
    )


def _cell(rows: Sequence[Row], student: str) -> str:
    """The cap that was best with the tuning seed, on the others."""
    by_cap: dict[Any, list[Row]] = {}
    for row in rows:
        if row["student"] == student:
            by_cap.setdefault(row["unstable"] or row["cap"], []).append(row)
    cap = chosen_cap(by_cap)
    if cap is not None:
        mine = [row for row in by_cap[cap] if row["seed"] != TUNING_SEED]
        answered = float(np.mean([row["answered"] for row in mine]))
        return f"{percent(mean_interval([row['accuracy'] for row in mine]))} [{cap}; {answered:.0f}]"
    needed = [row["needed"] for row in rows if row["student"] == "refused"]
    return f"refused: {min(needed):,}" if needed else "-"


def chosen_cap(by_cap: Mapping[Any, Sequence[Row]]) -> Any | None:
    """Of the caps that have a tuning seed and others, the one with the best accuracy in the former."""
    tried = {
        cap: [row["accuracy"] for row in rows if row["seed"] == TUNING_SEED]
        for cap, rows in by_cap.items()
        if any(row["seed"] != TUNING_SEED for row in rows)
    }
    known = {cap: float(np.mean(found)) for cap, found in tried.items() if found}
    return max(known, key=lambda cap: known[cap]) if known else None


def _margins(rows: Sequence[Row]) -> Table:
    """nu by Delta, the approximate margin of the paper's Appendix F."""
    found = [row for row in rows if row["aggregator"] == "margin"]
    problems = values_in(found, "problem")
    margins = sorted({row["margin"] for row in found})
    lines = []
    for margin in margins:
        cells = []
        for problem in problems:
            mine = [row["nu"] for row in found if row["problem"] == problem and row["margin"] == margin]
            cells.append(f"{np.mean(mine):.3f}")
        lines.append((f"{margin:.3f}", *cells))
    return Table(
        title="Approximate margins: the share nu of questions whose expected margin is at most Delta",
        columns=("Delta", *problems),
        rows=tuple(lines),
        note="From votes, which play private data here: a simulation. Means over seeds.",
    )


def _overlaps(rows: Sequence[Row]) -> Table:
    """Do active questions and unstable ones fall together? Of unstable questions, the share that was asked actively."""
    lines: list[tuple[str, float, int, float, float]] = []
    for problem in values_in(rows, "problem"):
        mine = [row for row in rows if row["problem"] == problem]
        active = {
            row["seed"]: set(json.loads(row["asked_places"]))
            for row in mine
            if row["student"] == "disagreement" and row["aggregator"] == "gaussian" and row.get("asked_places")
        }
        for row in [r for r in mine if r["aggregator"] == "sparse" and r["student"] == "passive"]:
            paid, asked = set(json.loads(row["places"])), active.get(row["seed"])
            if asked and paid:
                both = len(paid & asked) / len(paid)
                lines.append((problem, row["epsilon"], row["unstable"], both, len(asked) / row["cap"]))
    told: dict[tuple[str, float, int], list[tuple[float, float]]] = {}
    for problem, epsilon, unstable, both, chance in lines:
        told.setdefault((problem, epsilon, unstable), []).append((both, chance))
    return Table(
        title="Questions that both pay for: of the unstable ones, the share that an active student asks",
        columns=("problem", "eps", "T", "asked actively", "if drawn at random"),
        rows=tuple(
            (key[0], f"{key[1]:g}", str(key[2]), f"{np.mean(pairs, axis=0)[0]:.2f}", f"{np.mean(pairs, axis=0)[1]:.2f}")
            for key, pairs in told.items()
        ),
    )


def teacher_charts(rows: Sequence[Row]) -> list[Chart]:
    """nu against Delta, the paper's Adult plot."""
    found = [row for row in rows if row["aggregator"] == "margin" and row["seed"] != TUNING_SEED]
    if not found:
        return []
    series = []
    for problem in values_in(found, "problem"):
        mine: dict[float, list[float]] = {}
        for row in found:
            if row["problem"] == problem:
                mine.setdefault(row["margin"], []).append(row["nu"])
        margins = sorted(mine)
        means = tuple(float(np.mean(mine[margin])) for margin in margins)
        series.append(Series(name=problem, x=tuple(margins), y=means))
    panel = Panel(
        title="Approximate margin", x_label="Delta", y_label="nu: share of questions below", series=tuple(series)
    )
    return [Chart(name=f"teacher-margins-{found[0]['problem'].split(',')[0]}", panels=(panel,))]
