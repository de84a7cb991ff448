"""What a dry run says: which epsilon, how many labels, and is choosing worth it?

Made of rows of results and of nothing else. Runs with the same seed have the same split, so methods are compared in
pairs. A way of asking is recommended over a simpler one only where it is surely better: with several candidates the
best looks better than it is, so each comparison is made at a level that is divided by their number. Few runs may end
alike by chance: no spread is taken for smaller than what counting on so many records alone makes. "Use random" is an
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from discreet.simulation.points import (
    EXACT,
    RANDOM,
    SIMPLEST,
    Interval,
    Point,
    mean_interval,
    next_interval,
    share_error,
)
from discreet.simulation.results import Chart, Panel, Row, Series, Table, percent

LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of one point: accuracies of the last models, a seed each.

    measured  on how many records, at least
    mean      where their mean is
    campaign  where one campaign ends, measured on as many records
    gain      over asking at random, in pairs; None for random itself
    """

    point: Point
    values: dict[int, float]
    measured: int
    mean: Interval
    campaign: Interval
    gain: Interval | None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "method": self.point.method,
            "changes": dict(self.point.changes),
            "private": self.point.method != EXACT,
            "epsilon": str(self.point.epsilon),
            "labels": self.point.labels,
            "initial": self.point.initial,
            "queries": list(self.point.queries),
            "seeds": len(self.values),
            "measured_on": self.measured,
            "accuracy": _form(self.mean),
            "one_campaign": _form(self.campaign),
            "over_random": None if self.gain is None else _form(self.gain),
        }


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A recommendation, and why, in sentences."""

    chosen: Outcome
    sentences: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The point that is recommended, and the reasons."""
        return {**self.chosen.to_json(), "why": list(self.sentences)}


def outcomes(rows: Sequence[Row], points: Sequence[Point]) -> list[Outcome]:
    """Of the points that have results, in their order."""
    finals = {(point.problem, point.name): _finals(rows, point) for point in points}
    results = []
    for point in points:
        by_lot = finals.get((point.problem, replace(point, method=RANDOM).name), {})
        final = finals[point.problem, point.name]
        if not final:
            continue
        values, measured = list(final.values()), _measured(rows, point)
        least = share_error(values, measured)
        results.append(
            Outcome(
                point=point,
                values=final,
                measured=measured,
                mean=mean_interval(values, least=least),
                campaign=next_interval(values, least=least),
                gain=None if point.method == RANDOM else _difference(final, by_lot, measured),
            )
        )
    return results


def _difference(
    values: dict[int, float], other: dict[int, float], measured: int, confidence: float = 1 - LEVEL
) -> Interval | None:
    both = sorted(set(values) & set(other))
    if not both:
        return None
    differences = [values[seed] - other[seed] for seed in both]
    return mean_interval(differences, confidence=confidence, least=share_error(differences, measured))


def _finals(rows: Sequence[Row], point: Point) -> dict[int, float]:
    point_rows = [row for row in rows if (row["problem"], row["method"]) == (point.problem, point.name)]
    last = max((row["phase"] for row in point_rows), default=0)
    return {row["seed"]: row["test_accuracy"] for row in point_rows if row["phase"] == last}


def _measured(rows: Sequence[Row], point: Point) -> int:
    return min(int(row["test_size"]) for row in rows if (row["problem"], row["method"]) == (point.problem, point.name))


def advice(results: Sequence[Outcome], *, epsilon: Decimal, queries: tuple[int, ...], within: float) -> Advice | None:
    """What to do, if the budget is ``epsilon`` and the plan asks ``queries``. ``within``: a loss of accuracy that is
    worth a smaller epsilon or fewer labels.
    """
    everywhere = [
        outcome for outcome in results if outcome.point.epsilon == epsilon and outcome.point.queries == queries
    ]
    here = [outcome for outcome in everywhere if not outcome.point.changes]
    candidates = [outcome for outcome in here if outcome.point.method != EXACT]
    if not candidates:
        return None
    chosen = _simplest_of_the_best(candidates)
    exact = [outcome.gain for outcome in here if outcome.point.method == EXACT and outcome.gain is not None]
    ceiling = [f"Without privacy of selection the gain over random would be {_gain(gain)}." for gain in exact]
    sentences = [_worth(chosen, candidates), *ceiling]
    same = [outcome for outcome in results if outcome.point.method == chosen.point.method and not outcome.point.changes]
    sentences += _along("epsilon", [outcome for outcome in same if outcome.point.queries == queries], chosen, within)
    sentences += _along("labels", [outcome for outcome in same if outcome.point.epsilon == epsilon], chosen, within)
    chosen, sentence = _settings(
        chosen, [outcome for outcome in everywhere if outcome.point.method == chosen.point.method]
    )
    sentences += sentence
    sentences.append(
        f"A campaign as recommended ends between {_points(chosen.campaign.low)} and {_points(chosen.campaign.high)} "
        f"(19 of 20 do, if its records are like these, measured on as many of them)."
    )
    return Advice(chosen=chosen, sentences=tuple(sentences))


def _simplest_of_the_best(candidates: Sequence[Outcome]) -> Outcome:
    """The simplest way that none is surely better than."""
    order = {name: rank for rank, name in enumerate(SIMPLEST)}
    ordered = sorted(candidates, key=lambda outcome: (order.get(outcome.point.method, len(order)), -outcome.mean.value))
    for outcome in ordered:
        others = [other for other in candidates if other is not outcome]
        if not any(_surely_better(other, outcome, len(others)) for other in others):
            return outcome
    return max(candidates, key=lambda outcome: outcome.mean.value)


def _surely_better(outcome: Outcome, other: Outcome, comparisons: int) -> bool:
    measured = min(outcome.measured, other.measured)
    gain = _difference(outcome.values, other.values, measured, 1 - LEVEL / comparisons)
    return gain is not None and gain.low > 0


def _settings(chosen: Outcome, same: Sequence[Outcome]) -> tuple[Outcome, list[str]]:
    """Other settings of the chosen method, where they are surely better than the file's."""
    others = [outcome for outcome in same if outcome.point.changes]
    if not others:
        return chosen, []
    best = max(others, key=lambda outcome: outcome.mean.value)
    words = f"{best.point.name.partition(', ')[2]}: {_points(best.mean.value)} where the file's give"
    if _surely_better(best, chosen, len(others)):
        return best, [f"Other settings are better: {words} {_points(chosen.mean.value)}."]
    return chosen, [f"Keep the file's settings: none of {len(others)} others was surely better ({words} "
                    f"{_points(chosen.mean.value)})."]  # fmt: skip


def _worth(chosen: Outcome, candidates: Sequence[Outcome]) -> str:
    scored = [outcome for outcome in candidates if outcome.point.method not in SIMPLEST]
    if chosen.point.method not in SIMPLEST:
        assert chosen.gain is not None
        return f"Choosing records is worth it: {chosen.point.method} is {_gain(chosen.gain)} above asking at random."
    if not scored:
        return f"Recommended: {_WORDS[chosen.point.method]}. No way of choosing records was tried."
    best = max(scored, key=lambda outcome: outcome.mean.value)
    aside = "" if best.gain is None else f" ({best.point.method}: {_gain(best.gain)} against random)"
    return f"Use random: {_WORDS[chosen.point.method]}. No way of choosing records was surely better{aside}."


_WORDS = {
    RANDOM: "ask records uniformly at random, in the same phases, and spend all of epsilon on training",
    "subset": "draw all records uniformly at random, label them at once, and train once with all of epsilon",
}


_PLACES: dict[str, Callable[[Outcome], Any]] = {
    "epsilon": lambda result: result.point.epsilon,
    "labels": lambda result: result.point.labels,
}


def _along(what: str, line: Sequence[Outcome], chosen: Outcome, within: float) -> list[str]:
    """The smallest of the tried epsilons (numbers of labels) that is not surely worse by more than ``within``."""
    value = _PLACES[what]
    ordered = sorted(line, key=value)
    if len(ordered) < 2:
        return []
    best = max(ordered, key=lambda outcome: outcome.mean.value)
    enough = next(outcome for outcome in ordered if best.mean.value - outcome.mean.value <= within)
    tried = ", ".join(f"{_points(outcome.mean.value)} at {value(outcome)}" for outcome in ordered)
    small = f"{what} {value(enough)}" if what == "epsilon" else f"{value(enough)} labels"
    if value(enough) == value(chosen):
        planned = "as planned"
    else:
        planned = f"{small} would do" if value(enough) < value(chosen) else f"{small} would be better"
    return [f"By {what}: {tried}. Within {_points(within)} of the best: {small}, {planned}."]


def _gain(gain: Interval) -> str:
    return f"{100 * gain.value:+.1f} points ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"


def _points(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.1f}%"


def outcome_tables(results: Sequence[Outcome]) -> list[Table]:
    """A table a problem: random beside every way."""
    tables = []
    for problem in dict.fromkeys(outcome.point.problem for outcome in results):
        rows = [outcome for outcome in results if outcome.point.problem == problem]
        lines = tuple(
            (
                _named(outcome.point),
                percent(
                    Interval(value=outcome.mean.value, low=max(outcome.mean.low, 0.0), high=min(outcome.mean.high, 1.0))
                ),
                f"{100 * max(outcome.campaign.low, 0):.1f} to {100 * min(outcome.campaign.high, 1):.1f}",
                "-" if outcome.gain is None else percent(outcome.gain),
            )
            for outcome in rows
        )
        seeds = max(len(outcome.values) for outcome in rows)
        tables.append(
            Table(
                title=problem,
                columns=("asked by", "accuracy, %", "one campaign ends at, %", "over random, points"),
                rows=lines,
                note=f"Means over {seeds} seeds with 95% intervals; differences in pairs.",
            )
        )
    return tables


def outcome_chart(results: Sequence[Outcome], *, epsilon: Decimal, queries: tuple[int, ...]) -> Chart:
    """Accuracy by epsilon and by labels, a line a method; random is drawn beside every curve."""
    by_epsilon = [outcome for outcome in results if outcome.point.queries == queries]
    by_labels = [outcome for outcome in results if outcome.point.epsilon == epsilon]
    return Chart(
        name="simulation",
        panels=(
            _panel("epsilon", by_epsilon, f"{by_epsilon[0].point.labels} labels" if by_epsilon else ""),
            _panel("labels", by_labels, f"epsilon {epsilon}"),
        ),
    )


def _panel(what: str, line: Sequence[Outcome], title: str) -> Panel:
    series = []
    for name in dict.fromkeys(_named(outcome.point) for outcome in line if not outcome.point.changes):
        points = sorted((outcome for outcome in line if _named(outcome.point) == name), key=_PLACES[what])
        series.append(
            Series(
                name=name,
                x=tuple(float(_PLACES[what](outcome)) for outcome in points),
                y=tuple(100 * outcome.mean.value for outcome in points),
                low=tuple(100 * max(outcome.mean.low, 0.0) for outcome in points),
                high=tuple(100 * min(outcome.mean.high, 1.0) for outcome in points),
            )
        )
    return Panel(title=title, x_label=what, y_label="accuracy, %", series=tuple(series))


def _named(point: Point) -> str:
    return f"{point.name} (not private)" if point.method == EXACT else point.name


def _form(interval: Interval) -> dict[str, float | None]:
    ends = (None if abs(end) == float("inf") else end for end in (interval.low, interval.high))
    return {"value": interval.value, **dict(zip(("low", "high"), ends, strict=True))}
