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
    """The next sigma depends on the last output; the filter says when to stop. Both directions, 10^5 runs each."""
    rng, epsilon, delta, runs = np.random.default_rng(7), 1.0, 0.05, 100_000
    sigmas = np.array([3.0, 6.0])
    events = [Gaussian(noise_multiplier=float(s)) for s in sigmas]
    order = best_order(Repeated(event=Gaussian(noise_multiplier=4.0), count=6), delta)
    most = 40
    admitted = np.zeros((most, most, 2), dtype=bool)  # by how often each sigma was spent, and which is asked for
    for first in range(most):
        for second in range(most):
            guard = RdpFilter(Budget(epsilon=epsilon, delta=str(delta)), orders=[order])
            try:
                guard.spend(events[0], first)
                guard.spend(events[1], second)
            except BudgetExceeded:
                continue
            admitted[first, second] = [guard.admits(event) for event in events]
    for present in (True, False):
        loss, counts, choice = np.zeros(runs), np.zeros((runs, 2), dtype=int), np.zeros(runs, dtype=int)
        for _ in range(most - 1):
            go = admitted[counts[:, 0], counts[:, 1], choice]
            sigma = sigmas[choice]
            x = rng.normal(1.0 if present else 0.0, sigma)
            step = norm.logpdf(x, 1, sigma) - norm.logpdf(x, 0, sigma)
            loss += np.where(go, step if present else -step, 0.0)
            counts[np.arange(runs), choice] += go
            choice = np.where(go, (x <= 0.5).astype(int), choice)
        assert not go.any()  # the filter has stopped every run
        hockey = np.maximum(1 - np.exp(epsilon - loss), 0).mean()
        assert 0 < hockey <= delta


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
