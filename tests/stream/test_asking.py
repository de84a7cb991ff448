"""Chances keep their price exactly, the null has the lowest, and the paper's form is refused where it breaks."""

import math
from decimal import Context, Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput
from discreet.noise.stream import ONE
from discreet.stream import (
    AskEverything,
    BalancedSlab,
    BernoulliAsking,
    ExponentialAsking,
    FixedSlab,
    OneSidedAsking,
    ShrinkingSlab,
)
from discreet.stream.ask_rules import asking_from_json, paper_cost, paper_least_width, widest_low

PRECISE = Context(prec=60)


def costs(low, high):
    """ln(high/low) and ln((1-low)/(1-high)), to 50 digits."""
    asked = PRECISE.ln(PRECISE.divide(Decimal(high), Decimal(low)))
    missed = PRECISE.ln(PRECISE.divide(Decimal(ONE - low), Decimal(ONE - high)))
    return asked, missed


EPSILONS = st.decimals("0.01", "12", places=3)


@settings(max_examples=200, deadline=None)
@given(asked=EPSILONS, missed=EPSILONS, low=st.none() | st.floats(1e-6, 0.9))
def test_ends_keep_both_caps_exactly(asked, missed, low):
    rule = OneSidedAsking(asked=asked, missed=missed, low=low)
    ends = rule.ends()
    forward, backward = costs(ends.low, ends.high)
    assert forward <= asked
    assert backward <= missed
    if low is None:  # and both are used up, so the gap is the widest
        assert forward > asked * (1 - Decimal("1e-9"))
        assert backward > missed * (1 - Decimal("1e-9"))
    assert rule.price().asked == asked
    assert rule.price().missed == missed


def test_bernoulli_is_the_papers_and_one_sided_contains_it():
    ends = BernoulliAsking(epsilon=1).ends()
    assert ends.high / ONE == pytest.approx(math.e / (1 + math.e), rel=1e-15)
    assert ends.low / ONE == pytest.approx(1 / (1 + math.e), rel=1e-15)
    assert OneSidedAsking(asked=1, missed=1).ends() == ends
    assert max(costs(ends.low, ends.high)) <= 1
    wider = OneSidedAsking(asked=1, missed=2).ends()  # what is missed teaches nothing, so it may cost as much
    assert wider.high / ONE == pytest.approx(0.90997, abs=1e-5)
    assert wider.low / ONE == pytest.approx(0.33476, abs=1e-5)


def test_few_labels_make_being_missed_cheap():
    rule = OneSidedAsking(asked=2, low=0.01)
    assert float(rule.missed) == pytest.approx(math.log(0.99 / (1 - 0.01 * math.exp(2))), rel=1e-8)
    forward, backward = costs(rule.ends().low, rule.ends().high)
    assert forward <= 2
    assert backward <= rule.missed < backward * Decimal("1.00001")


@pytest.mark.parametrize("width", [1e-9, 0.05, 0.2, 0.7, 0.999, 1.0, 4.0])
@pytest.mark.parametrize("radius", [0.3, 1.0])
def test_our_exponential_form_has_no_condition(width, radius):
    rule = ExponentialAsking(epsilon=1)
    ends = rule.ends(width, radius)
    assert max(costs(ends.low, ends.high)) <= 1
    distances = np.append(np.linspace(0, 2 * radius, 4001), np.nan)
    chances = rule.chances(distances, np.full(distances.size, width), radius, ends)
    assert chances.min() >= ends.low
    assert chances.max() <= ends.high
    assert chances[-1] == ends.low  # the null
    assert (np.diff(chances[:-1].astype(np.float64)) <= 0).all()
    assert (chances[:-1][distances[:-1] <= width] == ends.high).all()
    if width < radius:
        assert int(chances[2000]) == pytest.approx(ends.low, rel=1e-9)  # at the radius


@pytest.mark.parametrize("rule", [ExponentialAsking(epsilon=1), ExponentialAsking(epsilon="0.3", missed=2)])
def test_one_record_and_many_have_the_same_chance_to_the_bit(rule):
    rng = np.random.default_rng(0)
    distances, widths = rng.random(50_000), rng.choice([0.1, 0.2, 0.9999], 50_000)
    ends = rule.ends(0.1, 1.0)
    many = rule.chances(distances, widths, 1.0, ends).tolist()
    pairs = zip(distances.tolist(), widths.tolist(), strict=True)
    assert [rule.chance(distance, width, 1.0, ends) for distance, width in pairs] == many


def test_the_papers_exponential_form_is_refused_where_it_breaks():
    """theory.md, section 7: at eps 1 it needs b >= .239 M; its own b = .2 costs 1.171."""
    rule = ExponentialAsking(epsilon=1, form="paper")
    assert paper_least_width(1.0) == pytest.approx(0.2385, abs=5e-5)
    assert paper_least_width(1.0, radius=3.0) == pytest.approx(3 * 0.2385, abs=2e-4)
    assert paper_cost(1.0, 0.2) == pytest.approx(1.171, abs=5e-4)
    with pytest.raises(BadInput, match=r"costs 1\.171"):
        rule.check(FixedSlab(0.2), classes=2, radius=1.0)
    with pytest.raises(BadInput, match="at least 0.238"):
        rule.check(ShrinkingSlab(1.0 - 1e-9, least=0.1), classes=2, radius=1.0)
    with pytest.raises(BadInput, match="costs inf"):
        rule.check(ShrinkingSlab(0.9), classes=2, radius=1.0)
    with pytest.raises(BadInput, match="one width"):
        rule.check(BalancedSlab(0.4, [0.1, 0.9]), classes=2, radius=1.0)
    with pytest.raises(BadInput, match="below 1"):
        rule.check(FixedSlab(1.0), classes=2, radius=1.0)
    rule.check(FixedSlab(0.239), classes=2, radius=1.0)
    rule.check(ShrinkingSlab(0.9, least=0.239), classes=2, radius=1.0)
    for width in (0.2386, 0.3, 0.6, 0.9):
        ends = rule.ends(width, 1.0)
        assert max(costs(ends.low, ends.high)) <= 1
        assert ends.high / ONE == pytest.approx(math.exp(-width / (1 - width)), rel=1e-8)
        chances = rule.chances(np.array([0.0, width, 1.0]), np.full(3, width), 1.0, ends)
        assert int(chances[2]) / ONE == pytest.approx(math.exp(-1 / (1 - width)), rel=1e-8)


def test_the_papers_form_at_its_own_width_would_cost_more_than_it_says():
    """What the refusal is for: the null against a record inside, missed."""
    high, low = math.exp(-0.25), math.exp(-1.25)
    assert math.log((1 - low) / (1 - high)) == pytest.approx(1.1711, abs=1e-4)


def test_everybody_is_asked_for_nothing():
    rule = AskEverything()
    assert rule.ends().low == rule.ends().high == ONE
    assert rule.price().pure_epsilon() == 0


def test_bad_rules_are_refused():
    for bad in (
        {"asked": 1},
        {"asked": -1, "missed": 1},
        {"asked": 1, "missed": 0},
        {"asked": 0, "missed": 1},
        {"asked": 1, "low": 0.0},
        {"asked": 1, "low": 1.0},
        {"asked": 3, "low": 0.1},
    ):
        with pytest.raises(BadInput):
            OneSidedAsking(**bad)
    random = OneSidedAsking(asked=0, low=0.1)
    assert random.ends().high == random.ends().low
    assert random.price().pure_epsilon() == 0
    for bad in ({"epsilon": 0}, {"epsilon": 1, "form": "best"}, {"epsilon": 1, "form": "paper", "missed": 2}):
        with pytest.raises(BadInput):
            ExponentialAsking(**bad)
    with pytest.raises(BadInput):
        BernoulliAsking(epsilon="-1")


def test_rules_read_back_as_they_were_written():
    for rule in (
        OneSidedAsking(asked=1, missed="1.5"),
        OneSidedAsking(asked="0.7", low=0.03),
        BernoulliAsking(epsilon="0.1"),
        ExponentialAsking(epsilon=1, missed=2),
        ExponentialAsking(epsilon=1, form="paper"),
        AskEverything(),
    ):
        assert asking_from_json(rule.to_json()) == rule
    for broken in ({}, {"rule": "best"}, {"rule": "bernoulli"}, {"rule": "bernoulli", "epsilon": 1, "more": 2}):
        with pytest.raises(BadInput):
            asking_from_json(broken)


def test_the_widest_gap_is_where_both_caps_meet():
    for asked, missed in ((1.0, 1.0), (0.1, 3.0), (5.0, 0.01)):
        low = widest_low(asked, missed)
        assert math.exp(asked) * low == pytest.approx(1 - (1 - low) * math.exp(-missed), rel=1e-9)
