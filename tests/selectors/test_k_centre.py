"""k-centre in sequence: the contract, exact chances of every sequence on neighbours, and bugs that must be found."""

import itertools
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import Seeded, exponential
from discreet.noise.sources import Source
from discreet.privacy.accounting.pld import hockey_stick, pld_epsilons, pld_pair
from discreet.privacy.accounting.rdp import bounded_range_rdp, rdp_epsilon
from discreet.privacy.budget import Budget
from discreet.privacy.events import BoundedRange, Laplace, Repeated
from discreet.privacy.ledger import Ledger, Line, MemorySink, adaptive, committed
from discreet.selectors import KCentreSelector, charge_selection, k_centre
from discreet.selectors.k_centre import REACH, distances, embedded, epsilon_per_draw
from discreet.testing import NotPrivate, check_neighbours, check_selector
from discreet.testing.neighbours import AMPLE
from discreet.testing.selectors import run

pytestmark = pytest.mark.thorough

MAKES = {
    "bounded range": lambda: KCentreSelector(epsilon=2, delta="1e-6"),
    "anchored": lambda: KCentreSelector(epsilon=2, delta="1e-6", anchored=True),
}
IDS = [f"r{place}" for place in range(3000)]


@pytest.mark.parametrize("name", MAKES)
def test_the_contract_holds(name):
    check_selector(MAKES[name], reads=lambda scores: np.column_stack([scores, np.zeros(len(scores))]))


# -- the price


def test_known_answers():
    """DP-AL's example: k = 100, epsilon 1, distances .1, .5 and 1 (its ends are misprinted as .3325 and .3342)."""

    def chances(each):
        weights = np.exp(float(each) * np.array([0.1, 0.5, 1.0]) / 2)
        return (weights / weights.sum()).round(4).tolist()

    basic = epsilon_per_draw(Decimal(1), Decimal(0), 100)
    assert basic == Decimal("0.01")
    assert chances(basic) == [0.3326, 0.3333, 0.3341]
    ranged = {delta: epsilon_per_draw(Decimal(1), Decimal(delta), 100) for delta in ("1e-5", "1e-6", "1e-7")}
    assert [round(float(each / basic), 2) for each in ranged.values()] == [4.97, 4.44, 4.05]
    assert chances(ranged["1e-6"]) == [0.3301, 0.3331, 0.3368]
    # "four times": zero-concentrated DP of eps^2 / 8 a draw, converted in its plainest way, at delta 1e-5
    rho = (np.sqrt(np.log(1e5) + 1) - np.sqrt(np.log(1e5))) ** 2
    assert np.sqrt(8 * rho / 100) == pytest.approx(0.0408, abs=5e-5)
    assert chances(0.0408) == [0.3304, 0.3331, 0.3365]


@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-9"])
@pytest.mark.parametrize("draws", [1, 2, 17, 1000])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
def test_the_search_ends_on_the_safe_side(epsilon, draws, delta):
    each = epsilon_per_draw(Decimal(epsilon), Decimal(delta), draws)
    assert each >= Decimal(epsilon) / draws - Decimal("1e-9")
    price = Repeated(event=BoundedRange(epsilon=each), count=draws)
    assert rdp_epsilon(price, float(delta)) <= float(epsilon)
    more = Repeated(event=BoundedRange(epsilon=each * Decimal("1.001") + Decimal("1e-8")), count=draws)
    assert min(rdp_epsilon(more, float(delta)), float(more.pure_epsilon())) > float(epsilon) * 0.9999


def test_a_ledger_of_just_its_budget_takes_it():
    """Adaptive with one order, and committed by either accountant: the search and the ledgers round the same way."""
    selector, budget = KCentreSelector(epsilon=1, delta="1e-6"), Budget(epsilon=1, delta="1e-6")
    (price,) = selector.price(100, 5000)
    line = Line(who="pool", event=price.event, count=price.count)
    for terms in (
        adaptive(budget, expect=price),
        committed(budget, [line], accountant="rdp"),
        committed(budget, [line], accountant="pld"),
    ):
        book = Ledger.create(MemorySink(), terms, source=Seeded(0))
        assert charge_selection(book, selector, k=100, pool_size=5000, who="pool", why="query")
    assert max(pld_epsilons(price, 1e-6)) <= 1


def test_labelled_groups_pay_with_the_pool_and_one_draw_serves_all():
    book = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(0))
    selector = KCentreSelector(epsilon=1)
    paid = charge_selection(book, selector, k=4, pool_size=9, who=["pool", "cohort 0"], why="query")
    assert [charge.who for charge in paid[0].entry.charges] == ["pool", "cohort 0"]
    points = np.random.default_rng(0).normal(size=(9, 3))
    found = selector.select(ids=IDS[:9], scores=points, k=4, receipt=paid, centres=points[:2])
    assert len(found) == 4
    assert found.epsilon == 1
    with pytest.raises((BadInput, ReceiptRefused)):
        selector.select(ids=IDS[:9], scores=points, k=4, receipt=paid, centres=points[:2])


# -- what it does


def greedy(points, centres, k):
    nearest = np.min([np.linalg.norm(points - c, axis=1) for c in centres], axis=0)
    found = []
    for _ in range(k):
        nearest[found] = -1
        found.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, np.linalg.norm(points - points[found[-1]], axis=1))
    return found


def far(selector, points, centres, k, seed=0):
    book = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(seed))
    ids = IDS[: len(points)]
    paid = charge_selection(book, selector, k=k, pool_size=len(ids), who="pool", why="query")
    return [int(one[1:]) for one in selector.select(ids=ids, scores=points, k=k, receipt=paid, centres=centres).ids]


def cover(points, found):
    """How far the farthest point is from its nearest chosen one."""
    return np.min([np.linalg.norm(points - points[place], axis=1) for place in found], axis=0).max()


def test_for_a_fortune_it_is_the_greedy_algorithm():
    points = np.random.default_rng(1).normal(size=(300, 2))
    points /= np.linalg.norm(points, axis=1).max()
    rich = cover(points, [0, 1, 2, *far(KCentreSelector(epsilon=10**7), points, points[:3], 12)])
    assert rich < 1.1 * cover(points, [0, 1, 2, *greedy(points, points[:3], 12)])
    assert rich < 0.8 * cover(points, range(15))


def test_for_a_budget_diversity_does_not_survive():
    """Sixty small clusters around one large: the greedy choice finds them, epsilon 2 finds what chance finds."""
    rng = np.random.default_rng(2)
    points = np.vstack([rng.normal(0, 0.02, (2940, 8)), rng.normal(0, 1, (60, 8))])
    points /= np.linalg.norm(points, axis=1).max()
    centres = points[:5]

    def rare(epsilon):
        selector = KCentreSelector(epsilon=epsilon, delta="1e-6", anchored=True)
        return np.mean([sum(p >= 2940 for p in far(selector, points, centres, 60, seed)) for seed in range(2)])

    assert sum(p >= 2940 for p in greedy(points, centres, 60)) > 45
    assert rare(2) < 5  # chance: 1.2
    assert rare(4000) > 45


def test_equal_points_are_drawn_alike_and_a_first_draw_is_even():
    same, apart = np.ones((5, 2)), np.eye(5)
    for points, k in ((same, 2), (apart, 1)):
        found = [far(KCentreSelector(epsilon=50), points, None, k, seed) for seed in range(250)]
        counts = np.bincount(np.concatenate(found), minlength=5)
        assert (np.abs(counts - 50 * k) < 5 * np.sqrt(50 * k)).all()


def test_what_is_not_finite_is_a_null_and_what_is_far_is_clipped():
    found = embedded([[np.nan, 1], [np.inf, 0], [3, 4], [1e300, 1e308], [0, 0], [0.3, 0.4]], 6, 1.0)
    np.testing.assert_allclose(found, [[0, 0], [0, 0], [0.6, 0.8], [1e-8, 1], [0, 0], [0.3, 0.4]], atol=1e-15)
    points = np.random.default_rng(3).normal(size=(40, 3))
    spoilt, nulled = points.copy(), points.copy()
    spoilt[7, 1], nulled[7] = np.nan, 0.0
    selector = KCentreSelector(epsilon=2)
    assert run(selector, IDS[:40], spoilt, 20).ids == run(selector, IDS[:40], nulled, 20).ids


def test_a_pool_in_pieces_has_the_same_distances():
    points = np.random.default_rng(4).normal(size=(9000, 3))
    np.testing.assert_allclose(distances(points, points[5]), np.linalg.norm(points - points[5], axis=1), rtol=1e-14)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: KCentreSelector(epsilon="much"), "epsilon"),
        (lambda: KCentreSelector(epsilon=1, delta=1), "below 1"),
        (lambda: KCentreSelector(epsilon=1, radius=0), "positive"),
        (lambda: KCentreSelector(epsilon=1, radius=True), "not a number"),
        (lambda: KCentreSelector(epsilon=1, radius=float("nan")), "positive"),
        (lambda: KCentreSelector(epsilon="1e-6").price(1000, 5000), "left for a draw"),
        (lambda: KCentreSelector(epsilon=0).price(10, 50), "left for a draw"),
        (lambda: KCentreSelector(epsilon=1).price(2.5, 50), "whole number"),
        (lambda: run(KCentreSelector(epsilon=1), IDS[:4], [0.1, 0.2, 0.3, 0.4], 2), "one row of numbers"),
        (lambda: run(KCentreSelector(epsilon=1), IDS[:4], np.ones((3, 2)), 2), "one row of numbers"),
        (lambda: run(KCentreSelector(epsilon=1), IDS[:4], [["x"]] * 4, 2), "not numbers"),
        (lambda: far(KCentreSelector(epsilon=1), np.ones((4, 2)), np.ones((1, 3)), 2), "another dimension"),
        (lambda: far(KCentreSelector(epsilon=1), np.ones((4, 2)), [1.0, 2.0], 2), "one row of numbers"),
    ],
)
def test_nonsense_is_refused_in_words(make, says):
    with pytest.raises(BadInput, match=says):
        make()


def test_receipts_of_another_kind_or_with_too_few_draws_are_refused():
    book = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(0))
    few = book.charge(event=BoundedRange(epsilon=1), count=2, who="pool", why="query")
    with pytest.raises(BadInput, match="fewer draws"):
        KCentreSelector(epsilon=1).select(ids=IDS[:9], scores=np.ones((9, 2)), k=3, receipt=few)
    other = book.charge(event=Laplace(epsilon=1), count=3, who="pool", why="query")
    with pytest.raises(ReceiptRefused, match="charged for laplace"):
        KCentreSelector(epsilon=1).select(ids=IDS[:9], scores=np.ones((9, 2)), k=3, receipt=other)


# -- neighbours: what the exponential mechanism is given moves by the radius at most

EDGE = np.array([[1.0, 0], [1, 0], [-1, 0], [-1, 0], [0, 1], [0.7, -0.7], [0, 0], [3, 3], [-0.2, 0.1], [-1, 0.01]])
"""The first two are labelled, the others a pool."""


def query(selector, drops_nulls=False):
    def mechanism(data, ledger):
        centres, pool = data[:2], data[2:]
        if drops_nulls:
            centres = centres[np.abs(centres).sum(axis=1) > 0]
        paid = charge_selection(ledger, selector, k=5, pool_size=len(pool), who="pool", why="query")
        return selector.select(ids=IDS[: len(pool)], scores=pool, k=5, receipt=paid, centres=centres).ids

    return mechanism


def halved(scores, *, sensitivity, **rest):
    return exponential(scores, sensitivity=sensitivity / 2, **rest)


def one_way(scores, *, monotone, **rest):
    return exponential(scores, monotone=True, **rest)


SINGLE = np.array([[1.0, 0], [9, 9], *EDGE[2:]])
"""One of the labelled records is alone where it is."""


@pytest.mark.parametrize("name", MAKES)
@pytest.mark.parametrize("data", [EDGE, SINGLE], ids=["edge", "single"])
def test_neighbours_differ_by_no_more_than_declared(name, data):
    for seed in range(2):
        report = check_neighbours(query(MAKES[name]()), data, null=np.zeros(2), seed=seed)
        assert report.releases == 6


@pytest.mark.parametrize("anchored", [False, True])
def test_a_halved_sensitivity_is_found(monkeypatch, anchored):
    monkeypatch.setattr(k_centre, "exponential", halved)
    with pytest.raises(NotPrivate, match="times the declared sensitivity"):
        check_neighbours(query(KCentreSelector(epsilon=2, anchored=anchored)), SINGLE, null=np.zeros(2))


def test_without_an_anchor_scores_move_both_ways(monkeypatch):
    monkeypatch.setattr(k_centre, "exponential", one_way)
    with pytest.raises(NotPrivate, match="declared monotone"):
        check_neighbours(query(KCentreSelector(epsilon=2)), SINGLE, null=np.zeros(2))


def test_a_null_that_leaves_its_slot_is_found():
    """If a null were no centre at all, distances would move by twice the radius. Anchored, it is none, and may go."""
    lonely = np.array([[1.0, 0], [1, 0], *[[x, 0] for x in (1.0, -1, -1, 0.9, 0.95, 1)]])
    alone = np.array([[0.0, 0], *lonely[1:]])  # the null that is there already is dropped on both sides
    with pytest.raises(NotPrivate, match="times the declared sensitivity"):
        check_neighbours(query(KCentreSelector(epsilon=2), drops_nulls=True), alone, null=np.zeros(2))
    check_neighbours(query(KCentreSelector(epsilon=2, anchored=True), drops_nulls=True), alone, null=np.zeros(2))


@pytest.mark.parametrize("anchored", [False, True])
def test_a_person_with_several_records_is_charged_for_the_whole_range(anchored):
    """Her record and her other record as its centre move together; by one record's reach this is found."""
    persons = adaptive(Budget(epsilon=10**9, delta="1e-9", unit="person"))
    others = []
    for whose in ([0, 3, 4], [1, 2, 8, 9], [5, 7]):
        others.append(EDGE.copy())
        others[-1][whose] = 0.0
    mechanism = query(KCentreSelector(epsilon=2, anchored=anchored))
    for seed in range(2):
        check_neighbours(mechanism, EDGE, neighbours=others, terms=persons, seed=seed)
    with pytest.raises(NotPrivate):
        check_neighbours(mechanism, EDGE, neighbours=others)


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 77, 3000]), st.sampled_from([1e-3, 1.0, 1e9]))
def test_rounding_stays_within_what_is_paid(seed, size, radius):
    """The worst there is: a record at the edge, others exactly in line with it, near and far."""
    rng = np.random.default_rng(seed)
    line = rng.normal(size=size)
    line *= 10 * radius / np.linalg.norm(line)
    pool = np.vstack([line * s for s in (1.0, -1.0, 3.0, 1e200, -1e-200, 0.3)])
    points = embedded(pool, 6, radius)
    present, null = (distances(points, centre) for centre in (points[0], np.zeros(size)))
    assert np.abs(present - null).max() <= radius * REACH
    assert null.max() <= radius * REACH
    assert np.abs(present - null).max() > radius * 0.999


# -- every sequence of two draws, with its exact chance


class Scripted(Source):
    """Gives the places it is told, and multiplies their chances under what the mechanism was given."""

    simulation = True
    places, log = (), 0.0

    def perform(self, call, sampler):
        if call.mechanism != "exponential":
            return Seeded(0).perform(call, sampler)
        facts = call.parameters
        rate = float(facts["epsilon"]) / facts["sensitivity"] / (1 if facts["monotone"] else 2)
        logs = rate * call.inputs - np.logaddexp.reduce(rate * call.inputs)
        place = self.places.pop(0)
        self.log += logs[place]
        return place


def every_sequence(selector, points, centres):
    """log P of all ordered pairs of places, through the very code that selects."""
    size, found, source = len(points), [], Scripted()
    book = Ledger.create(MemorySink(), adaptive(AMPLE), source=source)
    for script in itertools.product(range(size), range(size - 1)):
        source.places, source.log = list(script), 0.0
        paid = charge_selection(book, selector, k=2, pool_size=size, who="pool", why="query")
        selector.select(ids=IDS[:size], scores=points, k=2, receipt=paid, centres=centres)
        found.append(source.log)
    assert np.logaddexp.reduce(found) == pytest.approx(0, abs=1e-12)
    return np.array(found)


LINE = np.array([[1.0], [1.0], *[[-1.0]] * 7])
POOLS = [  # pool, centres, and where the record is: labelled (True) or in the pool, and at which place
    (LINE, np.array([[1.0]]), True, 0),
    (LINE, np.array([[-0.5], [1.0]]), True, 1),
    (np.array([[1.0], *[[0.0]] * 9]), np.array([[0.0]]), False, 0),
    (np.array([[1.0], *[[-1.0]] * 6, [1.0], [0.9]]), np.array([[-1.0]]), False, 0),
    (np.array([[0.6, 0.8], [-0.6, -0.8], [0.6, 0.8], [1, 0], [0, 0]]), np.empty((0, 2)), False, 2),
]


def pair_of(selector, case):
    points, centres, labelled, place = POOLS[case]
    other = [points.copy(), centres.copy()]
    other[labelled][place] = 0.0
    return every_sequence(selector, points, centres), every_sequence(selector, *other)


@pytest.mark.parametrize("anchored", [False, True])
def test_every_sequence_is_as_likely_as_claimed_and_a_halved_sensitivity_is_found(monkeypatch, anchored):
    selector = KCentreSelector(epsilon=2, anchored=anchored)
    (price,) = selector.price(2, 9)
    assert price.event == BoundedRange(epsilon=1)
    orders, at, losses = np.array([1.5, 4.0, 20.0]), np.array([0.0, 0.4, 0.9]), []
    deltas = [pld_pair(price, interval=1e-3).deltas(s)[0] for s in at]
    for case in range(len(POOLS)):
        present, null = pair_of(selector, case)
        losses.append(np.abs(present - null).max())
        for p, q in ((present, null), (null, present)):
            sums = [np.logaddexp.reduce(a * p + (1 - a) * q) / (a - 1) for a in orders]
            assert (np.array(sums) <= 2 * bounded_range_rdp(1.0, orders) + 1e-12).all()
            assert (hockey_stick(np.exp(p), np.exp(q), at) <= deltas).all()
    assert 1.1 < max(losses) <= 2
    monkeypatch.setattr(k_centre, "exponential", halved)
    present, null = pair_of(selector, int(np.argmax(losses)))
    assert np.abs(present - null).max() > 2
