"""One setting of the gate on one log: released, ranked, answered by a crowd, trained, again. A case of the bench.

The gate is drawn as it is: a coin of beta for every row, a value is released if k coins fell for it. The counts of what
survives are then binomial, and drawn so. Everything is a simulation from a seed; ``beta = 1`` and ``k = 1`` go around
the limits that a ledger keeps, and are marked as not private.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.oracles.annotators import climb, thought_of, trust_in
from discreet.scorers import build_scorer, pool_scores
from discreet.trainers.text_classifier import TextClassifier, TextSettings, features_of, train_texts
from discreet_research.bench.cases import GridCase
from discreet_research.bench.count_mean_min import false_releases
from discreet_research.bench.crowd_log import CLASSES, CrowdMethod, CrowdProblem, QueryLog, query_log
from discreet_research.bench.majority import largest_class

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
_DRAWS = 20
_BINS = 20
WIDTHS, DEPTH = (1 << 11, 1 << 13, 1 << 15), 4
"""Counters of a sketch: 8 thousand, 33 thousand and 131 thousand in all."""
_BELIEVED = 50.0
"""Answers of everybody that are thought of beforehand, 65% of them right: what is known of the crowd."""


@dataclass(frozen=True, kw_only=True)
class CrowdCase(GridCase):
    """A cell of the grid."""

    problem: CrowdProblem
    method: CrowdMethod
    kind = "crowd"

    def names(self) -> dict[str, Any]:
        """Of the problem and the method, the seed, and whether there is a promise."""
        method = self.method
        facts = {"k": method.k, "beta": method.beta, "scorer": method.scorer, "private": method.private}
        return super().names() | facts

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of single texts, in one case: at most."""
        return self.problem.shape.distinct * TextSettings().epochs

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """A row a round; of the baseline also what Fig. 1 shows."""
        prepared = _prepared(data, self.problem.shape, self.seed)
        rows = list(self._rounds(prepared))
        if self.method.k > 1 and not self.problem.asked:
            rows += list(self._by_sketches(prepared.log))
        if self.method.beta == 1 and self.method.scorer == "entropy":
            rows += _views(prepared)
        return [{"made_of": prepared.log.made_of, **row} for row in rows]

    def _rounds(self, prepared: _Prepared) -> Iterator[dict[str, Any]]:
        chance = self._chance(0)
        left = np.flatnonzero(self._kept(prepared.log) >= self.method.k)
        released, asked, votes = len(left), np.zeros(0, dtype=np.int64), np.zeros((0, 3), dtype=np.int64)
        people = np.clip(chance.normal(self.problem.right, self.problem.spread, self.problem.people), 0, 1)
        model, budget = prepared.bootstrapped, min(released, self.problem.asked or released)
        yield _row(prepared, model, released, asked, np.zeros(0, dtype=np.int64))
        for number in range(self.problem.rounds):
            size = budget * (number + 1) // self.problem.rounds - len(asked)
            chosen = self._most_uncertain(prepared, model, left, size, chance)
            left = left[~np.isin(left, chosen)]
            votes = np.concatenate([votes, self._answers(prepared.log, chosen, len(asked), people, chance)])
            asked = np.concatenate([asked, chosen])
            if not len(asked):
                continue
            labels = _decided(votes, self.problem, chance)
            model = prepared.trained(asked, *labels, model, self.method.order)
            yield _row(prepared, model, released, asked, labels[0])

    def _chance(self, part: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, part, self.method.k, round(1e6 * self.method.beta)])

    def _kept(self, log: QueryLog) -> Integers:
        """How often the coins of each value fell."""
        return self._chance(1).binomial(log.counts, self.method.beta)

    def _by_sketches(self, log: QueryLog) -> Iterator[dict[str, Any]]:
        """What count-mean-min alone would have released of the same coins, and should not have."""
        counts = self._kept(log)
        for width in WIDTHS:
            errors = false_releases(counts, self.method.k, width, DEPTH, seed=self.seed)
            yield {"axis": "sketch", "at": float(width), "false": errors.false, "missed": errors.missed}

    def _most_uncertain(
        self, prepared: _Prepared, model: TextClassifier, left: Integers, size: int, chance: np.random.Generator
    ) -> Integers:
        if self.method.scorer == "random":
            return chance.permutation(left)[:size]
        draws = _DRAWS if self.method.scorer == "predictive-variance" else None
        scorer = build_scorer(self.method.scorer, classes=len(CLASSES), draws=draws)
        order = chance.permutation(left)  # ties fall at random
        scores = pool_scores(scorer, model, _Rows(prepared.rows[order])) if len(order) else np.zeros(0)
        return order[np.argsort(-scores, kind="stable")][:size]

    def _answers(
        self, log: QueryLog, chosen: Integers, first: int, people: NDArray[np.float64], chance: np.random.Generator
    ) -> Integers:
        """Rows of (question, annotator, answered class): so many of the people for each, nobody twice."""
        each = self.problem.per_question
        who = np.argsort(chance.random((len(chosen), len(people))), axis=1)[:, :each]
        right = chance.random(who.shape) < people[who]
        answered = np.where(right, log.classes[chosen][:, None], 1 - log.classes[chosen][:, None])
        questions = np.repeat(np.arange(first, first + len(chosen)), each)
        return np.stack([questions, who.ravel(), answered.ravel()], axis=1)


def _decided(votes: Integers, problem: CrowdProblem, chance: np.random.Generator) -> tuple[Integers, Floats]:
    """A class for each question, and how far it is trusted: 1 if it is sure, 0 if it is anybody's guess."""
    size = len(CLASSES)
    if problem.aggregation == "majority":
        posterior = np.zeros((votes[:, 0].max() + 1, size))
        wrong = (1 - problem.right) / (size - 1)
        np.add.at(posterior, (votes[:, 0], votes[:, 2]), np.log(problem.right / wrong))
        posterior = np.exp(posterior + 1e-9 * chance.random(posterior.shape))  # ties fall at random
        posterior /= posterior.sum(axis=1, keepdims=True)
    else:
        people = np.unique(votes[:, 1], return_inverse=True)[1]  # numbered without gaps
        table = np.stack([votes[:, 0], people, votes[:, 2]], axis=1)
        thought = thought_of(size, _BELIEVED, problem.right)
        posterior = climb(table, size, smoothing=0.01, rounds=200, tolerance=1e-6, thought=thought, even=True)[0]
    return np.asarray(posterior.argmax(axis=1)), trust_in(posterior)


class _Rows:
    """Sparse rows with a length, as a pool has."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return int(self._rows.shape[0])

    def __getitem__(self, part: Any) -> Any:
        return self._rows[part]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _Prepared:
    """A log with the features of its texts and the model that the bootstrap labels make: shared by a seed's cases."""

    log: QueryLog
    rows: Any
    bootstrap: Any
    evaluation: Any
    bootstrapped: TextClassifier

    def trained(
        self, asked: Integers, labels: Integers, trust: Floats, start: TextClassifier, order: str
    ) -> TextClassifier:
        """On the bootstrap labels and what the crowd said."""
        from scipy import sparse

        rows = sparse.vstack([self.bootstrap, self.rows[asked]], format="csr")
        classes = np.concatenate([self.log.bootstrap_classes, labels])
        settings = TextSettings(order=order)  # type: ignore[arg-type]
        weights = np.concatenate([np.ones(self.bootstrap.shape[0]), trust])
        return train_texts(rows, _words(classes), classes=CLASSES, settings=settings, start=start, weights=weights)


@functools.lru_cache(maxsize=1)
def _prepared(data: Path | None, shape: Any, seed: int) -> _Prepared:
    log, settings = query_log(data, shape, seed), TextSettings()
    rows, bootstrap, evaluation = (features_of(part, settings) for part in (log.texts, log.bootstrap, log.evaluation))
    model = train_texts(bootstrap, _words(log.bootstrap_classes), classes=CLASSES, settings=settings)
    return _Prepared(log=log, rows=rows, bootstrap=bootstrap, evaluation=evaluation, bootstrapped=model)


def _words(classes: Integers) -> list[str]:
    return [CLASSES[number] for number in classes.tolist()]


def _row(
    prepared: _Prepared, model: TextClassifier, released: int, asked: Integers, labels: Integers
) -> dict[str, Any]:
    answers = model.predict_proba(prepared.evaluation).argmax(axis=1)
    right = float((labels == prepared.log.classes[asked]).mean()) if len(asked) else None
    truth = np.asarray(prepared.log.evaluation_classes)
    measured = {"accuracy": float((answers == truth).mean()), "majority": largest_class(truth)}
    return {"axis": "labels", "at": float(len(asked)), "released": released, "right": right} | measured


def _views(prepared: _Prepared) -> list[dict[str, Any]]:
    """What Fig. 1 shows: how sure and how uncertain the first model is of the log's values, and how often they are
    there.
    """
    probabilities = prepared.bootstrapped.predict_proba(prepared.rows)
    entropy = build_scorer("entropy", classes=len(CLASSES)).score(probabilities)
    rows = []
    for axis, values, low in (("confidence", probabilities.max(axis=1), 0.5), ("uncertainty", entropy, 0.0)):
        shares, edges = np.histogram(values, bins=_BINS, range=(low, 1.0))
        rows += [
            {"axis": axis, "at": at, "share": share / len(values)} for at, share in zip(edges, shares, strict=False)
        ]
    counts = np.sort(prepared.log.counts)[::-1]
    ranks = np.unique(np.geomspace(1, len(counts), 60).astype(int))
    rows += [{"axis": "rank", "at": float(rank), "share": float(counts[rank - 1])} for rank in ranks]
    seen, times = np.unique(np.minimum(counts, 10), return_counts=True)
    rows += [
        {"axis": "seen", "at": float(at), "share": times_at / len(counts)}
        for at, times_at in zip(seen.tolist(), times.tolist(), strict=True)
    ]
    return rows
