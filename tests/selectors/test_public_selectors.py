"""Free selectors among public records: what they take, that they are free, and that memory stays small."""

import numpy as np
import pytest

from discreet.components import public_components
from discreet.errors import BadInput
from discreet.noise import Seeded
from discreet.scorers import EmbeddedRows, LogitDifference
from discreet.selectors import DiversePublic, GreedyKCentre, UncertainPublic, k_means_public
from discreet.selectors.public_selectors import clustered, farthest_first, looked_at, most_uncertain
from discreet.testing.selectors import check_selector

IDS = [f"p{number}" for number in range(300)]


def blobs(seed=0, each=100, far=6.0):
    chance = np.random.default_rng(seed)
    centres = far * np.eye(3, 8)
    return np.concatenate([centre + chance.normal(size=(each, 8)) * 0.3 for centre in centres])


class Embedding:
    """A selector with what it embeds, for the contract: rows of what it is given as scores."""

    def __init__(self, selector):
        self.inner, self.name = selector, selector.name

    def price(self, k, pool_size):
        return self.inner.price(k, pool_size)

    def select(self, *, ids, scores, k, receipt=(), phase=0):
        numbers = np.nan_to_num(np.asarray(scores, dtype=np.float64), posinf=9.0, neginf=-9.0)
        rows = np.clip(numbers, -9, 9)[:, None] * np.array([[1.0, 0.5, 0.0]]) + [[0.0, 0.0, 1.0]]
        return self.inner.select(ids=ids, scores=scores, k=k, receipt=receipt, phase=phase, embeddings=rows)


@pytest.mark.parametrize("make", [UncertainPublic, DiversePublic, GreedyKCentre, k_means_public])
def test_the_contract_of_selectors(make):
    if make in (GreedyKCentre, k_means_public):  # they read no scores, so those may be anything
        assert make().price(10, 100) == ()
    check_selector(lambda: Embedding(make(source=Seeded(1))))


def test_diverse_public_takes_the_most_central_of_every_cluster():
    rows = blobs()
    scores = np.ones(300)
    found = DiversePublic(uncertain=300, each=2, components=3, source=Seeded(0)).select(
        ids=IDS, scores=scores, k=6, embeddings=rows
    )
    blob = sorted(int(one[1:]) // 100 for one in found.ids)
    assert blob == [0, 0, 1, 1, 2, 2]
    seen = rows @ public_components(rows, 3).T
    for number in range(3):
        mine = seen[100 * number : 100 * number + 100]
        apart = np.linalg.norm((mine - mine.mean(axis=0)), axis=1)
        picked = [int(one[1:]) % 100 for one in found.ids if int(one[1:]) // 100 == number]
        assert sorted(picked) == sorted(np.argsort(apart)[:2].tolist())
    assert found.private
    assert found.epsilon == 0


def test_diverse_public_looks_at_the_uncertain_alone():
    scores = np.zeros(300)
    scores[50:90] = 1.0
    found = DiversePublic(uncertain=40, each=5, source=Seeded(0)).select(
        ids=IDS, scores=scores, k=20, embeddings=blobs()
    )
    assert {int(one[1:]) for one in found.ids} <= set(range(50, 90))


def test_k_means_does_not_look_at_scores():
    scores = np.full(300, np.nan)
    found = k_means_public(each=1, components=3, source=Seeded(0)).select(
        ids=IDS, scores=scores, k=3, embeddings=blobs()
    )
    assert sorted(int(one[1:]) // 100 for one in found.ids) == [0, 1, 2]


def test_greedy_k_centre_goes_to_what_is_far_from_what_is_labelled():
    rows = blobs()
    found = GreedyKCentre(components=3, source=Seeded(0)).select(ids=IDS, k=1, embeddings=rows, centres=rows[:200])
    assert int(found.ids[0][1:]) >= 200
    three = farthest_first(rows.astype(np.float32), 3, known=np.empty((0, 8), dtype=np.float32))
    assert sorted((three // 100).tolist()) == [0, 1, 2]


def test_uncertain_takes_the_highest_scores_and_ties_in_their_order():
    assert most_uncertain(np.array([0.5, 0.9, 0.5, 0.9, -np.inf]), 3).tolist() == [1, 3, 0]
    assert most_uncertain(np.array([0.5, -np.inf]), 2).tolist() == [0]
    assert most_uncertain(np.empty(0), 2).tolist() == []
    chance = np.random.default_rng(0).random(1000).round(2)
    for count in (0, 1, 10, 999, 1000, 5000):
        assert most_uncertain(chance, count).tolist() == np.argsort(-chance, kind="stable")[:count].tolist()


def test_clusters_share_out_labels_even_where_some_are_small():
    rows = np.concatenate([np.zeros((2, 2)), np.ones((50, 2)) * 9 + np.random.default_rng(0).normal(size=(50, 2))])
    found = clustered(rows, 2)
    taken = found.taken(12)
    assert len(set(taken.tolist())) == 12
    assert {0, 1} <= set(taken.tolist())  # the small one gives all it has, the large one the rest


def test_the_same_records_give_the_same_choice():
    made = [
        DiversePublic(uncertain=200, source=Seeded(5)).select(
            ids=IDS, scores=np.linspace(0, 1, 300), k=40, embeddings=blobs()
        )
        for _ in range(2)
    ]
    assert made[0].ids == made[1].ids


def test_broken_public_records_are_never_asked():
    rows, scores = blobs(), np.linspace(0, 1, 300)
    rows[299], scores[298] = np.nan, np.nan
    for selector in (
        DiversePublic(source=Seeded(0)),
        k_means_public(source=Seeded(0)),
        GreedyKCentre(source=Seeded(0)),
    ):
        found = selector.select(ids=IDS, scores=scores, k=300, embeddings=rows)
        assert "p299" not in found.ids
    assert "p298" not in DiversePublic(source=Seeded(0)).select(ids=IDS, scores=scores, k=300, embeddings=rows).ids


class Reader:
    """A model of another framework: anything with embed and predict_proba."""

    def __init__(self):
        self.longest = 0

    def embed(self, x):
        self.longest = max(self.longest, len(x))
        return np.asarray(x, dtype=np.float32) @ np.eye(8, 4, dtype=np.float32)


def test_embeddings_of_any_model_are_read_in_pieces():
    model = Reader()
    rows = EmbeddedRows(model, np.random.default_rng(0).normal(size=(30_000, 8)))
    assert rows.shape == (30_000, 4)
    names = [f"p{number}" for number in range(30_000)]
    found = k_means_public(source=Seeded(0), components=2).select(ids=names, scores=None, k=50, embeddings=rows)
    assert len(found) == 50
    assert model.longest <= 8192


def test_records_of_several_arrays_are_embedded_too():
    class Tokens:
        def embed(self, x):
            return x["a"] + x["b"]

    records = {"a": np.ones((6, 2)), "b": np.arange(12.0).reshape(6, 2)}
    rows = EmbeddedRows(Tokens(), records, nulls=np.array([True] + [False] * 5))
    assert rows.shape == (6, 2)
    assert rows[np.array([0, 2])].tolist() == [[0.0, 0.0], [5.0, 6.0]]
    assert rows[6:].shape == (0, 2)


@pytest.mark.parametrize(
    "broken",
    [
        {"scores": np.zeros(3)},
        {"scores": ["x"] * 300},
        {"embeddings": np.zeros((3, 8))},
        {"embeddings": np.zeros(300)},
        {"k": -1},
    ],
)
def test_what_does_not_fit_is_refused(broken):
    given = {"ids": IDS, "scores": np.ones(300), "k": 5, "embeddings": blobs()} | broken
    with pytest.raises(BadInput):
        DiversePublic().select(**given)


def test_odd_settings_are_refused():
    for options in ({"each": 0}, {"components": True}, {"uncertain": 0}):
        with pytest.raises(BadInput):
            DiversePublic(**options).select(ids=IDS, scores=np.ones(300), k=5, embeddings=blobs())
    with pytest.raises(BadInput, match="not so many"):
        looked_at(10, 20, 100)
    with pytest.raises(BadInput):
        EmbeddedRows(object(), np.zeros((3, 2)))


def test_the_difference_of_logits_orders_as_it_does():
    logits = np.random.default_rng(0).normal(size=(200, 5)) * 3
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    ordered = np.sort(logits, axis=1)
    difference = ordered[:, -1] - ordered[:, -2]
    score = LogitDifference(classes=5).score(proba)
    assert np.argsort(-score).tolist() == np.argsort(difference).tolist()
    assert score == pytest.approx(np.exp(-difference))
