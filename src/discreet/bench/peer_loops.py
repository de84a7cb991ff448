"""Active learning without privacy, played twice: by scikit-activeml's own loop, and by our scores and selectors.

Both have the pool, the first labels, the sizes of queries, the test set and the classifier of a problem: multinomial
logistic regression without an intercept on the features that private methods train on. Nothing here is private: no
noise, no clipping, exact choices. It says how good the loop is from which private methods are measured.

Reference: Kottke et al. 2021, scikit-activeml: a library and toolbox for active learning algorithms (1.0.1).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.bench.problems import Pool, Problem
from discreet.bench.sets import Integers
from discreet.errors import BadInput
from discreet.models.checks import require
from discreet.noise import Seeded
from discreet.scorers.build import SCORES, build_scorer
from discreet.scorers.streaming import pool_scores
from discreet.selectors import ExactTopK, RandomSelector

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
        told = {"phase": number, "k": k, "asked": k, "query_seconds": taken, "asked_places": json.dumps(asked.tolist())}
        rows.append(told | _measured(pool, known))
    return rows


def our_query(strategy: str, problem: Problem, pool: Pool, seed: int) -> Query:
    """Our score of the model's predictions, and the k largest of them."""
    if strategy != "random" and strategy not in SCORES:
        raise BadInput(f"the strategy {strategy}", "no score of ours is called so", f"Choose of {', '.join(SCORES)}")
    source, ids = Seeded(seed), pool.ids
    scorer = build_scorer(strategy, classes=problem.classes)

    def query(number: int, known: Integers, k: int) -> Integers:
        left = np.setdiff1d(np.arange(len(pool.y)), known)
        names = [ids[place] for place in left.tolist()]
        if strategy == "random":
            found = RandomSelector(source=source).select(ids=names, k=k, phase=number)
        else:
            scores = pool_scores(scorer, _Fitted(pool, known, problem.classes), _wide(pool.x[left]))
            found = ExactTopK(range=scorer.range, source=source).select(ids=names, scores=scores, k=k, phase=number)
        return np.array([int(name[1:]) for name in found.ids], dtype=np.int64)

    return query


def activeml_query(strategy: str, problem: Problem, pool: Pool, seed: int) -> Query:
    """scikit-activeml's strategy, which fits its own classifier around the same estimator."""
    require("skactiveml", extra="peers", asked="scikit-activeml's loop")
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import Badge, CoreSet, RandomSampling, UncertaintySampling

    classifier = SklearnClassifier(estimator(), classes=range(problem.classes), random_state=seed)
    takes_classifier = {"clf": classifier}
    made: dict[str, tuple[Any, dict[str, Any]]] = {
        "random": (RandomSampling(random_state=seed), {}),
        "core-set": (CoreSet(random_state=seed), {}),
        "badge": (Badge(random_state=seed), takes_classifier),
    } | {
        ours: (UncertaintySampling(method=theirs, random_state=seed), takes_classifier)
        for ours, theirs in UNCERTAINTY.items()
    }
    if strategy not in made:
        raise BadInput(f"the strategy {strategy}", "there is none", f"Choose one of {', '.join(made)}")
    chosen, further = made[strategy]
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
        found = np.zeros((len(x), self._classes))
        found[:, self._model.classes_] = self._model.predict_proba(x)
        return found


def _measured(pool: Pool, known: Integers) -> dict[str, Any]:
    model = estimator().fit(_wide(pool.x[known]), pool.y[known])
    right = model.predict(_wide(pool.test_x)) == pool.test_y
    shares = [right[pool.test_y == one].mean() for one in np.unique(pool.test_y)]
    return {"test_accuracy": float(right.mean()), "mean_recall": float(np.mean(shares))}


def _wide(x: Any) -> NDArray[np.float64]:
    """Both sides compute in double precision: else they would differ in ties alone."""
    return np.asarray(x, dtype=np.float64)
