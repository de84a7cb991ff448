"""The DP-AL paper's Tables 1, 2 and 4 and Figures 7 and 8, on sets that two cores can train.

Table 1 is on all problems of `paper_problems`; the others, as the paper's, on CIFAR-10, and on its form with rare
classes, where there is more to gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from discreet.simulation.points import mean_interval
from discreet.simulation.results import Chart, Panel, Row, Series, Table
from discreet_research.bench.paper_problems import (
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
    Finals,
    baselines,
    exact,
    finals_of,
    hidden,
    k_centre,
    laplace,
    problem_table,
    response,
    summary_table,
    tau_of,
    with_epsilon,
    with_labels,
)
from discreet_research.bench.problems import Method, Problem
from discreet_research.bench.rows import chart_of, curve, values_in
from discreet_research.bench.sets import Data

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
    methods = [passive, random_al]
    for schedule in ("continual", "noise-reduction", "step-amplification"):
        methods.append(laplace("entropy", schedule=schedule))
        # rates of its own for records from above and below are no part of the continual schedule
        methods.append(response("entropy", tau, schedule=schedule, individual=schedule != "continual"))
    return tuple(methods)


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


_RARE_SETS: tuple[Data, ...] = ("fashion-mnist", "mnist")
RARE_TRAVEL = {"3": 274.0, "8": 634.0}
"""Learning rate times steps, by epsilon, with a clip of 1: twice that of `automatic_settings`, 2 mu n / |(x, 1)|. Half
and twice as much were compared on training records that are in no pool.
"""


def _rare_on_features(data: Data, epsilon: str) -> Problem:
    """`FASHION`, or the same of another set, with one linear layer on scattering in the place of the small CNN."""
    return replace(
        FASHION,
        name=f"{data} 20:1, eps {epsilon}",
        data=data,
        epsilon=epsilon,
        pictures="scattering",
        model="linear",
        travel=RARE_TRAVEL[epsilon],
    )


def _of_features(problem: Problem) -> tuple[Method, ...]:
    """Random, not private, released, hidden."""
    passive, random_al, best, _, *ours = of_entropy(problem, SELECTION_EPSILONS[problem.epsilon])
    return (passive, random_al, best, *ours)


FEATURES_RARE: Blocks = tuple(
    ((problem,), _of_features(problem))
    for epsilon in ("3", "8")
    for problem in (_rare_on_features(data, epsilon) for data in _RARE_SETS)
)


def _with_scout(data: Data, epsilon: str) -> Problem:
    """The same with one query, before which a scout is trained, and steps of nearly all records."""
    problem = _rare_on_features(data, epsilon)
    asked = sum(problem.queries)
    return replace(
        problem, name=f"{problem.name}, one query", queries=(asked,), batch=problem.initial + asked, epochs=60
    )


def _of_scouts(problem: Problem) -> tuple[Method, ...]:
    """All at once at random, and the ways to choose by margin with a scout."""
    tau = tau_of(problem)
    passive, _, random_al = baselines()
    chosen = (
        exact("margin"),
        response("margin", tau, SELECTION_EPSILONS[problem.epsilon]),
        hidden("margin", tau),
    )
    return (
        passive,
        replace(random_al, schedule="scout"),
        *(replace(method, name=f"{method.name}, scout", schedule="scout") for method in chosen),
    )


FEATURES_SCOUT: Blocks = tuple(
    ((problem,), _of_scouts(problem))
    for epsilon in ("3", "8")
    for problem in (_with_scout(data, epsilon) for data in _RARE_SETS)
)


FIG_8: Blocks = tuple(((_labelled(CIFAR, labels),), of_entropy(CIFAR, "2")[:5]) for labels in LABELS)


def paper_tables(title: str, rows: Sequence[Row]) -> list[Table]:
    """One over all problems, then one a problem."""
    return [summary_table(rows, title), *(problem_table(rows, problem) for problem in values_in(rows, "problem"))]


def fig_7_charts(rows: Sequence[Row]) -> list[Chart]:
    """Accuracy by selection epsilon, a panel a problem; random and exact selection are level lines."""
    panels = []
    ends = (float(SHARES_OF_SELECTION[0]), float(SHARES_OF_SELECTION[-1]))
    for problem in values_in(rows, "problem"):
        finals = finals_of(rows, problem)
        means = {method: mean_interval(list(by_seed.values())) for method, by_seed in finals.items()}
        series = [
            curve(
                kind, {e: means[name] for e in SHARES_OF_SELECTION if (name := _with(f"entropy, {kind}", e)) in means}
            )
            for kind in (LAPLACE, RESPONSE)
        ]
        series += [
            curve(method, dict.fromkeys(map(str, ends), means[method]))
            for method in (RANDOM_AL, PASSIVE, f"entropy, {EXACT}")
            if method in means
        ]
        panels.append(_panel(problem, "selection epsilon", series))
    return chart_of("fig-7", panels)


def _with(name: str, epsilon: str) -> str:
    return name if epsilon == "2" else f"{name}, {epsilon}"


def table_2_charts(rows: Sequence[Row]) -> list[Chart]:
    """Accuracy by epsilon, a panel a set."""
    by_set: dict[str, dict[str, Finals]] = {}
    for problem in values_in(rows, "problem"):
        data_set, _, epsilon = problem.rpartition(", eps ")
        by_set.setdefault(data_set, {})[epsilon] = finals_of(rows, problem)
    return chart_of("table-2", (_panel(name, "epsilon", _by_kind(finals)) for name, finals in by_set.items()))


def fig_8_charts(rows: Sequence[Row]) -> list[Chart]:
    """Accuracy by labelling budget."""
    by_labels = {str(labels): finals_of(rows, _labelled(CIFAR, labels).name) for labels in LABELS}
    series = _by_kind(by_labels)
    return chart_of("fig-8", [_panel(CIFAR.name, "labels", series)] if series else [])


def _by_kind(finals_at: dict[str, Finals]) -> list[Series]:
    """A line a kind of method, whatever its selection costs at each point."""
    kinds = [PASSIVE, RANDOM_AL, *(f"entropy, {kind}" for kind in (EXACT, LAPLACE, RESPONSE, HIDDEN))]
    series = []
    for kind in kinds:
        points = {}
        for x, finals in finals_at.items():
            values = [list(seeds.values()) for method, seeds in finals.items() if method.startswith(kind)]
            if values:
                points[x] = mean_interval(values[0])
        if points:
            series.append(curve(kind, points))
    return series


def _panel(title: str, x_label: str, series: Sequence[Series]) -> Panel:
    return Panel(title=title, x_label=x_label, y_label="test accuracy, %", series=tuple(series))
