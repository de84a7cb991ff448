"""Record on a stream, replay on its neighbours: nothing but paid-for noise depends on one record."""

import numpy as np
import pytest
from stream_plants import CountsLabels, HalfReach, NullInside, TeachesTwice, WaitsForLabels

from discreet.privacy.budget import Budget
from discreet.stream import (
    AskEverything,
    BalancedSlab,
    BernoulliAsking,
    DriftWatch,
    ExponentialAsking,
    GammaNoise,
    GaussianNoise,
    MiniBatch,
    OneSidedAsking,
    ShrinkingSlab,
    SlidingWindow,
    StreamLearner,
    StreamSettings,
    stream_terms,
)
from discreet.testing.neighbours import NotPrivate, check_neighbours

pytestmark = pytest.mark.thorough

NULL = (None, None)
BUDGET = Budget(epsilon=20, delta="1e-3")


def data(classes=2, n=9):
    """Long records, so that each moves a sum as far as it can."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(n, 2))
    x *= 1.5 / np.linalg.norm(x, axis=1)[:, None]
    return [(row, int(label)) for row, label in zip(x, rng.integers(classes, size=n), strict=True)]


def streamed(settings, kind=StreamLearner, delay=0):
    """A mechanism for the kit: ask bits and all models. Labels come ``delay`` records late; a null has none."""

    def mechanism(rows, ledger):
        learner = kind.of(settings, ledger=ledger)
        bits, models, due = [], [], []
        for place, (x, y) in enumerate(rows):
            bits.append(learner.ask(x, id=f"r{place}"))
            models.append(learner.model().weights)
            if bits[-1]:
                due.append((place, y))
            while due and due[0][0] <= place - delay:
                told, label = due.pop(0)
                learner.learn_late(f"r{told}", label)
        learner.update()
        return bits, models, learner.model().weights, learner.version

    return mechanism


def check(settings, kind=StreamLearner, delay=0):
    terms = stream_terms(BUDGET, asking=settings.asking, noise=settings.noise, drift=settings.drift)
    rows = data(len(settings.classes))
    return check_neighbours(streamed(settings, kind, delay), rows, null=NULL, terms=terms, seed=3)


def made(**parts):
    start = {
        "features": 2,
        "asking": BernoulliAsking(epsilon=1),
        "noise": GammaNoise(epsilon=1),
        "window": MiniBatch(2),
    }
    return StreamSettings(**(start | parts))


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"asking": OneSidedAsking(asked=1, missed=2)},
        {"asking": ExponentialAsking(epsilon=1)},
        {"asking": AskEverything()},
        {"noise": GaussianNoise(noise_multiplier=2.0)},
        {"window": SlidingWindow(3)},
        {"loss": "logistic"},
        {"classes": 3},
        {"classes": 3, "loss": "multiclass-hinge"},
        {"slab": ShrinkingSlab()},
        {"slab": BalancedSlab(0.2, [0.9, 0.1])},
        {"drift": DriftWatch(epsilon=1, window=3, most=0.4)},
        {"radius": 0.5, "ball": 2.0, "regularization": 0.1},
    ],
)
def test_nothing_else_depends_on_a_record(parts, delay):
    report = check(made(**parts), delay=delay)
    assert report.charges == 1
    assert report.pairs == 9
    assert report.releases > 9


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (CountsLabels, "output"),
        (WaitsForLabels, "control-flow"),
        (HalfReach, "sensitivity"),
        (NullInside, "sensitivity"),
        (TeachesTwice, "sensitivity"),
    ],
)
def test_the_kit_finds_the_planted_mistake(plant, kind):
    with pytest.raises(NotPrivate) as found:  # falling chances: of two values, either would do for a null's
        check(made(asking=ExponentialAsking(epsilon=3), window=MiniBatch(2)), kind=plant)
    assert kind in {finding.kind for finding in found.value.findings}


def test_losses_reach_their_bound_in_the_kit():
    """The neighbours are worst cases: a record moves the sum by all of M, so a tighter bound would be found out."""
    from discreet.noise import RecordingSource, Seeded
    from discreet.privacy.ledger import Ledger, MemorySink

    settings = made(asking=AskEverything(), window=MiniBatch(1))
    terms = stream_terms(BUDGET, asking=settings.asking, noise=settings.noise)
    tape = RecordingSource(Seeded(1))
    streamed(settings)(data()[:3], Ledger.create(MemorySink(), terms, source=tape))
    sums = [call.inputs for call, _ in tape.tape.calls if call.mechanism == "stream-noise"]
    assert np.linalg.norm(sums[0]) == pytest.approx(1.0, abs=1e-6)
    assert np.linalg.norm(sums[0]) <= 1.0
