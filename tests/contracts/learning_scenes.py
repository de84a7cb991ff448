"""Small runs of what learns, for the replay kit: a private search, DP-SGD, a stream."""

from contextlib import nullcontext
from functools import cache
from unittest import mock

import numpy as np
from scene import Scene

from discreet import Budget, DPClassifier
from discreet.privacy.ledger import MemorySink

# -- tuning

LUCK = np.random.default_rng(3)
Y = LUCK.integers(0, 2, 24)
X = LUCK.normal(size=(24, 3)) + 3 * Y[:, None]


def searching():
    from discreet.tuning.searching import _Search

    estimator = DPClassifier(epsilon=8, delta="1e-3", classes=[0, 1], batch=8, epochs=1, simulation_seed=4)
    return _Search(
        estimator,
        {"learning_rate": [0.1, 1.0]},
        X[:16],
        Y[:16],
        public=None,
        held_out=(X[16:], Y[16:]),
        persons=None,
        metric="accuracy",
    )


@cache
def search_price():
    from discreet.privacy.tuned import runs_of

    return searching().priced(runs_of(mean=2, eta=1, law="negative-binomial"))


def searched(rows, ledger):
    from discreet.tuning.searching import _Search

    estimator = DPClassifier(epsilon=8, delta="1e-3", classes=[0, 1], batch=8, epochs=1, simulation_seed=4)
    search = _Search(
        estimator,
        {"learning_rate": [0.1, 1.0]},
        rows[:16],
        Y[:16],
        public=None,
        held_out=(rows[16:], Y[16:]),
        persons=None,
        metric="accuracy",
    )
    lent = MemorySink(), nullcontext(ledger)
    with mock.patch("discreet.tuning.searching.open_ledger", return_value=lent):
        found = search.done(search_price())
    return found.setting, found.score, found.classifier.predict_proba(X[:4])


def search_terms():
    from discreet.tuning.searching import _terms

    return _terms(search_price())


def nulled(place):
    rows = X.copy()
    rows[place] = np.nan
    return rows


# -- training


@cache
def trainer():
    import torch

    from discreet.trainers.dp_sgd import DPSGD, Settings

    torch.manual_seed(3)
    return DPSGD(torch.nn.Linear(3, 2), classes=2, settings=Settings(engine="auto"))


def cohort(place=None):
    from discreet.trainers.dp_sgd import CohortRecords

    trainer()  # sets a seed of torch's, which the kit would see
    x, y = (X * 5).astype(np.float32), Y.astype(np.int64)
    if place is not None:
        x[place], y = 0, np.where(np.arange(24) == place, -1, y)
    return CohortRecords(x=x, y=y)


def trained(records, ledger):
    from discreet.noise.replay_key import charge_training
    from discreet.privacy.events import PoissonSampledGaussian
    from discreet.privacy.plan import TrainingPhase, TrainingStage

    step = PoissonSampledGaussian(sampling_rate=0.8, noise_multiplier=1.0)
    stage = TrainingStage(steps=2, cohorts=(("all", step),))
    phase = TrainingPhase(number=0, batch=16, unit="record", stages=(stage,))
    made = trainer().train(phase=phase, cohorts={"all": records}, receipt=charge_training(ledger, phase))
    return made.weights()


# -- a stream


def stream(**parts):
    """Records of length 1.5 in a ball of 1, so that each moves a sum as far as it can; labels come at once."""
    from discreet.stream import BernoulliAsking, GammaNoise, MiniBatch, StreamLearner, StreamSettings, stream_terms

    start = {"features": 2, "asking": BernoulliAsking(epsilon=1), "noise": GammaNoise(epsilon=1)}
    settings = StreamSettings(**(start | {"window": MiniBatch(2)} | parts))

    def mechanism(rows, ledger):
        learner = StreamLearner.of(settings, ledger=ledger)
        bits, models = [], []
        for place, (x, y) in enumerate(rows):
            bits.append(learner.ask(x, id=f"r{place}"))
            models.append(learner.model().weights)
            if bits[-1]:
                learner.learn_late(f"r{place}", y)
        learner.update()
        return bits, models, learner.model().weights

    rng = np.random.default_rng(8)
    x = rng.normal(size=(7, 2))
    x *= 1.5 / np.linalg.norm(x, axis=1)[:, None]
    rows = [(row, int(label)) for row, label in zip(x, rng.integers(len(settings.classes), size=7), strict=True)]
    return Scene(
        mechanism=mechanism,
        data=rows,
        null=(None, None),
        terms=lambda: stream_terms(
            Budget(epsilon=20, delta="1e-3"), asking=settings.asking, noise=settings.noise, drift=settings.drift
        ),
        modules=("stream.learner_state",),
        drawn_in=("stream.learner", "stream.loop"),
        most=2,
    )
