"""The quadrature against two other ways of computing the same divergence."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from discreet.privacy.accounting.rdp import sampled_gaussian_divergence, sampled_gaussian_rdp


def by_binomial_sum(rate: float, sigma: float, order: int) -> float:
    """Mironov, Talwar, Zhang 2019, section 3.3: exact for whole orders."""
    k = np.arange(order + 1)
    log_binomial = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
    terms = log_binomial + k * math.log(rate) + (order - k) * math.log1p(-rate) + k * (k - 1) / (2 * sigma**2)
    return float(special.logsumexp(terms)) / (order - 1)


def by_adaptive_quadrature(rate: float, sigma: float, order: float) -> float:
    def integrand(z: float) -> float:
        log_f = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * z - 1) / (2 * sigma**2))
        return math.exp(order * log_f - z * z / (2 * sigma**2) - 0.5 * math.log(2 * math.pi * sigma**2))

    points = np.linspace(-10 * sigma, order + 10 * sigma, 60)
    total = sum(
        integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-13, limit=200)[0] for a, b in itertools.pairwise(points)
    )
    return math.log(total) / (order - 1)


@given(st.floats(1e-4, 0.999), st.floats(0.4, 100), st.integers(2, 256))
def test_whole_orders_agree_with_the_binomial_sum(rate, sigma, order):
    ours = sampled_gaussian_rdp(np.array([rate]), sigma, np.array([float(order)]))[0, 0]
    exact = min(by_binomial_sum(rate, sigma, order), order / (2 * sigma**2))
    assert ours == pytest.approx(exact, rel=1e-7, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-2, 0.99), st.floats(0.6, 8), st.floats(1.05, 20))
def test_any_order_agrees_with_adaptive_quadrature(rate, sigma, order):
    ours = sampled_gaussian_rdp(np.array([rate]), sigma, np.array([order]))[0, 0]
    assert ours == pytest.approx(by_adaptive_quadrature(rate, sigma, order), rel=1e-7, abs=1e-11)


@given(st.floats(1e-4, 0.99), st.floats(0.4, 50), st.floats(1.1, 200))
def test_the_slope_is_the_derivative(rate, sigma, order):
    orders, h = np.array([order]), 1e-5
    step = sampled_gaussian_divergence(np.array([rate]), sigma, orders)
    if step.rdp[0, 0] < 1e-9:
        return  # too small for differences
    up = sampled_gaussian_rdp(np.array([rate * math.exp(h)]), sigma, orders)[0, 0]
    down = sampled_gaussian_rdp(np.array([rate * math.exp(-h)]), sigma, orders)[0, 0]
    assert step.slope[0, 0] == pytest.approx((up - down) / (2 * h), rel=1e-3, abs=1e-9)


@given(st.floats(1e-6, 0.99), st.floats(0.1, 100))
def test_more_sampling_costs_more_and_never_more_than_all(rate, sigma):
    orders = np.array([1.1, 1.5, 2.0, 5.0, 32.0, 500.0, 1e5])
    low, high, all_of_it = sampled_gaussian_rdp(np.array([rate / 2, rate, 1.0]), sigma, orders)
    assert (low <= high * (1 + 1e-9) + 1e-14).all()
    assert (high <= all_of_it * (1 + 1e-12)).all()
    assert all_of_it == pytest.approx(orders / (2 * sigma**2))


def test_nothing_sampled_costs_nothing():
    assert not sampled_gaussian_rdp(np.array([0.0]), 1.0, np.array([1.5, 2.0, 1e6])).any()


@pytest.mark.parametrize(
    ("rate", "sigma", "order"), [(1e-4, 3.0, 166), (1e-5, 2.5, 144), (1e-6, 2.0, 111), (7e-9, 1.3, 64)]
)
def test_a_second_hump_far_out_is_not_lost(rate, sigma, order):
    """A - 1 is tiny and all of it sits near t = order / sigma, where the normal density underflows."""
    ours = sampled_gaussian_rdp(np.array([rate]), sigma, np.array([float(order)]))[0, 0]
    assert ours == pytest.approx(by_binomial_sum(rate, sigma, order), rel=1e-6)


@settings(max_examples=300)
@given(st.floats(-9, -0.01), st.floats(0.5, 6), st.floats(0.5, 1.5))
def test_whole_orders_agree_where_the_second_hump_rises(log_rate, sigma, share):
    rate = 10**log_rate
    order = min(max(2, round(share * 2 * sigma**2 * math.log(1 / rate))), 400)
    ours = sampled_gaussian_rdp(np.array([rate]), sigma, np.array([float(order)]))[0, 0]
    exact = min(by_binomial_sum(rate, sigma, order), order / (2 * sigma**2))
    # tiny values are lost in the rounding of the binomial sum itself, around 1
    assert ours == pytest.approx(exact, rel=1e-6, abs=1e-13)
