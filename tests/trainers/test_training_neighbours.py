"""The replay kit over the whole trainer: zeroing a unit changes the pre-noise sum, by at most C, and nothing else.

And it can fail: trainers with the mistakes others have made are caught.
"""

import numpy as np
import pytest
import torch
from torch import nn
from training_runs import FOR_PERSONS, blobs, phase_of

from discreet.models import build_model
from discreet.noise import gaussian
from discreet.testing import NotPrivate, check_neighbours
from discreet.trainers.dp_sgd import DPSGD, MISSING, CohortRecords, RandomShift, Settings, charge_training
from discreet.trainers.dp_sgd import trainer as trainer_module
from discreet.trainers.dp_sgd.gradients import RecordGradients

pytestmark = pytest.mark.thorough


def nulled(cohorts, label, rows):
    x, y = cohorts[label].x.copy(), cohorts[label].y.copy()
    x[rows] = 0
    y[rows] = MISSING if y.ndim == 1 else np.nan
    return cohorts | {label: CohortRecords(x=x, y=y, persons=cohorts[label].persons)}


def check(model, cohorts, phase, *, rows=((0,), (3,)), units=False, classes=3, **settings):
    task = settings.pop("task", "multiclass")

    def run(data, ledger):
        trainer = DPSGD(model, classes=classes, task=task, settings=Settings(**settings))
        made = trainer.train(phase=phase, cohorts=data, receipt=charge_training(ledger, phase))
        return [value.detach().numpy() for value in made.module.state_dict().values()]

    others = [nulled(cohorts, label, list(row)) for label in phase.labels for row in rows]
    if units:  # all records of the first and of the third person
        others = [
            nulled(cohorts, label, np.flatnonzero(cohorts[label].owners == one))
            for label in phase.labels
            for one in (0, 2)
        ]
    return check_neighbours(run, cohorts, neighbours=others, terms=FOR_PERSONS if units else None)


TWO = {"a": blobs(12), "b": blobs(9, seed=1)}
PHASE = phase_of({"a": 0.6, "b": 0.9}, steps=3)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"clip": 0.05, "micro_batch": 2},
        {"optimizer": "nadam", "ema": 0.9, "schedule": "cosine"},
        {"optimizer": "adamw", "adaptive_clip": 0.01},
        {"augment": lambda x, g: x + torch.randn(x.shape, generator=g), "views": 3},
        {"loss": lambda outputs, target: ((outputs - 1) ** 2).sum(dim=-1) * (target + 1)},
    ],
    ids=["plain", "small", "nadam-ema", "adamw-agc", "views", "own-loss"],
)
def test_the_trainer_is_private(linear, settings):
    report = check(linear, TWO, PHASE, **settings)
    assert report.releases == 3 * (2 + 1 + 1)  # masks, seed, noise


def test_dropout_and_pictures():
    cnn = build_model("small_cnn", inputs=(1, 28, 28), classes=3, dropout=0.5)
    rng = np.random.default_rng(0)
    pictures = {"a": CohortRecords(x=rng.normal(size=(5, 1, 28, 28)).astype(np.float32), y=np.arange(5) % 3)}
    check(cnn, pictures, phase_of({"a": 0.8}, steps=2), rows=((0,),), augment=RandomShift(2), views=2)


def test_several_labels():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (10, 3)).astype(np.float32)
    y[rng.random((10, 3)) < 0.2] = np.nan
    cohorts = {"a": CohortRecords(x=rng.normal(size=(10, 5)).astype(np.float32), y=y)}
    check(nn.Linear(5, 3), cohorts, phase_of({"a": 0.7}), loss="multilabel-bce", task="multilabel")


@pytest.mark.parametrize("person_clip", ["each", "joint"])
def test_a_whole_person_is_one_unit(linear, person_clip):
    cohorts = {"a": blobs(20, person_size=4), "b": blobs(9, seed=1, person_size=3)}
    cohorts["b"] = CohortRecords(x=cohorts["b"].x, y=cohorts["b"].y, persons=np.char.add("b", cohorts["b"].persons))
    phase = phase_of({"a": 0.7, "b": 0.9}, steps=3, unit="person")
    for most in (1, 2, 5):
        settings = {"person_clip": person_clip, "records_per_person": most, "micro_batch": 3, "clip": 0.1}
        check(linear, {"a": cohorts["a"], "b": cohorts["b"]}, phase, rows=(), units=True, **settings)


def planted(monkeypatch, kind):
    """Mistakes seen in the field, planted into our trainer."""
    if kind == "no clipping":
        honest = RecordGradients.clipped_sum
        monkeypatch.setattr(RecordGradients, "clipped_sum", lambda self, *a, clip, **k: honest(self, *a, clip=1e9, **k))
    if kind == "normalised by the real batch":
        honest_sum = trainer_module._Step._sum

        def mean(self, sampled, seed):
            labelled = sum(int(self._usable[label][units].sum()) for label, units in sampled.items())
            return honest_sum(self, sampled, seed) * (8 / max(labelled, 1))

        monkeypatch.setattr(trainer_module._Step, "_sum", mean)
    if kind == "an empty batch is skipped":
        honest_take = trainer_module._Step.take

        def take(self, stage, receipt):
            if any(usable.any() for usable in self._usable.values()):
                honest_take(self, stage, receipt)
            else:
                self._state.done += 1

        monkeypatch.setattr(trainer_module._Step, "take", take)
    if kind == "noise scaled to the largest gradient":
        monkeypatch.setattr(
            trainer_module, "gaussian", lambda value, sensitivity, receipt: honest_gaussian(value, receipt)
        )

        def honest_gaussian(value, receipt):

            return gaussian(value, sensitivity=float(np.linalg.norm(value)) + 1e-3, receipt=receipt)

    if kind == "weights returned before the noise":
        monkeypatch.setattr(trainer_module, "gaussian", lambda value, sensitivity, receipt: _peek(value, receipt))

        def _peek(value, receipt):

            gaussian(value, sensitivity=1.0, receipt=receipt)
            return value


@pytest.mark.parametrize(
    ("kind", "finding"),
    [
        ("no clipping", "sensitivity"),
        ("normalised by the real batch", "sensitivity"),
        ("an empty batch is skipped", "control-flow"),
        ("noise scaled to the largest gradient", "parameter"),
        ("weights returned before the noise", "output"),
    ],
)
def test_planted_mistakes_are_found(monkeypatch, linear, kind, finding):
    planted(monkeypatch, kind)
    cohorts = {"a": blobs(6)}
    if kind == "an empty batch is skipped":
        cohorts = nulled(cohorts, "a", [1, 2, 3, 4, 5])
    with pytest.raises(NotPrivate) as caught:
        check(linear, cohorts, phase_of({"a": 1.0}, steps=2), rows=((0,),), clip=0.5)
    assert finding in {found.kind for found in caught.value.findings}
