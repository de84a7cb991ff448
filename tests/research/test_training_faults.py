"""A fault that is injected into training does not touch a production run of the same process."""

import numpy as np
import pytest
import torch
from torch import nn

from discreet.audit.pool_target import _counted_batches
from discreet.noise import OperatingSystem, Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.events import PoissonSampledGaussian
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.privacy.plan import TrainingPhase, TrainingStage
from discreet.trainers.dp_sgd import DPSGD, CohortRecords, Settings, charge_training, cohorts, trainer
from discreet_research.injected_faults.training_faults import FAULTS, REDRAWS

SOURCES = [
    pytest.param(OperatingSystem, False, id="production"),
    pytest.param(lambda: Seeded(1), True, id="simulation"),
]
WHO, RECORDS = "initial", 400


def phase(*, rate, sigma, steps=1):
    event = PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=sigma)
    stage = TrainingStage(steps=steps, cohorts=((WHO, event),))
    return TrainingPhase(number=0, batch=RECORDS, unit="record", stages=(stage,))


def paid(source, planned):
    ledger = Ledger.create(MemorySink(), adaptive(Budget(epsilon=10**9, delta="1e-9")), source=source)
    return charge_training(ledger, planned)


def moved(source, *, clip):
    """How far one step with hardly any noise takes a model."""
    x = np.random.default_rng(3).normal(size=(RECORDS, 5)).astype(np.float32)
    records = CohortRecords(x=x, y=(x[:, 0] > 0).astype(np.int64))
    planned = phase(rate=1.0, sigma=0.01)
    model = nn.Linear(5, 2)
    nn.init.zeros_(model.weight)
    settings = Settings(learning_rate=1.0, clip=clip, optimizer="sgd")
    made = DPSGD(model, classes=2, settings=settings).train(
        phase=planned, cohorts={WHO: records}, receipt=paid(source, planned)
    )
    return float(torch.linalg.norm(made.module.weight.detach()))


@pytest.mark.parametrize(("source", "simulation"), SOURCES)
@pytest.mark.parametrize(("plant", "share"), [("no-noise", 0.0), ("half-noise", 0.5)])
def test_noise(source, simulation, plant, share):
    (receipt,) = paid(source(), phase(rate=0.5, sigma=1.0))
    with FAULTS[plant].inject():
        vars(cohorts)["poisson_mask"](RECORDS, receipt=receipt, who=WHO)
        noise = vars(trainer)["gaussian"](np.zeros(4000), sensitivity=1.0, receipt=receipt)
    assert noise.std() == pytest.approx(share if simulation else 1.0, abs=0.1)


@pytest.mark.parametrize(("source", "simulation"), SOURCES)
def test_batches(source, simulation):
    (receipt,) = paid(source(), phase(rate=0.5, sigma=1.0, steps=20))
    noted = []
    with FAULTS["fixed-batches"].inject(), _counted_batches(noted):
        sizes = {int(vars(cohorts)["poisson_mask"](RECORDS, receipt=receipt, who=WHO).sum()) for _ in range(20)}
    assert (sizes == {200}) == simulation
    assert len(noted) == (20 if simulation else 0)


@pytest.mark.parametrize(("source", "simulation"), SOURCES)
def test_clipping(source, simulation):
    with FAULTS["no-clipping"].inject():
        assert (moved(source(), clip=1e-3) > 2e-3) == simulation


@pytest.mark.parametrize(("source", "simulation"), SOURCES)
def test_redrawing(source, simulation):
    with FAULTS["redraw"].inject() as further:
        moved(source(), clip=1.0)
    assert len(further) == (REDRAWS - 1 if simulation else 0)
