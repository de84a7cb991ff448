"""Small runs of the trainer on made-up records."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from discreet.noise import RecordingSource, Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.events import PoissonSampledGaussian
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.privacy.plan import TrainingPhase, TrainingStage
from discreet.trainers.dp_sgd import DPSGD, CohortRecords, Settings, charge_training

AMPLE = adaptive(Budget(epsilon=10**9, delta="1e-9"))
FOR_PERSONS = adaptive(Budget(epsilon=10**9, delta="1e-9", unit="person"))


def phase_of(rates, *, steps=4, sigma=1.0, batch=8, unit="record", number=0, stages=1):
    """A phase in which cohort ``label`` is sampled with ``rates[label]``."""
    cohorts = tuple((k, PoissonSampledGaussian(sampling_rate=q, noise_multiplier=sigma)) for k, q in rates.items())
    stage = TrainingStage(steps=steps, cohorts=cohorts)
    return TrainingPhase(number=number, batch=batch, unit=unit, stages=(stage,) * stages)


@dataclass
class Run:
    """A trained model and everything that went through the noise room."""

    predictor: Any
    calls: list[Any] = field(default_factory=list)

    def inputs(self, mechanism="gaussian"):
        return [call.inputs for call, _ in self.calls if call.mechanism == mechanism]

    def outputs(self, mechanism="gaussian"):
        return [output for call, output in self.calls if call.mechanism == mechanism]

    def weights(self):
        return torch.cat([value.detach().reshape(-1) for value in self.predictor.module.parameters()]).numpy()


def trained(model, cohorts, phase, *, classes=3, seed=0, **options):
    """Train in memory, recording every call. ``options`` beyond the trainer's own are settings."""
    own = {name: options.pop(name) for name in ("task", "checkpoints", "watch", "start") if name in options}
    start = own.pop("start", None)
    source = RecordingSource(Seeded(seed))
    ledger = Ledger.create(MemorySink(), FOR_PERSONS if phase.unit == "person" else AMPLE, source=source)
    trainer = DPSGD(model, classes=classes, settings=Settings(**options), **own)
    made = trainer.train(phase=phase, cohorts=cohorts, start=start, receipt=charge_training(ledger, phase))
    return Run(made, source.tape.calls)


def blobs(count, *, classes=3, width=5, seed=0, person_size=None):
    """Records that can be told apart."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, count)
    centres = np.random.default_rng(7).normal(size=(classes, width)) * 2
    x = (centres[y] + rng.normal(size=(count, width))).astype(np.float32)
    persons = None if person_size is None else np.array([f"p{i // person_size}" for i in range(count)])
    return CohortRecords(x=x, y=y, persons=persons)


def clipped(model, x, y, clip, loss=nn.functional.cross_entropy):
    """One record's clipped gradient by ordinary autograd, in double precision: the reference."""
    model.zero_grad()
    loss(model(x[None]), y[None]).backward()
    flat = torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.requires_grad]).double()
    return flat * min(1.0, clip / float(flat.norm()))
