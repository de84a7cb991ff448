from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from discreet.errors import BadInput, BudgetExceeded
from discreet.privacy.accounting.filters import BlockFilter, RdpFilter, best_order
from discreet.privacy.accounting.rdp import rdp_epsilon
from discreet.privacy.budget import Budget
from discreet.privacy.events import Composed, Gaussian, Laplace, PoissonSampledGaussian, Repeated

STEP = PoissonSampledGaussian(sampling_rate=0.1, noise_multiplier=2.0)


def filled(budget, orders, events):
    guard = RdpFilter(budget, orders=orders)
    accepted = []
    for event in events:
        if guard.admits(event):
            guard.spend(event)
            accepted.append(event)
    return guard, accepted


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.5, 10)), max_size=30),
    st.sampled_from([(4.0,), (2.0, 6.0, 20.0)]),
)
def test_whatever_was_accepted_stays_within_the_budget(steps, orders):
    budget = Budget(epsilon=3, delta="1e-5")
    events = [PoissonSampledGaussian(sampling_rate=q, noise_multiplier=s) for q, s in steps]
    guard, accepted = filled(budget, orders, events)
    assert guard.spent <= budget.epsilon
    assert rdp_epsilon(Composed(events=tuple(accepted)), 1e-5) <= 3


def test_a_refused_spend_changes_nothing_and_says_what_is_left():
    guard = RdpFilter(Budget(epsilon=3, delta="1e-6"), orders=[8.0])
    guard.spend(STEP, 3)
    before = guard.spent
    with pytest.raises(BudgetExceeded) as caught:
        guard.spend(Gaussian(noise_multiplier=0.5))
    assert guard.spent == before
    assert caught.value.total == 3
    assert caught.value.remaining == 3 - before
    assert caught.value.requested > caught.value.remaining


def test_one_well_chosen_order_loses_little_against_a_fixed_plan():
    plan = Repeated(event=STEP, count=500)
    epsilon = rdp_epsilon(plan, 1e-6)
    guard = RdpFilter(Budget(epsilon=round(epsilon * 1.0001, 6), delta="1e-6"), orders=[best_order(plan, 1e-6)])
    guard.spend(STEP, 500)
    with pytest.raises(BudgetExceeded):
        guard.spend(STEP, 5)


def test_several_orders_pay_for_the_choice():
    """delta is shared out over the orders, so a set of orders is never cheaper than its best member alone."""
    plan = Repeated(event=STEP, count=200)
    order = best_order(plan, 1e-6)
    alone = RdpFilter(Budget(epsilon=50, delta="1e-6"), orders=[order])
    several = RdpFilter(Budget(epsilon=50, delta="1e-6"), orders=[order, order * 2])
    alone.spend(plan)
    several.spend(plan)
    assert alone.spent < several.spent


def test_an_adaptive_attacker_gains_nothing():
    """The next sigma depends on the last output; the total variation at e^eps stays below delta (10^5 runs)."""
    rng, epsilon, delta = np.random.default_rng(7), 1.0, 0.05
    runs, sigmas = 100_000, (3.0, 6.0)
    budget = Budget(epsilon=epsilon, delta=str(delta))
    order = best_order(Repeated(event=Gaussian(noise_multiplier=4.0), count=6), delta)
    total = {}
    for present in (True, False):
        loss, spent, sigma = np.zeros(runs), np.zeros(runs), np.full(runs, sigmas[0])
        guard_room = float(RdpFilter(budget, orders=[order]).budget.epsilon)
        room = guard_room - float(np.log1p(-1 / order) - (np.log(delta) + np.log(order)) / (order - 1))
        for _ in range(40):
            cost = order / (2 * sigma**2)
            go = spent + cost <= room  # the filter's own rule, per run
            x = rng.normal(1.0 if present else 0.0, sigma)
            loss += np.where(go, norm.logpdf(x, 1, sigma) - norm.logpdf(x, 0, sigma), 0.0)
            spent += np.where(go, cost, 0.0)
            sigma = np.where(x > 0.5, sigmas[0], sigmas[1])
        total[present] = loss
    hockey = np.maximum(1 - np.exp(epsilon - total[True]), 0).mean()
    assert hockey <= delta
    assert hockey > 0  # the attack does see something


def test_filters_refuse_what_they_cannot_promise():
    with pytest.raises(BadInput):
        RdpFilter(Budget(epsilon=1, delta=0), orders=[2.0])
    with pytest.raises(BadInput):
        RdpFilter(Budget(epsilon=1, delta="1e-6"), orders=[])
    with pytest.raises(BadInput):
        RdpFilter(Budget(epsilon=1, delta="1e-6"), orders=[1.0])
    with pytest.raises(BadInput):
        RdpFilter(Budget(epsilon=1, delta="1e-6", relation="replace-one"), orders=[2.0])


def test_ten_blocks_of_a_tenth_leave_exactly_zero():
    guard = BlockFilter(Budget(epsilon=1, delta="1e-6"))
    for _ in range(10):
        guard.spend(epsilon=0.1, delta="1e-7")
    assert (guard.epsilon, guard.delta) == (1, Decimal("1e-6"))
    with pytest.raises(BudgetExceeded):
        guard.spend(epsilon="1e-12")
    with pytest.raises(BudgetExceeded):
        guard.spend(epsilon=0, delta="1e-12")
    with pytest.raises(BadInput):
        guard.spend(epsilon=-1)
    assert guard.epsilon == 1


def test_a_pure_event_is_priced_by_its_curve():
    guard = RdpFilter(Budget(epsilon=5, delta="1e-6"), orders=[16.0])
    guard.spend(Laplace(epsilon=1))
    assert 0 < guard.spent < 3
