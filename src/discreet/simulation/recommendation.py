"""What a dry run says: which epsilon, how many labels, and is choosing worth it?

Made of rows of results and of nothing else. Runs with the same seed have the same split, so methods are compared in
pairs. A way of asking is recommended over a simpler one only where it is surely better: with several candidates the
best looks better than it is, so each comparison is made at a level that is divided by their number. Few runs may end
alike by chance: no spread is taken for smaller than what counting on so many records alone makes. "Use random" is an
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import BadInput
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
from discreet.trainers.accuracy import METRICS
from discreet.trainers.metric_words import IN_PERCENT, LOWER_IS_BETTER, MAJORITY, title_of, value_of

if TYPE_CHECKING:
    from discreet.trainers.accuracy import Evaluation

LEVEL = 0.05
ACCURACY = "accuracy"
_Z = 1.96


def metric_columns(evaluation: Evaluation) -> dict[str, float | None]:
    """Of a row: every metric, its baseline, and the standard deviation that its interval tells."""
    columns: dict[str, float | None] = {}
    for metric in evaluation.metrics:
        wide = metric.high - metric.low
        figures = (metric.value, metric.baseline, wide / (2 * _Z) if wide < float("inf") else None)
        columns |= dict(zip(_columns(metric.name), figures, strict=True))
    return columns


def _columns(metric: str) -> tuple[str, str, str]:
    name = metric.replace("-", "_")
    return f"test_{name}", f"baseline_{name}", f"error_{name}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of one point: a metric of the last models, a seed each.

    measured  on how many records, at least
    weight    as how many an accuracy would be as uncertain on; of accuracy it is ``measured``
    mean      where their mean is
    campaign  where one campaign ends, measured on as many records
    gain      over asking at random, in pairs; None for random itself
    metric    its name
    baseline  what a constant answer by the class shares has; of accuracy the majority
    means     every metric's mean and that of its baseline
    """

    point: Point
    values: dict[int, float]
    measured: int
    weight: float
    mean: Interval
    campaign: Interval
    gain: Interval | None
    metric: str = ACCURACY
    baseline: float | None = None
    means: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def above(self, other: float) -> float:
        """How much better the mean is than ``other``."""
        return (other - self.mean.value) if self.metric in LOWER_IS_BETTER else (self.mean.value - other)

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
            "metric": self.metric,
            "mean": _form(self.mean),
            "baseline": self.baseline,
            "metrics": self.means,
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


def outcomes(rows: Sequence[Row], points: Sequence[Point], metric: str = ACCURACY) -> list[Outcome]:
    """Of the points that have results, in their order, by ``metric``."""
    column, base, _ = _columns(metric)
    last = {(point.problem, point.name): _last(rows, point) for point in points}
    finals = {name: _by_seed(ends, column) for name, ends in last.items()}
    if any(last.values()) and not any(finals.values()):
        raise BadInput(
            f"the metric {metric}",
            "no run tells it: a class has no record among those measured on",
            "Bring records of every class, raise --test, or choose another metric",
        )
    results = []
    for point in points:
        random = finals.get((point.problem, replace(point, method=RANDOM).name), {})
        ends, final = last[point.problem, point.name], finals[point.problem, point.name]
        if not final:
            continue
        values, measured = list(final.values()), min(int(row["test_size"]) for row in ends)
        weight = _weight(ends, metric, measured)
        least = share_error(values, weight)
        results.append(
            Outcome(
                point=point,
                values=final,
                measured=measured,
                weight=weight,
                mean=mean_interval(values, least=least),
                campaign=next_interval(values, least=least),
                gain=None if point.method == RANDOM else _difference(final, random, weight),
                metric=metric,
                baseline=_mean(ends, base),
                means=_means(ends),
            )
        )
    return results


def _mean(rows: Sequence[Row], column: str) -> float | None:
    values = list(_by_seed(rows, column).values())
    return float(np.mean(values)) if values else None


def _means(rows: Sequence[Row]) -> dict[str, dict[str, float | None]]:
    names = [metric for metric in METRICS if any(_columns(metric)[0] in row for row in rows)]
    return {
        name: {kind: _mean(rows, column) for kind, column in zip(("mean", "baseline"), _columns(name), strict=False)}
        for name in names
    }


def _weight(rows: Sequence[Row], metric: str, measured: int) -> float:
    """As how many records an accuracy would be as uncertain on as the metric is by its own intervals."""
    column, _, wide = _columns(metric)
    errors, mean = list(_by_seed(rows, wide).values()), _mean(rows, column) or 0.0
    if metric == ACCURACY or not errors or not 0 < mean < 1 or not any(errors):
        return measured
    return mean * (1 - mean) / float(np.mean(np.square(errors)))


def _difference(
    values: dict[int, float], other: dict[int, float], measured: float, confidence: float = 1 - LEVEL
) -> Interval | None:
    both = sorted(set(values) & set(other))
    if not both:
        return None
    differences = [values[seed] - other[seed] for seed in both]
    return mean_interval(differences, confidence=confidence, least=share_error(differences, measured))


def _last(rows: Sequence[Row], point: Point) -> list[Row]:
    point_rows = [row for row in rows if (row["problem"], row["method"]) == (point.problem, point.name)]
    last = max((row["phase"] for row in point_rows), default=0)
    return [row for row in point_rows if row["phase"] == last]


def _by_seed(rows: Sequence[Row], column: str) -> dict[int, float]:
    return {row["seed"]: row[column] for row in rows if row.get(column) is not None}


def advice(results: Sequence[Outcome], *, epsilon: Decimal, queries: tuple[int, ...], within: float) -> Advice | None:
    """What to do, if the budget is ``epsilon`` and the plan asks ``queries``. ``within``: a loss of the metric that is
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
    exact = [outcome for outcome in here if outcome.point.method == EXACT and outcome.gain is not None]
    ceiling = [f"Without privacy of selection the gain over random would be {_gain(outcome)}." for outcome in exact]
    sentences = [_worth(chosen, candidates), *ceiling]
    same = [outcome for outcome in results if outcome.point.method == chosen.point.method and not outcome.point.changes]
    sentences += _along("epsilon", [outcome for outcome in same if outcome.point.queries == queries], chosen, within)
    sentences += _along("labels", [outcome for outcome in same if outcome.point.epsilon == epsilon], chosen, within)
    chosen, sentence = _settings(
        chosen, [outcome for outcome in everywhere if outcome.point.method == chosen.point.method]
    )
    sentences += sentence
    low, high = (_shown(chosen, end) for end in (chosen.campaign.low, chosen.campaign.high))
    sentences.append(
        f"A campaign as recommended ends between {low} and {high} "
        f"(19 of 20 do, if its records are like these, measured on as many of them)."
    )
    if chosen.baseline is not None:
        worst = chosen.campaign.high if chosen.metric in LOWER_IS_BETTER else chosen.campaign.low
        surely = chosen.above(chosen.baseline) > 0 and (worst < chosen.baseline) == (chosen.metric in LOWER_IS_BETTER)
        constant = f"{_constant(chosen.metric)} has {_shown(chosen, chosen.baseline)}"
        sentences.append(f"{constant}." if surely else f"{constant}: one campaign is not surely better than that.")
    return Advice(chosen=chosen, sentences=tuple(sentences))


def _simplest_of_the_best(candidates: Sequence[Outcome]) -> Outcome:
    """The simplest way that none is surely better than."""
    order = {name: rank for rank, name in enumerate(SIMPLEST)}
    ordered = sorted(candidates, key=lambda outcome: (order.get(outcome.point.method, len(order)), -outcome.above(0)))
    for outcome in ordered:
        others = [other for other in candidates if other is not outcome]
        if not any(_surely_better(other, outcome, len(others)) for other in others):
            return outcome
    return _best(candidates)


def _best(results: Sequence[Outcome]) -> Outcome:
    return max(results, key=lambda outcome: outcome.above(0))


def _surely_better(outcome: Outcome, other: Outcome, comparisons: int) -> bool:
    weight = min(outcome.weight, other.weight)
    gain = _difference(outcome.values, other.values, weight, 1 - LEVEL / comparisons)
    return gain is not None and (gain.high < 0 if outcome.metric in LOWER_IS_BETTER else gain.low > 0)


def _settings(chosen: Outcome, same: Sequence[Outcome]) -> tuple[Outcome, list[str]]:
    """Other settings of the chosen method, where they are surely better than the file's."""
    others = [outcome for outcome in same if outcome.point.changes]
    if not others:
        return chosen, []
    best = _best(others)
    file = _shown(chosen, chosen.mean.value)
    words = f"{best.point.name.partition(', ')[2]}: {_shown(best, best.mean.value)} where the file's give {file}"
    if _surely_better(best, chosen, len(others)):
        return best, [f"Other settings are better: {words}."]
    return chosen, [f"Keep the file's settings: none of {len(others)} others was surely better ({words})."]


def _worth(chosen: Outcome, candidates: Sequence[Outcome]) -> str:
    scored = [outcome for outcome in candidates if outcome.point.method not in SIMPLEST]
    if chosen.point.method not in SIMPLEST:
        assert chosen.gain is not None
        return f"Choosing records is worth it: {chosen.point.method} has {_gain(chosen)} against asking at random."
    if not scored:
        return f"Recommended: {_WORDS[chosen.point.method]}. No way of choosing records was tried."
    best = _best(scored)
    aside = "" if best.gain is None else f" ({best.point.method}: {_gain(best)} against random)"
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
    best = _best(ordered)
    enough = next(outcome for outcome in ordered if best.above(outcome.mean.value) <= within)
    tried = ", ".join(f"{_shown(outcome, outcome.mean.value)} at {value(outcome)}" for outcome in ordered)
    small = f"{what} {value(enough)}" if what == "epsilon" else f"{value(enough)} labels"
    if value(enough) == value(chosen):
        planned = "as planned"
    else:
        planned = f"{small} would do" if value(enough) < value(chosen) else f"{small} would be better"
    return [f"By {what}: {tried}. Within {value_of(chosen.metric, within)} of the best: {small}, {planned}."]


def _gain(outcome: Outcome) -> str:
    gain = outcome.gain
    assert gain is not None
    if outcome.metric in IN_PERCENT:
        return f"{100 * gain.value:+.1f} points ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
    return f"{gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"


def _shown(outcome: Outcome, value: float) -> str:
    return value_of(outcome.metric, _inside(outcome.metric, value))


def _inside(metric: str, value: float) -> float:
    """Within what the metric can be: log loss has no upper end."""
    return max(value, 0.0) if metric == "log-loss" else min(max(value, 0.0), 1.0)


def _constant(metric: str) -> str:
    return f"Always the largest class ({MAJORITY})" if metric == ACCURACY else "A constant answer by the class shares"


def _scale(metric: str) -> tuple[str, float]:
    """A metric's name over figures, and what these are multiplied by."""
    return (f"{title_of(metric)}, %", 100.0) if metric in IN_PERCENT else (title_of(metric), 1.0)


def _cell(metric: str, interval: Interval) -> str:
    if metric in IN_PERCENT:
        return percent(interval)
    low, high = (f"{end:.3f}" if abs(end) < 1e6 else "?" for end in (interval.low, interval.high))
    return f"{interval.value:.3f} ({low} to {high})"


def outcome_tables(results: Sequence[Outcome]) -> list[Table]:
    """A table a problem: random beside every way."""
    tables = []
    for problem in dict.fromkeys(outcome.point.problem for outcome in results):
        rows = [outcome for outcome in results if outcome.point.problem == problem]
        metric = rows[0].metric
        title, times = _scale(metric)
        digits = 1 if times > 1 else 3
        ends = ((_inside(metric, row.campaign.low), _inside(metric, row.campaign.high)) for row in rows)
        lines = tuple(
            (
                _named(outcome.point),
                _cell(metric, _clipped(outcome)),
                "-" if outcome.baseline is None else f"{times * outcome.baseline:.{digits}f}",
                f"{times * low:.{digits}f} to {times * high:.{digits}f}",
                "-" if outcome.gain is None else _cell(metric, outcome.gain),
            )
            for outcome, (low, high) in zip(rows, ends, strict=True)
        )
        seeds = max(len(outcome.values) for outcome in rows)
        percents, points = (", %", ", points") if times > 1 else ("", "")
        constant = f"{MAJORITY}, %" if metric == ACCURACY else f"constant answer{percents}"
        tables.append(
            Table(
                title=problem,
                columns=("asked by", title, constant, f"one campaign ends at{percents}", f"over random{points}"),
                rows=lines,
                note=f"Means over {seeds} seeds with 95% intervals; differences in pairs.",
            )
        )
    return tables


def outcome_chart(results: Sequence[Outcome], *, epsilon: Decimal, queries: tuple[int, ...]) -> Chart:
    """The metric by epsilon and by labels, a line a method; random and the baseline are drawn beside every curve."""
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
    metric = line[0].metric if line else ACCURACY
    label, times = _scale(metric)
    for name in dict.fromkeys(_named(outcome.point) for outcome in line if not outcome.point.changes):
        points = sorted((outcome for outcome in line if _named(outcome.point) == name), key=_PLACES[what])
        series.append(
            Series(
                name=name,
                x=tuple(float(_PLACES[what](outcome)) for outcome in points),
                y=tuple(times * outcome.mean.value for outcome in points),
                low=tuple(times * _clipped(outcome).low for outcome in points),
                high=tuple(times * _clipped(outcome).high for outcome in points),
            )
        )
    bases = {float(_PLACES[what](outcome)): outcome.baseline for outcome in line if outcome.baseline is not None}
    if bases:
        x, y = zip(*sorted(bases.items()), strict=True)
        name = MAJORITY if metric == ACCURACY else "constant answer"
        series.append(Series(name=name, x=x, y=tuple(times * base for base in y), color="0.5"))
    return Panel(title=title, x_label=what, y_label=label, series=tuple(series))


def _clipped(outcome: Outcome) -> Interval:
    mean = outcome.mean
    return replace(mean, low=_inside(outcome.metric, mean.low), high=_inside(outcome.metric, mean.high))


def _named(point: Point) -> str:
    return f"{point.name} (not private)" if point.method == EXACT else point.name


def _form(interval: Interval) -> dict[str, float | None]:
    ends = (None if abs(end) == float("inf") else end for end in (interval.low, interval.high))
    return {"value": interval.value, **dict(zip(("low", "high"), ends, strict=True))}
