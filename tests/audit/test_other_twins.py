"""Twins of crowd, teachers, streams and near-private: what is right holds, and planted mistakes are caught."""

from dataclasses import replace

import numpy as np
import pytest

from discreet.audit import PLANTS_OF, RECIPES, audit
from discreet.audit.attacks import Attack, found_by, shown_only
from discreet.audit.auditing import twins_by_default
from discreet.audit.reaches import Reach
from discreet.audit.variances import agreement, geometric_variance, length_variance
from discreet.errors import BadInput

pytestmark = pytest.mark.thorough

CAUGHT_IN = {
    ("stream", "no-noise"): ("updates", 1000),
    ("stream", "uncharged-asking"): ("asking", 1000),
    ("stream", "skipped-nulls"): ("both", 1000),
    ("stream", "half-noise"): ("both", 1000),
    ("public-data", "no-noise"): ("both", 1000),
    ("public-data", "no-clipping"): ("components", 1000),
    ("public-data", "private-top"): ("counts", 1000),
    ("public-data", "half-noise"): ("both", 1000),
    ("teachers", "no-noise"): ("gaussian", 1000),
    ("teachers", "shared-records"): ("gaussian", 600),
    ("teachers", "uncounted-unstable"): ("sparse", 1000),
    ("teachers", "half-noise"): ("gaussian", 600),
    ("crowd", "no-subsampling"): ("rows", 1000),
    ("crowd", "reused-coins"): ("rows", 5000),
    ("crowd", "occurrence-coins"): ("persons", 1000),
    ("crowd", "occurrences-counted"): ("persons", 1000),
}
BY_BOUND = [case for case in CAUGHT_IN if case[1] not in ("half-noise", "shared-records", "private-top")]


def made(recipe, twin, *, canaries, plant=None, seed=21):
    attack, settings = twins_by_default(recipe)[twin]
    return attack(twin, replace(settings, canaries=canaries, plant=plant), seed)


def test_every_mistake_has_a_twin_that_sees_it():
    others = {(recipe, plant) for recipe in RECIPES if recipe != "private-pool" for plant in PLANTS_OF[recipe]}
    assert set(CAUGHT_IN) == others


@pytest.mark.parametrize(("recipe", "plant"), CAUGHT_IN)
def test_planted_mistakes_are_caught(recipe, plant):
    twin, canaries = CAUGHT_IN[recipe, plant]
    found = made(recipe, twin, canaries=canaries, plant=plant)
    assert found.failed
    if (recipe, plant) in BY_BOUND:
        assert any(one.verdict == "exceeded" for one in found.findings)


SOUND = [(recipe, twin) for recipe in RECIPES if recipe != "private-pool" for twin in twins_by_default(recipe)]


@pytest.mark.parametrize(("recipe", "twin"), SOUND)
def test_what_is_right_is_not_called_broken(recipe, twin):
    found = made(recipe, twin, canaries=1000)
    assert not found.failed
    assert 0.5 <= found.claimed <= 2
    assert found.findings
    assert all(one.verdict == "not exceeded" for one in found.findings)  # and none without a verdict


def test_a_stream_leaks_nearly_what_it_claims():
    """Ask bits of 0.9 are guessed as well as such coins allow: the attack is a strong one."""
    found = made("stream", "asking", canaries=5000)
    asked = next(one for one in found.findings if one.attack == "asked")
    from discreet.stream import OneSidedAsking

    ends = OneSidedAsking(asked="0.9", missed="1").ends()
    share = ends.high / (ends.high + ends.low)
    assert asked.guesses.right / asked.guesses.made == pytest.approx(share, abs=0.04)
    assert asked.proved > 0.5


@pytest.mark.parametrize("aggregator", ["laplace", "confident answers", "confident checks", "sparse"])
@pytest.mark.parametrize("plant", ["no-noise", "half-noise"])
def test_noise_of_every_way_of_answering(aggregator, plant):
    assert made("teachers", aggregator, canaries=600, plant=plant).failed


def test_tests_of_noise_hold_and_see_a_fifth_less():
    luck = np.random.default_rng(0)
    lengths = luck.exponential(size=3000)
    assert length_variance(lengths).verdict == "not smaller"
    assert length_variance(0.8 * lengths).verdict == "smaller"
    rate = np.exp(-0.1)
    noise = luck.geometric(1 - rate, 3000) - luck.geometric(1 - rate, 3000)
    assert geometric_variance(noise, 0.1).verdict == "not smaller"
    assert geometric_variance(np.trunc(0.8 * noise).astype(np.int64), 0.1).verdict == "smaller"
    chances = np.full(3000, 0.8)
    assert agreement(luck.random(3000) < chances, chances).verdict == "not smaller"
    assert agreement(luck.random(3000) < 0.85, chances).verdict == "smaller"


def test_tests_of_noise_cry_wolf_seldom_enough():
    """At 5% of level, 400 true runs: at most 5% of them, and Chernoff's bounds less."""
    luck, rate = np.random.default_rng(1), np.exp(-0.5)
    low = {"lengths": 0, "counts": 0, "answers": 0}
    for _ in range(400):
        low["lengths"] += length_variance(luck.exponential(size=100)).chance <= 0.05
        noise = luck.geometric(1 - rate, 100) - luck.geometric(1 - rate, 100)
        low["counts"] += geometric_variance(noise, 0.5).chance <= 0.05
        low["answers"] += agreement(luck.random(100) < 0.7, np.full(100, 0.7)).chance <= 0.05
    assert all(count <= 37 for count in low.values())  # 20 expected; 38 or more has a chance of 1e-4
    assert low["lengths"] >= 6


def test_an_attack_that_has_nothing_to_guess_keeps_its_share():
    coins = np.arange(100) % 2 == 0
    tried = {"some": Attack(scores=coins.astype(float), made=40), "none": shown_only(np.zeros(100, dtype=bool))}
    (found,) = found_by(tried, coins, claimed=1.0, delta=0.0, seed=0)
    assert found.attack == "some"
    assert found.level == pytest.approx(0.0005)
    assert shown_only(coins).made == 50


def test_reach_knows_rounding_from_more():
    assert Reach(test="x", found=1.0 + 1e-12, allowed=1.0, canaries=1).verdict == "within"
    assert Reach(test="x", found=2.0, allowed=1.0, canaries=1).verdict == "too far"


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
