import doctest
import warnings

import pytest

from discreet.errors import InvalidBudget
from discreet.privacy import budget
from discreet.privacy.budget import Budget, LooseDelta


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
