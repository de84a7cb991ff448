"""A pool is scored piece by piece, by anything that predicts."""

import tracemalloc

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from discreet.errors import BadInput
from discreet.scorers import BALD, Entropy, OwnScore, RandomScore, from_logits, pool_scores, probabilities_of
from discreet.scorers.acquisition_functions import Margin


class Model:
    def __init__(self):
        self.pieces = []

    def predict_proba(self, x):
        self.pieces.append(len(x))
        return np.stack([x[:, 0], 1 - x[:, 0]], axis=1)

    def sample_proba(self, x, draws):
        return np.stack([self.predict_proba(np.clip(x + j / 100, 0, 1)) for j in range(draws)])

    def embed(self, x):
        return x


@pytest.fixture
def records():
    return np.random.default_rng(0).random((1000, 3))


def test_pieces_give_what_the_whole_gives(records):
    model, score = Model(), Entropy(classes=2)
    done = []
    found = pool_scores(score, model, records, rows=300, progress=lambda *now: done.append(now))
    np.testing.assert_array_equal(found, score.score(model.predict_proba(records)))
    assert model.pieces[:4] == [300, 300, 300, 100]
    assert done == [(300, 1000), (600, 1000), (900, 1000), (1000, 1000)]


def test_draws_embeddings_functions_and_nothing(records):
    assert (pool_scores(BALD(classes=2, draws=3), Model(), records) > 0).any()
    far = OwnScore(function=lambda e: np.linalg.norm(e, axis=1), range=(0, 2), needs="embedding")
    np.testing.assert_allclose(pool_scores(far, Model(), records), np.linalg.norm(records, axis=1))
    by_function = pool_scores(Margin(classes=2), Model().predict_proba, records)
    np.testing.assert_array_equal(by_function, pool_scores(Margin(classes=2), Model(), records))
    assert pool_scores(RandomScore(), None, records).tolist() == [0.0] * 1000
    assert pool_scores(Entropy(classes=2), Model(), records[:0]).shape == (0,)


def test_an_estimator_a_table_and_a_dict(records):
    estimator = LogisticRegression().fit(records, records[:, 0] > 0.5)
    found = pool_scores(Entropy(classes=2), estimator, records, rows=77)
    np.testing.assert_allclose(found, Entropy(classes=2).score(estimator.predict_proba(records)))
    named = pool_scores(Entropy(classes=2), lambda piece: Model().predict_proba(piece["x"]), {"x": records}, rows=77)
    np.testing.assert_array_equal(named, pool_scores(Entropy(classes=2), Model(), records))


def test_logits(records):
    logits = np.log(Model().predict_proba(records))
    found = pool_scores(Entropy(classes=2), from_logits(lambda piece: np.log(Model().predict_proba(piece))), records)
    np.testing.assert_allclose(found, Entropy(classes=2).score(np.exp(logits)), atol=1e-12)
    np.testing.assert_allclose(probabilities_of([[np.inf, 0.0], [-np.inf, 0.0], [1e5, 0.0]]), [[1, 0], [0, 1], [1, 0]])
    np.testing.assert_allclose(probabilities_of([[0.0, np.inf, -1e5]], several_labels=True), [[0.5, 1, 0]])
    assert np.isnan(probabilities_of([[np.nan, 0.0]])).all()


def test_memory_does_not_grow_with_the_pool():
    def peak(size):
        records = np.broadcast_to(np.random.default_rng(0).random((1, 50)), (size, 50))  # takes no memory itself
        tracemalloc.start()
        pool_scores(BALD(classes=2, draws=20), Model(), records, rows=500)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most - 8 * size  # the scores themselves

    assert peak(20_000) < 1.2 * peak(2_000)


def test_a_model_without_what_a_score_needs_is_refused(records):
    with pytest.raises(BadInput, match="has no sample_proba"):
        pool_scores(BALD(classes=2), LogisticRegression(), records)
    with pytest.raises(BadInput, match="has no predict_proba"):
        pool_scores(Entropy(classes=2), object(), records)
    with pytest.raises(BadInput, match="no length"):
        pool_scores(Entropy(classes=2), Model(), iter([1]))
    with pytest.raises(BadInput, match="at least one"):
        pool_scores(Entropy(classes=2), Model(), records, rows=0)
    with pytest.raises(BadInput, match="a row a record"):
        pool_scores(Entropy(classes=2), lambda piece: np.ones((3, 2)), records)
