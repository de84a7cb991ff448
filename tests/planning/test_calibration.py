import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.planning.calibration import least_noise


@given(st.floats(0.2, 5), st.floats(0.01, 100), st.floats(0.01, 100))
def test_it_ends_on_the_safe_side_and_close(power, target, start):
    def cost(x):
        return x**-power

    x = least_noise(cost, target, start=start, tolerance=1e-6, smallest=1e-9, largest=1e9)
    exact = target ** (-1 / power)
    if exact > 1e9:
        assert x is None
    elif exact < 1e-9:
        assert x == 1e-9
    else:
        assert cost(x) <= target
        assert cost(x) >= target * (1 - 1e-5) or x <= exact * (1 + 1e-9)


def test_a_cost_that_jumps_is_left_below_the_jump():
    x = least_noise(lambda x: 3.0 if x < 2 else 1.0, 2.0, start=10, tolerance=1e-6, smallest=0.1, largest=100)
    assert x == pytest.approx(2.0)
    assert x >= 2.0


def test_infinite_costs_are_walked_out_of():
    x = least_noise(
        lambda x: math.inf if x < 1 else 5 / x, 1.0, start=0.01, tolerance=1e-6, smallest=0.001, largest=1e6
    )
    assert 5 / x <= 1.0
    assert x == pytest.approx(5, rel=1e-5)


def test_nothing_safe_is_none():
    assert least_noise(lambda x: 10.0, 1.0, start=1, tolerance=1e-6, smallest=0.1, largest=100) is None
