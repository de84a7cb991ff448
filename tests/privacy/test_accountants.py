"""RDP and PLD against each other, against closed forms, and against brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from discreet.errors import BadInput, UnsupportedEvent
from discreet.privacy.accounting.pld import hockey_stick, pld_epsilons, pld_pair, usable_delta
from discreet.privacy.accounting.rdp import ORDERS, epsilon_at, rdp_curve, rdp_epsilon
from discreet.privacy.events import (
    Composed,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PmfFamily,
    PoissonSampledGaussian,
    Pure,
    Repeated,
    ThresholdResponse,
)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018: exact hockey-stick divergence of N(mu, 1) against N(0, 1)."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize(("sigma", "count"), [(1.0, 1), (4.0, 100), (20.0, 7)])
def test_gaussian_pld_is_the_closed_form_from_above(sigma, count):
    forward, backward = pld_epsilons(Repeated(event=Gaussian(noise_multiplier=sigma), count=count), 1e-5)
    assert forward == backward
    truth = gaussian_delta(math.sqrt(count) / sigma, forward)
    assert truth <= 1e-5
    assert truth == pytest.approx(1e-5, rel=1e-2)


def sampled_delta(rate, sigma, epsilon, *, forward):
    """Direct numerical integration of one sampled Gaussian step's hockey-stick divergence."""
    x = np.linspace(-12 * sigma, 1 + 12 * sigma, 400_001)
    null = norm.pdf(x, 0, sigma)
    present = (1 - rate) * null + rate * norm.pdf(x, 1, sigma)
    p, q = (present, null) if forward else (null, present)
    return float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x))


@pytest.mark.parametrize("rate", [0.05, 0.41, 0.9])
def test_directions_are_told_apart(rate):
    event = PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=1.0)
    pair = pld_pair(event, interval=1e-4)
    for epsilon in (0.05, 0.5, 1.5):
        forward, backward = pair.deltas(epsilon)
        assert forward == pytest.approx(sampled_delta(rate, 1.0, epsilon, forward=True), abs=2e-6)
        assert backward == pytest.approx(sampled_delta(rate, 1.0, epsilon, forward=False), abs=2e-6)
    assert pair.deltas(0.5)[0] > pair.deltas(0.5)[1]


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 0.9), st.floats(0.8, 20), st.integers(1, 400))
def test_pld_is_never_above_rdp(rate, sigma, count):
    event = Repeated(event=PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=sigma), count=count)
    by_rdp = rdp_epsilon(event, 1e-5)
    if by_rdp > 30:
        return
    interval = min(1e-3, by_rdp / 2000)  # as the planner chooses it
    assert max(pld_epsilons(event, 1e-5, interval=interval)) <= by_rdp * 1.001


@settings(max_examples=15, deadline=None)
@given(st.floats(0.01, 0.9), st.floats(0.8, 10), st.integers(1, 200))
def test_more_steps_never_cost_less(rate, sigma, count):
    def both(n):
        event = Repeated(event=PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=sigma), count=n)
        return rdp_epsilon(event, 1e-6), max(pld_epsilons(event, 1e-6, interval=1e-3))

    fewer, more = both(count), both(count + 1)
    assert fewer[0] <= more[0]
    assert fewer[1] <= more[1] + 1e-9


@pytest.mark.parametrize("event", [Laplace(epsilon="0.5"), DiscreteLaplace(epsilon="0.5"), Pure(epsilon="0.5")])
def test_pure_events_cost_at_most_their_sum(event):
    five = Repeated(event=event, count=5)
    assert max(pld_epsilons(five, 0)) == 2.5
    assert max(pld_epsilons(five, 1e-6)) <= 2.5
    assert rdp_epsilon(five, 1e-6) <= 2.5
    assert rdp_epsilon(five, 0) == 2.5


def test_laplace_is_cheaper_than_any_pure_mechanism_of_its_epsilon():
    assert (rdp_curve(Laplace(epsilon=1)) <= rdp_curve(Pure(epsilon=1)) + 1e-12).all()
    assert (rdp_curve(Pure(epsilon=1)) <= 1).all()


def test_a_threshold_response_alone_is_a_pure_event():
    alone = ThresholdResponse(asked=2, missed="0.2")
    assert rdp_curve(alone) == pytest.approx(rdp_curve(Pure(epsilon=2)))
    assert max(pld_epsilons(alone, 1e-9)) == pytest.approx(2, abs=1e-6)


def test_an_empty_composition_costs_nothing():
    assert pld_epsilons(Composed(events=()), 1e-6) == (0.0, 0.0)
    assert rdp_epsilon(Composed(events=()), 1e-6) == 0.0
    assert epsilon_at(np.zeros(ORDERS.size), 1e-6) == 0.0


def test_a_delta_below_rounding_is_refused():
    assert usable_delta(1e-6) < 1e-6
    with pytest.raises(BadInput, match="rounding"):
        pld_epsilons(Gaussian(noise_multiplier=1), 1e-12)


def test_replace_one_is_refused_where_it_was_not_proven():
    with pytest.raises(UnsupportedEvent):
        pld_epsilons(Laplace(epsilon=1), 1e-6, relation="replace-one")
    with pytest.raises(UnsupportedEvent):  # also where delta is too small for a loss distribution
        pld_epsilons(Laplace(epsilon=1), 1e-15, relation="replace-one")


def gate_pairs(k, beta, most):
    """Released counts with n and n+1 occurrences, everything below k made one outcome: section 8's gate."""
    rows = []
    for n in range(k - 1, most):
        both = [binom.pmf(np.arange(most + 1), m, beta) for m in (n + 1, n)]
        rows.append([np.append(p[k:], p[:k].sum()) for p in both])
    present, absent = zip(*rows, strict=True)
    scale = [[tuple((row / row.sum()).tolist()) for row in side] for side in (present, absent)]
    return PmfFamily(present=tuple(scale[0]), absent=tuple(scale[1])), rows


def pure_delta(epsilon, count, at):
    """The divergence at e^at of ``count`` two-point pairs with losses epsilon and -epsilon: a binomial sum."""
    ups = np.arange(count + 1)
    losses = (2 * ups - count) * epsilon
    kept = losses > at
    return float((binom.pmf(ups, count, 1 / (1 + math.exp(-epsilon)))[kept] * -np.expm1(at - losses[kept])).sum())


@pytest.mark.parametrize("kind", [Pure, DiscreteLaplace])
@pytest.mark.parametrize("epsilon", ["0.00003", "0.00015", "0.1", "0.30005", "2.71828"])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_pure_losses_by_chords_are_above_their_sum_and_below_rounded_atoms(kind, epsilon, count):
    """At every epsilon, of either sign, on the grid and between its points, both directions; no claim rises."""
    from dp_accounting.pld import privacy_loss_distribution as distributions
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    pair = pld_pair(Repeated(event=kind(epsilon=epsilon), count=count), interval=1e-4)
    atoms = distributions.from_privacy_parameters(
        DifferentialPrivacyParameters(float(epsilon), 0), value_discretization_interval=1e-4
    ).self_compose(count)
    reach = 1.1 * float(epsilon) * count + 1e-4
    for at in (*np.linspace(-reach, reach, 23).tolist(), 0.0, 1e-4, float(epsilon), -float(epsilon)):
        truth = pure_delta(float(epsilon), count, at)
        for found in pair.deltas(at):
            assert truth <= found
            assert found <= max(truth, atoms.get_delta_for_epsilon(at)) + 1e-11 * count
    for delta in (1e-3, 1e-6, 1e-9):
        assert max(pair.epsilons(delta)) <= atoms.get_epsilon_for_delta(delta - 2e-12) + 1e-9


def test_pure_losses_have_a_mass_of_one():
    """Thousands of points would each round a little up: forty events of 2.71828 had a mass of 1.0000012."""
    for epsilon in ("0.30005", "2.71828", "7.3", "800"):
        pair = pld_pair(Repeated(event=Pure(epsilon=epsilon), count=2), interval=1e-3)
        assert pair.deltas(-2000.0)[0] == pytest.approx(1, abs=1e-10)


def test_a_family_is_priced_at_its_worst_member_of_every_epsilon():
    family, rows = gate_pairs(5, 0.3, 40)
    pair = pld_pair(family, interval=1e-3)
    for epsilon in (0.1, 0.3, 0.7):
        worst = [
            max(float(hockey_stick(r[side], r[1 - side], np.array([epsilon]))[0]) for r in rows) for side in (0, 1)
        ]
        got = pair.deltas(epsilon)
        for side in (0, 1):
            assert worst[side] <= got[side] <= worst[side] * 1.01 + 1e-9


def test_a_composed_family_dominates_every_common_member():
    """The worst n moves under composition, so the envelope must bound each n's own tenfold composition."""
    family, rows = gate_pairs(3, 0.2, 20)
    pair = pld_pair(Repeated(event=family, count=10), interval=1e-3)
    for r in rows[::4]:
        one = PmfFamily(present=(tuple(r[0] / r[0].sum()),), absent=(tuple(r[1] / r[1].sum()),))
        alone = pld_pair(Repeated(event=one, count=10), interval=1e-3)
        for epsilon in (0.5, 1.5):
            assert alone.deltas(epsilon)[0] <= pair.deltas(epsilon)[0] + 1e-9
            assert alone.deltas(epsilon)[1] <= pair.deltas(epsilon)[1] + 1e-9


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=8),
    st.lists(st.floats(0, 1), min_size=2, max_size=8),
    st.floats(-3, 3),
)
def test_the_hockey_stick_is_the_sum_it_says(p, q, epsilon):
    size = min(len(p), len(q))
    p, q = np.array(p[:size]), np.array(q[:size])
    direct = np.maximum(p - math.exp(epsilon) * q, 0).sum()
    assert hockey_stick(p, q, np.array([epsilon]))[0] == pytest.approx(direct, abs=1e-12)
