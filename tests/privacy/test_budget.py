import doctest
import math
import warnings
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import BadInput, InvalidBudget
from discreet.privacy import budget
from discreet.privacy.budget import (
    Budget,
    LooseDelta,
    exact_decimal,
    exact_sum,
    float_above,
    float_below,
    json_number,
    rounded_up,
    share_of,
    shown_up,
)


def test_the_docstring_example_is_true():
    assert doctest.testmod(budget).failed == 0


def test_delta_has_no_default():
    with pytest.raises(TypeError):
        Budget(epsilon=1)


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"delta": 1},
        {"delta": -0.1},
        {"unit": "house"},
        {"relation": "add-one"},
        {"epsilon": "eight"},
    ],
)
def test_meaningless_budgets_are_refused(bad):
    with pytest.raises(InvalidBudget):
        Budget(**{"epsilon": 8, "delta": "1e-6"} | bad)


def test_it_is_frozen_and_compares_by_value():
    one = Budget(epsilon="8", delta="1e-6")
    assert one == Budget(epsilon=8.0, delta=1e-6)
    with pytest.raises(AttributeError):
        one.epsilon = 9


def test_json_round_trip():
    one = Budget(epsilon="0.123456789012345678", delta="1e-9", unit="person")
    assert Budget.from_json(one.to_json()) == one
    with pytest.raises(InvalidBudget):
        Budget.from_json(one.to_json() | {"more": 1})


def test_a_loose_delta_warns_exactly_above_the_limit():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Budget(epsilon=1, delta="1e-6").warn_if_loose(100_000)
    with pytest.warns(LooseDelta, match="1/\\(10 x 100001 records\\)"):
        Budget(epsilon=1, delta="1e-6").warn_if_loose(100_001)


decimals = st.decimals(min_value=0, max_value=1000, allow_nan=False, allow_infinity=False, places=12)


def test_ten_tenths_are_one():
    assert exact_sum([exact_decimal(0.1, "x")] * 10) == 1


def test_a_float_is_read_as_it_was_written():
    assert exact_decimal(0.1, "x") == Decimal("0.1") != Decimal(0.1)


@pytest.mark.parametrize(
    "value", [True, None, "abc", "nan", "inf", float("nan"), "1" * 40, "1e-200", [1], "1_0", "", " ", "\u0668", "0x10"]
)
def test_what_is_not_a_number_is_refused(value):
    with pytest.raises(BadInput):
        exact_decimal(value, "x")


@given(decimals)
def test_floats_bracket_the_decimal(value):
    assert Decimal(float_below(value)) <= value <= Decimal(float_above(value))


@given(st.floats(min_value=1e-12, max_value=1e12))
def test_rounding_up_never_lowers_and_is_tight(value):
    up = rounded_up(value)
    assert value <= up <= value * (1 + 1.1e-8)


def test_short_decimals_are_not_inflated():
    assert rounded_up(0.1) == 0.1
    assert rounded_up(8.0) == 8.0
    assert rounded_up(math.inf) == math.inf


@given(st.decimals(min_value="0.001", max_value=100, places=6), st.integers(1, 40))
def test_shares_never_pass_the_whole(whole, parts):
    assert exact_sum([share_of(whole, parts)] * parts) <= whole


@given(decimals)
def test_json_numbers_read_back(value):
    assert exact_decimal(json_number(value), "x") == value


@given(st.floats(0, 1e6))
def test_printed_numbers_are_never_below(value):
    assert Decimal(shown_up(value)) >= Decimal(repr(value))
    assert Decimal(shown_up(value)) - Decimal(repr(value)) <= Decimal("0.0001")
