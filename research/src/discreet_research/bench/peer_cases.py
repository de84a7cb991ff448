"""Active learning without privacy, played twice: by scikit-activeml's own loop, and by our scores and selectors.

Both have the pool, the first labels, the sizes of queries, the test set and the classifier of a problem: multinomial
logistic regression without an intercept on the features that private methods train on. Nothing here is private: no
noise, no clipping, exact choices. It says how good the loop is from which private methods are measured.

Reference: Kottke et al. 2021, scikit-activeml: a library and toolbox for active learning algorithms (1.0.1).

Peers in the same loop: scikit-activeml where nothing is private, Opacus as the trainer where training is.

A problem is played by all of them with the same pool, first labels, sizes of queries, test set and seeds, so that
differences are paired. Everything is a simulation on public sets.

The grid of `peers`: two problems, strategies without privacy played twice, campaigns trained twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, require
from discreet.noise import Seeded
from discreet.scorers import SCORERS, build_scorer, pool_scores
from discreet.selectors import ExactTopK, RandomSelector
from discreet_research.bench.campaigns import Campaign, accuracy_and_recall, run_case
from discreet_research.bench.cases import Case, GridCase
from discreet_research.bench.problems import Method, Pool, Problem, pool_of
from discreet_research.bench.sets import Integers

STRENGTH = 100.0
"""C of the logistic regression: fixed beforehand, for features of length 1."""
UNCERTAINTY = {"least-confidence": "least_confident", "margin": "margin_sampling", "entropy": "entropy"}
"""Our names of scores, and scikit-activeml's of the same."""
STRATEGIES = (*UNCERTAINTY, "random", "core-set", "badge")

Query = Callable[[int, Integers, int], Integers]
"""From the number of a query, the places that are labelled and k to k further places."""


def estimator() -> Any:
    """The linear model, not fitted."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=STRENGTH, fit_intercept=False, max_iter=1000, tol=1e-6)


def run_loop(problem: Problem, pool: Pool, seed: int, query: Query) -> list[dict[str, Any]]:
    """A row a phase: what was asked, how long it took to choose, and how good the model is then."""
    first = RandomSelector(source=Seeded(seed)).select(ids=pool.ids, k=problem.initial)
    known = np.sort([int(name[1:]) for name in first.ids])
    rows = [{"phase": 0} | _measured(pool, known)]
    for number, k in enumerate(problem.queries, start=1):
        begun = time.process_time()
        asked = np.sort(query(number, known, k))
        taken = time.process_time() - begun
        if len(np.unique(asked)) != k or np.isin(asked, known).any():
            raise BadInput(f"query {number} of {problem.name}", "it did not give k new records", "Mend the strategy")
        known = np.sort(np.concatenate([known, asked]))
        facts = {
            "phase": number,
            "k": k,
            "asked": k,
            "query_seconds": taken,
            "asked_places": json.dumps(asked.tolist()),
        }
        rows.append(facts | _measured(pool, known))
    return rows


def our_query(strategy: str, problem: Problem, pool: Pool, seed: int) -> Query:
    """Our score of the model's predictions, and the k largest of them."""
    if strategy not in SCORERS.names():
        remedy = f"Choose of {', '.join(SCORERS.names())}"
        raise BadInput(f"the strategy {strategy}", "no score of ours is called so", remedy)
    source, ids = Seeded(seed), pool.ids
    scorer = build_scorer(strategy, classes=problem.classes)

    def query(number: int, known: Integers, k: int) -> Integers:
        left = np.setdiff1d(np.arange(len(pool.y)), known)
        names = [ids[index] for index in left.tolist()]
        if strategy == "random":
            selection = RandomSelector(source=source).select(ids=names, k=k, phase=number)
        else:
            scores = pool_scores(scorer, _Fitted(pool, known, problem.classes), _wide(pool.x[left]))
            selection = ExactTopK(range=scorer.range, source=source).select(ids=names, scores=scores, k=k, phase=number)
        return np.array([int(name[1:]) for name in selection.ids], dtype=np.int64)

    return query


def activeml_query(strategy: str, problem: Problem, pool: Pool, seed: int) -> Query:
    """scikit-activeml's strategy, which fits its own classifier around the same estimator."""
    require("skactiveml", extra="peers", of="discreet-research", asked="scikit-activeml's loop")
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import Badge, CoreSet, RandomSampling, UncertaintySampling

    classifier = SklearnClassifier(estimator(), classes=range(problem.classes), random_state=seed)
    takes_classifier = {"clf": classifier}
    strategies: dict[str, tuple[Any, dict[str, Any]]] = {
        "random": (RandomSampling(random_state=seed), {}),
        "core-set": (CoreSet(random_state=seed), {}),
        "badge": (Badge(random_state=seed), takes_classifier),
    } | {
        ours: (UncertaintySampling(method=theirs, random_state=seed), takes_classifier)
        for ours, theirs in UNCERTAINTY.items()
    }
    if strategy not in strategies:
        raise BadInput(f"the strategy {strategy}", "there is none", f"Choose one of {', '.join(strategies)}")
    chosen, further = strategies[strategy]
    x = _wide(pool.x)

    def query(number: int, known: Integers, k: int) -> Integers:
        y = np.full(len(pool.y), np.nan)
        y[known] = pool.y[known]
        return np.asarray(chosen.query(X=x, y=y, batch_size=k, **further), dtype=np.int64)

    return query


class _Fitted:
    """The model of the labelled records; a class that none of them has gets probability 0."""

    def __init__(self, pool: Pool, known: Integers, classes: int) -> None:
        self._model = estimator().fit(_wide(pool.x[known]), pool.y[known])
        self._classes = classes

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        probabilities = np.zeros((len(x), self._classes))
        probabilities[:, self._model.classes_] = self._model.predict_proba(x)
        return probabilities


def _measured(pool: Pool, known: Integers) -> dict[str, Any]:
    model = estimator().fit(_wide(pool.x[known]), pool.y[known])
    return accuracy_and_recall(model.predict(_wide(pool.test_x)), pool.test_y)


def _wide(x: Any) -> NDArray[np.float64]:
    """Both sides compute in double precision: else they would differ in ties alone."""
    return np.asarray(x, dtype=np.float64)


Loop = Literal["scikit-activeml", "discreet", "DP-SGD", "Opacus"]
"""Who plays: the first two without privacy; the others train our campaigns."""


@dataclass(frozen=True, kw_only=True)
class PeerMethod:
    """``strategy``: what is asked, in a loop without privacy; ``campaign``: the method of a private campaign."""

    name: str
    loop: Loop
    strategy: str = ""
    campaign: Method | None = None

    def settings(self) -> dict[str, Any]:
        """All that distinguishes it from another."""
        campaign = None if self.campaign is None else self.campaign.settings()
        return {"name": self.name, "loop": self.loop, "strategy": self.strategy, "campaign": campaign}


@dataclass(frozen=True, kw_only=True)
class PeerCase(GridCase):
    """A cell of the grid."""

    problem: Problem
    method: PeerMethod
    kind = "peers"

    def names(self) -> dict[str, Any]:
        """Of the problem and the method, the loop, and the seed."""
        method = self.method
        strategy = method.strategy if method.campaign is None else method.campaign.name
        return super().names() | {"loop": method.loop, "strategy": strategy}

    @property
    def _private(self) -> Case | None:
        if self.method.campaign is None:
            return None
        return Case(problem=self.problem, method=self.method.campaign, seed=self.seed)

    def plan_name(self) -> str | None:
        """Of a campaign; other loops have no plan."""
        return None if self._private is None else self._private.plan_name()

    def make_plan(self, data: Path | None, plans: Path) -> None:
        """Of a campaign."""
        if self._private is not None:
            self._private.make_plan(data, plans)

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of a campaign's plan; of other loops, records that are learnt from in all phases."""
        if self._private is not None:
            return self._private.gradients(data, plans)
        return int(np.cumsum([self.problem.initial, *self.problem.queries]).sum())

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """A row a phase."""
        if self._private is not None:
            return run_case(self._private, data, plans, begin=partial(_Timed, loop=self.method.loop))
        pool = _pool(self.problem, self.seed, data)
        query_of = activeml_query if self.method.loop == "scikit-activeml" else our_query
        query = query_of(self.method.strategy, self.problem, pool, self.seed)
        facts = {"pool_size": len(pool.y), "made_of": pool.made_of}
        return [row | facts for row in run_loop(self.problem, pool, self.seed, query)]


@lru_cache(maxsize=1)
def _pool(problem: Problem, seed: int, data: Path | None) -> Pool:
    """Strategies of one seed follow each other."""
    return pool_of(problem, seed, data)


class _Timed(Campaign):
    """A campaign that notes whom it asked and how long its steps take, trained by us or by Opacus."""

    def __init__(self, *parts: Any, loop: Loop) -> None:
        super().__init__(*parts)
        self._loop = loop
        self._moments: list[float] = []

    def trainer(self, **further: Any) -> Any:
        """DP-SGD, or Opacus with the same model and settings."""
        watched = {"watch": lambda done, steps: self._moments.append(time.process_time()), **further}
        if self._loop != "Opacus":
            return super().trainer(**watched)
        from discreet_research.bench.opacus_trainer import OpacusTrainer

        return OpacusTrainer(classes=self.problem.classes, seed=self.case.seed, **self.learning(), **watched)

    def train(self, number: int) -> dict[str, Any]:
        """The row of a phase, with the median CPU time between two steps."""
        self._moments = []
        row = super().train(number)
        return row | {"steps": len(self._moments), "step_seconds": float(np.median(np.diff(self._moments)))}

    def ask(self, number: int, k: int) -> dict[str, Any]:
        """The row of a query, without the histograms of its scores."""
        before = {index for cohort in self.cohorts.values() for index in cohort}
        row = super().ask(number, k)
        asked = sorted(int(index) for cohort in self.cohorts.values() for index in cohort if index not in before)
        columns = {name: value for name, value in row.items() if not name.endswith("_counts")}
        return columns | {"asked_places": json.dumps(asked)}


SCORE = "margin"
DIGITS = Problem(
    name="digits, eps 8",
    data="digits",
    rare=5,
    initial=100,
    queries=(50, 50, 50),
    epsilon="8",
    batch=100,
    epochs=15,
    score=SCORE,
    features=200,
    travel=2000.0,
    accountant="rdp",
)
MNIST = Problem(
    name="mnist, 2,000 records, eps 8",
    data="mnist",
    rare=20,
    pool=2000,
    initial=300,
    queries=(150, 150, 150),
    epsilon="8",
    batch=300,
    epochs=15,
    score=SCORE,
    pictures="pixels",
    features=200,
    travel=3000.0,
    accountant="rdp",
)
CAMPAIGNS = (
    Method(name="random", mechanism="random"),
    Method(name="exact", mechanism="exact"),
    Method(
        name="threshold response, 3",
        mechanism="threshold-response",
        selection_epsilon="3",
        threshold_epsilon="0.05",
        individual_rates=True,
        above=0.1,
    ),
    Method(name="hidden threshold", mechanism="hidden-threshold", threshold_epsilon="0.2"),
)
BY_OPACUS = ("random", "exact", "hidden threshold")


def _alone(loop: Loop, strategies: tuple[str, ...]) -> tuple[PeerMethod, ...]:
    return tuple(PeerMethod(name=f"{loop}, {strategy}", loop=loop, strategy=strategy) for strategy in strategies)


def _trained(loop: Loop, methods: tuple[Method, ...]) -> tuple[PeerMethod, ...]:
    return tuple(PeerMethod(name=f"{method.name}, {loop}", loop=loop, campaign=method) for method in methods)


METHODS = (
    *_alone("scikit-activeml", STRATEGIES),
    *_alone("discreet", ("random", *UNCERTAINTY)),
    *_trained("DP-SGD", CAMPAIGNS),
    *_trained("Opacus", tuple(method for method in CAMPAIGNS if method.name in BY_OPACUS)),
)
SLOW = ("core-set", "badge")
"""Strategies that compare records with one another: with thousands they take longer than all others together."""
PEERS = (((DIGITS,), METHODS), ((MNIST,), tuple(method for method in METHODS if method.strategy not in SLOW)))
SEEDS = 5
