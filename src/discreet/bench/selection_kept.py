"""Selection alone: how much of the highest scores each mechanism asks, at the same selection epsilon.

Scores are entropies of a model trained with DP-SGD in the campaign itself. The gain of a phase is against the exact top
k of the whole pool that is left, thresholds are paid for, and who asks fewer than planned has gained less.

How much of a gain any coins can keep depends on how far a few scores stand out of the pool: the ceiling beside the
results. A model that is sure of nearly every record (`pictures="cells"`) lowers it for everybody.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet.bench.accuracy_kept import RANDOM
from discreet.bench.charts import Chart, Panel, Series
from discreet.bench.intervals import mean_interval
from discreet.bench.methods import Method
from discreet.bench.problems import Problem
from discreet.bench.results import Row, values_in
from discreet.bench.sets import Data
from discreet.bench.tables import Table, percent

SELECTION_EPSILON = "2"
PROPORTIONS = (0.20, 0.20, 0.06, 0.02, 0.02)
"""The DP-AL paper's on CIFAR-10: the initial labels, then four queries."""
_SIZES = {"fashion-mnist": 31_500, "mnist": 30_992}
CLIPPED, RESPONSE = "clipped Laplace", "threshold response"
_CEILING = "ceiling of coins"


def _problem(data: Data, *, first_only: bool = False) -> Problem:
    initial, *queries = (int(_SIZES[data] * share) for share in PROPORTIONS)
    return Problem(
        name=data,
        data=data,
        initial=initial,
        queries=tuple(queries),
        epsilon="12" if first_only else "8",
        batch=2048,
        epochs=10,
        score="entropy",
        pictures="pixels",
        travel=5000.0,
        first_only=first_only,
        accountant="rdp" if first_only else "pld",
    )


def _methods(epsilon: str, tau: str) -> tuple[Method, ...]:
    plain = {
        "Laplace": "laplace",
        CLIPPED: "clipped-laplace",
        "Gaussian": "gaussian",
        "subsampled Gaussian": "subsampled-gaussian",
        "exponential": "exponential",
    }
    return (
        *(Method(name=name, mechanism=mechanism, selection_epsilon=epsilon) for name, mechanism in plain.items()),
        Method(
            name=RESPONSE,
            mechanism="threshold-response",
            selection_epsilon=epsilon,
            threshold_epsilon=tau,
            strict=True,
        ),
    )


SELECTION_PROBLEMS = (_problem("fashion-mnist"), _problem("mnist"))
SELECTION_METHODS = (Method(name=RANDOM, mechanism="random"), *_methods(SELECTION_EPSILON, "0.01"))


def selection_tables(rows: Sequence[Row]) -> list[Table]:
    """Table 5 for every mechanism; and the share of the gain in mean score, by phase."""
    found = []
    for problem in values_in(rows, "problem"):
        mine = [row for row in rows if row["problem"] == problem and row["phase"] > 0]
        found += [_kept(problem, mine), _paper_table(problem, mine)]
    return found


def _kept(problem: str, rows: Sequence[Row]) -> Table:
    phases = sorted({row["phase"] for row in rows})
    lines = []
    for method in values_in(rows, "method"):
        mine = [row for row in rows if row["method"] == method]
        by_phase = [mean_interval([row["gain_kept"] for row in mine if row["phase"] == phase]) for phase in phases]
        average = mean_interval(
            [float(np.mean([row["gain_kept"] for row in mine if row["seed"] == seed])) for seed in _seeds(mine)]
        )
        spent = max(row["selection_epsilon"] for row in mine)
        lines.append((method, f"{spent:.3f}", *(percent(one, 0) for one in by_phase), percent(average, 1)))
    response = [row for row in rows if row["method"] == RESPONSE]
    ceilings = [float(np.mean([row["ceiling"] for row in response if row["phase"] == phase])) for phase in phases]
    shown = [*ceilings, float(np.mean(ceilings))] if response else []
    lines.append((_CEILING, SELECTION_EPSILON, *(f"{100 * one:.0f}" for one in shown)))
    return Table(
        title=f"{problem}: share of the gain in score kept, %",
        columns=("mechanism", "selection epsilon", *(f"phase {phase}" for phase in phases), "average"),
        rows=tuple(lines),
        note="0 is random, 100 the exact top k of all that is left; fewer asked counts as less gained. "
        "Means over seeds with 95% intervals. The epsilon is that of the worst path, thresholds included. "
        f"The {_CEILING} is what coins of that epsilon would keep of the scores that threshold response met, if the "
        "best threshold were known for nothing and misses were free.",
    )


def _paper_table(problem: str, rows: Sequence[Row]) -> Table:
    lines = []
    for phase in sorted({row["phase"] for row in rows}):
        mine = [row for row in rows if row["phase"] == phase]
        lines.append((str(phase), "random, expected", *(f"{_mean(mine, f'random_{name}'):.4f}" for name in _METRICS)))
        for method in values_in(mine, "method"):
            if method != RANDOM:
                his = [row for row in mine if row["method"] == method]
                lines.append((str(phase), method, *(f"{_mean(his, name):.4f}" for name in _METRICS)))
    return Table(
        title=f"{problem}: against the true top k",
        columns=("phase", "mechanism", "accuracy", "IoU", "MSE"),
        rows=tuple(lines),
        note="As the paper's Table 5; higher accuracy and IoU, and lower MSE, are better.",
    )


_METRICS = ("accuracy", "iou", "mse")


def selection_charts(rows: Sequence[Row]) -> list[Chart]:
    """Figs. 9 and 10: scores of the pool with the top k, and scores of the asked, a panel a phase."""
    charts = []
    for problem in values_in(rows, "problem"):
        mine = [row for row in rows if row["problem"] == problem and row["phase"] > 0 and row["seed"] == 0]
        phases = sorted({row["phase"] for row in mine})
        charts.append(Chart(name=f"scores-{problem}", panels=tuple(_scores(mine, phase) for phase in phases)))
        charts.append(Chart(name=f"asked-{problem}", panels=tuple(_asked(mine, phase) for phase in phases)))
    return charts


def _scores(rows: Sequence[Row], phase: int) -> Panel:
    row = next(row for row in rows if row["phase"] == phase and row["method"] == RESPONSE)
    edges = _edges(row["pool_counts"])
    pool = Series(name="pool", x=edges, y=tuple(row["pool_counts"]), kind="filled", color="0.7")
    top = Series(name="its top k", x=edges, y=tuple(row["top_counts"]), kind="filled", color="tab:red")
    return Panel(title=f"Phase {phase}", x_label="entropy", y_label="records", series=(pool, top))


def _asked(rows: Sequence[Row], phase: int) -> Panel:
    shown = {RANDOM: "0.6", CLIPPED: "tab:blue", RESPONSE: "tab:orange"}
    series = []
    for method, color in shown.items():
        row = next(row for row in rows if row["phase"] == phase and row["method"] == method)
        counts = tuple(row["asked_counts"])
        series.append(Series(name=method, x=_edges(counts), y=counts, kind="steps", color=color))
    return Panel(title=f"Phase {phase}", x_label="entropy of the asked", y_label="records", series=tuple(series))


def _edges(counts: Sequence[int]) -> tuple[float, ...]:
    return tuple(np.linspace(0, 1, len(counts) + 1).tolist())


# -- Fig. 11

_EPSILONS = ("1", "2", "4", "6", "8", "10")
NOISE_PROBLEMS = (_problem("fashion-mnist", first_only=True), _problem("mnist", first_only=True))
NOISE_METHODS = (
    Method(name=RANDOM, mechanism="random"),
    *(
        Method(**(method.settings() | {"name": f"{method.name}, {epsilon}"}))
        for epsilon in _EPSILONS
        for method in _methods(epsilon, "0.01")
    ),
)


def noise_tables(rows: Sequence[Row]) -> list[Table]:
    """Accuracy of the first query against the true top k, by mechanism and epsilon."""
    tables = []
    for problem in values_in(rows, "problem"):
        mine = [row for row in rows if row["problem"] == problem and row["phase"] == 1]
        lines = []
        for mechanism in _mechanisms(mine):
            cells = [[row["accuracy"] for row in mine if row["method"] == f"{mechanism}, {e}"] for e in _EPSILONS]
            lines.append((mechanism, *(f"{100 * np.mean(cell):.1f}" if cell else "-" for cell in cells)))
        expected = f"{100 * _mean(mine, 'random_accuracy'):.1f}"
        lines.append((RANDOM, *(expected for _ in _EPSILONS)))
        tables.append(
            Table(
                title=f"{problem}: accuracy of the first query, %",
                columns=("mechanism", *(f"epsilon {epsilon}" for epsilon in _EPSILONS)),
                rows=tuple(lines),
                note="Share of the true top k that is asked; the epsilon is for all four queries together.",
            )
        )
    return tables


def noise_charts(rows: Sequence[Row]) -> list[Chart]:
    """Fig. 11."""
    panels = []
    for problem in values_in(rows, "problem"):
        mine = [row for row in rows if row["problem"] == problem and row["phase"] == 1]
        series = [_curve(mine, mechanism) for mechanism in _mechanisms(mine)]
        level = 100 * _mean(mine, "random_accuracy")
        ends = (float(_EPSILONS[0]), float(_EPSILONS[-1]))
        series.append(Series(name=RANDOM, x=ends, y=(level, level), color="0.6"))
        panels.append(Panel(title=problem, x_label="selection epsilon", y_label="accuracy, %", series=tuple(series)))
    return [Chart(name="noise-mechanisms", panels=tuple(panels))] if panels else []


def _curve(rows: Sequence[Row], mechanism: str) -> Series:
    points = {
        float(epsilon): mean_interval(values)
        for epsilon in _EPSILONS
        if (values := [row["accuracy"] for row in rows if row["method"] == f"{mechanism}, {epsilon}"])
    }
    return Series(
        name=mechanism,
        x=tuple(points),
        y=tuple(100 * point.value for point in points.values()),
        low=tuple(100 * max(point.low, 0.0) for point in points.values()),
        high=tuple(100 * min(point.high, 1.0) for point in points.values()),
    )


def _mechanisms(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["method"].rpartition(", ")[0] for row in rows if row["method"] != RANDOM))


def _mean(rows: Sequence[Row], column: str) -> float:
    return float(np.mean([row[column] for row in rows]))


def _seeds(rows: Sequence[Row]) -> list[int]:
    return sorted({row["seed"] for row in rows})
