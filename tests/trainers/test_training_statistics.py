"""The noise in an update has the planned scale and every cohort its planned rate; 5% off is rejected."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from training_runs import phase_of, trained

from discreet.trainers.dp_sgd import MISSING, CohortRecords

pytestmark = pytest.mark.thorough

ALPHA = 1e-6
SIGMA, CLIP, BATCH, RATE = 1.7, 0.4, 32, 0.25


def scale_p_value(noise, scale):
    """Two-sided chi-square test that ``noise`` is Gaussian of ``scale``: mean and variance."""
    squares = float(((noise / scale) ** 2).sum())
    below = stats.chi2.cdf(squares, noise.size)
    centred = abs(float(noise.mean())) / (scale / np.sqrt(noise.size))
    return min(2 * min(below, 1 - below), 2 * stats.norm.sf(centred))


def rate_p_value(hits, tosses, rate):
    return stats.binomtest(int(hits), int(tosses), rate).pvalue


@pytest.fixture(scope="module")
def noises():
    """What 60 steps on records without labels did to the weights of a model: noise over b, times the rate."""
    model = nn.Linear(499, 2)
    nothing = CohortRecords(x=np.ones((5, 499), np.float32), y=np.full(5, MISSING))
    moved, before = [], torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy().astype(np.float64)
    run = trained(
        model,
        {"a": nothing},
        phase_of({"a": RATE}, steps=60, sigma=SIGMA, batch=BATCH),
        classes=2,
        clip=CLIP,
        learning_rate=1.0,
    )
    for noisy in run.outputs():
        moved.append(noisy)
        before = (before - noisy / BATCH).astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(run.weights(), before, atol=1e-4)
    return np.concatenate(moved) / BATCH


def test_noise_in_the_update_is_sigma_c_over_b(noises):
    assert scale_p_value(noises, SIGMA * CLIP / BATCH) > ALPHA


@pytest.mark.parametrize("off", [0.95, 1.05])
def test_five_percent_off_would_be_seen(noises, off):
    assert scale_p_value(noises * off, SIGMA * CLIP / BATCH) < ALPHA
    assert scale_p_value(noises, SIGMA * CLIP / BATCH * off) < ALPHA


class Attendance(nn.Module):
    """A model whose gradient for record i is the i-th unit vector: the sum says who took part."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, size))

    def forward(self, x):
        return x @ self.weight.T


@pytest.fixture(scope="module")
def attendance():
    """How often every one of 3 x 200 records took part in 400 steps, with three rates."""
    rates = {"a": 0.30, "b": 0.12, "c": 0.6}
    rows = np.eye(600, dtype=np.float32)
    cohorts = {
        label: CohortRecords(x=rows[200 * k : 200 * k + 200], y=np.zeros(200, int)) for k, label in enumerate(rates)
    }
    model = Attendance(600)
    run = trained(model, cohorts, phase_of(rates, steps=400), classes=1, loss=lambda out, _: out.sum(), clip=1.0)
    taken = np.stack(run.inputs())
    assert set(np.unique(taken)) == {0.0, 1.0}
    return rates, taken.reshape(400, 3, 200)


def test_every_cohort_is_sampled_at_its_planned_rate(attendance):
    rates, taken = attendance
    for k, rate in enumerate(rates.values()):
        assert rate_p_value(taken[:, k].sum(), 400 * 200, rate) > ALPHA


@pytest.mark.parametrize("off", [0.95, 1.05])
def test_a_rate_five_percent_off_would_be_seen(attendance, off):
    rates, taken = attendance
    for k, rate in enumerate(rates.values()):
        if rate > 0.2:  # 80,000 tosses tell 5% of these rates; for the lowest they need not
            assert rate_p_value(taken[:, k].sum(), 400 * 200, rate * off) < ALPHA


def test_records_and_steps_are_sampled_independently(attendance):
    rates, taken = attendance
    for k, rate in enumerate(rates.values()):
        sizes = taken[:, k].sum(axis=1)  # batch sizes: Binomial(200, q), neither fixed nor bunched
        spread = ((sizes - 200 * rate) ** 2).sum() / (200 * rate * (1 - rate))
        assert ALPHA < stats.chi2.cdf(spread, 400) < 1 - ALPHA
        each = taken[:, k].sum(axis=0)
        spread = ((each - 400 * rate) ** 2).sum() / (400 * rate * (1 - rate))
        assert ALPHA < stats.chi2.cdf(spread, 200) < 1 - ALPHA


def test_a_batch_of_fixed_size_would_be_seen():
    sizes = np.full(400, 60.0)
    spread = ((sizes - 200 * 0.3) ** 2).sum() / (200 * 0.3 * 0.7)
    assert stats.chi2.cdf(spread, 400) < ALPHA
