"""The sizes of the paper on teachers, and margins of votes."""

import math

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet_research.bench.teacher_sizes import (
    active_sizes,
    approximate_margin,
    expected_margins,
    margin_sizes,
    passive_sizes,
)


def test_the_papers_sizes():
    """Remark 6: with tau = 1, T/m = m d^2/(n eps)^2, the excess that Theorem 5 states beside d/m."""
    found = passive_sizes(private=40_000, public=2_000, dimension=30, tau=1.0, epsilon=1.0, delta=1e-6, gamma=0.05)
    assert found.unstable == math.ceil(2000**2 * 30**2 / 40_000**2)
    assert found.excess == pytest.approx(30 / 2000 + 2000 * 30**2 / 40_000**2)
    assert found.teachers == math.ceil(math.log(2000 * 3 / 1e-6) * math.sqrt(3 * math.log(1e6)))
    clear = margin_sizes(public=9000, nu=0.0, margin=0.5, epsilon=1.0, delta=1e-6, gamma=0.05)
    assert clear.unstable == math.ceil(2 / 3 * math.log(60))
    murky = margin_sizes(public=9000, nu=0.05, margin=0.1, epsilon=1.0, delta=1e-6, gamma=0.05)
    assert murky.unstable > 450
    assert murky.teachers > clear.teachers
    few = active_sizes(private=10**7, public=10**6, dimension=5, tau=1.0, epsilon=1.0, delta=1e-6, gamma=0.05)
    assert few.questions < 1000 < few.teachers
    assert few.excess < 0.1
    shape = {"private": 10, "public": 10, "dimension": 1, "epsilon": 1.0, "delta": 1e-6, "gamma": 0.05}
    with pytest.raises(BadInput):
        passive_sizes(**shape, tau=1.5)


def test_margins_of_votes():
    counts = np.array([[10, 0], [5, 5], [7, 3], [0, 10]])
    assert expected_margins(counts).tolist() == [0.5, 0.0, 0.2, 0.5]
    assert expected_margins(np.array([[6, 3, 1]])).tolist() == [0.15]
    [(margin, nu, bound)] = approximate_margin(counts, [0.2])
    assert (margin, nu) == (0.2, 0.5)
    assert bound > nu
    many = np.tile([[900, 100]], (5000, 1))
    assert approximate_margin(many, [0.3])[0][1:] == (0.0, pytest.approx(0.0197, abs=1e-3))
    with pytest.raises(BadInput):
        expected_margins(np.array([[0.5, 0.5]]))
