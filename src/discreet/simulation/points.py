"""What a dry run tries: budgets, sizes of queries, and ways of asking; each as a campaign's configuration.

Everything but these is as the campaign's file says, so a dry run shows what that very campaign would do.

own          as the campaign's file says
random       asked uniformly at random: nothing is paid for selection
subset       all labels at once, drawn uniformly at random, and one training
SELECTOR     a selector of private pools that reads scores, by name, with a quarter of epsilon where the file says no
             price; ``exact``, the highest scores themselves, is not private: a ceiling to compare with

At the end: means with intervals by Student's t, for what the runs of a point gave.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from discreet.config import CampaignConfig
from discreet.errors import BadInput
from discreet.privacy.budget import RATES_PER_COHORT, exact_decimal
from discreet.selectors import SELECTORS

OWN, RANDOM, SUBSET, EXACT = "own", "random", "subset", "exact"
SIMPLEST = (SUBSET, RANDOM)
"""Ways of asking that need no selection, the simplest first."""
_SELECTION = (
    "selection",
    "selection_epsilon",
    "missed",
    "shards",
    "individual_rates",
    "high_share",
    "reads_training_data",
)
_THRESHOLD = "0.05"


Changes = tuple[tuple[str, Any], ...]
_MAY_VARY = ("plan", "scorer", "selector", "model", "trainer")


@dataclass(frozen=True, kw_only=True)
class Point:
    """One campaign that is tried."""

    epsilon: Decimal
    queries: tuple[int, ...]
    initial: int
    method: str
    changes: Changes = ()
    """Other settings than the file's: keys such as trainer.learning_rate, and values."""

    @property
    def name(self) -> str:
        """The method, and what was changed."""
        return ", ".join([self.method, *(f"{key} = {value}" for key, value in self.changes)])

    @property
    def labels(self) -> int:
        """All that are asked for."""
        return self.initial + sum(self.queries)

    @property
    def problem(self) -> str:
        """What methods are compared on."""
        return f"epsilon {self.epsilon}, {self.labels} labels ({self.initial} + {shown(self.queries)})"

    def digest(self, form: dict[str, Any]) -> str:
        """Of the configuration that it is tried with."""
        return hashlib.sha256(json.dumps([form, self.name], sort_keys=True).encode()).hexdigest()[:16]


def shown(queries: Sequence[int]) -> str:
    """Sizes of queries as they are written in options."""
    if not queries:
        return "none"
    if len(set(queries)) == 1:
        return f"{queries[0]}x{len(queries)}"
    return ",".join(map(str, queries))


def points_of(
    config: CampaignConfig,
    *,
    epsilons: Sequence[Decimal] = (),
    queries: Sequence[tuple[int, ...]] = (),
    methods: Sequence[str] = (),
    varied: Mapping[str, Sequence[Any]] | None = None,
    every: bool = False,
) -> list[Point]:
    """The points to try. By default: half and double the epsilon and the queries, one changed at a time.

    ``every``: each epsilon with each list of queries. ``varied``: other settings by key, all combinations of them, for
    the campaign's own epsilon and queries.
    """
    plan, budget = config.plan, config.budget.epsilon
    budgets = list(dict.fromkeys([budget, *(epsilons or (budget / 2, budget * 2))]))
    sizes = list(dict.fromkeys([tuple(plan.queries), *(queries or _around(tuple(plan.queries)))]))
    ways = list(dict.fromkeys([RANDOM, *(methods or _usual(config))]))
    strange = [method for method in ways if method not in METHODS]
    if strange:
        raise BadInput(f"the method {strange[0]}", "there is none of that name", f"Choose of {', '.join(METHODS)}")
    pairs = [(method, size) for method in budgets for size in sizes if every or method == budget or size == sizes[0]]
    points = [
        Point(epsilon=method, queries=size, initial=plan.initial, method=way)
        for method, size in pairs
        for way in ways
        if size or way == SUBSET
    ]
    return points + [
        replace(point, changes=changes)
        for changes in _combinations(varied or {})
        for point in points
        if (point.epsilon, point.queries) == pairs[0]
    ]


def _combinations(varied: Mapping[str, Sequence[Any]]) -> list[Changes]:
    for key in varied:
        table, dot, name = key.partition(".")
        if table not in _MAY_VARY or not dot or not name:
            raise BadInput(f"varying {key}", "it is no setting of training", f"Name a key of {', '.join(_MAY_VARY)}")
    return [tuple(zip(varied, values, strict=True)) for values in itertools.product(*varied.values())] if varied else []


def _around(queries: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [tuple(max(1, size // 2) for size in queries), tuple(2 * size for size in queries)] if queries else []


def _usual(config: CampaignConfig) -> tuple[str, ...]:
    return (SUBSET, "threshold-response" if not config.selector.declared.prices else OWN)


def form_of(config: CampaignConfig, point: Point, *, pool: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a point, without what is one run's own: its store and its seed. ``pool``: the table."""
    form = config.to_json()
    for table in ("initial", "evaluation", "simulation", "storage"):
        form.pop(table, None)
    form["name"] = "dry-run"
    form["pool"] = pool
    form["oracle"] = {"name": "files"}
    form["budget"] = {**form["budget"], "epsilon": str(point.epsilon), "labels": None}
    if point.queries != tuple(config.plan.queries):
        form["plan"]["missed"] = None  # one a query; the free ones instead
        form["plan"]["shards"] = "even"
    form["plan"] |= {"initial": point.initial, "queries": list(point.queries)}
    form["plan"]["releases"] = None  # a dry run is over at once
    METHODS[point.method](form, config, point)
    for key, value in point.changes:
        table, _, name = key.partition(".")
        form[table] = {**form[table], name: value}
    for table in ("budget", "plan", "selector", "scorer"):
        form[table] = {key: value for key, value in form[table].items() if value is not None}
    return form


def _own(form: dict[str, Any], config: CampaignConfig, point: Point) -> None:
    if point.epsilon != config.budget.epsilon:  # prices keep their part of the whole
        form["plan"] |= {"selection_epsilon": _price(config, point), "missed": None}


def _random(form: dict[str, Any], config: CampaignConfig, point: Point) -> None:
    for key in _SELECTION:
        form["plan"].pop(key, None)
    form["selector"], form["scorer"] = {"name": "random"}, {"name": "random"}


def _subset(form: dict[str, Any], config: CampaignConfig, point: Point) -> None:
    _random(form, config, point)
    form["plan"] |= {"initial": point.labels, "queries": []}


def _by_selector(form: dict[str, Any], config: CampaignConfig, point: Point) -> None:
    """The selector of this name, paid for by the first way that it declares."""
    part = SELECTORS.by_name[point.method]
    way = next(iter(part.prices), "")
    selector, scorer = {"name": part.name}, form["scorer"]
    if part.option("threshold_epsilon") is not None:
        declared = None if way == "hidden" else form["selector"].get("threshold_epsilon")
        selector["threshold_epsilon"] = str(declared or _THRESHOLD)
    _random(form, config, point)
    form["selector"], form["scorer"] = selector, {"name": "entropy"} if scorer["name"] == "random" else scorer
    if way == "one-sided":
        form["plan"]["individual_rates"] = form["plan"].get("schedule", "step-amplification") in RATES_PER_COHORT
    elif way:
        form["plan"]["selection"] = way
    if way not in ("", "hidden"):
        form["plan"]["selection_epsilon"] = _price(config, point)


def _price(config: CampaignConfig, point: Point) -> str:
    """Of selection: the same part of epsilon as in the campaign's file, or a quarter."""
    selection_epsilon, epsilon = config.plan.selection_epsilon, config.budget.epsilon
    part = point.epsilon * selection_epsilon / epsilon if selection_epsilon else point.epsilon / 4
    return str(exact_decimal(str(round(part, 6)), "selection epsilon"))


METHODS: dict[str, Callable[[dict[str, Any], CampaignConfig, Point], None]] = {
    OWN: _own,
    RANDOM: _random,
    SUBSET: _subset,
    **dict.fromkeys(SELECTORS.names(recipe="private-pool", reads=("scores",)), _by_selector),
}


CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A figure, and where it surely is."""

    value: float
    low: float
    high: float


def mean_interval(values: Sequence[float], *, confidence: float = CONFIDENCE, least: float = 0.0) -> Interval:
    """The mean, by Student's t; the mean alone for one value. ``least``: what is known of their standard deviation
    from elsewhere, if the values happen to be closer together.
    """
    return _around_mean(values, lambda n: math.sqrt(1 / n), confidence, least)


def next_interval(values: Sequence[float], *, confidence: float = CONFIDENCE, least: float = 0.0) -> Interval:
    """Where one further value of the same kind is, by Student's t: wider than where their mean is."""
    return _around_mean(values, lambda n: math.sqrt(1 + 1 / n), confidence, least)


def share_error(values: Sequence[float], measured: float) -> float:
    """The standard deviation that a share has because it is counted on ``measured`` records, at the mean of the values;
    also what a difference of two shares has at least (if every record told apart speaks for the same one).
    """
    mean = min(abs(float(np.mean(values))), 1.0)
    return math.sqrt(mean * (1 - mean) / measured)


def _around_mean(values: Sequence[float], reach: Callable[[int], float], confidence: float, least: float) -> Interval:
    sample = np.asarray(values, dtype=np.float64)
    mean = float(sample.mean())
    if sample.size < 2:
        return Interval(value=mean, low=-math.inf, high=math.inf)
    half = student_quantile(sample.size, confidence) * max(float(sample.std(ddof=1)), least) * reach(sample.size)
    return Interval(value=mean, low=mean - half, high=mean + half)


def student_quantile(n: int, confidence: float) -> float:
    """The t quantile of a two-sided interval from ``n`` values."""
    from scipy import stats

    return float(stats.t.ppf((1 + confidence) / 2, n - 1))
