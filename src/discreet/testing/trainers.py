"""The contract of a private trainer: nulls teach nothing, every step is paid for and taken, b is public.

    def test_my_trainer():
        check_trainer(lambda: MyTrainer(...), classes=3, width=5)

``make`` makes a trainer of records with ``width`` numbers and ``classes`` classes. It is given `CohortRecords` of two
cohorts, a phase of three steps and the receipts of `charge_training`, and trains under the replay kit:

- one record replaced by its null, either way, moves what is hidden by at most the declared sensitivity, no more;
- a record without a label, with a label that is no class, or that is not finite teaches exactly nothing;
- where all records are null it still takes every step, with the same noise;
- the noisy sum is divided by the phase's b: not by how many records there are, or were sampled, or have a label;
- without receipts, with spent ones, or with those of another phase it refuses; and it leaves the records as they were.

What it returns keeps the contract of predictors. Each check raises AssertionError (`NotPrivate`, where the kit found
something) with what does not hold.

A predictor has a contract of its own (`check_predictor(model, x, classes=3)`): probabilities of declared shape, the
same each time, of a record's own row. ``x``: some ten records that it takes. Rounding may depend on how many records
are computed at once, so a record alone is compared to ``tolerance``. A predictor without draws or embeddings leaves the
method out, or refuses in words (`DiscreetError`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from discreet.errors import BadInput, DiscreetError, ReceiptRefused
from discreet.noise import RecordingSource, ReplayingSource, Seeded, Source
from discreet.noise.replay_key import charge_training
from discreet.noise.sources import Call
from discreet.privacy.events import PoissonSampledGaussian
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.privacy.plan import TrainingPhase, TrainingStage
from discreet.roles import Trainer
from discreet.testing.comparison import same
from discreet.testing.neighbours import AMPLE, check_neighbours

Cohorts = Mapping[str, Any]
_STEPS, _BATCH = 3, 8
_SIZES = {"first": 8, "second": 5}


def check_trainer(make: Callable[[], Trainer], *, classes: int = 3, width: int = 5) -> None:
    """Raise AssertionError with the first thing that a trainer does wrong."""
    scene = _Scene(make, classes, width)
    _check_result(scene)
    _check_receipts(scene)
    _check_nulls(scene)
    _check_empty_and_public_batch(scene)
    _check_neighbours(scene)


class _Scene:
    """Made-up records of two cohorts, and one phase."""

    def __init__(self, make: Callable[[], Trainer], classes: int, width: int) -> None:
        self.make, self.classes, self.width = make, classes, width
        rng = np.random.default_rng(5)
        self.x = {label: rng.normal(size=(count, width)).astype(np.float32) for label, count in _SIZES.items()}
        self.y = {label: rng.integers(0, classes, count) for label, count in _SIZES.items()}
        self.x["first"][1] *= 1e6  # clipped, if anything is
        self.probe = rng.normal(size=(6, width)).astype(np.float32)

    def phase(self, *, batch: int = _BATCH, sigma: float = 1.0) -> TrainingPhase:
        """Three steps."""
        rates = {"first": 0.7, "second": 0.9}
        cohorts = tuple(
            (label, PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=sigma)) for label, rate in rates.items()
        )
        stage = TrainingStage(steps=_STEPS, cohorts=cohorts)
        return TrainingPhase(number=0, batch=batch, unit="record", stages=(stage,))

    def cohorts(self, change: Callable[[Any, Any], None] | None = None) -> Cohorts:
        """Copies; ``change(x, y)`` is made to the first cohort."""
        from discreet.trainers.dp_sgd.cohorts import CohortRecords

        arrays = {label: (self.x[label].copy(), self.y[label].copy()) for label in _SIZES}
        if change is not None:
            change(*arrays["first"])
        return {label: CohortRecords(x=x, y=y) for label, (x, y) in arrays.items()}

    def trained(self, cohorts: Cohorts, ledger: Ledger, **phase: Any) -> Any:
        """A predictor."""
        of = self.phase(**phase)
        return self.make().train(phase=of, cohorts=cohorts, start=None, receipt=charge_training(ledger, of))

    def said(self, cohorts: Cohorts, source: Source, **phase: Any) -> Any:
        """What the trained model says of public records."""
        return self.trained(cohorts, _ledger(source), **phase).predict_proba(self.probe)

    def recorded(self, cohorts: Cohorts) -> tuple[Any, RecordingSource]:
        """The same, and what went through the noise room."""
        source = RecordingSource(Seeded(1))
        return self.said(cohorts, source), source


def _ledger(source: Source) -> Ledger:
    return Ledger.create(MemorySink(), adaptive(AMPLE), source=source)


def _check_result(scene: _Scene) -> None:
    cohorts = scene.cohorts()
    copies = {label: (cohorts[label].x.copy(), cohorts[label].y.copy()) for label in _SIZES}
    check_predictor(scene.trained(cohorts, _ledger(Seeded(0))), scene.probe, classes=scene.classes)
    for label, (x, y) in copies.items():
        untouched = np.array_equal(cohorts[label].x, x, equal_nan=True) and np.array_equal(cohorts[label].y, y)
        assert untouched, "it writes into the records"


def _check_receipts(scene: _Scene) -> None:
    phase, cohorts = scene.phase(), scene.cohorts()
    ledger = _ledger(Seeded(0))
    spent = charge_training(ledger, phase)
    scene.make().train(phase=phase, cohorts=cohorts, start=None, receipt=spent)
    other = charge_training(_ledger(Seeded(0)), scene.phase(sigma=50.0))
    for receipts, why in ((spent, "spent receipts"), (other, "receipts of another phase"), ([], "no receipts")):
        try:
            scene.make().train(phase=phase, cohorts=cohorts, start=None, receipt=receipts)
        except (BadInput, ReceiptRefused):
            continue
        raise AssertionError(f"it trains on {why}")


def _check_nulls(scene: _Scene) -> None:
    """All forms of a record that teaches nothing hide the very same sums."""

    def unlabelled(x: Any, y: Any) -> None:
        x[0], y[0] = 0, -1

    def of_no_class(x: Any, y: Any) -> None:
        y[0] = scene.classes + 96

    def far_and_unlabelled(x: Any, y: Any) -> None:
        x[0], y[0] = 1e9, -1

    def not_finite(x: Any, y: Any) -> None:
        x[0, -1] = np.nan

    def infinite(x: Any, y: Any) -> None:
        x[0] = np.inf

    changes = (unlabelled, of_no_class, far_and_unlabelled, not_finite, infinite)
    inputs = [[call.inputs for call, _ in scene.recorded(scene.cohorts(alter))[1].tape.calls] for alter in changes]
    for change, sums in zip(changes, inputs, strict=True):
        words = change.__name__.replace("_", " ")
        assert same(sums, inputs[0]), f"a record that is {words} teaches something"


def _check_empty_and_public_batch(scene: _Scene) -> None:
    """With the outputs frozen, half of the records and none of them train the same model; another b, another one."""

    def half(x: Any, y: Any) -> None:
        x[::2], y[::2] = 0, -1

    expected, recording = scene.recorded(scene.cohorts())
    hidden = [call for call, _ in recording.tape.calls if call.inputs is not None]
    assert len(hidden) == _STEPS, "it does not hide one sum a step"
    for cohorts, whose in ((scene.cohorts(half), "half"), (_empty(scene), "all")):
        missing, replaying = f"without the labels of {whose} of the records", ReplayingSource(recording.tape)
        try:
            again = scene.said(cohorts, replaying)
        except Exception:  # noqa: BLE001 - an output that comes at another place fits nothing
            raise AssertionError(f"{missing} it takes other steps") from None
        steps = _facts([call for call, _ in recording.tape.calls])
        assert same(_facts(replaying.calls), steps), f"{missing} it takes other steps"
        assert same(again, expected), f"{missing} the same noise trains another model"
    double = scene.said(scene.cohorts(), ReplayingSource(recording.tape), batch=2 * _BATCH)
    assert not same(double, expected), "the batch of the phase changes nothing: sums are divided by something else"


def _facts(calls: Sequence[Call]) -> list[Any]:
    return [(call.mechanism, dict(call.parameters), call.sensitivity) for call in calls]


def _empty(scene: _Scene) -> Cohorts:
    from discreet.trainers.dp_sgd.cohorts import CohortRecords

    return {label: CohortRecords(x=np.zeros_like(x), y=np.full(len(x), -1)) for label, x in scene.x.items()}


def _check_neighbours(scene: _Scene) -> None:
    """A record among many, one that is clipped, and one that is the only one there is."""

    def nulled(*places: int) -> Callable[[Any, Any], None]:
        def change(x: Any, y: Any) -> None:
            for row in places:
                x[row], y[row] = 0, -1

        return change

    def mechanism(cohorts: Any, ledger: Ledger) -> Any:
        return scene.trained(cohorts, ledger).predict_proba(scene.probe)

    check_neighbours(mechanism, scene.cohorts(), neighbours=[scene.cohorts(nulled(index)) for index in (0, 1)])
    nobody = _empty(scene)
    alone = scene.cohorts(nulled(*range(1, _SIZES["first"])))
    check_neighbours(mechanism, {**nobody, "first": alone["first"]}, neighbours=[nobody])


_DRAWS = 3


def check_predictor(
    predictor: Any, x: Any, *, classes: int, several_labels: bool = False, tolerance: float = 1e-4
) -> None:
    """Raise AssertionError with the first thing that a predictor does wrong."""
    count = len(x)
    probabilities = predictor.predict_proba(x)
    _check_probabilities(probabilities, (count, classes), several_labels)
    assert np.array_equal(np.asarray(predictor.predict_proba(x)), probabilities), (
        "it says another thing the second time"
    )
    order = np.random.default_rng(0).permutation(count)
    moved = np.asarray(predictor.predict_proba(x[order]))
    assert np.allclose(moved, np.asarray(probabilities)[order], atol=tolerance), (
        "the order of records changes what it says"
    )
    alone = np.asarray(predictor.predict_proba(x[np.array([count - 1])]))
    assert np.allclose(alone[0], np.asarray(probabilities)[-1], atol=tolerance), "a record alone is predicted otherwise"
    if hasattr(predictor, "sample_proba"):
        _check_draws(predictor, x, (_DRAWS, count, classes), several_labels)
    if hasattr(predictor, "embed"):
        _check_embeddings(predictor, x, count)


def _check_probabilities(probabilities: Any, shape: tuple[int, ...], several_labels: bool) -> None:
    assert isinstance(probabilities, np.ndarray), "it does not give an array"
    assert probabilities.shape == shape, f"it does not give {shape}"
    assert np.isfinite(probabilities).all(), "a probability is no number"
    assert ((probabilities >= 0) & (probabilities <= 1)).all(), "a probability is not between 0 and 1"
    assert several_labels or np.allclose(probabilities.sum(axis=-1), 1, atol=1e-4), (
        "probabilities of a record do not sum to 1"
    )


def _check_draws(predictor: Any, x: Any, shape: tuple[int, ...], several_labels: bool) -> None:
    try:
        draws = predictor.sample_proba(x, _DRAWS)
    except DiscreetError:
        return
    _check_probabilities(draws, shape, several_labels)


def _check_embeddings(predictor: Any, x: Any, count: int) -> None:
    try:
        embeddings = np.asarray(predictor.embed(x))
    except DiscreetError:
        return
    assert embeddings.ndim == 2, "an embedding is not a row a record"
    assert len(embeddings) == count, "an embedding is not a row a record"
    assert np.isfinite(embeddings).all(), "an embedding is not finite"
