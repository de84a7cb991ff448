"""The DP-AL paper's Tables 1, 2 and 4 and Figures 7 and 8, on sets that two cores can train.

Table 1 is on all problems of `paper_problems`; the others, as the paper's, on CIFAR-10, and on its form with rare
classes, where there is more to gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from discreet.bench.against_random import finals_of, problem_table, summary_table
from discreet.bench.charts import Chart, Panel, Series
from discreet.bench.intervals import Interval, mean_interval
from discreet.bench.methods import Method
from discreet.bench.paper_problems import (
    BANKING,
    CIFAR,
    CIFAR_RARE,
    CLINC,
    EXACT,
    FASHION,
    HIDDEN,
    LAPLACE,
    PASSIVE,
    PNEUMONIA,
    RANDOM_AL,
    RESPONSE,
    SCORES,
    baselines,
    exact,
    hidden,
    k_centre,
    laplace,
    response,
    tau_of,
    with_epsilon,
    with_labels,
)
from discreet.bench.problems import Problem
from discreet.bench.results import Row, values_in
from discreet.bench.tables import Table

Blocks = tuple[tuple[tuple[Problem, ...], tuple[Method, ...]], ...]
SELECTION_EPSILONS = {"3": "1", "5": "1", "8": "2", "16": "4"}
"""The paper's, by epsilon."""
SHARES_OF_SELECTION = ("0.5", "1", "2", "3", "4")
LABELS = (15_000, 20_000, 25_000, 30_000, 35_000)
_ABLATED = (CIFAR, CIFAR_RARE)


def _all_methods(problem: Problem) -> tuple[Method, ...]:
    tau = tau_of(problem)
    by_score = [
        method
        for score in SCORES
        for method in (exact(score), laplace(score), response(score, tau), hidden(score, tau))
    ]
    return (*baselines(), *by_score, *k_centre())


TABLE_1: Blocks = tuple(
    ((problem,), _all_methods(problem)) for problem in (FASHION, PNEUMONIA, CIFAR, CIFAR_RARE, CLINC, BANKING)
)


def of_entropy(problem: Problem, epsilon: str) -> tuple[Method, ...]:
    """Random asking, and every way to choose by entropy; ``epsilon``: what selection may cost."""
    tau = tau_of(problem)
    passive, _, random_al = baselines()
    private = (laplace("entropy", epsilon), response("entropy", tau, epsilon), hidden("entropy", tau))
    return (passive, random_al, exact("entropy"), *private)


TABLE_2: Blocks = tuple(
    ((with_epsilon(problem, epsilon),), of_entropy(problem, selection))
    for problem in _ABLATED
    for epsilon, selection in SELECTION_EPSILONS.items()
)


def _of_schedules(problem: Problem) -> tuple[Method, ...]:
    tau = tau_of(problem)
    passive, _, random_al = baselines()
    found = [passive, random_al]
    for schedule in ("continual", "noise-reduction", "step-amplification"):
        found.append(laplace("entropy", schedule=schedule))
        # rates of its own for records from above and below are no part of the continual schedule
        found.append(response("entropy", tau, schedule=schedule, individual=schedule != "continual"))
    return tuple(found)


TABLE_4: Blocks = tuple(((problem,), _of_schedules(problem)) for problem in _ABLATED)


def _of_selection(problem: Problem) -> tuple[Method, ...]:
    tau = tau_of(problem)
    passive, _, random_al = baselines()
    kinds = [laplace("entropy", epsilon) for epsilon in SHARES_OF_SELECTION]
    kinds += [response("entropy", tau, epsilon) for epsilon in SHARES_OF_SELECTION]
    return (passive, random_al, exact("entropy"), *kinds)


FIG_7: Blocks = tuple(((problem,), _of_selection(problem)) for problem in _ABLATED)


def _labelled(problem: Problem, labels: int) -> Problem:
    """The batch stays, as the paper's did."""
    if labels == problem.labels:
        return problem
    return replace(with_labels(problem, labels), name=f"{problem.name}, {labels:,} labels")


FIG_8: Blocks = tuple(((_labelled(CIFAR, labels),), of_entropy(CIFAR, "2")[:5]) for labels in LABELS)


def paper_tables(title: str, rows: Sequence[Row]) -> list[Table]:
    """One over all problems, then one a problem."""
    return [summary_table(rows, title), *(problem_table(rows, problem) for problem in values_in(rows, "problem"))]


def table_1(rows: Sequence[Row]) -> list[Table]:
    """As the paper's Table 1."""
    return paper_tables("Active learning under privacy, epsilon 8", rows)


def table_2(rows: Sequence[Row]) -> list[Table]:
    """As the paper's Table 2."""
    return paper_tables("By the whole budget", rows)


def table_4(rows: Sequence[Row]) -> list[Table]:
    """As the paper's Table 4."""
    return paper_tables("By schedule", rows)


def fig_7(rows: Sequence[Row]) -> list[Table]:
    """The figures of Fig. 7."""
    return paper_tables("By what selection may cost, of epsilon 8", rows)


def fig_8(rows: Sequence[Row]) -> list[Table]:
    """The figures of Fig. 8."""
    return paper_tables("By the labelling budget", rows)


def no_charts(rows: Sequence[Row]) -> list[Chart]:
    """Tables have none."""
    return []


def fig_7_charts(rows: Sequence[Row]) -> list[Chart]:
    """Accuracy by selection epsilon, a panel a problem; random and exact selection are level lines."""
    panels = []
    ends = (float(SHARES_OF_SELECTION[0]), float(SHARES_OF_SELECTION[-1]))
    for problem in values_in(rows, "problem"):
        finals = finals_of(rows, problem)
        means = {method: mean_interval(list(found.values())) for method, found in finals.items()}
        series = [
            _line(
                kind, {e: means[name] for e in SHARES_OF_SELECTION if (name := _with(f"entropy, {kind}", e)) in means}
            )
            for kind in (LAPLACE, RESPONSE)
        ]
        series += [
            _line(method, dict.fromkeys(map(str, ends), means[method]))
            for method in (RANDOM_AL, PASSIVE, f"entropy, {EXACT}")
            if method in means
        ]
        panels.append(_panel(problem, "selection epsilon", series))
    return [Chart(name="fig-7", panels=tuple(panels))] if panels else []


def _with(name: str, epsilon: str) -> str:
    return name if epsilon == "2" else f"{name}, {epsilon}"


def table_2_charts(rows: Sequence[Row]) -> list[Chart]:
    """Accuracy by epsilon, a panel a set."""
    names = {problem: problem.rpartition(", eps ") for problem in values_in(rows, "problem")}
    sets = list(dict.fromkeys(name for name, _, _ in names.values()))
    panels = []
    for one in sets:
        mine = {epsilon: problem for problem, (name, _, epsilon) in names.items() if name == one}
        panels.append(_panel(one, "epsilon", _by_kind({x: finals_of(rows, problem) for x, problem in mine.items()})))
    return [Chart(name="table-2", panels=tuple(panels))] if panels else []


def fig_8_charts(rows: Sequence[Row]) -> list[Chart]:
    """Accuracy by labelling budget."""
    found = {}
    for labels in LABELS:
        finals = finals_of(rows, _labelled(CIFAR, labels).name)
        if finals:
            found[str(labels)] = finals
    return [Chart(name="fig-8", panels=(_panel(CIFAR.name, "labels", _by_kind(found)),))] if found else []


def _by_kind(found: dict[str, dict[str, dict[int, float]]]) -> list[Series]:
    """A line a kind of method, whatever its selection costs at each point."""
    kinds = [PASSIVE, RANDOM_AL, *(f"entropy, {kind}" for kind in (EXACT, LAPLACE, RESPONSE, HIDDEN))]
    series = []
    for kind in kinds:
        points = {}
        for x, finals in found.items():
            values = [list(seeds.values()) for method, seeds in finals.items() if method.startswith(kind)]
            if values:
                points[x] = mean_interval(values[0])
        if points:
            series.append(_line(kind, points))
    return series


def _line(name: str, points: dict[str, Interval]) -> Series:
    return Series(
        name=name,
        x=tuple(map(float, points)),
        y=tuple(100 * point.value for point in points.values()),
        low=tuple(100 * max(point.low, 0.0) for point in points.values()),
        high=tuple(100 * min(point.high, 1.0) for point in points.values()),
    )


def _panel(title: str, x_label: str, series: Sequence[Series]) -> Panel:
    return Panel(title=title, x_label=x_label, y_label="test accuracy, %", series=tuple(series))
