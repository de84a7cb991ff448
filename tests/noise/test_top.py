"""The largest of noisy scores: chances in closed form, and no more places than were asked for."""

import math

import numpy as np
import pytest
from scipy import stats

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import Seeded, gaussian_top, laplace_top, poisson_mask
from discreet.noise.noisy_top import largest
from discreet.privacy.events import Gaussian, Laplace, PoissonSampledGaussian, Pure, ThresholdResponse
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.testing.neighbours import AMPLE
from discreet.testing.noise import SURELY, coin_pvalue

pytestmark = pytest.mark.thorough

RUNS = 4_000


@pytest.fixture
def ledger():
    return Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(0))


def wins(ledger, event, top, scores, count=1, place=0, mask=False):
    """How often ``place`` is among the ``count`` largest."""
    receipt = ledger.charge(event=event, count=RUNS, who="pool", why="test")
    found = 0
    for _ in range(RUNS):
        values = np.array(scores)
        if mask:
            values = np.where(poisson_mask(len(scores), receipt=receipt), values, 0.0)
        found += place in top(values, count, sensitivity=1.0, receipt=receipt)
    return found


def laplace_above(gap, epsilon):
    """P[X + gap > Y] for two Laplace noises of scale 1 / epsilon."""
    return 1 - (0.5 + epsilon * gap / 4) * math.exp(-epsilon * gap)


@pytest.mark.parametrize("event", [Laplace(epsilon=2), Pure(epsilon=2), ThresholdResponse(asked=3, missed=2)])
def test_the_larger_of_two_with_laplace_noise(ledger, event):
    heads = wins(ledger, event, laplace_top, [1.0, 0.0])
    assert coin_pvalue(heads, RUNS, laplace_above(1.0, 2.0)) > SURELY
    assert coin_pvalue(heads, RUNS, laplace_above(1.0, 2.6)) < SURELY  # noise that is too small by a quarter is found


def test_the_larger_of_two_with_gaussian_noise(ledger):
    heads = wins(ledger, Gaussian(noise_multiplier=1.5), gaussian_top, [1.0, 0.0])
    assert coin_pvalue(heads, RUNS, stats.norm.cdf(1 / (1.5 * math.sqrt(2)))) > SURELY
    assert coin_pvalue(heads, RUNS, stats.norm.cdf(1 / (1.0 * math.sqrt(2)))) < SURELY


def test_on_a_subsample_a_record_that_is_left_out_is_a_null(ledger):
    event = PoissonSampledGaussian(sampling_rate=0.5, noise_multiplier=1.0)
    heads = wins(ledger, event, gaussian_top, [1.0, 0.0], mask=True)
    seen, unseen = stats.norm.cdf(1 / math.sqrt(2)), 0.5
    assert coin_pvalue(heads, RUNS, 0.5 * seen + 0.5 * unseen) > SURELY


def test_a_worst_record_is_asked_within_its_price(ledger):
    """Among twenty of the bottom, k = 1: a score at the top against a null, whose chance is 1 in 21."""
    heads = wins(ledger, Laplace(epsilon=1), laplace_top, [1.0] + [0.0] * 20)
    assert heads / RUNS < math.exp(1) / 21 + 5 * math.sqrt(1 / 8 / RUNS)
    assert heads / RUNS > 1.5 / 21  # and the price is nearly used


def test_the_largest_and_of_equal_ones_the_first():
    assert largest(np.array([3, 9, 3, 1, 3]), 3).tolist() == [0, 1, 2]
    assert largest(np.array([3, 9]), 5).tolist() == [0, 1]
    assert largest(np.array([3, 9]), 0).tolist() == []
    assert largest(np.array([], dtype=np.int64), 2).tolist() == []


def test_refusals(ledger):
    receipt = ledger.charge(event=Laplace(epsilon=1), who="pool", why="test")
    with pytest.raises(BadInput, match="one number a record"):
        laplace_top(np.ones((2, 2)), 1, sensitivity=1.0, receipt=receipt)
    with pytest.raises(BadInput, match="not a whole number"):
        laplace_top([1.0], -1, sensitivity=1.0, receipt=receipt)
    with pytest.raises(ReceiptRefused, match="not for gaussian"):
        gaussian_top([1.0], 1, sensitivity=1.0, receipt=receipt)
    laplace_top([1.0], 1, sensitivity=1.0, receipt=receipt)
    with pytest.raises(ReceiptRefused, match="spent"):
        laplace_top([1.0], 1, sensitivity=1.0, receipt=receipt)
    free = ledger.charge(event=Laplace(epsilon=0), who="pool", why="test")
    with pytest.raises(BadInput, match="epsilon=0"):
        laplace_top([1.0], 1, sensitivity=1.0, receipt=free)
    masked = ledger.charge(
        event=PoissonSampledGaussian(sampling_rate=0.5, noise_multiplier=1.0), who="pool", why="test"
    )
    with pytest.raises(ReceiptRefused, match="mask"):
        gaussian_top([1.0], 1, sensitivity=1.0, receipt=masked)
