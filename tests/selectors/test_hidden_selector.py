"""The hidden threshold: whom it asks, that a record moves nobody else, that slots suffice, and who may not use it."""

import math
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.noise import Seeded
from discreet.planning.request import PlanRequest
from discreet.privacy.budget import Budget
from discreet.privacy.events import DiscreteLaplace
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.privacy.selection_terms import HiddenSlots, slots_for
from discreet.records import Selection
from discreet.selectors import HiddenThresholdSelector, selection_quality, selector_for, without_asked
from discreet.selectors.hidden_threshold import edge_of
from discreet.testing import check_selector
from discreet.testing.neighbours import AMPLE
from discreet.testing.selectors import run

LUCK = np.random.default_rng(0)
SCORES = LUCK.beta(1, 6, 5000)
IDS = [f"r{place}" for place in range(5000)]


def selector(**changes):
    return HiddenThresholdSelector(**{"threshold_epsilon": "0.2", "slots": 2000} | changes)


def test_the_contract_holds():
    check_selector(lambda: selector(threshold_epsilon=1))


@dataclass(frozen=True)
class CutToK:
    """The mistake: no more than k are asked, so that one record takes another's place."""

    inner: HiddenThresholdSelector
    slots = 2000
    hides_asked = True
    name = "hidden-threshold"

    def price(self, k, pool_size):
        return self.inner.price(k, pool_size)

    def select(self, *, ids, scores, k, receipt):
        found = self.inner.select(ids=ids, scores=scores, k=k, receipt=receipt)
        high = sorted(found.ids, key=lambda one: -np.nan_to_num(np.asarray(scores, dtype=float))[list(ids).index(one)])
        return replace(found, ids=tuple(one for one in found.ids if one in set(high[:k])))


def test_one_that_displaces_somebody_is_found():
    with pytest.raises(AssertionError, match="whether others are asked"):
        check_selector(lambda: CutToK(selector(threshold_epsilon=1)))


def test_about_k_of_the_highest_are_asked():
    sizes, kept = [], []
    for seed in range(20):
        found = run(selector(threshold_epsilon=1), IDS, SCORES, 500, seed=seed)
        chosen = SCORES[[int(one[1:]) for one in found.ids]]
        sizes.append(len(found))
        kept.append((chosen.mean() - SCORES.mean()) / (np.sort(SCORES)[-500:].mean() - SCORES.mean()))
    assert abs(np.mean(sizes) - 500) < 10
    assert min(kept) > 0.9
    assert max(sizes) > 500  # no truncation to k


def test_all_that_is_paid_for_is_the_histogram():
    assert selector().price(500, 5000) == selector().price(1, 7) == (DiscreteLaplace(epsilon="0.2"),)
    found = run(selector(), IDS, SCORES, 500)
    assert (found.mechanism, found.epsilon, found.dropped, found.above) == (
        "hidden-threshold",
        Decimal("0.2"),
        None,
        None,
    )
    assert found.threshold * 64 == round(found.threshold * 64)


def test_the_edge_asks_k_on_average():
    tails = np.array([100.0, 60.0, 20.0, 5.0])
    assert edge_of(tails, 30) == (1, 0.25)
    assert edge_of(tails, 20) == (1, 0.0)
    assert edge_of(tails, 2) == (3, 0.4)
    assert edge_of(tails, 100) == (0, 1.0)  # not so many: everybody who is counted
    assert edge_of(tails, 0)[0] == 4
    rows = np.stack([tails, np.zeros(4)])
    edges, shares = edge_of(rows, 30)
    assert (edges.tolist(), shares.tolist()) == ([1, 0], [0.25, 1.0])


def test_a_null_is_never_asked_and_those_asked_before_are_nulls():
    scores = without_asked(IDS, SCORES, IDS[:4000])
    assert (scores[:4000] == 0).all()
    assert (scores[4000:] == SCORES[4000:]).all()
    found = run(selector(), IDS, scores, 1900)
    assert set(found.ids) <= set(IDS[4000:])
    assert not run(selector(), IDS, np.zeros(5000), 500).ids


def test_what_it_releases_does_not_depend_on_the_number_of_ids():
    few = without_asked(IDS, SCORES, IDS[:4000])
    for k in (100, 1000):
        kept, cut = run(selector(), IDS, few, k), run(selector(), IDS[4000:], SCORES[4000:], k)
        assert kept.threshold == cut.threshold


def test_more_than_the_slots_are_dropped_at_random():
    crowded = selector(slots=30, threshold_epsilon="0.01")
    found = [run(crowded, IDS, np.full(5000, 0.5), 30, seed=seed) for seed in range(10)]
    assert max(map(len, found)) == 30
    with pytest.raises(BadInput, match="has 30 slots"):
        run(crowded, IDS, SCORES, 31)


@pytest.mark.parametrize(("k", "epsilon", "bins"), [(20, "0.5", 8), (200, "0.1", 64), (5, "1", 2)])
def test_slots_suffice_and_are_not_far_too_many(k, epsilon, bins):
    """For a chance that can be counted: 100,000 histograms, all counts at the edge, where most may be asked."""
    chance, runs, rng = 0.01, 100_000, np.random.default_rng(1)
    slots = slots_for(k, threshold_epsilon=Decimal(epsilon), bins=bins, chance=chance)
    counts = np.full(bins, 3 * k)
    rate = 1 - math.exp(-float(epsilon))
    noisy = counts + rng.geometric(rate, (runs, bins)) - rng.geometric(rate, (runs, bins))
    tails = np.maximum(np.maximum.accumulate(np.cumsum(noisy[:, ::-1], axis=1), axis=1)[:, ::-1], 0.0)
    edge, share = edge_of(tails, k)
    asked = counts[0] * (bins - 1 - edge) + rng.binomial(counts[0], share)
    assert (asked >= slots).mean() <= chance  # one fewer than the slots: the record in question has its own
    assert slots < 8 * np.quantile(asked, 1 - chance)


def test_slots_grow_with_doubt():
    usual = {"threshold_epsilon": Decimal("0.1"), "bins": 64, "chance": 1e-9}
    slots = slots_for(100, **usual)
    assert 100 < slots < slots_for(100, **usual | {"chance": 1e-12})
    assert slots < slots_for(100, **usual | {"bins": 128})
    assert slots < slots_for(100, **usual | {"threshold_epsilon": Decimal("0.05")})
    made = HiddenSlots.of((100, 100), threshold_epsilon=Decimal("0.1"), delta=Decimal("1e-5"))
    assert made.overflow == Decimal("1e-8")
    assert made.are_for((100, 100), Decimal("0.1"))
    assert not made.are_for((110, 100), Decimal("0.1"))
    assert not made.are_for((100,), Decimal("0.1"))


def test_who_shows_the_asked_is_sent_elsewhere():
    with pytest.raises(BadInput, match="Choose threshold-response"):
        selector_for("hidden-threshold", epsilon=1)


def test_its_quality_can_be_judged_in_a_simulation():
    book = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(0))
    found = [run(selector(), IDS, SCORES, 500, seed=seed) for seed in range(8)]
    larger = next(one for one in found if len(one) > 500)
    assert selection_quality(ids=IDS, scores=SCORES, selection=larger, k=500, where=book).asked == len(larger)
    other = Selection(ids=larger.ids, mechanism="laplace", simulation=True)
    with pytest.raises(BadInput, match="only 500 were planned"):
        selection_quality(ids=IDS, scores=SCORES, selection=other, k=500, where=book)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: selector(threshold_epsilon=0), "nothing pays"),
        (lambda: selector(bins=1), "2 to 4096"),
        (lambda: selector(slots=0), "slots"),
        (lambda: HiddenThresholdSelector.of_plan(_plan(), 3), "has 2 queries"),
        (lambda: HiddenThresholdSelector.of_plan(_plan(selection="one-sided", threshold_epsilon=0), 1), "no slots"),
    ],
)
def test_nonsense_is_refused(make, says):
    with pytest.raises(BadInput, match=says):
        make()


def test_a_plan_makes_its_selectors():
    plan = _plan()
    made = HiddenThresholdSelector.of_plan(plan, 2, range=(0.0, 2.0))
    assert made.slots == plan.selection.hidden.slots[1]
    assert (made.bins, made.range, made.threshold_epsilon) == (32, (0.0, 2.0), Decimal("0.05"))


def _plan(**changes):
    from discreet.planning import make_plan

    options = {"selection": "hidden", "threshold_epsilon": "0.05", "bins": 32, "accountant": "rdp"}
    budget = Budget(epsilon=4, delta="1e-5")
    return make_plan(
        PlanRequest(budget=budget, initial=1000, queries=(200, 300), batch=200, epochs=3, **options | changes)
    )
