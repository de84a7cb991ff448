"""The stream paper's Fig. 2, error by updates, and Fig. 3, error by labels, with what ours adds at equal epsilon."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.bench.charts import Chart, Panel, Series
from discreet.bench.intervals import mean_interval
from discreet.bench.results import Row
from discreet.bench.stream_grid import (
    AS_PRINTED,
    BERNOULLI,
    BERNOULLI_FLSW,
    BERNOULLI_FREE,
    EVERY_FREE,
    EVERY_GAMMA,
    EVERY_GAUSSIAN,
    EVERY_ONE,
    EXPONENTIAL,
    EXPONENTIAL_FLSW,
    MARKS,
    MNIST,
    MNIST_PAID,
    ONE_SIDED,
    ONE_SIDED_1,
    OURS,
    OURS_1,
    OURS_FLSW,
    OURS_FREE,
    ZERO_OUT,
    ZERO_OUT_FLSW,
)
from discreet.bench.stream_methods import NOT_PRIVATE, ONE_BATCH, StreamMethod
from discreet.bench.stream_tables import (
    MEAN,
    PAIRED,
    Found,
    Question,
    answer,
    by_problem,
    difference,
    error_table,
    points_of,
    questions_table,
)
from discreet.bench.tables import Table


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
    return [errors_of(found) for found in by_problem(rows)]


def fig_3_tables(rows: Sequence[Row]) -> list[Table]:
    """Errors at marks, and three questions: windows, what ours adds at equal epsilon, and baselines."""
    tables, problems = [], by_problem(rows)
    for found in problems:
        tables.append(errors_of(found))
        if found.problem != MNIST_PAID.name:
            tables += answers_of(found, [*MARKS[found.problem], MEAN])
    return [*tables, *_paid(problems)]


def errors_of(found: Found) -> Table:
    """The table of one problem."""
    return error_table(found, found.methods, MARKS[found.problem], f"{found.problem}: error rates")


def answers_of(found: Found, marks: Sequence[float | str]) -> list[Table]:
    """The questions of one problem."""
    told = {"FLMB against FLSW": WINDOWS, "what is gained at epsilon 2": GAINS, "and over baselines": OVER_BASELINES}
    return [questions_table(found, asked, marks, f"{found.problem}: {title}") for title, asked in told.items()]


def _paid(problems: Sequence[Found]) -> list[Table]:
    """Components of the public part against components that are paid for."""
    known = {found.problem: found for found in problems}
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
    panels = [error_panel(found, found.methods, "updates", found.problem) for found in by_problem(rows)]
    return [Chart(name="stream-fig-2", panels=tuple(panels))] if panels else []


def fig_3_charts(rows: Sequence[Row]) -> list[Chart]:
    """Error by labels: the paper's methods, and what ours adds at equal epsilon."""
    panels = []
    for found in by_problem(rows):
        if found.problem == MNIST_PAID.name:
            continue
        first = [method.name for method in (*_FIRST, OURS, NOT_PRIVATE)]
        second = [method.name for method in (BERNOULLI, *_SECOND, OURS, NOT_PRIVATE)]
        panels.append(error_panel(found, first, "labels", f"{found.problem}: the paper's"))
        panels.append(error_panel(found, second, "labels", f"{found.problem}: at epsilon 2"))
    return [Chart(name="stream-fig-3", panels=tuple(panels))] if panels else []


def error_panel(found: Found, methods: Sequence[str], along: str, title: str) -> Panel:
    """A line a method; one that is not private is a level."""
    series = [one for method in methods if (one := _line(found, method, along)) is not None]
    ends = [one.x[-1] for one in series if len(one.x) > 1]
    series += [_level(found, method, max(ends, default=1.0)) for method in methods if found.of(method, "all")]
    return Panel(title=title, x_label=_LABELS[along], y_label="error, %", series=tuple(series))


_LABELS = {"labels": "labels asked for", "updates": "updates"}


def _line(found: Found, method: str, along: str) -> Series | None:
    """The mean where every permutation got so far, with its interval."""
    points = found.points(method, along)
    most = max((len(values) for values in points.values()), default=0)
    kept = {at: mean_interval(list(values.values())) for at, values in points.items() if len(values) == most}
    if not kept:
        return None
    return Series(
        name=method,
        x=tuple(kept),
        y=tuple(100 * one.value for one in kept.values()),
        low=tuple(100 * max(one.low, 0.0) for one in kept.values()),
        high=tuple(100 * min(one.high, 1.0) for one in kept.values()),
        color=COLORS.get(method, ""),
    )


def _level(found: Found, method: str, end: float) -> Series:
    error = 100 * mean_interval([row["error"] for row in found.of(method, "all")]).value
    return Series(name=method, x=(0.0, end), y=(error, error), color=COLORS.get(method, "0.6"))
