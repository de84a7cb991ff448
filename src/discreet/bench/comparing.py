"""Two methods of one experiment, or one experiment in two directories of results: compared seed by seed.

Guarantee: differences are of the same problem and the same seed, which cut the pool and draw the initial labels alike;
nothing is compared that has fewer than two seeds in common; and what is said to be *shown* holds after Holm's
correction over all that was compared at once (`paired_tests`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from discreet.bench.intervals import Interval, mean_interval
from discreet.bench.paired_tests import LEVEL, holm, seeds_needed, sign_flip_p, student_p
from discreet.bench.results import Row, same_records, values_in
from discreet.errors import BadInput

FIGURE = "test_accuracy"
Figures = dict[tuple[str, str], dict[int, float]]
"""By problem and method, then by seed."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A less B, over the seeds that both have. ``exact`` and ``student`` are p-values; the corrected ones are filled in
    when it stands beside others.
    """

    problem: str
    a: str
    b: str
    seeds: tuple[int, ...]
    values_a: tuple[float, ...]
    values_b: tuple[float, ...]
    corrected_exact: float = 1.0
    corrected_student: float = 1.0

    @property
    def differences(self) -> tuple[float, ...]:
        """One a seed."""
        return tuple(a - b for a, b in zip(self.values_a, self.values_b, strict=True))

    @property
    def means(self) -> tuple[float, float]:
        """Of A and of B."""
        return sum(self.values_a) / len(self.seeds), sum(self.values_b) / len(self.seeds)

    @property
    def difference(self) -> Interval:
        """The mean, and where it surely is, for itself alone."""
        return mean_interval(self.differences)

    @property
    def exact(self) -> float:
        """By flipping signs."""
        return sign_flip_p(self.differences)

    @property
    def student(self) -> float:
        """By Student's t."""
        return student_p(self.differences)

    @property
    def shown(self) -> str:
        """Which side is higher, and by which test; `not shown` where neither says so."""
        higher = "A higher" if self.difference.value > 0 else "B higher"
        if self.corrected_exact <= LEVEL:
            return higher
        return f"{higher}, by t alone" if self.corrected_student <= LEVEL else "not shown"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that was compared, and over all of it one mean difference a seed; ``left_out``: what only one side has."""

    a: str
    b: str
    figure: str
    parts: tuple[Compared, ...]
    together: Compared | None
    left_out: tuple[str, ...] = ()

    def count(self, start: str) -> int:
        """How many parts show what begins so."""
        return sum(part.shown.startswith(start) for part in self.parts)

    @property
    def statement(self) -> str:
        """What all of it says, in words."""
        higher, lower = self.count("A higher"), self.count("B higher")
        by_t = sum("alone" in part.shown for part in self.parts)
        if all(not any(part.differences) for part in self.parts):
            return "The two are the same, seed for seed."
        said = [
            f"A is higher on {higher} of {len(self.parts)}, B on {lower}, after Holm's correction at {LEVEL:.0%}"
            + (f"; {by_t} of these by Student's t alone." if by_t else ".")
            if higher + lower
            else "Nothing is shown: after Holm's correction no difference is more than chance would make."
        ]
        if self.together is not None:
            end = self.together.shown
            said.append("Over all of them, seed by seed: " + (f"{end}." if end != "not shown" else "nothing is shown."))
        few, needed = min(len(part.seeds) for part in self.parts), seeds_needed(len(self.parts))
        if few < needed:
            said.append(
                f"With {few} seeds the sign-flip test cannot go below {2.0 ** (1 - few):.4g}: to show one of "
                f"{len(self.parts)} it needs {needed}."
            )
        if self.left_out:
            said.append(f"Left out, since only one side has them: {'; '.join(self.left_out)}.")
        return " ".join(said)


def figures_of(rows: Sequence[Row], figure: str = FIGURE) -> Figures:
    """The last that every case tells of it: of the last phase, where there are phases."""
    last: dict[tuple[str, str, int], tuple[int, float]] = {}
    for row in rows:
        value = row.get(figure)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        key, at = (row["problem"], row["method"], row["seed"]), row.get("phase") or 0
        if key not in last or at >= last[key][0]:
            last[key] = (at, float(value))
    if not last:
        told = sorted(
            {name for row in rows for name, value in row.items() if type(value) in (int, float)} - {"seed", "phase"}
        )
        raise BadInput(f"the figure {figure}", "no row has it", f"Choose with --figure one of: {', '.join(told)}")
    found: Figures = {}
    for (problem, method, seed), (_, value) in last.items():
        found.setdefault((problem, method), {})[seed] = value
    return found


def compare_methods(rows: Sequence[Row], a: str, b: str, *, figure: str = FIGURE) -> Comparison:
    """Two methods, each named by any part of its name that is unambiguous within a problem."""
    figures = figures_of(rows, figure)
    methods = {problem: [name for of, name in figures if of == problem] for problem in values_in(rows, "problem")}
    found = {side: _named(methods, side) for side in (a, b)}
    pairs, left_out = [], []
    for problem in methods:
        first, second = found[a].get(problem), found[b].get(problem)
        if first is None or second is None:
            left_out.append(problem)
            continue
        if first == second:
            raise BadInput(f"comparing {a} with {b}", f"both are {first}", "Name two methods")
        pairs.append((problem, first, second, figures[problem, first], figures[problem, second]))
    if not pairs:
        raise BadInput(f"comparing {a} with {b}", "no problem has both", "Choose two of one problem")
    return replace(_comparison(a, b, figure, pairs), left_out=tuple(left_out))


def compare_places(rows_a: Sequence[Row], rows_b: Sequence[Row], a: str, b: str, *, figure: str = FIGURE) -> Comparison:
    """The same experiment twice: every problem and method that both have."""
    seen = {(row["problem"], row.get("made_of")) for row in rows_a}
    same_records(seen, rows_b)
    first, second = figures_of(rows_a, figure), figures_of(rows_b, figure)
    both = [key for key in first if key in second]
    pairs = [(problem, method, method, first[problem, method], second[problem, method]) for problem, method in both]
    if not pairs:
        raise BadInput(f"comparing {a} with {b}", "they have no problem and method in common", "Run the same cases")
    alone = tuple(", ".join(key) for key in {**first, **second} if key not in both)
    return replace(_comparison(a, b, figure, pairs), left_out=alone)


_Pair = tuple[str, str, str, dict[int, float], dict[int, float]]


def _comparison(a: str, b: str, figure: str, pairs: Iterable[_Pair]) -> Comparison:
    parts = [_compared(*pair) for pair in pairs]
    return Comparison(a=a, b=b, figure=figure, parts=_corrected(parts), together=_together(parts, a, b))


def _compared(problem: str, a: str, b: str, first: dict[int, float], second: dict[int, float]) -> Compared:
    seeds = tuple(sorted(set(first) & set(second)))
    if len(seeds) < 2:
        raise BadInput(
            f"comparing {a} with {b} on {problem}",
            f"they have {len(seeds)} seeds in common, and a difference needs two",
            "Run more seeds of both",
        )
    return Compared(
        problem=problem,
        a=a,
        b=b,
        seeds=seeds,
        values_a=tuple(first[seed] for seed in seeds),
        values_b=tuple(second[seed] for seed in seeds),
    )


def _corrected(parts: Sequence[Compared]) -> tuple[Compared, ...]:
    exact, student = holm([part.exact for part in parts]), holm([part.student for part in parts])
    return tuple(
        replace(part, corrected_exact=one, corrected_student=other)
        for part, one, other in zip(parts, exact, student, strict=True)
    )


def _together(parts: Sequence[Compared], a: str, b: str) -> Compared | None:
    """One difference a seed: its mean over all parts. Parts that share a seed may hang together; seeds do not."""
    seeds = sorted(set.intersection(*(set(part.seeds) for part in parts)))
    if len(parts) < 2 or len(seeds) < 2:
        return None

    def mean(side: str, seed: int) -> float:
        return float(sum(getattr(part, side)[part.seeds.index(seed)] for part in parts)) / len(parts)

    whole = Compared(
        problem="all together",
        a=a,
        b=b,
        seeds=tuple(seeds),
        values_a=tuple(mean("values_a", seed) for seed in seeds),
        values_b=tuple(mean("values_b", seed) for seed in seeds),
    )
    return replace(whole, corrected_exact=whole.exact, corrected_student=whole.student)


def _named(methods: dict[str, list[str]], text: str) -> dict[str, str]:
    """The method of every problem that the text names: its whole name, or a part of one name alone."""
    found: dict[str, str] = {}
    for problem, names in methods.items():
        like = [name for name in names if text.casefold() in name.casefold()]
        like = [name for name in like if name.casefold() == text.casefold()] or like
        if len(like) > 1:
            raise BadInput(
                f"the method {text}", f"on {problem} it may be one of: {'; '.join(like)}", "Give more of its name"
            )
        if like:
            found[problem] = like[0]
    if not found:
        every = dict.fromkeys(name for names in methods.values() for name in names)
        raise BadInput(f"the method {text}", "none has a name like that", f"Choose of: {'; '.join(every)}")
    return found


def comparison_form(comparison: Comparison) -> dict[str, Any]:
    """Plain values, as JSON has them."""

    def form(part: Compared) -> dict[str, Any]:
        interval = part.difference
        return {
            "problem": part.problem,
            "a": part.a,
            "b": part.b,
            "seeds": list(part.seeds),
            "mean_a": part.means[0],
            "mean_b": part.means[1],
            "difference": interval.value,
            "low": interval.low,
            "high": interval.high,
            "p_sign_flip": part.exact,
            "p_student": part.student,
            "p_sign_flip_holm": part.corrected_exact,
            "p_student_holm": part.corrected_student,
            "shown": part.shown,
        }

    return {
        "a": comparison.a,
        "b": comparison.b,
        "figure": comparison.figure,
        "left_out": list(comparison.left_out),
        "level": round(LEVEL, 6),
        "parts": [form(part) for part in comparison.parts],
        "together": None if comparison.together is None else form(comparison.together),
        "statement": comparison.statement,
    }
