"""The headline's tables and its chart: shares kept by epsilon, accuracies beside random, ours less the paper's.

A share is of the gain of exact selection over random active learning, with Fieller's interval; where that gain is not
above two standard errors none is told. Made of rows of results alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.bench.against_random import MARKS, Finals, difference, finals_of
from discreet.bench.charts import Chart, Panel, Series
from discreet.bench.comparing import compare_methods
from discreet.bench.comparison_table import comparison_table
from discreet.bench.headline import HEADLINE
from discreet.bench.intervals import Interval, mean_interval, share_interval
from discreet.bench.paper_problems import EXACT, HIDDEN, LAPLACE, PASSIVE, RANDOM_AL, RESPONSE
from discreet.bench.results import Row, values_in
from discreet.bench.tables import Table, percent

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
    paired = [row for row in alike if row["problem"] in _paired(alike)]
    return [*tables, comparison_table(compare_methods(paired, RESPONSE, LAPLACE))] if paired else tables


def _paired(rows: Sequence[Row]) -> set[str]:
    finals = {problem: finals_of(rows, problem) for problem in values_in(rows, "problem")}
    return {
        problem
        for problem, found in finals.items()
        if len(set(found.get(RESPONSE, {})) & set(found.get(LAPLACE, {}))) > 1
    }


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
    found: dict[str, dict[str, str]] = {}
    for problem in values_in(rows, "problem"):
        name, _, rest = problem.partition(", eps ")
        found.setdefault(name, {})[rest.partition(",")[0]] = problem
    return found


def _epsilons(rows: Sequence[Row]) -> list[str]:
    return sorted({epsilon for mine in _sets(rows).values() for epsilon in mine}, key=float)


def share_of_gain(finals: Finals, kind: str) -> Interval | None:
    """Over the seeds that random, exact and this one have."""
    if not {RANDOM_AL, EXACT, kind} <= set(finals):
        return None
    seeds = sorted(set.intersection(*(set(finals[name]) for name in (RANDOM_AL, EXACT, kind))))
    gains = [finals[kind][seed] - finals[RANDOM_AL][seed] for seed in seeds]
    return share_interval(gains, [finals[EXACT][seed] - finals[RANDOM_AL][seed] for seed in seeds])


def _gain(finals: Finals) -> str:
    seeds = sorted(set(finals.get(EXACT, {})) & set(finals.get(RANDOM_AL, {})))
    if not seeds:
        return "-"
    found = mean_interval([finals[EXACT][seed] - finals[RANDOM_AL][seed] for seed in seeds])
    return f"{100 * found.value:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def _shares(rows: Sequence[Row]) -> Table:
    epsilons, lines = _epsilons(rows), []
    for name, problems in _sets(rows).items():
        finals = {epsilon: finals_of(rows, problem) for epsilon, problem in problems.items()}
        lines.append((name, "*gain of exact selection, points*", "-", *(_gain(finals.get(e, {})) for e in epsilons)))
        for kind, told in PRIVATE.items():
            shares = [percent(share_of_gain(finals.get(e, {}), kind), 0) for e in epsilons]
            lines.append((name, told + _paid(name, kind), SEEN[kind], *shares))
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
    found = [
        method.selection_epsilon
        for problems, methods in HEADLINE
        for problem in problems
        for method in methods
        if problem.name.startswith(f"{name}, eps ") and kind_of(method.name) == kind
    ]
    return "" if kind == HIDDEN else f" ({', '.join(found)})"


def _accuracies(rows: Sequence[Row]) -> Table:
    epsilons, lines = _epsilons(rows), []
    for name, problems in _sets(rows).items():
        finals = {epsilon: finals_of(rows, problem) for epsilon, problem in problems.items()}
        for kind in KINDS:
            if not any(kind in found for found in finals.values()):
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
    found = mean_interval(list(finals[kind].values()))
    text = f"{100 * found.value:.1f} ± {100 * (found.high - found.value):.1f}"
    return text if kind in (PASSIVE, RANDOM_AL) else f"{text} {_mark(finals, kind)}"


def _mark(finals: Finals, kind: str) -> str:
    """Against both ways of random asking, or the one that was run."""
    found = [one for baseline in (RANDOM_AL, PASSIVE) if (one := difference(finals, kind, baseline)) is not None]
    if any(one.high < 0 for one in found):
        return MARKS["worse"]
    return MARKS["yes" if found and all(one.low > 0 for one in found) else "not shown"]


def headline_charts(rows: Sequence[Row]) -> list[Chart]:
    """Shares by epsilon, a panel a set."""
    alike = of_kinds(rows)
    panels = []
    for name, problems in _sets(alike).items():
        finals = {float(epsilon): finals_of(alike, problem) for epsilon, problem in problems.items()}
        series = [_line(told, kind, finals) for kind, told in PRIVATE.items()]
        level = {"x": (min(finals), max(finals)), "color": "0.6"}
        series.append(Series(name="exact selection, not private", y=(100.0, 100.0), **level))  # type: ignore[arg-type]
        series.append(Series(name="random active learning", y=(0.0, 0.0), **(level | {"color": "0.2"})))  # type: ignore[arg-type]
        panels.append(Panel(title=name, x_label="epsilon", y_label="share of the gain kept, %", series=tuple(series)))
    return [Chart(name="headline", panels=tuple(panels))] if panels else []


def _line(told: str, kind: str, finals: dict[float, Finals]) -> Series:
    points = {x: share for x, found in sorted(finals.items()) if (share := share_of_gain(found, kind)) is not None}
    low, high = _CHART

    def cut(value: float) -> float:
        return min(max(100 * value, low), high)

    return Series(
        name=told,
        x=tuple(points),
        y=tuple(cut(point.value) for point in points.values()),
        low=tuple(cut(point.low) for point in points.values()),
        high=tuple(cut(point.high) for point in points.values()),
    )
