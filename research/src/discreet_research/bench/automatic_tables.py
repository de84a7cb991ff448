"""Tables of the rule for settings: what it falls short of the best of twelve, by set, number of labels and epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.simulation.points import Interval
from discreet.simulation.results import Row, Table
from discreet_research.bench.automatic_settings import DEFAULTS, RULE, THROUGH_CLASSIFIER, TWELVE
from discreet_research.bench.rows import by_seed, difference, grouped, half_interval, points_of

NOTE = (
    "Accuracy, and of two classes AUC, in percent. The best of twelve settings is chosen by the mean of even seeds, "
    "and measured, as the rule is, on odd ones. *Shortfall*: the best of twelve less the rule, paired over the odd "
    "seeds, in points, with 95% intervals where there are several. The last columns, of odd seeds too, are "
    "DPClassifier with the rule and with its defaults; the others are the same arithmetic without a ledger."
)


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """Of one problem: scores by seed of the rule, of the best of twelve, and of the classifier."""

    row: Row
    best: str
    rule: dict[int, float]
    twelve: dict[int, float]
    classifier: dict[int, float]
    defaults: dict[int, float]

    @property
    def shortfall(self) -> Interval | None:
        """With its interval, from two seeds on."""
        return difference(self.twelve, self.rule)

    @property
    def gap(self) -> float:
        """Over the seeds that both have."""
        return float(np.mean([self.twelve[seed] - self.rule[seed] for seed in set(self.twelve) & set(self.rule)]))


def automatic_tables(rows: Sequence[Row]) -> list[Table]:
    """A summary, and all cells."""
    cells = [cell for of_problem in grouped(rows, "problem").values() if (cell := _cell(of_problem)) is not None]
    return [_summary(cells), _details(cells)]


def _cell(rows: Sequence[Row]) -> _Cell | None:
    scores = {method: by_seed(of_method, "score") for method, of_method in grouped(rows, "method").items()}
    choosing = {
        method.name: float(np.mean([value for seed, value in scores[method.name].items() if seed % 2 == 0]))
        for method in TWELVE
        if any(seed % 2 == 0 for seed in scores.get(method.name, {}))
    }
    if not choosing or RULE.name not in scores:
        return None
    best = max(choosing, key=lambda name: choosing[name])
    rule, twelve, classifier, defaults = (
        {seed: value for seed, value in scores.get(name, {}).items() if seed % 2 == 1}
        for name in (RULE.name, best, THROUGH_CLASSIFIER.name, DEFAULTS.name)
    )
    if not set(rule) & set(twelve):
        return None
    return _Cell(row=rows[0], best=best, rule=rule, twelve=twelve, classifier=classifier, defaults=defaults)


def _details(cells: Sequence[_Cell]) -> Table:
    lines = tuple(
        (
            str(cell.row["data"]),
            f"{cell.row['labels']:,}",
            f"{cell.row['epsilon']:g}",
            str(cell.row["metric"]),
            half_interval(cell.rule.values()),
            half_interval(cell.twelve.values()),
            cell.best,
            points_of(cell.shortfall),
            half_interval(cell.classifier.values()),
            half_interval(cell.defaults.values()),
        )
        for cell in cells
    )
    columns = (
        "set",
        "labels",
        "epsilon",
        "metric",
        "auto",
        "best of 12",
        "which",
        "shortfall",
        "classifier",
        "defaults",
    )
    return Table(title="By set, labels and epsilon", columns=columns, rows=lines, note=NOTE)


def _summary(cells: Sequence[_Cell]) -> Table:
    lines = []
    for metric in ("accuracy", "auc"):
        gaps = {str(cell.row["problem"]): 100 * cell.gap for cell in cells if cell.row["metric"] == metric}
        if gaps:
            worst = max(gaps, key=lambda problem: gaps[problem])
            mean = float(np.mean(list(gaps.values())))
            lines.append((metric, str(len(gaps)), f"{mean:+.2f}", f"{gaps[worst]:+.1f}: {worst}"))
    columns = ("metric", "cells", "mean shortfall, points", "worst cell")
    note = "No set was used to fit the constants. That of raw pixels had a part in what their norm is taken to be."
    return Table(title="The rule beside the best of twelve", columns=columns, rows=tuple(lines), note=note)
