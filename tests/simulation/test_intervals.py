"""Intervals cover what they should, and a share is told only where there is a gain to share."""

import math

import numpy as np
import pytest

from discreet.simulation.points import mean_interval
from discreet_research.bench.rows import share_interval


def test_a_mean_by_hand():
    found = mean_interval([1.0, 2.0, 3.0])
    assert found.value == 2.0
    assert found.high - 2.0 == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)  # t(0.975, 2)
    assert mean_interval([5.0]).high == math.inf


def test_no_share_of_what_may_be_nothing():
    assert share_interval([1.0, 1.0, 1.0], [0.1, -0.1, 0.05]) is None
    assert share_interval([1.0, 1.0], [1.0, 1.0]) is None  # two seeds tell nothing
    assert share_interval([0.5, 0.5, 0.5], [1.0, 1.0, 1.0]).value == 0.5


@pytest.mark.parametrize("share", [0.0, 0.6])
def test_fieller_covers_as_often_as_it_says(share):
    rng = np.random.default_rng(3)
    told = covered = 0
    for _ in range(3000):
        common = rng.normal(size=10)
        full = 2.0 + common + rng.normal(size=10) * 0.5
        part = share * 2.0 + share * common + rng.normal(size=10)
        found = share_interval(part.tolist(), full.tolist())
        if found is not None:
            told += 1
            covered += found.low <= share <= found.high
    assert told > 2900
    assert 0.93 < covered / told < 0.97  # and a 90% interval would be found out: 0.90 is eight errors below 0.95


def test_a_narrower_interval_would_be_found_out(monkeypatch):
    from discreet_research.bench import rows

    monkeypatch.setattr(rows, "CONFIDENCE", 0.85)
    with pytest.raises(AssertionError):
        test_fieller_covers_as_often_as_it_says(0.6)
