"""The stream paper's Fig. 2, error by updates, and Fig. 3, error by labels, with what ours adds at equal epsilon.

The stream paper's Fig. 4, sizes of mini-batches and windows, and Fig. 5, slabs that are fixed or shrink.

What the stream paper's figures seem to say, asked with enough permutations to be answered.

Ten permutations leave most differences within their own noise. Here are fifty, of the cases that the questions need:
does FLMB beat FLSW at equal labels; do mini-batches reduce the variance; does a shrinking slab cut labels; what does
ours add at equal epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from discreet.simulation.points import Interval, mean_interval
from discreet.simulation.results import Chart, Panel, Row, Series, Table
from discreet_research.bench.rows import chart_of, curve, difference, grouped, level, points_of
from discreet_research.bench.stream_methods import (
    AS_PRINTED,
    AT,
    BERNOULLI,
    BERNOULLI_FLSW,
    BERNOULLI_FREE,
    EVERY_FREE,
    EVERY_GAMMA,
    EVERY_GAUSSIAN,
    EVERY_ONE,
    EXPONENTIAL,
    EXPONENTIAL_FLSW,
    FIG_3,
    FIG_4,
    FIG_5,
    KDD,
    KDD_SHORT,
    MARKS,
    MNIST,
    MNIST_PAID,
    NOT_PRIVATE,
    ONE_BATCH,
    ONE_SIDED,
    ONE_SIDED_1,
    OURS,
    OURS_1,
    OURS_FLSW,
    OURS_FREE,
    SIZED,
    SIZES,
    SLABBED,
    ZERO_OUT,
    ZERO_OUT_FLSW,
    StreamMethod,
    StreamProblem,
    shrinking,
    sized_name,
)
from discreet_research.bench.stream_tables import (
    MEAN,
    PAIRED,
    ProblemRows,
    Question,
    answer,
    by_problem,
    error_table,
    questions_table,
    spread_difference,
)


def _asked(question: str, higher: StreamMethod, lower: StreamMethod) -> Question:
    return question, higher.name, lower.name


WINDOWS: tuple[Question, ...] = (
    _asked("the paper's, Bernoulli", BERNOULLI_FLSW, BERNOULLI),
    _asked("the paper's, exponential", EXPONENTIAL_FLSW, EXPONENTIAL),
    _asked("zero-out noise", ZERO_OUT_FLSW, ZERO_OUT),
    _asked("ours", OURS_FLSW, OURS),
)
GAINS: tuple[Question, ...] = (
    _asked("zero-out noise, over the paper's", BERNOULLI, ZERO_OUT),
    _asked("one-sided asking for 1, over Bernoulli's", ZERO_OUT, ONE_SIDED_1),
    _asked("asking for 0.5, over asking for 1", ONE_SIDED_1, ONE_SIDED),
    _asked("Gaussian noise over Gamma noise, asking for 1", ONE_SIDED_1, OURS_1),
    _asked("Gaussian noise over Gamma noise, asking for 0.5", ONE_SIDED, OURS),
    _asked("**all of ours over the paper's**", BERNOULLI, OURS),
    _asked("batches of 20 and a ball of 10, for ours", OURS, OURS_FREE),
    _asked("batches of 20 and a ball of 10, for the paper's", BERNOULLI, BERNOULLI_FREE),
    _asked("**ours over the paper's, both with them**", BERNOULLI_FREE, OURS_FREE),
    _asked("exponential asking, over Bernoulli's", BERNOULLI, EXPONENTIAL),
)
OVER_BASELINES: tuple[Question, ...] = (
    _asked("ours over labelling everything, one by one, Gamma", EVERY_ONE, OURS),
    _asked("ours over labelling everything, Gamma", EVERY_GAMMA, OURS),
    _asked("ours over labelling everything, Gaussian", EVERY_GAUSSIAN, OURS),
    _asked("the same with batches of 20 and a ball of 10", EVERY_FREE, OURS_FREE),
    _asked("ours over one batch", ONE_BATCH, OURS),
    _asked("ours with batches of 20 and a ball of 10 over one batch", ONE_BATCH, OURS_FREE),
)


def fig_2_tables(rows: Sequence[Row]) -> list[Table]:
    """Errors at marks of the label axis; the charts have the updates."""
    return [errors_of(of_problem) for of_problem in by_problem(rows)]


def fig_3_tables(rows: Sequence[Row]) -> list[Table]:
    """Errors at marks, and three questions: windows, what ours adds at equal epsilon, and baselines."""
    tables, problems = [], by_problem(rows)
    for of_problem in problems:
        tables.append(errors_of(of_problem))
        if of_problem.problem != MNIST_PAID.name:
            tables += answers_of(of_problem, [*MARKS[of_problem.problem], MEAN])
    return [*tables, *_paid(problems)]


def errors_of(of_problem: ProblemRows) -> Table:
    """The table of one problem."""
    return error_table(of_problem, MARKS[of_problem.problem])


def answers_of(of_problem: ProblemRows, marks: Sequence[float | str]) -> list[Table]:
    """The questions of one problem."""
    titles = {"FLMB against FLSW": WINDOWS, "what is gained at epsilon 2": GAINS, "and over baselines": OVER_BASELINES}
    return [
        questions_table(of_problem, asked, marks, f"{of_problem.problem}: {title}") for title, asked in titles.items()
    ]


def _paid(problems: Sequence[ProblemRows]) -> list[Table]:
    """Components of the public part against components that are paid for."""
    known = {of_problem.problem: of_problem for of_problem in problems}
    if not {MNIST.name, MNIST_PAID.name} <= set(known):
        return []
    lines = []
    for method in (OURS, OURS_FREE, EVERY_FREE):
        for mark in MNIST.marks:
            gap = difference(*(known[name].errors(method.name, mark) for name in (MNIST_PAID.name, MNIST.name)))
            if gap is not None:
                lines.append((method.name, f"at {mark} labels", points_of(gap), answer(gap)))
    return [
        Table(
            title="mnist-0-9: are public components better than paid ones?",
            columns=("method", "where", "difference, points", "answer"),
            rows=tuple(lines),
            note=f"Paid by {MNIST_PAID.paid:,} records that never arrive, for (2, 1e-6). {PAIRED}",
        )
    ]


# -- charts

_COLORS = ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown", "tab:pink", "tab:olive")
_FIRST = (BERNOULLI_FLSW, EXPONENTIAL_FLSW, BERNOULLI, EXPONENTIAL, AS_PRINTED)
_SECOND = (ZERO_OUT, ONE_SIDED, EVERY_GAMMA, EVERY_GAUSSIAN, ONE_BATCH, OURS_FREE)
COLORS = {
    **{method.name: color for method, color in zip(_FIRST, _COLORS, strict=False)},
    **{
        method.name: color for method, color in zip(_SECOND, ("c", "m", "y", "tab:pink", "tab:brown", "r"), strict=True)
    },
    OURS.name: "k",
    OURS_FLSW.name: "tab:cyan",
    NOT_PRIVATE.name: "0.6",
}
"""The same method has the same colour in every panel."""


def fig_2_charts(rows: Sequence[Row]) -> list[Chart]:
    """Error by updates."""
    panels = (error_panel(problem, problem.methods, "updates", problem.problem) for problem in by_problem(rows))
    return chart_of("stream-fig-2", panels)


def fig_3_charts(rows: Sequence[Row]) -> list[Chart]:
    """Error by labels: the paper's methods, and what ours adds at equal epsilon."""
    sets = {"the paper's": (*_FIRST, OURS, NOT_PRIVATE), "at epsilon 2": (BERNOULLI, *_SECOND, OURS, NOT_PRIVATE)}
    panels = (
        error_panel(of_problem, [method.name for method in methods], "labels", f"{of_problem.problem}: {title}")
        for of_problem in by_problem(rows)
        if of_problem.problem != MNIST_PAID.name
        for title, methods in sets.items()
    )
    return chart_of("stream-fig-3", panels)


def error_panel(of_problem: ProblemRows, methods: Sequence[str], along: str, title: str) -> Panel:
    """A line a method; one that is not private is a level."""
    series = [line for method in methods if (line := _line(of_problem, method, along)) is not None]
    ends = [line.x[-1] for line in series if len(line.x) > 1]
    series += [_level(of_problem, method, max(ends, default=1.0)) for method in methods if of_problem.of(method, "all")]
    return Panel(title=title, x_label=_LABELS[along], y_label="error, %", series=tuple(series))


_LABELS = {"labels": "labels asked for", "updates": "updates"}


def _line(of_problem: ProblemRows, method: str, along: str) -> Series | None:
    """The mean where every permutation got so far, with its interval."""
    points = of_problem.points(method, along)
    seeds = max((len(values) for values in points.values()), default=0)
    complete = {at: mean_interval(list(values.values())) for at, values in points.items() if len(values) == seeds}
    return curve(method, complete, color=COLORS.get(method, "")) if complete else None


def _level(of_problem: ProblemRows, method: str, end: float) -> Series:
    error = mean_interval([row["error"] for row in of_problem.of(method, "all")]).value
    return level(method, error, (0.0, end), COLORS.get(method, "0.6"))


def fig_4_tables(rows: Sequence[Row]) -> list[Table]:
    """Means and deviations by size, and whether they fall."""
    tables = []
    for of_problem in by_problem(rows):
        at = AT[of_problem.problem]
        tables += [_sizes(of_problem, at), spreads_of(of_problem, at)]
    return tables


def _sizes(of_problem: ProblemRows, at: int) -> Table:
    lines = []
    for family in SIZED:
        shown = _deviations(of_problem, family.name, at)
        lines.append((family.name, *(_mean_and_deviation(shown.get(size)) for size in SIZES)))
    return Table(
        title=f"{of_problem.problem}: error at {at} labels, %, by the size of mini-batches or windows",
        columns=("method", *(str(size) for size in SIZES)),
        rows=tuple(lines),
        note="Means over permutations, and behind ± one standard deviation, as in the paper's figure.",
    )


def _deviations(of_problem: ProblemRows, family: str, at: int) -> dict[int, Interval]:
    """The mean by size, and one standard deviation on either side."""
    samples = {size: np.array([*of_problem.errors(sized_name(family, size), at).values()]) for size in SIZES}
    spreads = {size: (sample.mean(), sample.std(ddof=1)) for size, sample in samples.items() if sample.size > 1}
    return {size: Interval(value=mean, low=mean - apart, high=mean + apart) for size, (mean, apart) in spreads.items()}


def _mean_and_deviation(around: Interval | None) -> str:
    return "-" if around is None else f"{100 * around.value:.1f} ± {100 * (around.high - around.value):.1f}"


def spreads_of(of_problem: ProblemRows, at: int) -> Table:
    """Sizes above 1 against 1."""
    lines = []
    for family in SIZED:
        single = of_problem.errors(sized_name(family.name, 1), at)
        for size in SIZES[1:]:
            other = of_problem.errors(sized_name(family.name, size), at)
            spread, error = spread_difference(single, other), difference(single, other)
            if spread is not None and error is not None:
                cells = (points_of(spread), answer(spread), points_of(error), answer(error))
                lines.append((family.name, str(size), *cells))
    return Table(
        title=f"{of_problem.problem}: does a size above 1 help, at {at} labels?",
        columns=(
            "method",
            "size",
            "spread of size 1 less this",
            "less spread",
            "error of size 1 less this",
            "less error",
        ),
        rows=tuple(lines),
        note="Spread: the mean distance from the median over permutations (Brown and Forsythe), in points. " + PAIRED,
    )


def fig_4_charts(rows: Sequence[Row]) -> list[Chart]:
    """Error by size, with one standard deviation."""
    panels = []
    for of_problem in by_problem(rows):
        at = AT[of_problem.problem]
        names = [family.name for family in SIZED]
        series = (curve(name, _deviations(of_problem, name, at), color=COLORS[name]) for name in names)
        title = f"{of_problem.problem}, {at} labels, and one standard deviation"
        shown = tuple(line for line in series if line.x)
        panels.append(Panel(title=title, x_label="size", y_label="error, %", series=shown))
    return chart_of("stream-fig-4", panels)


# -- Fig. 5

ARRIVALS = (250, 500, 1000)


def fig_5_tables(rows: Sequence[Row]) -> list[Table]:
    """Labels of the first arrivals, and errors at equal labels."""
    tables = []
    for of_problem in by_problem(rows):
        tables += [errors_of(of_problem), *slabs_of(of_problem, [*KDD.marks, MEAN])]
    return tables


def slabs_of(of_problem: ProblemRows, marks: Sequence[float | str]) -> list[Table]:
    """Does a shrinking slab ask for fewer, and what does that cost?"""
    asked = [(fixed.name, fixed.name, shrinking(fixed).name) for fixed in SLABBED]
    title = f"{of_problem.problem}: is a shrinking slab better, at equal labels?"
    return [_labels_cut(of_problem), questions_table(of_problem, asked, marks, title)]


def _labels_cut(of_problem: ProblemRows) -> Table:
    lines = []
    for fixed in SLABBED:
        for at in ARRIVALS:
            before, after = of_problem.asked(fixed.name, at), of_problem.asked(shrinking(fixed).name, at)
            gap = difference(before, after)
            if gap is not None:
                means = (f"{np.mean(list(before.values())):.0f}", f"{np.mean(list(after.values())):.0f}")
                points = f"{gap.value:+.0f} ({gap.low:+.0f} to {gap.high:+.0f})"
                lines.append((fixed.name, str(at), *means, points, answer(gap)))
    return Table(
        title=f"{of_problem.problem}: does a shrinking slab ask for fewer labels?",
        columns=("method", "arrivals", "fixed", "shrinking", "fewer", "answer"),
        rows=tuple(lines),
        note="Labels asked for, means over permutations; differences are paired, with 95% intervals.",
    )


def fig_5_charts(rows: Sequence[Row]) -> list[Chart]:
    """Labels by arrivals, and error by labels, fixed and shrinking."""
    panels: list[Panel] = []
    for of_problem in by_problem(rows):
        names = {"fixed slab": [method.name for method in SLABBED]}
        names["shrinking slab"] = [shrinking(method).name for method in SLABBED]
        panels += [_plain(_asked_panel(of_problem, methods, title)) for title, methods in names.items()]
        panels += [
            _plain(error_panel(of_problem, [*methods, NOT_PRIVATE.name], "labels", title))
            for title, methods in names.items()
        ]
    return chart_of("stream-fig-5", panels)


def _asked_panel(of_problem: ProblemRows, names: Sequence[str], title: str) -> Panel:
    series = []
    for name in names:
        points = grouped(of_problem.of(name, "arrivals"), "at")
        means = {at: float(np.mean([row["asked"] for row in points[at]])) for at in sorted(points)}
        if points:
            series.append(Series(name=name, x=tuple(means), y=tuple(means.values())))
    return Panel(title=title, x_label="arrivals", y_label="labels asked for", series=tuple(series))


def _plain(panel: Panel) -> Panel:
    """The same method has one name and one colour in all panels."""
    names = [line.name.removesuffix(", shrinking") for line in panel.series]
    series = tuple(replace(line, name=name, color=COLORS[name]) for line, name in zip(panel.series, names, strict=True))
    return replace(panel, series=series)


SEEDS = 50


def _methods_on(problem: StreamProblem) -> tuple[StreamMethod, ...]:
    """Every method that a figure has on it, once."""
    wanted = [methods for problems, methods in (*FIG_3, *FIG_4, *FIG_5) if problem in problems]
    return tuple(dict.fromkeys(method for methods in wanted for method in methods if method is not NOT_PRIVATE))


QUESTIONS = tuple(((problem,), _methods_on(problem)) for problem in (MNIST, KDD, KDD_SHORT))


def questions_tables(rows: Sequence[Row]) -> list[Table]:
    """Only answers: the figures have the error rates."""
    tables = []
    for of_problem in by_problem(rows):
        if of_problem.problem != KDD_SHORT.name:
            tables += answers_of(of_problem, [MARKS[of_problem.problem][0], MARKS[of_problem.problem][-1], MEAN])
        if of_problem.problem in (MNIST.name, KDD_SHORT.name):
            tables.append(spreads_of(of_problem, AT[of_problem.problem]))
        if of_problem.problem == KDD.name:
            tables += slabs_of(of_problem, [KDD.marks[0], KDD.marks[-1], MEAN])
    return tables
