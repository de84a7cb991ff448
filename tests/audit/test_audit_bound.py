"""What guesses prove: known answers, the law of a true claim, and attacks that reach what is provable."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.audit import (
    LEVEL,
    Finding,
    Guesses,
    chance_of_so_many,
    guess,
    highest_provable,
    proved_epsilon,
)
from discreet.errors import BadInput


@pytest.mark.parametrize(("epsilon", "needed"), [(1, 23), (4, 381), (8, 20_596)])
def test_how_many_right_guesses_prove_an_epsilon(epsilon, needed):
    assert highest_provable(guesses=needed, canaries=needed, level=LEVEL) >= epsilon
    assert highest_provable(guesses=needed - 1, canaries=needed, level=LEVEL) < epsilon


def test_all_right_is_the_power_of_q():
    q = math.e / (1 + math.e)
    assert chance_of_so_many(right=9, guesses=9, canaries=20, epsilon=1.0) == pytest.approx(q**9)


def test_delta_by_the_definition():
    """The maximum over i, summed naively."""
    right, guesses, canaries, epsilon, delta = 30, 40, 100, 0.7, 1e-4
    q = 1 / (1 + math.exp(-epsilon))
    mass = [math.comb(guesses, j) * q**j * (1 - q) ** (guesses - j) for j in range(guesses + 1)]
    most = max(sum(mass[right - i : right]) / i for i in range(1, right + 1))
    wanted = sum(mass[right:]) + 2 * canaries * delta * most
    found = chance_of_so_many(right=right, guesses=guesses, canaries=canaries, epsilon=epsilon, delta=delta)
    assert found == pytest.approx(wanted, rel=1e-9)


@given(
    right=st.integers(0, 60),
    wrong=st.integers(0, 60),
    silent=st.integers(0, 50),
    delta=st.sampled_from([0.0, 1e-6, 1e-3]),
)
@settings(max_examples=60, deadline=None)
def test_laws(right, wrong, silent, delta):
    made, canaries = right + wrong, right + wrong + silent
    proved = proved_epsilon(right=right, guesses=made, canaries=canaries, delta=delta, level=LEVEL)
    assert 0 <= proved <= highest_provable(guesses=made, canaries=canaries, delta=delta, level=LEVEL)
    if right:
        fewer = proved_epsilon(right=right - 1, guesses=made, canaries=canaries, delta=delta, level=LEVEL)
        assert fewer <= proved
    if delta:
        pure = proved_epsilon(right=right, guesses=made, canaries=canaries, level=LEVEL)
        assert proved <= pure
    chance = chance_of_so_many(right=right, guesses=made, canaries=canaries, epsilon=proved + 0.01, delta=delta)
    assert chance > LEVEL or proved > 60


def _randomised_response(epsilon, m, rng):
    """The run that leaks most of what epsilon allows: every coin is shown, and told wrongly now and then."""
    coins = rng.random(m) < 0.5
    shown = np.where(rng.random(m) < 1 / (1 + math.exp(-epsilon)), coins, ~coins)
    return coins, shown.astype(float)


def test_a_true_claim_is_seldom_refuted_and_a_wrong_one_nearly_always():
    rng = np.random.default_rng(5)
    refuted = {1.0: 0, 0.8: 0}
    runs = 400
    for _ in range(runs):
        coins, shown = _randomised_response(1.0, 4000, rng)
        made = guess(shown, coins, count=4000)
        for claimed in refuted:
            refuted[claimed] += (
                chance_of_so_many(right=made.right, guesses=made.count, canaries=4000, epsilon=claimed) <= 0.01
            )
    assert refuted[1.0] <= 14  # mean 4, at most; 14 or more has a chance below 1e-4
    assert refuted[0.8] >= 0.95 * runs


def test_an_attack_that_knows_nothing_proves_nothing():
    rng = np.random.default_rng(6)
    coins = rng.random(5000) < 0.5
    made = guess(rng.normal(size=5000), coins, count=1000)
    found = Finding(attack="blind", epsilon=0.5, delta=1e-5, guesses=made)
    assert found.proved < 0.2
    assert found.verdict == "not exceeded"


def test_no_verdict_where_the_audit_could_not_fail():
    all_right = Guesses(canaries=380, count=380, right=380)
    assert Finding(attack="all", epsilon=4, delta=0.0, guesses=all_right).verdict == "none"
    enough = Guesses(canaries=381, count=381, right=381)
    assert Finding(attack="all", epsilon=4, delta=0.0, guesses=enough).verdict == "exceeded"


def test_guesses_take_both_ends_and_break_ties_blindly():
    coins = np.array([True] * 50 + [False] * 50)
    assert guess(np.arange(100, 0, -1.0), coins, count=20).right == 20
    assert guess(np.arange(100.0), coins, count=20).right == 0
    assert guess(np.arange(100, 0, -1.0), coins, count=50, guess_absent=False).right == 50
    ties = [guess(np.zeros(100), coins, count=50, seed=seed).right for seed in range(200)]
    assert 22 < np.mean(ties) < 28


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: guess(np.zeros(3), np.zeros(4, dtype=bool), count=2),
        lambda: guess(np.zeros(3), np.zeros(3, dtype=bool), count=4),
        lambda: guess(np.array([1.0, np.nan]), np.zeros(2, dtype=bool), count=1),
        lambda: chance_of_so_many(right=3, guesses=2, canaries=5, epsilon=1.0),
        lambda: chance_of_so_many(right=1, guesses=2, canaries=1, epsilon=1.0),
        lambda: chance_of_so_many(right=1, guesses=2, canaries=3, epsilon=-1.0),
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(BadInput):
        wrong()
