"""Margins of votes: how clear answers are, with a bound."""

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet_research.bench.vote_margins import approximate_margin, expected_margins


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
