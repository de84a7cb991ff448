"""Bounded range: no exponential mechanism costs more than is charged for it, and the worst ones cost that much."""

import math
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import BadInput, BudgetExceeded
from discreet.privacy.accounting.filters import RdpFilter, best_order
from discreet.privacy.accounting.pld import hockey_stick, pld_epsilons, pld_pair
from discreet.privacy.accounting.rdp import ORDERS, bounded_range_deltas, bounded_range_rdp, rdp_curve, rdp_epsilon
from discreet.privacy.budget import Budget
from discreet.privacy.events import BoundedRange, Composed, Gaussian, Pure, Repeated
from discreet.privacy.ledger import Ledger, Line, MemorySink, adaptive, committed

EPSILONS = (1e-3, 0.044, 0.5, 1.0, 4.0)


def divergence(p, q, orders=ORDERS):
    logs = np.log(p), np.log(q)
    return np.array([np.logaddexp.reduce(a * logs[0] + (1 - a) * logs[1]) for a in orders]) / (orders - 1)


def choice(scores, epsilon):
    """The exponential mechanism's distribution, sensitivity 1."""
    weights = np.exp(epsilon * (scores - scores.max()) / 2)
    return weights / weights.sum()


def two_valued(t, epsilon):
    """Loss t or t - epsilon: the extreme mechanisms of this range."""
    top = (math.exp(-t) - math.exp(-epsilon)) / -math.expm1(-epsilon)
    return np.array([top * math.exp(t), 1 - top * math.exp(t)]), np.array([top, 1 - top])


# -- RDP


@given(
    st.floats(1e-3, 6), st.lists(st.tuples(st.floats(0, 9), st.floats(-1, 1)), min_size=2, max_size=12), st.booleans()
)
def test_no_exponential_mechanism_passes_the_curve(epsilon, scores, backward):
    """Scores of any size; the neighbour's differ by at most 1 each, up or down."""
    table = np.array(scores)
    pair = choice(table[:, 0], epsilon), choice(table.sum(axis=1), epsilon)
    p, q = pair[::-1] if backward else pair
    assert (divergence(p, q) <= bounded_range_rdp(epsilon, ORDERS) + 1e-9).all()


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_some_exponential_mechanism_reaches_it_at_every_order(epsilon):
    """m records whose score falls by 1 among 1000 whose score rises by 1, and the other way round: some m is worst."""
    orders = np.array([1.5, 2.0, 8.0, 30.0])
    reached = np.zeros(orders.size)
    for m in np.unique(np.geomspace(1, 999, 150).astype(int)):
        change = np.where(np.arange(1000) < m, 1.0, -1.0)
        pair = choice(np.zeros(1000), epsilon), choice(change, epsilon)
        reached = np.maximum(reached, np.maximum(divergence(*pair, orders), divergence(*pair[::-1], orders)))
    bound = bounded_range_rdp(epsilon, orders)
    assert (reached <= bound * (1 + 1e-6)).all()
    assert (reached >= bound * 0.995).all()


@pytest.mark.parametrize("epsilon", ["1e-9", "1e-4", "0.04", "0.7", "3", "40", "1000"])
def test_the_curve_is_rounded_up_and_by_little(epsilon):
    """Against 80 digits."""
    with localcontext(Context(prec=80)):
        half = Decimal(epsilon) / 2

        def log_ratio(z):
            return z + (1 - (-2 * z).exp()).ln() - (2 * z).ln()

        for order in (1.005, 1.1, 2.0, 9.7, 64.0, 1024.0, 330280.74370364175, 1048576.0):
            a = Decimal(order)
            truth = (a * log_ratio(a * half) - (a - 1) * log_ratio((a - 1) * half) - log_ratio(half)) / (a - 1)
            found = Decimal(float(bounded_range_rdp(float(epsilon), np.array([order]))[0]))
            assert truth * (1 - Decimal("1e-15")) <= found <= truth * (1 + Decimal("2e-9"))


def test_the_curve_is_below_the_known_bounds():
    for epsilon in EPSILONS:
        curve = rdp_curve(BoundedRange(epsilon=epsilon))
        assert (curve <= ORDERS * epsilon**2 / 8).all()
        assert (curve <= rdp_curve(Pure(epsilon=epsilon)) + 1e-15).all()
        assert curve[0] == pytest.approx(1.005 * epsilon**2 / 8, rel=0.2)
    assert not rdp_curve(BoundedRange(epsilon=0)).any()


# -- loss distributions


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_delta_is_the_worst_of_all_two_valued_losses(epsilon):
    losses = epsilon * np.array([-1.5, -1.0, -0.6, 0.0, 0.3, 0.9, 1.0, 1.2])
    every = [hockey_stick(*two_valued(t, epsilon), losses) for t in np.linspace(0, epsilon, 2001)]
    bound = bounded_range_deltas(epsilon, losses)
    assert (np.max(every, axis=0) <= bound + 1e-12).all()
    np.testing.assert_allclose(np.max(every, axis=0), bound, rtol=1e-4, atol=1e-12)


def adaptive_delta(epsilon, at):
    """Two steps, the second t chosen after the first output: its best answer is the supremum at what is left."""
    best = 0.0
    for t in np.linspace(0, epsilon, 201)[1:-1]:
        p, q = two_valued(t, epsilon)
        best = max(best, float((p * bounded_range_deltas(epsilon, at - np.log(p / q))).sum()))
    return best


def fixed_delta(epsilon, at):
    """Two steps of any two t, fixed beforehand."""
    pairs = [two_valued(t, epsilon) for t in np.linspace(0, epsilon, 21)]
    both = [(np.outer(a, c).ravel(), np.outer(b, d).ravel()) for a, b in pairs for c, d in pairs]
    return max(float(np.maximum(p - math.exp(at) * q, 0).sum()) for p, q in both)


def test_an_adaptive_composition_passes_every_fixed_one_and_not_the_pair():
    """Why the loss distribution of one t is never used."""
    pair = pld_pair(Repeated(event=BoundedRange(epsilon=1), count=2), interval=1e-3)
    for at in (0.1, 0.3, 0.8, 1.5):
        assert adaptive_delta(1.0, at) <= min(pair.deltas(at))
    assert adaptive_delta(1.0, 0.1) > 1.03 * fixed_delta(1.0, 0.1)


@pytest.mark.parametrize(("epsilon", "count"), [("1", 1), ("0.5", 4), ("0.0444", 100), ("0.02", 1000)])
def test_it_is_far_cheaper_than_what_is_merely_pure(epsilon, count):
    ours, pure = (Repeated(event=kind(epsilon=epsilon), count=count) for kind in (BoundedRange, Pure))
    both = pld_pair(ours, interval=1e-3).epsilons(1e-6)
    assert both[0] == both[1] <= max(pld_epsilons(pure, 1e-6, interval=1e-3)) + 1e-9
    assert max(pld_epsilons(ours, 1e-6, interval=1e-3)) <= min(*both, rdp_epsilon(ours, 1e-6))
    if count == 100:
        assert max(pld_epsilons(ours, 1e-6)) == pytest.approx(0.9996, abs=1e-3)
        assert max(pld_epsilons(pure, 1e-6)) > 1.9


def test_at_delta_zero_it_is_the_sum():
    ten = Repeated(event=BoundedRange(epsilon="0.1"), count=10)
    assert pld_epsilons(ten, 0) == (1.0, 1.0)
    assert rdp_epsilon(ten, 0) == 1.0
    assert pld_epsilons(BoundedRange(epsilon=0), 1e-6) == (0.0, 0.0)


def test_with_other_noise_both_accountants_serve():
    mixed = Composed(events=(Gaussian(noise_multiplier=2), Repeated(event=BoundedRange(epsilon="0.05"), count=50)))
    dearer = Composed(events=(Gaussian(noise_multiplier=2), Repeated(event=Pure(epsilon="0.05"), count=50)))
    least = max(pld_epsilons(Gaussian(noise_multiplier=2), 1e-6))
    assert least < max(pld_epsilons(mixed, 1e-6, interval=1e-3)) < max(pld_epsilons(dearer, 1e-6, interval=1e-3))
    assert max(pld_epsilons(mixed, 1e-6, interval=1e-3)) <= rdp_epsilon(mixed, 1e-6)


# -- the filter and the ledger

DRAWS = BoundedRange(epsilon="0.04")


def test_a_filter_spends_its_curve():
    """100 draws of 0.04 cost 0.9 at 1e-6; of any mechanism of that epsilon, more than 1."""
    budget, expected = Budget(epsilon=1, delta="1e-6"), Repeated(event=DRAWS, count=100)
    guard = RdpFilter(budget, orders=[best_order(expected, 1e-6)])
    guard.spend(DRAWS, 100)
    assert Decimal("0.85") < guard.spent < Decimal("0.95")
    assert not RdpFilter(budget, orders=[best_order(expected, 1e-6)]).admits(Pure(epsilon="0.04"), 100)


def test_a_ledger_charges_it_and_reads_it_back():
    budget, expected = Budget(epsilon=1, delta="1e-6"), Repeated(event=DRAWS, count=100)
    sink = MemorySink()
    book = Ledger.create(sink, adaptive(budget, expect=expected))
    book.charge(event=DRAWS, count=100, who="pool", why="k-centre")
    with pytest.raises(BudgetExceeded):
        book.charge(event=DRAWS, count=100, who="pool", why="k-centre")
    assert book.entries[0].charges[0].event == DRAWS


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_a_committed_ledger_claims_it_by_either_accountant(accountant):
    budget = Budget(epsilon=1, delta="1e-6")
    book = Ledger.create(
        MemorySink(), committed(budget, [Line(who="pool", event=DRAWS, count=100)], accountant=accountant)
    )
    book.charge(event=BoundedRange(epsilon="0.03"), count=60, who="pool", why="k-centre")  # less than committed
    with pytest.raises(BudgetExceeded):
        book.charge(event=BoundedRange(epsilon="0.05"), who="pool", why="k-centre")
    dear = committed(budget, [Line(who="pool", event=Pure(epsilon="0.04"), count=100)], accountant=accountant)
    with pytest.raises(BudgetExceeded):
        Ledger.create(MemorySink(), dear)


def test_nonsense_is_refused():
    for epsilon in (-1, "x", math.nan):
        with pytest.raises(BadInput):
            BoundedRange(epsilon=epsilon)
