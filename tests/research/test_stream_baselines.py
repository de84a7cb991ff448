"""The batch that is not private: it is the paper's minimum, and says what it is."""

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet_research.bench.stream_baselines import batch_svm


def batch(n=400, d=4, seed=0):
    chance = np.random.default_rng(seed)
    rows = chance.normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), np.where(rows @ np.arange(1, d + 1) > 0, 1, -1)


def test_it_separates_what_can_be_separated():
    rows, labels = batch()
    model = batch_svm(rows, labels, regularization=1e-4)
    assert np.mean(model.predict_many(rows) != labels) < 0.02
    without = np.where(np.arange(400) < 10, 0, labels)
    assert np.mean(batch_svm(rows, without, regularization=1e-4).predict_many(rows) != labels) < 0.05


def test_it_says_that_it_is_not_private():
    rows, labels = batch()
    model = batch_svm(rows, labels, regularization=1e-3)
    assert not model.private
    assert "NOT PRIVATE" in repr(model)


def test_it_is_the_minimum_of_the_papers_objective():
    from scipy.optimize import minimize

    rows, labels = batch(60, 2)

    def objective(w):
        return 0.05 * w @ w + np.maximum(0, 1 - labels * (rows @ w)).mean()

    best = min(minimize(objective, start, method="Nelder-Mead").fun for start in ([0, 0], [1, 2], [2, 4]))
    assert objective(batch_svm(rows, labels, regularization=0.1).weights) == pytest.approx(best, rel=1e-2)


def test_it_refuses_what_has_no_answer():
    rows, labels = batch()
    with pytest.raises(BadInput):
        batch_svm(rows, np.ones(400), regularization=1e-3)
    with pytest.raises(BadInput):
        batch_svm(rows, labels, regularization=0.0)
    with pytest.raises(BadInput):
        batch_svm(rows, labels[:5], regularization=1e-3)
    with pytest.raises(BadInput) as told:
        batch_svm([["secret", 1.0]], [1], regularization=1e-3)
    assert "secret" not in str(told.value)
