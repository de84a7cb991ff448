"""Audit targets of crowd, teachers, streams and near-private: correct code is not called broken."""

from dataclasses import replace

import numpy as np
import pytest

from discreet.audit import RECIPES, audit, targets_of
from discreet.audit.checks import SensitivityCheck, agreement, geometric_variance, length_variance
from discreet.audit.findings import Attack, findings_of, shown_only
from discreet.errors import BadInput

pytestmark = pytest.mark.thorough


def audited(recipe, target, *, canaries, seed=21):
    return replace(targets_of(recipe)[1][target], canaries=canaries).audit(target, seed)


SOUND = [(recipe, target) for recipe in RECIPES if recipe != "private-pool" for target in targets_of(recipe)[1]]


@pytest.mark.parametrize(("recipe", "target"), SOUND)
def test_what_is_right_is_not_called_broken(recipe, target):
    found = audited(recipe, target, canaries=1000)
    assert not found.failed
    assert 0.5 <= found.claimed <= 2
    assert found.findings
    assert all(one.verdict == "not exceeded" for one in found.findings)  # and none without a verdict


def test_a_stream_leaks_nearly_what_it_claims():
    """Ask bits of 0.9 are guessed as well as such coins allow: the attack is a strong one."""
    found = audited("stream", "asking", canaries=5000)
    asked = next(one for one in found.findings if one.attack == "asked")
    from discreet.stream import OneSidedAsking

    ends = OneSidedAsking(asked="0.9", missed="1").ends()
    share = ends.high / (ends.high + ends.low)
    assert asked.guesses.right / asked.guesses.count == pytest.approx(share, abs=0.04)
    assert asked.proved > 0.5


def test_tests_of_noise_hold_and_see_a_fifth_less():
    rng = np.random.default_rng(0)
    lengths = rng.exponential(size=3000)
    assert length_variance(lengths).verdict == "not smaller"
    assert length_variance(0.8 * lengths).verdict == "smaller"
    rate = np.exp(-0.1)
    noise = rng.geometric(1 - rate, 3000) - rng.geometric(1 - rate, 3000)
    assert geometric_variance(noise, 0.1).verdict == "not smaller"
    assert geometric_variance(np.trunc(0.8 * noise).astype(np.int64), 0.1).verdict == "smaller"
    chances = np.full(3000, 0.8)
    assert agreement(rng.random(3000) < chances, chances).verdict == "not smaller"
    assert agreement(rng.random(3000) < 0.85, chances).verdict == "smaller"


def test_tests_of_noise_cry_wolf_seldom_enough():
    """At 5% of level, 400 true runs: at most 5% of them, and Chernoff's bounds less."""
    rng, rate = np.random.default_rng(1), np.exp(-0.5)
    low = {"lengths": 0, "counts": 0, "answers": 0}
    for _ in range(400):
        low["lengths"] += length_variance(rng.exponential(size=100)).chance <= 0.05
        noise = rng.geometric(1 - rate, 100) - rng.geometric(1 - rate, 100)
        low["counts"] += geometric_variance(noise, 0.5).chance <= 0.05
        low["answers"] += agreement(rng.random(100) < 0.7, np.full(100, 0.7)).chance <= 0.05
    assert all(count <= 37 for count in low.values())  # 20 expected; 38 or more has a chance of 1e-4
    assert low["lengths"] >= 6


def test_an_attack_that_has_nothing_to_guess_keeps_its_share():
    coins = np.arange(100) % 2 == 0
    tried = {"some": Attack(scores=coins.astype(float), count=40), "none": shown_only(np.zeros(100, dtype=bool))}
    (found,) = findings_of(tried, coins, claimed=1.0, delta=0.0, seed=0)
    assert found.attack == "some"
    assert found.level == pytest.approx(0.0005)
    assert shown_only(coins).count == 50


def test_sensitivity_check_knows_rounding_from_more():
    assert SensitivityCheck(test="x", furthest=1.0 + 1e-12, allowed=1.0, canaries=1).verdict == "within"
    assert SensitivityCheck(test="x", furthest=2.0, allowed=1.0, canaries=1).verdict == "too far"


@pytest.mark.parametrize(
    "wrong",
    [
        {"recipe": "none"},
        {"recipe": "stream", "plant": "redraw"},
        {"plant": "typo"},
        {"canaries": 3},
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(BadInput):
        audit(**wrong)
