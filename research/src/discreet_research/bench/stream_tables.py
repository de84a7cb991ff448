"""What comes out of streams: error rates by labels, and differences that are paired over permutations.

A difference is told with its 95% interval by Student's t, and answered with *yes* only where the whole interval is on
the side that was asked about, *the opposite* where it is on the other, and *not shown* otherwise. Intervals are each
for itself: of forty rows two may be off by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.simulation.points import Interval, mean_interval
from discreet.simulation.results import Row, Table
from discreet_research.bench.rows import BySeed, by_seed, difference, grouped, half_interval, points_of, values_in

Question = tuple[str, str, str]
"""What is asked; the method that should have the higher error; the one that should have the lower."""
MEAN = "mean"
"""Of the label axis."""


@dataclass(frozen=True)
class ProblemRows:
    """The rows of one problem."""

    problem: str
    rows: tuple[Row, ...]

    @property
    def methods(self) -> list[str]:
        """In the order they come."""
        return values_in(self.rows, "method")

    def of(self, method: str, axis: str) -> list[Row]:
        """The rows of one method along one axis."""
        return self._by_axis.get((method, axis), [])

    @cached_property
    def _by_axis(self) -> dict[tuple[str, str], list[Row]]:
        return grouped(self.rows, "method", "axis")

    def points(self, method: str, axis: str) -> dict[float, BySeed]:
        """Errors by where they are on the axis, and by seed."""
        by_point = grouped([row for row in self.of(method, axis) if row["error"] is not None], "at")
        return {at: by_seed(by_point[at], "error") for at in sorted(by_point)}

    def errors(self, method: str, at: float) -> BySeed:
        """At so many labels."""
        return self.points(method, "labels").get(float(at), {})

    def both(self, first: str, second: str, at: float | str) -> tuple[BySeed, BySeed]:
        """Of two methods: at so many labels, or the mean over the points of the axis that both have."""
        if not isinstance(at, str):
            return self.errors(first, at), self.errors(second, at)
        points = [self.points(method, "labels") for method in (first, second)]
        common = sorted(set(points[0]) & set(points[1]))
        left, right = (_mean_over([by_point[at_point] for at_point in common]) for by_point in points)
        return left, right

    def asked(self, method: str, arrivals: float) -> BySeed:
        """How many were asked of the first arrivals."""
        return by_seed([row for row in self.of(method, "arrivals") if row["at"] == arrivals], "asked")

    def share_asked(self, method: str) -> float | None:
        """Of the arrivals that were counted, up to a thousand."""
        seeds = grouped(self.of(method, "arrivals"), "seed").values()
        last = [max((row["at"], row["asked"]) for row in of_seed) for of_seed in seeds]
        return float(np.mean([asked / at for at, asked in last])) if last else None


def _mean_over(points: Sequence[BySeed]) -> BySeed:
    """Of the seeds that got to all of them."""
    seeds = set.intersection(*(set(values) for values in points)) if points else set[int]()
    return {seed: float(np.mean([values[seed] for values in points])) for seed in sorted(seeds)}


def by_problem(rows: Sequence[Row]) -> list[ProblemRows]:
    """One a problem."""
    return [ProblemRows(problem, tuple(of_problem)) for problem, of_problem in grouped(rows, "problem").items()]


def spread_difference(wider: BySeed, narrower: BySeed) -> Interval | None:
    """By how much the first are farther from their median, on average (Brown and Forsythe), paired over seeds."""
    seeds = sorted(set(wider) & set(narrower))
    if len(seeds) < 2:
        return None
    samples = np.array([[values[seed] for seed in seeds] for values in (wider, narrower)])
    apart = np.abs(samples - np.median(samples, axis=1, keepdims=True))
    return mean_interval((apart[0] - apart[1]).tolist())


def answer(interval: Interval | None) -> str:
    """Of a question whose yes is a difference above 0."""
    if interval is None or not (interval.low > 0 or interval.high < 0):
        return "not shown"
    return "yes" if interval.low > 0 else "the opposite"


def error_table(of_problem: ProblemRows, marks: Sequence[int]) -> Table:
    """A method a row: what it claims, its errors at marks, and how many of the first arrivals it asked."""
    lines = []
    for method, of_method in grouped(of_problem.rows, "method").items():
        last = [row["error"] for row in of_method if row["axis"] == "all"]
        cells = [half_interval(of_problem.errors(method, mark).values() or last) for mark in marks]
        share = of_problem.share_asked(method)
        asked = "-" if share is None else f"{100 * share:.0f}"
        lines.append((method, claim_of(of_method[0]), str(len({row["seed"] for row in of_method})), *cells, asked))
    return Table(
        title=f"{of_problem.problem}: error rates",
        columns=("method", "claim", "seeds", *(f"error at {mark} labels, %" for mark in marks), "asked, %"),
        rows=tuple(lines),
        note=NOTE,
    )


NOTE = (
    "Error rates on the test set, means over permutations with 95% intervals by Student's t. `claim`: epsilon, delta; "
    "*replace-one* is what the paper claims for its noise, and behind it what the same run costs under zero-out, each "
    "path by itself; everything else is under zero-out. A method that is not private has all labels at once. `asked`: "
    "of the first thousand arrivals, or of all if there were fewer."
)


def claim_of(row: Row) -> str:
    """What is promised, in short."""
    if not row["private"]:
        return "none"
    delta = "" if float(row["delta"]) == 0 else f", {row['delta']}"
    if row["relation"] == "replace-one":
        return f"{row['epsilon']} replace-one ({row['zero_out_epsilon']:g})"
    return f"{row['epsilon']}{delta}"


def questions_table(
    of_problem: ProblemRows, questions: Sequence[Question], marks: Sequence[float | str], title: str
) -> Table:
    """Is the second method better than the first?"""
    lines = []
    for asked, higher, lower in questions:
        for mark in marks:
            gap = difference(*of_problem.both(higher, lower, mark))
            if gap is not None:
                where = "on average" if isinstance(mark, str) else f"at {mark:g} labels"
                lines.append((asked, where, points_of(gap), answer(gap)))
    return Table(
        title=title,
        columns=("question", "where", "difference, points", "answer"),
        rows=tuple(lines),
        note=PAIRED,
    )


PAIRED = (
    "Differences of error rates, paired over permutations, with 95% intervals; above 0 is in favour of the question. "
    "`on average`: over the whole label axis, or those of its points that both have."
)
