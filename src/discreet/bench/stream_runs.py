"""One stream, learned to its end: what was asked, and how wrong the model was after every update.

Draws come from a seed, and every ledger is a simulation. Errors are on a test set, and are for the bench alone: on
private records they would have to be paid for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.bench.stream_methods import StreamMethod, StreamProblem
from discreet.noise import Seeded
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.stream import InverseStep, StreamLearner, StreamSettings
from discreet.stream.baselines import ObjectivePerturbation, batch_svm

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
GRID = 40
"""Points of an axis, but for 0."""
UNTAUGHT = 0.5
"""The error of a model that was not taught: a coin."""
_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True, repr=False)
class Part:
    """Records in the order they arrive, and those that errors are measured on; classes are 0 and 1."""

    x: Floats
    y: Integers
    test_x: Floats
    test_y: Integers


@dataclass(frozen=True, kw_only=True, repr=False)
class Run:
    """After each update: how many had arrived and been asked, and the error. The first entry is before any."""

    arrived: Integers
    asked: Integers
    errors: Floats
    asked_by_arrival: Integers

    def error_at_labels(self, labels: Any) -> Floats:
        """Straight lines between updates, as the paper draws them; nothing beyond the last."""
        return np.asarray(np.interp(labels, self.asked, self.errors, right=np.nan))

    def error_at_updates(self, updates: Any) -> Floats:
        """The same, by updates."""
        return np.asarray(np.interp(updates, np.arange(len(self.errors)), self.errors, right=np.nan))

    def mean_error(self, problem: StreamProblem) -> float:
        """Over the label axis, as far as the stream went; what lies beyond counts as the last error."""
        found = self.error_at_labels(axis(problem.labels))
        return float(np.mean(np.where(np.isnan(found), self.errors[-1], found)))


def axis(end: int) -> Floats:
    """Equal distances up to ``end``, without 0."""
    return np.linspace(0, end, GRID + 1)[1:]


def learned(
    problem: StreamProblem,
    method: StreamMethod,
    part: Part,
    *,
    step: float,
    regularization: float,
    seed: int,
    ledger: Ledger | None = None,
) -> Run:
    """Learn until the labels and the updates of the problem's axes are there, or the stream is over.

    ``ledger``: one that is drawn from the seed and has the stream in its terms; without one there is one of its own.
    """
    settings = _settings(method, part.x.shape[1], step, regularization)
    learner = (
        StreamLearner.simulated(settings, seed=seed) if ledger is None else StreamLearner.of(settings, ledger=ledger)
    )
    arrived, asked, models, bits = [0], [0], [np.zeros(part.x.shape[1])], []
    for vector, label in zip(part.x, part.y.tolist(), strict=True):
        bit = learner.ask(vector)
        bits.append(bit)
        if bit:
            learner.learn_one(vector, label)
        if learner.update():
            arrived.append(learner.arrived)
            asked.append(learner.asked)
            models.append(learner.model().weights)
            if learner.asked >= problem.labels and len(models) > problem.updates:
                break
    return Run(
        arrived=np.array(arrived),
        asked=np.array(asked),
        errors=_errors(np.array(models), part),
        asked_by_arrival=np.cumsum(bits),
    )


def _settings(method: StreamMethod, features: int, step: float, regularization: float) -> StreamSettings:
    return StreamSettings(
        features=features,
        asking=method.rule(),
        noise=method.noise(),
        slab=method.slab(),
        window=method.windows(),
        step=InverseStep(step),
        regularization=regularization,
        ball=method.ball,
    )


def _errors(models: Floats, part: Part) -> Floats:
    found = np.empty(len(models))
    for start in range(0, len(models), _AT_ONCE):
        scores = part.test_x @ models[start : start + _AT_ONCE].T
        found[start : start + _AT_ONCE] = ((scores >= 0) != (part.test_y[:, None] == 1)).mean(axis=0)
    found[0] = UNTAUGHT
    return found


def batch_error(method: StreamMethod, part: Part, labels: int, *, regularization: float, seed: int) -> float:
    """Of one private batch of the first ``labels`` records."""
    made = ObjectivePerturbation(
        features=part.x.shape[1], records=labels, epsilon=method.total, regularization=regularization
    )
    ledger = Ledger.create(MemorySink(), made.terms(), source=Seeded(seed))
    model = made.train(part.x[:labels], 2 * part.y[:labels] - 1, receipts=made.charge(ledger))
    return _wrong(model.predict_many(part.test_x), part)


def svm_error(part: Part, regularization: float) -> float:
    """Of the batch SVM of all records; **not private**."""
    model = batch_svm(part.x, 2 * part.y - 1, regularization=regularization)
    return _wrong(model.predict_many(part.test_x), part)


def _wrong(predicted: Integers, part: Part) -> float:
    return float((predicted != 2 * part.test_y - 1).mean())
