"""Accuracy: what share of the gain of non-private active learning over random asking a private method keeps.

All methods of a problem have the same budget, labels and training; seeds are paired.

The headline: what share of the gain of non-private active learning over random asking is kept, by the whole budget.

Four sets, epsilon 3, 5, 8 and 16, the DP-AL paper's clipped Laplace beside ours, the same score (entropy) everywhere.
Every setting was fixed before its cases ran; those of other experiments are the same cases, and are run once:
fashion-mnist and mnist are of `accuracy-kept` (T=9), cifar10 20:1 of `table-2`, banking77 of `table-1`.

What selection may cost, of epsilon 3, 5, 8, 16: the paper's 1, 1, 2, 4 for its Laplace; threshold responses have 1.5,
2, 3, 5 where asking is spread over nine queries, and the paper's where there are four. All of it is paid for out of the
same budget, and every plan is certified by privacy loss distributions.

The headline's tables and its chart: shares kept by epsilon, accuracies beside random, ours less the paper's.

A share is of the gain of exact selection over random active learning, with Fieller's interval; where that gain is not
above two standard errors none is told. Made of rows of results alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.simulation.points import Interval, mean_interval
from discreet.simulation.results import Chart, Panel, Row, Series, Table, percent
from discreet_research.bench.comparing import compare_methods, comparison_table
from discreet_research.bench.paper_problems import (
    BANKING,
    CIFAR_RARE,
    EXACT,
    HIDDEN,
    LAPLACE,
    MARKS,
    PASSIVE,
    RANDOM_AL,
    RESPONSE,
    Finals,
    difference,
    finals_of,
    with_epsilon,
)
from discreet_research.bench.paper_tables import SELECTION_EPSILONS, Blocks, of_entropy
from discreet_research.bench.problems import Method, Problem
from discreet_research.bench.rows import (
    chart_of,
    curve,
    grouped,
    half_interval,
    level,
    mean_points,
    share_of_gain,
    values_in,
)
from discreet_research.bench.sets import Data

RANDOM, EXACT_TOP = "random", "exact (not private)"

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
    return tuple(total // parts + (index < total % parts) for index in range(parts))


def private_and_not(laplace: str, *responses: tuple[str, float]) -> tuple[Method, ...]:
    """Random, exact, the paper's, ours. ``responses``: what selection may cost, and the share of the pool that shall be
    above the threshold.
    """
    return (
        Method(name=RANDOM, mechanism="random"),
        Method(name=EXACT_TOP, mechanism="exact"),
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


def accuracy_tables(rows: Sequence[Row]) -> list[Table]:
    """A table a problem: final accuracy, and the share kept."""
    return [_table(problem, finals_of(rows, problem)) for problem in values_in(rows, "problem")]


def _table(problem: str, finals: Finals) -> Table:
    lines, seeds = [], max(map(len, finals.values()))
    for method, values in finals.items():
        share = None if method in (RANDOM, EXACT_TOP) else _share(finals, method, RANDOM, EXACT_TOP)
        lines.append((method, percent(mean_interval(list(values.values()))), percent(share, 0)))
    return Table(
        title=problem,
        columns=("method", "accuracy, %", "share of the gain kept, %"),
        rows=tuple(lines),
        note=f"Means over {seeds} seeds with 95% intervals (shares: Fieller's). A share is told only where the gain "
        "of exact selection over random is above two standard errors.",
    )


def _share(finals: Finals, method: str, random: str, exact: str) -> Interval | None:
    """Of the gain of exact selection, after the last phase."""
    return share_of_gain(*(finals.get(name, {}) for name in (method, random, exact)))


def accuracy_charts(rows: Sequence[Row]) -> list[Chart]:
    """Accuracy by phase, a panel a problem."""
    measured = [row for row in rows if row.get("test_accuracy") is not None]
    panels = []
    for problem, of_problem in grouped(measured, "problem").items():
        methods = grouped(of_problem, "method").items()
        series = tuple(curve(method, mean_points(of_method, "phase", "test_accuracy")) for method, of_method in methods)
        panels.append(Panel(title=problem, x_label="phase", y_label="test accuracy, %", series=series))
    return chart_of("accuracy", panels)


EPSILONS = tuple(SELECTION_EPSILONS)
QUERIES = 9
SPREAD = {"3": "1.5", "5": "2", "8": "3", "16": "5"}
"""What a threshold response may cost over nine queries, by epsilon."""
ABOVE = 0.1
_SPREAD_SETS: tuple[Data, ...] = ("fashion-mnist", "mnist")


def _of_rare_classes(data: Data, epsilon: str) -> tuple[tuple[Problem, ...], tuple[Method, ...]]:
    methods = private_and_not(SELECTION_EPSILONS[epsilon], (SPREAD[epsilon], ABOVE))
    return (rare_classes(data, epsilon, QUERIES),), methods


def _of_paper(problem: Problem, epsilon: str) -> tuple[tuple[Problem, ...], tuple[Method, ...]]:
    return (with_epsilon(problem, epsilon),), of_entropy(problem, SELECTION_EPSILONS[epsilon])


HEADLINE: Blocks = (
    *(_of_rare_classes(data, epsilon) for data in _SPREAD_SETS for epsilon in EPSILONS),
    *(_of_paper(problem, epsilon) for problem in (CIFAR_RARE, BANKING) for epsilon in EPSILONS),
)


KINDS = (PASSIVE, RANDOM_AL, EXACT, LAPLACE, RESPONSE, HIDDEN)
PRIVATE = {
    LAPLACE: "the paper's clipped Laplace",
    RESPONSE: "ours: threshold response",
    HIDDEN: "ours: hidden threshold",
}
SEEN = {LAPLACE: "anybody", RESPONSE: "anybody", HIDDEN: "owner and annotators only"}
_CHART = (-60.0, 140.0)
"""Intervals are cut there in the chart; the table has them whole."""


def headline_tables(rows: Sequence[Row]) -> list[Table]:
    """Shares, accuracies, and a paired comparison of the two that release the same, where both have two seeds."""
    alike = of_kinds(rows)
    tables = [_shares(alike), _accuracies(alike)]
    seeds = {key: {row["seed"] for row in of} for key, of in grouped(alike, "problem", "method").items()}
    both = {key: seeds.get((key, RESPONSE), set()) & seeds.get((key, LAPLACE), set()) for key, _ in seeds}
    paired = [row for row in alike if len(both[row["problem"]]) > 1]
    return [*tables, comparison_table(compare_methods(paired, RESPONSE, LAPLACE))] if paired else tables


def of_kinds(rows: Sequence[Row]) -> list[Row]:
    """The same rows, with the kind of a method in the place of its name, which differs between experiments."""
    return [row | {"method": kind_of(row["method"])} for row in rows]


def kind_of(method: str) -> str:
    """One of `KINDS`."""
    if method in (PASSIVE, RANDOM_AL):
        return method
    if method == "random":
        return RANDOM_AL
    return next(kind for kind in (EXACT, LAPLACE, RESPONSE, HIDDEN) if kind in method)


def _sets(rows: Sequence[Row]) -> dict[str, dict[str, str]]:
    """Problems by set and epsilon."""
    by_set: dict[str, dict[str, str]] = {}
    for problem in values_in(rows, "problem"):
        name, _, rest = problem.partition(", eps ")
        by_set.setdefault(name, {})[rest.partition(",")[0]] = problem
    return by_set


def _epsilons(rows: Sequence[Row]) -> list[str]:
    return sorted({epsilon for by_epsilon in _sets(rows).values() for epsilon in by_epsilon}, key=float)


def _gain(finals: Finals) -> str:
    gain = difference(finals, EXACT, RANDOM_AL)
    return "-" if gain is None else f"{100 * gain.value:.1f} ({100 * gain.low:.1f} to {100 * gain.high:.1f})"


def _shares(rows: Sequence[Row]) -> Table:
    epsilons, lines = _epsilons(rows), []
    for name, problems in _sets(rows).items():
        finals = {epsilon: finals_of(rows, problem) for epsilon, problem in problems.items()}
        lines.append((name, "*gain of exact selection, points*", "-", *(_gain(finals.get(e, {})) for e in epsilons)))
        for kind, title in PRIVATE.items():
            shares = [percent(_share(finals.get(e, {}), kind, RANDOM_AL, EXACT), 0) for e in epsilons]
            lines.append((name, title + _paid(name, kind), SEEN[kind], *shares))
    seeds = len(values_in(rows, "seed"))
    return Table(
        title="Share of the non-private gain that is kept, in %",
        columns=("set", "method", "who sees whom it asks", *(f"eps {epsilon}" for epsilon in epsilons)),
        rows=tuple(lines),
        note=f"Of the gain of exact selection over random active learning, after the last phase; {seeds} seeds, 95% "
        "intervals (shares: Fieller's; gains: Student's t). A dash: that gain is not above two standard errors, so "
        "there is nothing to share. Behind a method: what its selection may cost at each epsilon, out of the same "
        "budget. *Hidden threshold* makes another promise than the other two: whom it asks is not released.",
    )


def _paid(name: str, kind: str) -> str:
    """What selection may cost, by epsilon."""
    prices = [
        method.selection_epsilon
        for problems, methods in HEADLINE
        for problem in problems
        for method in methods
        if problem.name.startswith(f"{name}, eps ") and kind_of(method.name) == kind
    ]
    return "" if kind == HIDDEN else f" ({', '.join(prices)})"


def _accuracies(rows: Sequence[Row]) -> Table:
    epsilons, lines = _epsilons(rows), []
    for name, problems in _sets(rows).items():
        finals = {epsilon: finals_of(rows, problem) for epsilon, problem in problems.items()}
        for kind in KINDS:
            if not any(kind in by_method for by_method in finals.values()):
                continue  # random records without active learning are not run on every set
            cells = [_accuracy(finals.get(epsilon, {}), kind) for epsilon in epsilons]
            lines.append((name, PRIVATE.get(kind, kind), *cells))
    return Table(
        title="Accuracy beside random asking, in %",
        columns=("set", "method", *(f"eps {epsilon}" for epsilon in epsilons)),
        rows=tuple(lines),
        note="Mean and half of its 95% interval. Behind it, paired over seeds against both ways of random asking "
        "(*random, DP-SGD*: as many records labelled at once; *random AL*: asked at random; on sets without the first, "
        "against the second alone): + beats both, - is worse than one of them, = neither is shown; each mark at 95% "
        "for itself.",
    )


def _accuracy(finals: Finals, kind: str) -> str:
    if kind not in finals:
        return "-"
    text = half_interval(finals[kind].values())
    return text if kind in (PASSIVE, RANDOM_AL) else f"{text} {_mark(finals, kind)}"


def _mark(finals: Finals, kind: str) -> str:
    """Against both ways of random asking, or the one that was run."""
    gains = [gain for baseline in (RANDOM_AL, PASSIVE) if (gain := difference(finals, kind, baseline)) is not None]
    if any(gain.high < 0 for gain in gains):
        return MARKS["worse"]
    return MARKS["yes" if gains and all(gain.low > 0 for gain in gains) else "not shown"]


def headline_charts(rows: Sequence[Row]) -> list[Chart]:
    """Shares by epsilon, a panel a set."""
    alike = of_kinds(rows)
    panels = []
    for name, problems in _sets(alike).items():
        finals = {float(epsilon): finals_of(alike, problem) for epsilon, problem in problems.items()}
        ends = (min(finals), max(finals))
        series = [_line(title, kind, finals) for kind, title in PRIVATE.items()]
        series += [
            level("exact selection, not private", 1.0, ends, "0.6"),
            level("random active learning", 0.0, ends, "0.2"),
        ]
        panels.append(Panel(title=name, x_label="epsilon", y_label="share of the gain kept, %", series=tuple(series)))
    return chart_of("headline", panels)


def _line(title: str, kind: str, finals: dict[float, Finals]) -> Series:
    shares = {epsilon: _share(finals[epsilon], kind, RANDOM_AL, EXACT) for epsilon in sorted(finals)}
    points = {epsilon: share for epsilon, share in shares.items() if share is not None}
    low, high = _CHART

    def cut(value: float) -> float:
        return min(max(100 * value, low), high)

    return Series(
        name=title,
        x=tuple(points),
        y=tuple(cut(point.value) for point in points.values()),
        low=tuple(cut(point.low) for point in points.values()),
        high=tuple(cut(point.high) for point in points.values()),
    )
