"""Selection alone: how much of the highest scores each mechanism asks, at the same selection epsilon.

Scores are entropies of a model trained with DP-SGD in the campaign itself. The gain of a phase is against the exact top
k of the whole pool that is left, thresholds are paid for, and who asks fewer than planned has gained less.

How much of a gain any coins can keep depends on how far a few scores stand out of the pool: the ceiling beside the
results. A model that is sure of nearly every record (`pictures="cells"`) lowers it for everybody.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet.simulation.points import mean_interval
from discreet.simulation.results import Chart, Panel, Row, Series, Table, percent
from discreet_research.bench.headline import RANDOM
from discreet_research.bench.problems import Method, Problem
from discreet_research.bench.rows import chart_of, curve, grouped, level
from discreet_research.bench.sets import Data

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
    groups = grouped([row for row in rows if row["phase"] > 0], "problem")
    return [make(problem, of_problem) for problem, of_problem in groups.items() for make in (_kept, _paper_table)]


def _kept(problem: str, rows: Sequence[Row]) -> Table:
    phases = sorted({row["phase"] for row in rows})
    lines = []
    for method, of_method in grouped(rows, "method").items():
        by_phase = [mean_interval([row["gain_kept"] for row in of_method if row["phase"] == phase]) for phase in phases]
        average = mean_interval(
            [_mean(of_seed, "gain_kept") for _, of_seed in sorted(grouped(of_method, "seed").items())]
        )
        spent = max(row["selection_epsilon"] for row in of_method)
        lines.append((method, f"{spent:.3f}", *(percent(share, 0) for share in by_phase), percent(average, 1)))
    response = [row for row in rows if row["method"] == RESPONSE]
    ceilings = [_mean([row for row in response if row["phase"] == phase], "ceiling") for phase in phases]
    shown = [*ceilings, float(np.mean(ceilings))] if response else []
    lines.append((_CEILING, SELECTION_EPSILON, *(f"{100 * share:.0f}" for share in shown)))
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
    for phase, matching in sorted(grouped(rows, "phase").items()):
        expected = (f"{_mean(matching, f'random_{name}'):.4f}" for name in _METRICS)
        lines.append((str(phase), "random, expected", *expected))
        for method, of_method in grouped(matching, "method").items():
            if method != RANDOM:
                lines.append((str(phase), method, *(f"{_mean(of_method, name):.4f}" for name in _METRICS)))
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
    shown = [row for row in rows if row["phase"] > 0 and row["seed"] == 0]
    for problem, of_problem in grouped(shown, "problem").items():
        phases = sorted({row["phase"] for row in of_problem})
        charts.append(Chart(name=f"scores-{problem}", panels=tuple(_scores(of_problem, phase) for phase in phases)))
        charts.append(Chart(name=f"asked-{problem}", panels=tuple(_asked(of_problem, phase) for phase in phases)))
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
    for problem, of_problem in grouped([row for row in rows if row["phase"] == 1], "problem").items():
        lines = []
        for mechanism in _mechanisms(of_problem):
            cells = [[row["accuracy"] for row in of_problem if row["method"] == f"{mechanism}, {e}"] for e in _EPSILONS]
            lines.append((mechanism, *(f"{100 * np.mean(cell):.1f}" if cell else "-" for cell in cells)))
        expected = f"{100 * _mean(of_problem, 'random_accuracy'):.1f}"
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
    ends = (float(_EPSILONS[0]), float(_EPSILONS[-1]))
    for problem, of_problem in grouped([row for row in rows if row["phase"] == 1], "problem").items():
        series = [_curve(of_problem, mechanism) for mechanism in _mechanisms(of_problem)]
        series.append(level(RANDOM, _mean(of_problem, "random_accuracy"), ends, "0.6"))
        panels.append(Panel(title=problem, x_label="selection epsilon", y_label="accuracy, %", series=tuple(series)))
    return chart_of("noise-mechanisms", panels)


def _curve(rows: Sequence[Row], mechanism: str) -> Series:
    methods = grouped(rows, "method")
    named = {epsilon: methods.get(f"{mechanism}, {epsilon}") for epsilon in _EPSILONS}
    points = {epsilon: mean_interval([row["accuracy"] for row in of]) for epsilon, of in named.items() if of}
    return curve(mechanism, points)


def _mechanisms(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["method"].rpartition(", ")[0] for row in rows if row["method"] != RANDOM))


def _mean(rows: Sequence[Row], column: str) -> float:
    return float(np.mean([row[column] for row in rows]))
