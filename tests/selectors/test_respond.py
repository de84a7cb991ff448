"""Threshold response on arrays: the same counts, thresholds and coins as for records with names."""

from decimal import Decimal

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.noise import Seeded, numerator, threshold_coins
from discreet.noise.coins import _in_order
from discreet.privacy.events import ThresholdResponse
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.selectors import ThresholdSelector, threshold_selector
from discreet.selectors.selection_inputs import charge_selection, checked
from discreet.testing.neighbours import AMPLE
from discreet.testing.noise import SURELY, coin_pvalue

LUCK = np.random.default_rng(1)
MANY = 200_000


def ledger(seed=0):
    return Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(seed))


def paid(selector, size, book=None):
    return charge_selection(book or ledger(), selector, k=10, pool_size=size, who="pool", why="test")


@pytest.mark.parametrize(("high", "low"), [(0.3, 0.06), (0.9, 0.6), (0.014, 0.004)])
def test_many_coins_have_their_probabilities(high, low):
    """On both sides of where all toss and where those above are listed first."""
    above = LUCK.random(MANY) < 0.2
    receipt = ledger().charge(event=ThresholdResponse(asked=3, missed=3), who="pool", why="test")
    high, low = numerator(high, up=False), numerator(low, up=True)
    fell = threshold_coins(above, high=high, low=low, receipt=receipt)
    for group, chance_ in ((above, high / 2**63), (~above, low / 2**63)):
        heads = int(fell[group].sum())
        assert coin_pvalue(heads, int(group.sum()), chance_) > SURELY
        assert coin_pvalue(heads, int(group.sum()), min(1.4 * chance_, 0.999)) < SURELY


def counts_plainly(values, limits, bins, step):
    """As one would write it, for scores that are in their range."""
    seen = np.clip(np.nan_to_num(values[::step].astype(float), nan=limits[0]), *limits)
    places = np.minimum((seen - limits[0]) * (bins / (limits[1] - limits[0])), bins - 1).astype(int)
    return np.bincount(places[seen > limits[0]], minlength=bins)


@pytest.mark.parametrize("limits", [(0.0, 1.0), (-2.0, 3.0)])
@pytest.mark.parametrize("all_counted", [1 << 20, 1 << 15, 100])
def test_scores_are_counted_by_place_and_nulls_are_not(limits, all_counted, monkeypatch):
    monkeypatch.setattr(threshold_selector, "ALL_COUNTED", all_counted)
    monkeypatch.setattr(threshold_selector, "discrete_laplace", lambda counts, receipt: counts)
    values = LUCK.uniform(limits[0], limits[1], 100_000)
    values[::7], values[3::50], values[5] = limits[0], limits[1], np.nextafter(limits[0], 9)
    strange = values.copy()
    strange[[0, 1200, 2400, 3600]] = np.nan, np.inf, -np.inf, 1e308
    step = min(-(-100_000 // all_counted), 24)
    for scores in (values, strange, values.astype(np.float32)):
        found = threshold_selector.noisy_counts(scores, limits, 64, None)
        assert found.tolist() == (counts_plainly(scores, limits, 64, step) * step).tolist()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("threshold", "limits"),
    [(0.1, (0.0, 1.0)), (0.7, (0.7, 1.0)), (-3.0, (0.1, 1.0)), (0.3, (0.3, 0.9)), (2.0, (0.0, 1.0))],
)
def test_a_bar_divides_short_floats_as_the_threshold_does(kind, threshold, limits):
    near = kind(threshold if threshold > limits[0] else limits[0])
    scores = np.array(
        [np.nextafter(near, kind(-9)), near, np.nextafter(near, kind(9)), 0.5, np.nan, -np.inf], dtype=kind
    )
    expected = [
        limits[0] < min(float(score), limits[1]) and threshold <= min(float(score), limits[1]) for score in scores
    ]
    assert threshold_selector.is_above(scores, threshold, limits).tolist() == expected


def test_names_and_arrays_give_the_same():
    selector = ThresholdSelector(asked=2, threshold_epsilon="0.1")
    scores = LUCK.beta(1, 6, 3000)
    found = selector.respond(scores, 300, paid(selector, 3000))
    named = selector.select(ids=[f"r{n}" for n in range(3000)], scores=scores, k=300, receipt=paid(selector, 3000))
    assert tuple(f"r{n}" for n in found.places) == named.ids
    assert {f"r{n}" for n in found.places[found.above]} == named.above
    assert (found.threshold, selector.asked) == (named.threshold, Decimal(2))
    assert "places" not in repr(found)


def test_of_many_about_as_many_are_asked_and_more_from_above():
    selector = ThresholdSelector(asked=2)
    scores = LUCK.random(MANY, dtype=np.float32)
    found = selector.respond(scores, 2000, paid(selector, MANY))
    assert 1800 <= found.places.size <= 2000
    assert (scores[found.places] >= found.threshold).tolist() == found.above.tolist()
    assert found.above.mean() > 2 * (scores >= found.threshold).mean()
    again = selector.respond(scores, 2000, paid(selector, MANY))
    assert again.places.tolist() == found.places.tolist()


def test_refusals():
    selector = ThresholdSelector(asked=2)
    for scores in (np.ones((2, 2)), np.ones(3, dtype=int)):
        with pytest.raises(BadInput, match="list of floats"):
            selector.respond(scores, 1, paid(selector, 3))
    with pytest.raises(BadInput, match="receipt for each"):
        selector.respond(np.ones(3), 1, [])


def test_scores_are_moved_into_their_range():
    _, values, _ = checked(list("abcdef"), [np.nan, np.inf, -np.inf, 5.0, -5.0, 0.3], 2, (-1.0, 2.0))
    assert values.tolist() == [-1.0, 2.0, -1.0, 2.0, -1.0, 0.3]


def test_equal_words_keep_their_order():
    words = LUCK.integers(0, 50, 1000).astype(np.uint64)
    assert _in_order(words).tolist() == np.argsort(words, kind="stable").tolist()
    assert _in_order(np.unique(words)[::-1]).tolist() == list(range(np.unique(words).size))[::-1]
