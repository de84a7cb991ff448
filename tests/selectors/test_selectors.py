"""Every selector keeps the contract; a wrong one is found by it; and each does what it is for."""

from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pytest

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import Seeded, laplace
from discreet.privacy.events import DiscreteLaplace, Gaussian, Laplace, PoissonSampledGaussian, ThresholdResponse
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.records import Selection
from discreet.selectors import ExactTopK, GaussianTopK, LaplaceTopK, RandomSelector, ThresholdSelector
from discreet.testing import NotPrivate, check_selector
from discreet.testing.neighbours import AMPLE
from discreet.testing.selectors import run

SELECTORS = {
    "random": lambda: RandomSelector(source=Seeded(0)),
    "exact": lambda: ExactTopK(source=Seeded(0)),
    "laplace": lambda: LaplaceTopK(epsilon=2),
    "gaussian": lambda: GaussianTopK(noise_multiplier=1.0),
    "subsampled-gaussian": lambda: GaussianTopK(noise_multiplier=1.0, subsample=0.7),
    "threshold-response": lambda: ThresholdSelector(asked=2, threshold_epsilon="0.1"),
    "threshold-response, caps": lambda: ThresholdSelector(asked=2, missed="0.3", threshold_epsilon="0.1", bins=16),
    "threshold-response, declared": lambda: ThresholdSelector(asked=2, threshold=0.7),
}
LUCK = np.random.default_rng(0)
SCORES = LUCK.beta(1, 6, 5000)
IDS = [f"r{place}" for place in range(5000)]


@pytest.mark.parametrize("name", SELECTORS)
def test_the_contract_holds(name):
    check_selector(SELECTORS[name])


def kept(selection, scores=SCORES, k=500):
    """The share of the gain in mean score that is left."""
    chosen = scores[[int(one[1:]) for one in selection.ids]].mean()
    return (chosen - scores.mean()) / (np.sort(scores)[-k:].mean() - scores.mean())


def test_what_each_keeps_of_the_gain():
    shares = {
        name: np.mean([kept(run(make(), IDS, SCORES, 500, seed=s)) for s in range(5)])
        for name, make in SELECTORS.items()
    }
    assert shares["exact"] == pytest.approx(1)
    assert abs(shares["random"]) < 0.05
    assert 0.05 < shares["laplace"] < 0.25
    assert shares["threshold-response"] > 2.5 * shares["laplace"]
    assert shares["subsampled-gaussian"] < shares["gaussian"] + 0.03


def test_prices():
    assert SELECTORS["random"]().price(5, 50) == SELECTORS["exact"]().price(5, 50) == ()
    assert SELECTORS["laplace"]().price(5, 50) == (Laplace(epsilon=2),)
    assert SELECTORS["gaussian"]().price(5, 50) == (Gaussian(noise_multiplier=1.0),)
    assert SELECTORS["subsampled-gaussian"]().price(5, 50) == (
        PoissonSampledGaussian(sampling_rate=0.7, noise_multiplier=1.0),
    )
    assert SELECTORS["threshold-response, caps"]().price(5, 50) == (
        DiscreteLaplace(epsilon="0.1"),
        ThresholdResponse(asked=2, missed="0.3"),
    )
    assert SELECTORS["threshold-response, declared"]().price(5, 50) == (ThresholdResponse(asked=2, missed=2),)


def test_what_is_not_private_says_so():
    exact = run(ExactTopK(source=Seeded(0)), IDS, SCORES, 5)
    assert not exact.private
    assert exact.epsilon == Decimal("Infinity")
    assert set(exact.ids) == {IDS[place] for place in np.argsort(SCORES)[-5:]}
    assert all(run(make(), IDS, SCORES, 5).private for name, make in SELECTORS.items() if name != "exact")
    assert run(LaplaceTopK(epsilon=2), IDS, SCORES, 5).simulation
    assert not RandomSelector().select(ids=IDS, k=5).simulation


def test_equal_scores_are_chosen_at_random():
    found = {run(ExactTopK(source=Seeded(seed)), IDS[:10], np.ones(10), 1).ids for seed in range(60)}
    assert len(found) == 10


def test_production_chance_is_fresh_each_time():
    assert RandomSelector().select(ids=IDS, k=50).ids != RandomSelector().select(ids=IDS, k=50).ids
    seeded = RandomSelector(source=Seeded(1))
    assert seeded.select(ids=IDS, k=50).ids == seeded.select(ids=IDS, k=50).ids
    assert seeded.select(ids=IDS, k=50, phase=1).ids != seeded.select(ids=IDS, k=50, phase=2).ids


def test_those_asked_from_above_are_known_to_the_owner_alone():
    found = run(ThresholdSelector(asked=3, threshold=0.5), IDS, SCORES, 500)
    assert found.above == {one for one in found.ids if SCORES[int(one[1:])] >= 0.5}
    assert 0 < len(found.above) < len(found)
    assert "above" not in repr(found)


def test_a_null_is_never_above_the_threshold():
    found = run(ThresholdSelector(asked=3, threshold=-1.0), IDS, np.zeros(5000), 500)
    assert not found.above


def test_too_many_are_dropped_and_nobody_is_told():
    full = ThresholdSelector(asked=1, threshold=0.9999)  # believed to be one in ten thousand: in truth all
    found = run(full, IDS, np.ones(5000), 500)
    assert len(found) == 500
    assert found.dropped is None


def test_receipts_of_another_price_are_refused():
    book = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(0))
    little = book.charge(event=ThresholdResponse(asked="0.1", missed="0.1"), who="pool", why="selection")
    with pytest.raises(BadInput, match="cost more than"):
        ThresholdSelector(asked=2, threshold=0.7).select(ids=IDS, scores=SCORES, k=50, receipt=[little])
    other = book.charge(event=Gaussian(noise_multiplier=1.0), who="pool", why="selection")
    with pytest.raises(ReceiptRefused, match="charged for gaussian"):
        LaplaceTopK(epsilon=2).select(ids=IDS, scores=SCORES, k=50, receipt=other)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ThresholdSelector(asked=2, threshold_epsilon=0), "nothing pays for its threshold"),
        (lambda: ThresholdSelector(asked=2, bins=1), "2 to 4096"),
        (lambda: ThresholdSelector(asked=2, range=(1, 0)), "bottom below top"),
        (lambda: LaplaceTopK(epsilon="many"), "epsilon"),
        (lambda: GaussianTopK(noise_multiplier=1.0, subsample=0.0), "a share"),
        (lambda: run(LaplaceTopK(epsilon=1), IDS, SCORES[:7], 5), "one for each id"),
        (lambda: run(LaplaceTopK(epsilon=1), IDS, ["x"] * 5000, 5), "not numbers"),
    ],
)
def test_nonsense_is_refused_in_words(make, says):
    with pytest.raises(BadInput, match=says):
        make()


# -- the contract finds what is wrong


@dataclass(frozen=True)
class Changed:
    """A selector with one thing wrong."""

    inner: object
    change: object

    name = "changed"

    def price(self, k, pool_size):
        return self.inner.price(k, pool_size)

    def select(self, **given):
        found = self.change(self.inner, given)
        return replace(found, mechanism=self.name)


def in_order_of_scores(inner, given):
    found = inner.select(**given)
    scores = dict(zip(given["ids"], given["scores"], strict=True))
    return replace(found, ids=tuple(sorted(found.ids, key=lambda one: -np.nan_to_num(scores[one]))))


def one_more(inner, given):
    found = inner.select(**given)
    return replace(found, ids=(*found.ids, *(one for one in given["ids"] if one not in found.ids)))


def twice(inner, given):
    found = inner.select(**given)
    return replace(found, ids=(*found.ids[:-1], found.ids[0]) if len(found) > 1 else found.ids)


def by_the_true_maximum(inner, given):
    found = inner.select(**given)
    scores = np.nan_to_num(np.array(given["scores"], dtype=float))
    return replace(found, threshold=float(scores.max(initial=0.0)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (in_order_of_scores, "the order"),
        (one_more, "more than it was told"),
        (twice, "twice"),
        (by_the_true_maximum, "output"),
    ],
)
def test_a_selector_that_is_wrong_is_found(change, says):
    with pytest.raises((AssertionError, NotPrivate), match=says):
        check_selector(lambda: Changed(LaplaceTopK(epsilon=2), change))


def test_a_selector_that_draws_twice_for_one_charge_is_found():
    @dataclass(frozen=True)
    class Greedy:
        name = "greedy"

        def price(self, k, pool_size):
            return (Laplace(epsilon=2),)

        def select(self, *, ids, scores, k, receipt, phase=0):
            noisy = np.asarray(scores, dtype=float) + laplace(0.0, sensitivity=1.0, receipt=receipt[0])
            places = np.argsort(-np.nan_to_num(noisy), kind="stable")[:k]
            return Selection(ids=tuple(np.array(ids, dtype=object)[places]), mechanism=self.name)

    with pytest.raises((AssertionError, NotPrivate, BadInput)):
        check_selector(Greedy)
