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

from discreet.bench.charts import Chart, Panel, Series
from discreet.bench.dry_points import EXACT, RANDOM, SIMPLEST, Point
from discreet.bench.intervals import Interval, mean_interval, next_interval, share_error
from discreet.bench.results import Row
from discreet.bench.tables import Table, percent

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
    found = []
    for point in points:
        by_lot = finals.get((point.problem, replace(point, method=RANDOM).name), {})
        mine = finals[point.problem, point.name]
        if not mine:
            continue
        values, measured = list(mine.values()), _measured(rows, point)
        least = share_error(values, measured)
        found.append(
            Outcome(
                point=point,
                values=mine,
                measured=measured,
                mean=mean_interval(values, least=least),
                campaign=next_interval(values, least=least),
                gain=None if point.method == RANDOM else _difference(mine, by_lot, measured),
            )
        )
    return found


def _difference(
    one: dict[int, float], other: dict[int, float], measured: int, confidence: float = 1 - LEVEL
) -> Interval | None:
    both = sorted(set(one) & set(other))
    if not both:
        return None
    differences = [one[seed] - other[seed] for seed in both]
    return mean_interval(differences, confidence=confidence, least=share_error(differences, measured))


def _finals(rows: Sequence[Row], point: Point) -> dict[int, float]:
    mine = [row for row in rows if (row["problem"], row["method"]) == (point.problem, point.name)]
    last = max((row["phase"] for row in mine), default=0)
    return {row["seed"]: row["test_accuracy"] for row in mine if row["phase"] == last}


def _measured(rows: Sequence[Row], point: Point) -> int:
    return min(int(row["test_size"]) for row in rows if (row["problem"], row["method"]) == (point.problem, point.name))


def advice(found: Sequence[Outcome], *, epsilon: Decimal, queries: tuple[int, ...], within: float) -> Advice | None:
    """What to do, if the budget is ``epsilon`` and the plan asks ``queries``. ``within``: a loss of accuracy that is
    worth a smaller epsilon or fewer labels.
    """
    everywhere = [one for one in found if one.point.epsilon == epsilon and one.point.queries == queries]
    here = [one for one in everywhere if not one.point.changes]
    candidates = [one for one in here if one.point.method != EXACT]
    if not candidates:
        return None
    chosen = _simplest_of_the_best(candidates)
    sentences = [_worth(chosen, candidates), *_ceiling(here)]
    same = [one for one in found if one.point.method == chosen.point.method and not one.point.changes]
    sentences += _along("epsilon", [one for one in same if one.point.queries == queries], chosen, within)
    sentences += _along("labels", [one for one in same if one.point.epsilon == epsilon], chosen, within)
    chosen, told = _settings(chosen, [one for one in everywhere if one.point.method == chosen.point.method])
    sentences += told
    sentences.append(
        f"A campaign as recommended ends between {_points(chosen.campaign.low)} and {_points(chosen.campaign.high)} "
        f"(19 of 20 do, if its records are like these, measured on as many of them)."
    )
    return Advice(chosen=chosen, sentences=tuple(sentences))


def _simplest_of_the_best(candidates: Sequence[Outcome]) -> Outcome:
    """The simplest way that none is surely better than."""
    order = {name: place for place, name in enumerate(SIMPLEST)}
    ordered = sorted(candidates, key=lambda one: (order.get(one.point.method, len(order)), -one.mean.value))
    for one in ordered:
        others = [other for other in candidates if other is not one]
        if not any(_surely_better(other, one, len(others)) for other in others):
            return one
    return max(candidates, key=lambda one: one.mean.value)


def _surely_better(one: Outcome, other: Outcome, comparisons: int) -> bool:
    measured = min(one.measured, other.measured)
    gain = _difference(one.values, other.values, measured, 1 - LEVEL / comparisons)
    return gain is not None and gain.low > 0


def _settings(chosen: Outcome, same: Sequence[Outcome]) -> tuple[Outcome, list[str]]:
    """Other settings of the chosen method, where they are surely better than the file's."""
    others = [one for one in same if one.point.changes]
    if not others:
        return chosen, []
    best = max(others, key=lambda one: one.mean.value)
    words = f"{best.point.name.partition(', ')[2]}: {_points(best.mean.value)} where the file's give"
    if _surely_better(best, chosen, len(others)):
        return best, [f"Other settings are better: {words} {_points(chosen.mean.value)}."]
    return chosen, [f"Keep the file's settings: none of {len(others)} others was surely better ({words} "
                    f"{_points(chosen.mean.value)})."]  # fmt: skip


def _worth(chosen: Outcome, candidates: Sequence[Outcome]) -> str:
    scored = [one for one in candidates if one.point.method not in SIMPLEST]
    if chosen.point.method not in SIMPLEST:
        assert chosen.gain is not None
        return f"Choosing records is worth it: {chosen.point.method} is {_gain(chosen.gain)} above asking at random."
    if not scored:
        return f"Recommended: {_WORDS[chosen.point.method]}. No way of choosing records was tried."
    best = max(scored, key=lambda one: one.mean.value)
    told = "" if best.gain is None else f" ({best.point.method}: {_gain(best.gain)} against random)"
    return f"Use random: {_WORDS[chosen.point.method]}. No way of choosing records was surely better{told}."


_WORDS = {
    RANDOM: "ask records by lot, in the same phases, and spend all of epsilon on training",
    "subset": "draw all records by lot, label them at once, and train once with all of epsilon",
}


def _ceiling(here: Sequence[Outcome]) -> list[str]:
    exact = [one.gain for one in here if one.point.method == EXACT and one.gain is not None]
    return [f"Without privacy of selection the gain over random would be {_gain(gain)}." for gain in exact]


_PLACES: dict[str, Callable[[Outcome], Any]] = {
    "epsilon": lambda one: one.point.epsilon,
    "labels": lambda one: one.point.labels,
}


def _along(what: str, line: Sequence[Outcome], chosen: Outcome, within: float) -> list[str]:
    """The smallest of the tried epsilons (numbers of labels) that is not surely worse by more than ``within``."""
    value = _PLACES[what]
    ordered = sorted(line, key=value)
    if len(ordered) < 2:
        return []
    best = max(ordered, key=lambda one: one.mean.value)
    enough = next(one for one in ordered if best.mean.value - one.mean.value <= within)
    tried = ", ".join(f"{_points(one.mean.value)} at {value(one)}" for one in ordered)
    small = f"{what} {value(enough)}" if what == "epsilon" else f"{value(enough)} labels"
    if value(enough) == value(chosen):
        said = "as planned"
    else:
        said = f"{small} would do" if value(enough) < value(chosen) else f"{small} would be better"
    return [f"By {what}: {tried}. Within {_points(within)} of the best: {small}, {said}."]


def _share(found: Interval) -> Interval:
    """An accuracy is never below 0 or above 1."""
    return Interval(value=found.value, low=max(found.low, 0.0), high=min(found.high, 1.0))


def _gain(gain: Interval) -> str:
    return f"{100 * gain.value:+.1f} points ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"


def _points(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.1f}%"


def outcome_tables(found: Sequence[Outcome]) -> list[Table]:
    """A table a problem: random beside every way."""
    tables = []
    for problem in dict.fromkeys(one.point.problem for one in found):
        mine = [one for one in found if one.point.problem == problem]
        lines = tuple(
            (
                _named(one.point),
                percent(_share(one.mean)),
                f"{100 * max(one.campaign.low, 0):.1f} to {100 * min(one.campaign.high, 1):.1f}",
                "-" if one.gain is None else percent(one.gain),
            )
            for one in mine
        )
        seeds = max(len(one.values) for one in mine)
        tables.append(
            Table(
                title=problem,
                columns=("asked by", "accuracy, %", "one campaign ends at, %", "over random, points"),
                rows=lines,
                note=f"Means over {seeds} seeds with 95% intervals; differences in pairs.",
            )
        )
    return tables


def outcome_chart(found: Sequence[Outcome], *, epsilon: Decimal, queries: tuple[int, ...]) -> Chart:
    """Accuracy by epsilon and by labels, a line a method; random is drawn beside every curve."""
    by_epsilon = [one for one in found if one.point.queries == queries]
    by_labels = [one for one in found if one.point.epsilon == epsilon]
    return Chart(
        name="simulation",
        panels=(
            _panel("epsilon", by_epsilon, f"{by_epsilon[0].point.labels} labels" if by_epsilon else ""),
            _panel("labels", by_labels, f"epsilon {epsilon}"),
        ),
    )


def _panel(what: str, line: Sequence[Outcome], title: str) -> Panel:
    series = []
    for name in dict.fromkeys(_named(one.point) for one in line if not one.point.changes):
        mine = sorted((one for one in line if _named(one.point) == name), key=_PLACES[what])
        series.append(
            Series(
                name=name,
                x=tuple(float(_PLACES[what](one)) for one in mine),
                y=tuple(100 * one.mean.value for one in mine),
                low=tuple(100 * max(one.mean.low, 0.0) for one in mine),
                high=tuple(100 * min(one.mean.high, 1.0) for one in mine),
            )
        )
    return Panel(title=title, x_label=what, y_label="accuracy, %", series=tuple(series))


def _named(point: Point) -> str:
    return f"{point.name} (not private)" if point.method == EXACT else point.name


def _form(interval: Interval) -> dict[str, float | None]:
    ends = (None if abs(end) == float("inf") else end for end in (interval.low, interval.high))
    return {"value": interval.value, **dict(zip(("low", "high"), ends, strict=True))}
