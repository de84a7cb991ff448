"""Tables learned by feature maps: a private linear model beside the same model without privacy, and boosted trees.

Each private model is DP-SGD of one linear layer on 20,000 labels at epsilon 1. Its settings are the same for every
table and map, and for columns without a map: `RATES` compares learning rates on a table that is in none of the
results, and nothing is chosen on the others. Without privacy the layer is a logistic regression; a fifth
of the labels choose how strongly it is regularised. Boosted trees are those of scikit-learn with its defaults, on the
columns themselves.

Edges, means and values of categories are of 3,000 public rows. Every draw is seeded: a simulation on public sets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet_research.bench.cases import GridCase
from discreet_research.bench.feature_table_sets import LABELS, TableData, TableParts, table_parts
from discreet_research.bench.majority import largest_class
from discreet_research.bench.problems import GridSettings

LearnedFrom = Literal["bins", "whitened bins", "spline", "standardise", "one-hot", "raw", "trees"]
MAPS: tuple[LearnedFrom, ...] = ("bins", "spline", "standardise", "one-hot", "raw")
WHITENED: LearnedFrom = "whitened bins"
RIDGE = 0.1
"""What is added to eigenvalues, as a part of their mean: compared on the fourth table alone."""
EPSILON, DELTA = "1", "1e-6"
_STRENGTHS = (1.0, 10.0, 100.0, 1000.0)
_HELD_OUT_SHARE = 5
_MICRO_BATCH, _MOST_EPOCHS = 1_024, 100
_SECONDS_PER_GRADIENT = 1.5e-5
_SECONDS_OF_A_PLAN, _SECONDS_WITHOUT_PRIVACY = 4.0, 5.0
"""CPU seconds on one core of 2026: what a case says before any has run."""


@dataclass(frozen=True, kw_only=True)
class TableProblem(GridSettings):
    """A table, and the budget of its private models."""

    name: str
    data: TableData
    labels: int = LABELS
    epsilon: str = EPSILON
    delta: str = DELTA


@dataclass(frozen=True, kw_only=True)
class DPSettings(GridSettings):
    """Of DP-SGD."""

    batch: int
    epochs: int
    learning_rate: float
    clip: float = 1.0
    momentum: float = 0.9


@dataclass(frozen=True, kw_only=True)
class TableMethod(GridSettings):
    """``features``: a map of tables, or the columns as the schema encodes them. ``private``: settings of DP-SGD, or
    ``auto``: by the rule for public numbers; None: not private.
    """

    name: str
    features: LearnedFrom
    private: DPSettings | Literal["auto"] | None


@dataclass(frozen=True, kw_only=True)
class TableCase(GridCase):
    """A model."""

    problem: TableProblem
    method: TableMethod
    kind = "features of tables"

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of single records, as expected; a model without privacy sees its records once."""
        private = self.method.private
        return self.problem.labels * (_MOST_EPOCHS if private == "auto" else private.epochs if private else 1)

    def expected_seconds(self, gradients: int) -> float:
        """CPU seconds."""
        if self.method.private is None:
            return _SECONDS_WITHOUT_PRIVACY
        return _SECONDS_OF_A_PLAN + _SECONDS_PER_GRADIENT * gradients

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """One row."""
        from sklearn.metrics import roc_auc_score

        parts = table_parts(self.problem.data, data, self.seed, self.problem.labels)
        x, test_x, bound = _features(self.method.features, parts)
        scores, rate = self._scores(x, test_x, bound, parts)
        return [
            {
                "auc": float(roc_auc_score(parts.test_y, scores)),
                "accuracy": float(((scores > 0.5) == parts.test_y).mean()),
                "majority": largest_class(parts.test_y),
                "features": self.method.features,
                "private": self.method.private is not None,
                "claimed_epsilon": float(self.problem.epsilon) if self.method.private else None,
                "learning_rate": rate,
                "automatic": self.method.private == "auto",
                "records": len(parts.y),
                "inputs": x.shape[1],
                "made_of": parts.made_of,
            }
        ]

    def _scores(
        self, x: Any, test_x: Any, bound: float | None, parts: TableParts
    ) -> tuple[NDArray[np.float64], float | None]:
        """Probabilities of yes, by a model of these labels; and its learning rate, where it is private."""
        rate = None
        if self.method.private is not None:
            model, rate = _private_model(self.problem, self.method.private, x.shape[1], bound, self.seed)
        elif self.method.features == "trees":
            model = _trees(parts, self.seed)
        else:
            model = _best_regression(x, parts.y)
        model.fit(x, parts.y)
        return np.asarray(model.predict_proba(test_x)[:, 1], dtype=np.float64), rate


def _features(name: str, parts: TableParts) -> tuple[Any, Any, float | None]:
    """Of the labelled part and of the test part, and how long they can be."""
    from discreet.features import build_feature_map

    if name == "trees":
        return _columns(parts, parts.table), _columns(parts, parts.test), None
    if name == "raw":
        bound = math.sqrt(len(parts.schema.columns))
        return parts.schema.encode(parts.table)[0], parts.schema.encode(parts.test)[0], bound
    made = build_feature_map("bins" if name == WHITENED else name, schema=parts.schema, public=parts.public)
    x, test_x = made.transform(parts.table), made.transform(parts.test)
    if name != WHITENED:
        return x, test_x, made.norm_bound
    whiten = _whitening(made.transform(parts.public))
    return whiten(x), whiten(test_x), 1.0


def _whitening(public: Any) -> Callable[[Any], NDArray[np.float32]]:
    """A map of one record's features, with a 1 behind them: by the root of the inverse of the second moments of public
    rows, with a part of their mean added to each eigenvalue; then to length 1.
    """
    rows = _with_one(public)
    values, vectors = np.linalg.eigh((rows.T @ rows / len(rows)).astype(np.float64))
    root = (vectors / np.sqrt(values + RIDGE * values.mean())) @ vectors.T

    def whiten(features: Any) -> NDArray[np.float32]:
        whitened = _with_one(features) @ root
        return np.asarray(whitened / np.linalg.norm(whitened, axis=1, keepdims=True), dtype=np.float32)

    return whiten


def _with_one(rows: Any) -> NDArray[np.float32]:
    return np.concatenate([rows, np.ones((len(rows), 1), dtype=np.float32)], axis=1)


def _columns(parts: TableParts, table: Any) -> NDArray[np.float64]:
    """Numbers as they are, categories by their number; NaN for what is missing or not declared."""
    codes, states = parts.schema.parse(table)
    columns = []
    for place, column in enumerate(parts.schema.columns):
        cells = column.resolve(codes[:, place], states[:, place])
        columns.append(np.where(cells.known, cells.codes, np.nan))
    return np.stack(columns, axis=1)


def _private_model(
    problem: TableProblem, chosen: DPSettings | Literal["auto"], inputs: int, bound: float | None, seed: int
) -> tuple[Any, float]:
    """A model, and its learning rate."""
    from discreet import DPClassifier
    from discreet.trainers.dp_sgd import Settings, automatic_settings

    if chosen == "auto":
        rule = automatic_settings(
            labels=problem.labels,
            epsilon=float(problem.epsilon),
            delta=float(problem.delta),
            classes=2,
            dimension=inputs,
            norm_bound=bound,
        )
        batch, epochs, settings = rule.batch, rule.epochs, replace(rule.settings, micro_batch=_MICRO_BATCH)
    else:
        batch, epochs = chosen.batch, chosen.epochs
        settings = Settings(
            clip=chosen.clip,
            learning_rate=chosen.learning_rate,
            optimizer_options={"momentum": chosen.momentum},
            micro_batch=_MICRO_BATCH,
        )
    model = DPClassifier(
        epsilon=problem.epsilon,
        delta=problem.delta,
        classes=[0, 1],
        batch=batch,
        epochs=epochs,
        settings=settings,
        simulation_seed=seed,
    )
    return model, settings.learning_rate


def _trees(parts: TableParts, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    categories = [bool(column.values) for column in parts.schema.columns]
    return HistGradientBoostingClassifier(categorical_features=categories, random_state=seed)


def _best_regression(x: Any, y: NDArray[np.int64]) -> Any:
    """Of the strengths the one that has the best AUC on the last fifth of the labels."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    first = len(y) - len(y) // _HELD_OUT_SHARE

    def held_out(strength: float) -> float:
        model = LogisticRegression(C=strength, max_iter=1_000).fit(x[:first], y[:first])
        return float(roc_auc_score(y[first:], model.decision_function(x[first:])))

    return LogisticRegression(C=max(_STRENGTHS, key=held_out), max_iter=1_000)


RATE = 2.0
"""The best of `RATES`, on average over the maps."""


def _private(name: LearnedFrom, learning_rate: float, title: str) -> TableMethod:
    return TableMethod(
        name=title, features=name, private=DPSettings(batch=1_000, epochs=20, learning_rate=learning_rate)
    )


_PRIVATE = tuple(_private(name, RATE, f"{name}, private") for name in MAPS)
_LEARNED_FROM: tuple[LearnedFrom, ...] = (*MAPS, WHITENED, "trees")
_RULED: tuple[LearnedFrom, ...] = ("bins", WHITENED)
_AUTOMATIC = tuple(TableMethod(name=f"{name}, private, auto", features=name, private="auto") for name in _RULED)
_NOT_PRIVATE = tuple(TableMethod(name=f"{name}, not private", features=name, private=None) for name in _LEARNED_FROM)
_PROBLEMS = tuple(TableProblem(name=name, data=name) for name in ("adult", "flights", "diamonds"))
TABLES = ((_PROBLEMS, (*_PRIVATE, *_AUTOMATIC, *_NOT_PRIVATE)),)
_GRID = tuple(_private(name, rate, f"{name}, rate {rate:g}") for name in MAPS for rate in (0.5, 1.0, 2.0, 4.0, 8.0))
RATES = (((TableProblem(name="vietnam", data="vietnam"),), (*_GRID, *_AUTOMATIC)),)
