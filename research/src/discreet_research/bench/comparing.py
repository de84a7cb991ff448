"""Is a difference more than chance? Two tests over paired differences, and a correction for asking several times.

sign-flip   if nothing distinguishes the two sides, every difference might as well have the other sign: the share of all
            2^n ways to choose signs whose sum is as far from 0. It is exact, whatever the differences look like, and
            never below 2^(1-n): five seeds cannot show anything at 5%. Above 20 differences, a million drawn ways,
            counted so that the level stays right (Phipson and Smyth 2010).
Student's t the usual one; it takes differences to be nearly normal, and can show something with three seeds. Where
            all differences are the same it says nothing, and 1 is told.
Holm        p-values of m questions, corrected so that all that is shown together is wrong with at most 5% (Holm 1979);
            it needs nothing of how the questions hang together.

Two methods of one experiment, or one experiment in two directories of results: compared seed by seed.

Guarantee: differences are of the same problem and the same seed, which cut the pool and draw the initial labels alike;
nothing is compared that has fewer than two seeds in common; and what is said to be *shown* holds after Holm's
correction over all that was compared at once (`paired_tests`).

A comparison as a table, and as a picture: mean differences with their intervals, a line each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.simulation.points import CONFIDENCE, Interval, mean_interval
from discreet.simulation.results import Row, Table, same_records
from discreet_research.bench.rows import BySeed, grouped, values_in

LEVEL = 1 - CONFIDENCE
MOST_EXACT = 20
DRAWN = 1_000_000
_SEED = 20_130_509
_ROUNDING = 1e-12


def sign_flip_p(differences: Sequence[float]) -> float:
    """Two-sided: how likely a sum this far from 0 is, had every difference either sign by a coin."""
    sizes = np.abs(np.asarray(differences, dtype=np.float64))
    reached = abs(float(np.sum(differences))) - _ROUNDING * float(sizes.sum())
    if sizes.size <= MOST_EXACT:
        sums = np.zeros(1)
        for size in sizes:
            sums = np.concatenate([sums + size, sums - size])
        return float(np.mean(np.abs(sums) >= reached))
    signs = np.random.default_rng(_SEED)
    as_far, left = 0, DRAWN
    while left:
        count = min(left, 50_000)
        flips = signs.integers(0, 2, size=(count, sizes.size)) * 2 - 1
        as_far += int(np.sum(np.abs(flips @ sizes) >= reached))
        left -= count
    return (1 + as_far) / (1 + DRAWN)


def student_p(differences: Sequence[float]) -> float:
    """Two-sided, of one sample against 0."""
    from scipy import stats

    sample = np.asarray(differences, dtype=np.float64)
    spread = float(sample.std(ddof=1)) if sample.size > 1 else 0.0
    if spread <= _ROUNDING * max(float(np.abs(sample).max(initial=0.0)), 1e-300):
        return 1.0
    t = float(sample.mean()) / (spread / math.sqrt(sample.size))
    return float(2 * stats.t.sf(abs(t), sample.size - 1))


def holm(values: Sequence[float]) -> list[float]:
    """Each p-value as it stands beside the others."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    corrected, worst = [0.0] * len(values), 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = worst
    return corrected


def seeds_needed(questions: int) -> int:
    """The fewest seeds with which the sign-flip test of so many questions can show the first of them."""
    return 1 + math.ceil(math.log2(max(questions, 1) / LEVEL))


FIGURE = "test_accuracy"
Figures = dict[tuple[str, str], BySeed]
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

    @property
    def told(self) -> list[Compared]:
        """All parts, and what they say together."""
        return [*self.parts, *([self.together] if self.together else [])]

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
        sentences = [
            f"A is higher on {higher} of {len(self.parts)}, B on {lower}, after Holm's correction at {LEVEL:.0%}"
            + (f"; {by_t} of these by Student's t alone." if by_t else ".")
            if higher + lower
            else "Nothing is shown: after Holm's correction no difference is more than chance would make."
        ]
        if self.together is not None:
            end = self.together.shown
            sentences.append(
                "Over all of them, seed by seed: " + (f"{end}." if end != "not shown" else "nothing is shown.")
            )
        few, needed = min(len(part.seeds) for part in self.parts), seeds_needed(len(self.parts))
        if few < needed:
            sentences.append(
                f"With {few} seeds the sign-flip test cannot go below {2.0 ** (1 - few):.4g}: to show one of "
                f"{len(self.parts)} it needs {needed}."
            )
        if self.left_out:
            sentences.append(f"Left out, since only one side has them: {'; '.join(self.left_out)}.")
        return " ".join(sentences)


def figures_of(rows: Sequence[Row], figure: str = FIGURE) -> Figures:
    """The last that every case tells of it: of the last phase, where there are phases."""
    values = [(row, row.get(figure)) for row in rows]
    told = [row for row, value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if not told:
        columns = {name for row in rows for name, value in row.items() if type(value) in (int, float)}
        choice = ", ".join(sorted(columns - {"seed", "phase"}))
        raise BadInput(f"the figure {figure}", "no row has it", f"Choose with --figure one of: {choice}")
    figures: Figures = {(problem, method): {} for problem, method in grouped(told, "problem", "method")}
    for row in sorted(told, key=lambda row: row.get("phase") or 0):
        figures[row["problem"], row["method"]][row["seed"]] = float(row[figure])
    return figures


def compare_methods(rows: Sequence[Row], a: str, b: str, *, figure: str = FIGURE) -> Comparison:
    """Two methods, each named by any part of its name that is unambiguous within a problem."""
    figures = figures_of(rows, figure)
    methods = {problem: [name for of, name in figures if of == problem] for problem in values_in(rows, "problem")}
    names = {side: _named(methods, side) for side in (a, b)}
    both = {
        problem: (names[a][problem], names[b][problem]) for problem in methods if problem in names[a].keys() & names[b]
    }
    if not both:
        raise BadInput(f"comparing {a} with {b}", "no problem has both", "Choose two of one problem")
    for first, second in both.values():
        if first == second:
            raise BadInput(f"comparing {a} with {b}", f"both are {first}", "Name two methods")
    parts = [
        _compared(problem, first, second, figures[problem, first], figures[problem, second])
        for problem, (first, second) in both.items()
    ]
    return _comparison(a, b, figure, parts, left_out=[problem for problem in methods if problem not in both])


def compare_places(rows_a: Sequence[Row], rows_b: Sequence[Row], a: str, b: str, *, figure: str = FIGURE) -> Comparison:
    """The same experiment twice: every problem and method that both have."""
    same_records({(row["problem"], row.get("made_of")) for row in rows_a}, rows_b)
    first, second = figures_of(rows_a, figure), figures_of(rows_b, figure)
    both = [key for key in first if key in second]
    if not both:
        raise BadInput(f"comparing {a} with {b}", "they have no problem and method in common", "Run the same cases")
    parts = [_compared(key[0], key[1], key[1], first[key], second[key]) for key in both]
    return _comparison(a, b, figure, parts, left_out=[", ".join(key) for key in first | second if key not in both])


def _comparison(a: str, b: str, figure: str, parts: Sequence[Compared], *, left_out: Iterable[str]) -> Comparison:
    exact, student = holm([part.exact for part in parts]), holm([part.student for part in parts])
    corrected = tuple(
        replace(part, corrected_exact=by_signs, corrected_student=by_t)
        for part, by_signs, by_t in zip(parts, exact, student, strict=True)
    )
    together = _together(parts, a, b)
    return Comparison(a=a, b=b, figure=figure, parts=corrected, together=together, left_out=tuple(left_out))


def _compared(problem: str, a: str, b: str, first: BySeed, second: BySeed) -> Compared:
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


def _together(parts: Sequence[Compared], a: str, b: str) -> Compared | None:
    """One difference a seed: its mean over all parts. Parts that share a seed may hang together; seeds do not."""
    seeds = sorted(set.intersection(*(set(part.seeds) for part in parts)))
    if len(parts) < 2 or len(seeds) < 2:
        return None

    def mean(side: str, seed: int) -> float:
        return float(sum(getattr(part, side)[part.seeds.index(seed)] for part in parts)) / len(parts)

    together = Compared(
        problem="all together",
        a=a,
        b=b,
        seeds=tuple(seeds),
        values_a=tuple(mean("values_a", seed) for seed in seeds),
        values_b=tuple(mean("values_b", seed) for seed in seeds),
    )
    return replace(together, corrected_exact=together.exact, corrected_student=together.student)


def _named(methods: dict[str, list[str]], text: str) -> dict[str, str]:
    """The method of every problem that the text names: its whole name, or a part of one name alone."""
    named: dict[str, str] = {}
    for problem, names in methods.items():
        like = [name for name in names if text.casefold() in name.casefold()]
        like = [name for name in like if name.casefold() == text.casefold()] or like
        if len(like) > 1:
            raise BadInput(
                f"the method {text}", f"on {problem} it may be one of: {'; '.join(like)}", "Give more of its name"
            )
        if like:
            named[problem] = like[0]
    if not named:
        every = dict.fromkeys(name for names in methods.values() for name in names)
        raise BadInput(f"the method {text}", "none has a name like that", f"Choose of: {'; '.join(every)}")
    return named


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


NOTE = (
    "A less B, paired over seeds, with its 95% interval by Student's t, each for itself. p: by flipping signs (exact), "
    "and by Student's t, both as they are and after Holm's correction over all rows. *Shown* is what holds after the "
    "correction by the exact test; *by t alone* needs differences that are nearly normal."
)


def comparison_table(comparison: Comparison) -> Table:
    """A row a problem (or a problem and a method), and one for all together."""
    scale, unit = _scale(comparison)
    return Table(
        title=f"{comparison.figure}{unit}: A = {comparison.a}, B = {comparison.b}",
        columns=(
            "problem",
            "A",
            "B",
            "seeds",
            "mean of A",
            "mean of B",
            "difference",
            "p, signs",
            "p, t",
            "Holm, signs",
            "Holm, t",
            "shown",
        ),
        rows=tuple(_line(part, scale) for part in comparison.told),
        note=f"{comparison.statement}\n\n{NOTE}",
    )


def _scale(comparison: Comparison) -> tuple[float, str]:
    """Shares are told in percent."""
    every = [value for part in comparison.parts for value in (*part.values_a, *part.values_b)]
    return (100.0, ", %") if all(0 <= value <= 1 for value in every) else (1.0, "")


def _line(part: Compared, scale: float) -> tuple[str, ...]:
    interval = part.difference
    means = [f"{scale * value:.4g}" for value in part.means]
    ends = f"{scale * interval.value:+.3g} ({scale * interval.low:+.3g} to {scale * interval.high:+.3g})"
    tests = [f"{p:.2g}" for p in (part.exact, part.student, part.corrected_exact, part.corrected_student)]
    return (part.problem, part.a, part.b, str(len(part.seeds)), *means, ends, *tests, part.shown)


def draw_comparison(comparison: Comparison, path: Path) -> None:
    """A line a row, from the lower to the upper end of its interval; 0 is where nothing differs."""
    from discreet.report.plan_figure import require_matplotlib

    require_matplotlib()
    from matplotlib.figure import Figure

    scale, unit = _scale(comparison)
    parts = comparison.told
    page = Figure(figsize=(8, 1.2 + 0.3 * len(parts)), layout="constrained")
    axes = page.subplots()
    colours = {"A": "tab:blue", "B": "tab:red", "n": "0.5"}
    for height, part in enumerate(reversed(parts)):
        interval, colour = part.difference, colours[part.shown[0]]
        axes.plot([scale * interval.low, scale * interval.high], [height, height], color=colour, linewidth=2)
        axes.plot(
            [scale * interval.value], [height], "o", color=colour, fillstyle="none" if "alone" in part.shown else None
        )
    axes.axvline(0, color="black", linewidth=0.8)
    same = all(part.a == part.b for part in comparison.parts)
    names = [f"{part.problem}, {part.a}" if same and part.a == part.b else part.problem for part in reversed(parts)]
    axes.set_yticks(range(len(parts)), names, fontsize=8)
    axes.set_xlabel(f"{comparison.figure}{unit}: {comparison.a} less {comparison.b}", fontsize=9)
    axes.set_title("blue: A higher, red: B higher, hollow: by t alone, grey: not shown", fontsize=9)
    axes.grid(axis="x", alpha=0.3)
    page.savefig(path, dpi=120)
