"""What comes out of streams: error rates by labels, and differences that are paired over permutations.

A difference is told with its 95% interval by Student's t, and answered with *yes* only where the whole interval is on
the side that was asked about, *the opposite* where it is on the other, and *not shown* otherwise. Intervals are each
for itself: of forty rows two may be off by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.bench.intervals import Interval, mean_interval
from discreet.bench.results import Row, values_in
from discreet.bench.tables import Table

BySeed = dict[int, float]
Question = tuple[str, str, str]
"""What is asked; the method that should have the higher error; the one that should have the lower."""
MEAN = "mean"
"""Of the label axis."""


@dataclass(frozen=True)
class Found:
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
        found: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            found.setdefault((row["method"], row["axis"]), []).append(row)
        return found

    def points(self, method: str, axis: str) -> dict[float, BySeed]:
        """Errors by where they are on the axis, and by seed."""
        found: dict[float, BySeed] = {}
        for row in self.of(method, axis):
            if row["error"] is not None:
                found.setdefault(row["at"], {})[row["seed"]] = row["error"]
        return dict(sorted(found.items()))

    def errors(self, method: str, at: float) -> BySeed:
        """At so many labels."""
        return self.points(method, "labels").get(float(at), {})

    def both(self, first: str, second: str, at: float | str) -> tuple[BySeed, BySeed]:
        """Of two methods: at so many labels, or the mean over the points of the axis that both have."""
        if not isinstance(at, str):
            return self.errors(first, at), self.errors(second, at)
        points = [self.points(method, "labels") for method in (first, second)]
        common = sorted(set(points[0]) & set(points[1]))
        left, right = (_mean_over([mine[place] for place in common]) for mine in points)
        return left, right

    def asked(self, method: str, arrivals: float) -> BySeed:
        """How many were asked of the first arrivals."""
        return {row["seed"]: row["asked"] for row in self.of(method, "arrivals") if row["at"] == arrivals}

    def share_asked(self, method: str) -> float | None:
        """Of the arrivals that were counted, up to a thousand."""
        last: dict[int, tuple[float, float]] = {}
        for row in self.of(method, "arrivals"):
            last[row["seed"]] = max(last.get(row["seed"], (0.0, 0.0)), (row["at"], row["asked"]))
        return float(np.mean([asked / at for at, asked in last.values()])) if last else None


def _mean_over(points: Sequence[BySeed]) -> BySeed:
    """Of the seeds that got to all of them."""
    whole = set.intersection(*(set(values) for values in points)) if points else set[int]()
    return {seed: float(np.mean([values[seed] for values in points])) for seed in sorted(whole)}


def by_problem(rows: Sequence[Row]) -> list[Found]:
    """One a problem."""
    return [
        Found(problem, tuple(row for row in rows if row["problem"] == problem))
        for problem in values_in(rows, "problem")
    ]


def difference(higher: BySeed, lower: BySeed) -> Interval | None:
    """Paired over the seeds that both have; None for fewer than two."""
    seeds = sorted(set(higher) & set(lower))
    return mean_interval([higher[seed] - lower[seed] for seed in seeds]) if len(seeds) > 1 else None


def spread_difference(wider: BySeed, narrower: BySeed) -> Interval | None:
    """By how much the first are farther from their median, on average (Brown and Forsythe), paired over seeds."""
    seeds = sorted(set(wider) & set(narrower))
    if len(seeds) < 2:
        return None
    apart = []
    for values in (wider, narrower):
        sample = np.array([values[seed] for seed in seeds])
        apart.append(np.abs(sample - np.median(sample)))
    return mean_interval((apart[0] - apart[1]).tolist())


def answer(found: Interval | None) -> str:
    """Of a question whose yes is a difference above 0."""
    if found is None or not (found.low > 0 or found.high < 0):
        return "not shown"
    return "yes" if found.low > 0 else "the opposite"


def error_table(found: Found, methods: Iterable[str], marks: Sequence[int], title: str) -> Table:
    """A method a row: what it claims, its errors at marks, and how many of the first arrivals it asked."""
    lines = []
    for method in methods:
        mine = [row for row in found.rows if row["method"] == method]
        if not mine:
            continue
        last = [row["error"] for row in mine if row["axis"] == "all"]
        cells = [percent_of(found.errors(method, mark).values() or last) for mark in marks]
        share = found.share_asked(method)
        asked = "-" if share is None else f"{100 * share:.0f}"
        lines.append((method, claim_of(mine[0]), str(len({row["seed"] for row in mine})), *cells, asked))
    return Table(
        title=title,
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
    found: Found, questions: Sequence[Question], marks: Sequence[float | str], title: str, *, note: str = ""
) -> Table:
    """Is the second method better than the first?"""
    lines = []
    for asked, higher, lower in questions:
        for mark in marks:
            gap = difference(*found.both(higher, lower, mark))
            if gap is not None:
                where = "on average" if isinstance(mark, str) else f"at {mark:g} labels"
                lines.append((asked, where, points_of(gap), answer(gap)))
    return Table(
        title=title,
        columns=("question", "where", "difference, points", "answer"),
        rows=tuple(lines),
        note=note or PAIRED,
    )


PAIRED = (
    "Differences of error rates, paired over permutations, with 95% intervals; above 0 is in favour of the question. "
    "`on average`: over the whole label axis, or those of its points that both have."
)


def percent_of(values: Iterable[float]) -> str:
    """A mean in percent, and half of its interval."""
    sample = list(values)
    if not sample:
        return "-"
    found = mean_interval(sample)
    text = f"{100 * found.value:.1f}"
    return text + (f" ± {100 * (found.high - found.value):.1f}" if math.isfinite(found.high) else "")


def points_of(gap: Interval) -> str:
    """A difference in points."""
    return f"{100 * gap.value:+.1f} ({100 * gap.low:+.1f} to {100 * gap.high:+.1f})"
