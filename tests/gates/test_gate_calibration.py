"""The profile, what others use, the paper's table, and the searches: each ends on the side that keeps the promise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from discreet.errors import BadInput
from discreet.gates import Profile, calibrate
from discreet.gates.calibration import nearest
from discreet.gates.published_bounds import as_tabulated, cells, theorem_delta
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, Line, MemorySink, committed

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(
    ("k", "beta", "epsilon", "exact", "theorem"),
    [(20, 0.1, 0.25, 6.3e-8, 4.2e-6), (20, 0.3, 1.0, 1.3e-7, 1.2e-6), (100, 0.3, 0.25, 8.7e-9, None)],
)
def test_known_answers_beside_the_theorem(k, beta, epsilon, exact, theorem):
    profile = Profile(k=k, beta=beta)
    assert profile.delta(epsilon) == pytest.approx(exact, rel=0.02)
    assert theorem_delta(k, beta, epsilon) == (None if theorem is None else pytest.approx(theorem, rel=0.02))
    forward, _ = profile.worst(epsilon)
    assert forward.delta == profile.delta(epsilon)


@settings(deadline=None, max_examples=60)
@given(k=st.integers(1, 150), beta=st.floats(0.02, 0.9), epsilon=st.floats(0.05, 3))
def test_the_theorem_is_never_below_the_exact_profile(k, beta, epsilon):
    found = theorem_delta(k, beta, epsilon)
    if found is None:
        assert epsilon < -math.log1p(-beta)
    else:
        assert Profile(k=k, beta=beta).delta(epsilon) <= found * (1 + 1e-9)
        assert as_tabulated(k, beta, epsilon) <= found * (1 + 1e-9)  # one n of those it maximises over


@pytest.mark.parametrize(("k", "beta", "epsilon"), [(5, 0.1, 0.2), (20, 0.3, 1.0), (20, 0.3, 0.4)])
def test_the_theorem_against_brute_force(k, beta, epsilon):
    share = (math.exp(epsilon) - 1 + beta) / math.exp(epsilon)
    first = math.ceil(k / share - 1)
    n = np.arange(first, first + 5000)
    assert theorem_delta(k, beta, epsilon) == pytest.approx(binom.sf(np.floor(share * n), n, beta).max(), rel=1e-12)


def test_the_paper_s_table():
    """255 of 256 cells as the paper has them; every shaded cell holds, and five more do."""
    found = list(cells())
    assert len(found) == 256
    other = [cell for cell in found if (cell.tabulated <= cell.delta) != cell.shaded]
    assert [(cell.k, cell.beta, cell.epsilon, cell.delta) for cell in other] == [(100, 0.6, 1.0, 1e-9)]
    assert sum(cell.shaded for cell in found) == 124
    assert sum(cell.holds for cell in found) == 129
    assert all(cell.holds for cell in found if cell.shaded or cell.by_theorem)
    assert sum(cell.by_theorem for cell in found) < 124  # the floor that was ignored


def amplified(epsilon, delta, *, sampled, less):
    """Formula (3) of the paper: amplification by sampling less."""
    ratio = less / sampled
    return math.log1p(ratio * math.expm1(epsilon)), ratio * delta


@pytest.mark.parametrize(("beta", "less"), [(0.3, 0.1), (0.9, 0.3), (0.1, 0.05)])
def test_the_exact_profile_is_within_what_amplification_promises(beta, less):
    """Formula (3), from the exact cost at beta to a smaller one."""
    for delta in (1e-4, 1e-8):
        epsilon = Profile(k=300, beta=beta).epsilon(delta)
        weaker, smaller = amplified(epsilon, delta, sampled=beta, less=less)
        assert Profile(k=300, beta=less).delta(weaker) <= smaller * (1 + 1e-6)


@settings(deadline=None, max_examples=20)
@given(epsilon=st.floats(0.05, 3), log=st.floats(-14, -3), k=st.integers(2, 300))
def test_beta_is_the_largest_that_fits(epsilon, log, k):
    delta = 10**log
    found = calibrate(epsilon=epsilon, delta=delta, k=k)
    assert found.profile.meets(epsilon, delta)
    assert not Profile(k=k, beta=min(found.beta * 1.001, 1 - 1e-12)).meets(epsilon, delta) or found.beta > 1 - 1e-8


@settings(deadline=None, max_examples=20)
@given(epsilon=st.floats(0.05, 3), log=st.floats(-14, -3), beta=st.floats(0.01, 0.95))
def test_k_is_the_smallest_that_fits(epsilon, log, beta):
    found = calibrate(epsilon=epsilon, delta=10**log, beta=beta)
    assert found.profile.meets(epsilon, 10**log)
    assert found.k == 1 or not Profile(k=found.k - 1, beta=beta).meets(epsilon, 10**log)


@settings(deadline=None, max_examples=30)
@given(k=st.integers(10, 300), beta=st.floats(0.01, 0.5), log=st.floats(-9, -3))
def test_epsilon_and_delta_of_a_setting(k, beta, log):
    delta = max(10**log, 2 * beta**k)
    found = calibrate(k=k, beta=beta, delta=delta)
    assert found.profile.meets(found.epsilon, delta)
    back = calibrate(k=k, beta=beta, epsilon=found.epsilon)
    assert back.delta <= delta * (1 + 1e-8)  # rounded up


@pytest.mark.parametrize("values", [2, 10])
def test_several_values(values):
    beta = calibrate(epsilon=0.5, delta=1e-6, k=100, values=values)
    k = calibrate(epsilon=0.5, delta=1e-6, beta=0.2, values=values)
    for found in (beta, k):
        assert found.profile.meets(0.5, 1e-6)
        budget = Budget(epsilon="0.5", delta="1e-6", unit="person")
        Ledger.create(MemorySink(), committed(budget, [Line(who="queries", event=found.profile.event)]))
    assert not Profile(k=100, beta=beta.beta * 1.01, values=values).meets(0.5, 1e-6)
    assert not Profile(k=k.k - 1, beta=0.2, values=values).meets(0.5, 1e-6)
    assert beta.beta < calibrate(epsilon=0.5, delta=1e-6, k=100).beta
    assert max(beta.profile.deltas(0.5)) == pytest.approx(1e-6, rel=0.05)


def test_what_would_keep_the_promise():
    profile = Profile(k=20, beta=0.3)
    assert not profile.meets(0.5, 1e-9)
    other = nearest(profile, 0.5, 1e-9)
    assert Profile(k=20, beta=float(other["beta"])).meets(0.5, 1e-9)
    assert Profile(k=int(other["k"]), beta=0.3).meets(0.5, 1e-9)
    assert profile.meets(float(other["epsilon"]), 1e-9)
    assert profile.delta(0.5) <= float(other["delta"])


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"epsilon": 1, "delta": 1e-6},
        {"epsilon": 1, "delta": 1e-6, "k": 3, "beta": 0.1},
        {"epsilon": 1, "delta": 0, "k": 3},
        {"epsilon": -1, "delta": 1e-6, "k": 3},
        {"epsilon": math.inf, "delta": 1e-6, "k": 3},
        {"epsilon": 1, "delta": 1e-6, "k": 0},
        {"epsilon": 1, "delta": 1e-6, "beta": 1},
        {"epsilon": 0.25, "delta": 1e-15, "k": 1},
        {"k": 5, "beta": 0.5, "delta": 1e-9},
        {"epsilon": 1e-9, "delta": 1e-6, "beta": 0.5},
    ],
)
def test_what_cannot_be_is_refused(given):
    with pytest.raises(BadInput):
        calibrate(**given)
