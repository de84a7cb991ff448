"""Baselines: the batch that is not private says so wherever it is seen; asking everybody costs an update alone."""

import json

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.noise import Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.certificate import certify
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.stream import AskEverything, GammaNoise, MiniBatch, stream_terms
from discreet.stream.baselines import NOT_PRIVATE, batch_svm, label_everything


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


def test_every_artefact_says_that_it_is_not_private():
    rows, labels = batch()
    model = batch_svm(rows, labels, regularization=1e-3)
    assert not model.private
    assert "NOT PRIVATE" in repr(model)
    form = json.loads(json.dumps(model.to_json()))
    assert (form["private"], form["claim"], form["audience"]) == (False, NOT_PRIVATE, "owner")
    assert form["sha256"] == model.sha256
    assert model.weights.tolist() == form["weights"]


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


def test_label_everything_asks_everybody_and_pays_for_the_update_alone():
    rows, labels = batch(60)
    noise = GammaNoise(epsilon="1.5")
    terms = stream_terms(Budget(epsilon="1.5", delta=0), asking=AskEverything(), noise=noise)
    ledger = Ledger.create(MemorySink(), terms, source=Seeded(1))
    learner = label_everything(noise=noise, ledger=ledger, features=4, radius=1.0)
    for row, label in zip(rows, labels, strict=True):
        assert learner.ask(row)
        learner.learn_one(row, int(label > 0))
    learner.update()
    assert (learner.arrived, learner.asked, learner.updates) == (60, 60, 60)
    assert certify(ledger)["claim"]["epsilon"] == 1.5
    terms = stream_terms(Budget(epsilon="1.5", delta=0), asking=AskEverything(), noise=noise)
    slower = label_everything(
        noise=noise, ledger=Ledger.create(MemorySink(), terms, source=Seeded(1)), features=4, window=MiniBatch(20)
    )
    assert slower.ask_many(rows).all()
    slower.update()
    assert slower.updates == 3
