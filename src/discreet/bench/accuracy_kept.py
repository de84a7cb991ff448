"""Accuracy: what share of the gain of non-private active learning over random asking a private method keeps.

All methods of a problem have the same budget, labels and training; seeds are paired.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.bench.charts import Chart, Panel, Series
from discreet.bench.intervals import Interval, mean_interval, share_interval
from discreet.bench.methods import Method
from discreet.bench.problems import Problem
from discreet.bench.results import Row, values_in
from discreet.bench.sets import Data
from discreet.bench.tables import Table, percent

RANDOM, EXACT = "random", "exact (not private)"

_LABELS = {"initial": 2000, "asked": 6000}
_DATA: tuple[Data, ...] = ("fashion-mnist", "mnist")


def rare_classes(data: Data, epsilon: str, queries: int) -> Problem:
    """Odd classes 20 times rarer, a linear model of random features, 6,000 records asked in so many queries."""
    return Problem(
        name=f"{data}, eps {epsilon}, T={queries}",
        data=data,
        initial=_LABELS["initial"],
        queries=_even(_LABELS["asked"], queries),
        epsilon=epsilon,
        batch=2000,
        epochs=20,
        score="entropy",
    )


def _problems(epsilon: str) -> tuple[Problem, ...]:
    return tuple(rare_classes(data, epsilon, queries) for data in _DATA for queries in (4, 9))


def _even(total: int, parts: int) -> tuple[int, ...]:
    return tuple(total // parts + (place < total % parts) for place in range(parts))


def private_and_not(laplace: str, *responses: tuple[str, float]) -> tuple[Method, ...]:
    """Random, exact, the paper's, ours. ``responses``: what selection may cost, and the share of the pool that shall be
    above the threshold.
    """
    return (
        Method(name=RANDOM, mechanism="random"),
        Method(name=EXACT, mechanism="exact"),
        Method(name=f"clipped Laplace, {laplace}", mechanism="clipped-laplace", selection_epsilon=laplace),
        *(
            Method(
                name=f"threshold response, {epsilon}",
                mechanism="threshold-response",
                selection_epsilon=epsilon,
                threshold_epsilon="0.01",
                individual_rates=True,
                above=above,
            )
            for epsilon, above in responses
        ),
        Method(name="hidden threshold", mechanism="hidden-threshold", threshold_epsilon="0.05"),
    )


ACCURACY_BLOCKS = (
    (_problems("8"), private_and_not("2", ("2", 0.1), ("3", 0.1))),
    (_problems("3"), private_and_not("1", ("1", 0.15), ("1.5", 0.1))),
)

Accuracies = dict[str, dict[int, dict[int, float]]]
"""By method, phase and seed."""


def accuracy_tables(rows: Sequence[Row]) -> list[Table]:
    """A table a problem: final accuracy, and the share kept."""
    return [_table(problem, _accuracies(rows, problem)) for problem in values_in(rows, "problem")]


def _table(problem: str, found: Accuracies) -> Table:
    lines = []
    for method, phases in found.items():
        final = phases[max(phases)]
        lines.append((method, percent(mean_interval(list(final.values()))), percent(_share(found, method), 0)))
    seeds = max(len(values) for phases in found.values() for values in phases.values())
    return Table(
        title=problem,
        columns=("method", "accuracy, %", "share of the gain kept, %"),
        rows=tuple(lines),
        note=f"Means over {seeds} seeds with 95% intervals (shares: Fieller's). A share is told only where the gain "
        "of exact selection over random is above two standard errors.",
    )


def _share(found: Accuracies, method: str) -> Interval | None:
    """Of the last phase, over the seeds that all three have."""
    if not {RANDOM, EXACT} <= set(found) or method in (RANDOM, EXACT):
        return None
    last = {name: found[name][max(found[name])] for name in (RANDOM, EXACT, method)}
    seeds = sorted(set.intersection(*(set(values) for values in last.values())))
    gains = [last[method][seed] - last[RANDOM][seed] for seed in seeds]
    full = [last[EXACT][seed] - last[RANDOM][seed] for seed in seeds]
    return share_interval(gains, full)


def accuracy_charts(rows: Sequence[Row]) -> list[Chart]:
    """Accuracy by phase, a panel a problem."""
    panels = []
    for problem in values_in(rows, "problem"):
        series = []
        for method, phases in _accuracies(rows, problem).items():
            points = {phase: mean_interval(list(values.values())) for phase, values in sorted(phases.items())}
            series.append(
                Series(
                    name=method,
                    x=tuple(map(float, points)),
                    y=tuple(100 * point.value for point in points.values()),
                    low=tuple(100 * max(point.low, 0.0) for point in points.values()),
                    high=tuple(100 * min(point.high, 1.0) for point in points.values()),
                )
            )
        panels.append(Panel(title=problem, x_label="phase", y_label="test accuracy, %", series=tuple(series)))
    return [Chart(name="accuracy", panels=tuple(panels))] if panels else []


def _accuracies(rows: Sequence[Row], problem: str) -> Accuracies:
    found: Accuracies = {}
    for row in rows:
        if row["problem"] == problem and row.get("test_accuracy") is not None:
            found.setdefault(row["method"], {}).setdefault(row["phase"], {})[row["seed"]] = row["test_accuracy"]
    return found
