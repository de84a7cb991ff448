import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.planning.spending import LEAST_RATE, Guess, largest_rates
from discreet.privacy.accounting.rdp import ORDERS, conversion, epsilon_at, sampled_gaussian_rdp


def epsilon(rate, steps, sigma, history, delta):
    return epsilon_at(history + steps * sampled_gaussian_rdp(np.array([rate]), sigma, ORDERS)[0], delta)


@settings(max_examples=150, deadline=None)
@given(
    st.floats(0.05, 50),
    st.sampled_from([1e-9, 1e-6, 4e-5, 1e-2]),
    st.integers(1, 5000),
    st.floats(0.5, 60),
    st.floats(0, 0.95),
    st.floats(1e-6, 1),
)
def test_the_rate_fits_and_a_little_more_does_not(target, delta, steps, sigma, spent, start):
    history = spent * target * ORDERS / 40  # some Gaussian past
    allowance = (target - conversion(delta) - history)[None, :]
    (rate,), _ = largest_rates(allowance, steps, sigma, ORDERS, Guess(np.array([start])))
    assert 0 <= rate <= 1
    if rate > 0:
        assert epsilon(rate, steps, sigma, history, delta) <= target * (1 + 1e-12)
    if rate < 1:
        more = max(rate, LEAST_RATE) * (1 + 1e-5)
        assert epsilon(min(more, 1.0), steps, sigma, history, delta) > target


def test_cohorts_are_solved_independently():
    allowance = np.stack([8 - conversion(1e-5), 2 - conversion(1e-5), -np.ones(ORDERS.size)])
    together, _ = largest_rates(allowance, 100, 3.0, ORDERS, Guess(np.full(3, 0.3)))
    alone = [largest_rates(row[None, :], 100, 3.0, ORDERS, Guess(np.array([0.01])))[0][0] for row in allowance]
    assert together == pytest.approx(alone, rel=1e-9)
    assert together[2] == 0


def test_a_known_neighbourhood_gives_the_same_answer():
    allowance = (5 - conversion(1e-6))[None, :]
    rates, orders = largest_rates(allowance, 200, 2.0, ORDERS, Guess(np.array([0.1])))
    near, _ = largest_rates(allowance, 150, 2.2, ORDERS, Guess(rates, orders))
    far, _ = largest_rates(allowance, 150, 2.2, ORDERS, Guess(np.array([0.9])))
    wrong, _ = largest_rates(allowance, 150, 2.2, ORDERS, Guess(np.array([0.9]), np.array([3])))
    assert near == pytest.approx(far, rel=1e-9)
    assert wrong == pytest.approx(far, rel=1e-9)
