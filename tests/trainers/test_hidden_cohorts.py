"""Cohorts of hidden selections: padded to their slots, refused otherwise, and nothing tells how many were asked."""

import numpy as np
import pytest
from torch import nn
from training_runs import blobs

from discreet import plan
from discreet.errors import BadInput
from discreet.noise import RecordingSource, Seeded
from discreet.privacy.ledger import ChargeReason, Ledger, MemorySink, terms_of
from discreet.privacy.plan import TrainingPhase
from discreet.trainers.dp_sgd import DPSGD, MISSING, CohortRecords, Settings, charge_training, padded

PLAN = plan(
    epsilon=8,
    delta="1e-4",
    initial=120,
    queries=[60],
    batch=40,
    epochs=2,
    selection="hidden",
    threshold_epsilon="0.5",
    bins=4,
    accountant="rdp",
)
SLOTS = PLAN.selection.hidden.slots[0]


def test_padded_records_are_there_once_and_the_rest_are_nulls():
    records = blobs(30)
    made = padded(records, 50, where=Seeded(1))
    assert made.units == len(made) == 50
    filled = made.labelled(3)
    assert filled.sum() == 30
    assert (made.y[~filled] == MISSING).all()
    assert (made.rows(np.flatnonzero(~filled)) == 0).all()
    order = np.argsort(made.x[filled][:, 0])
    assert (made.x[filled][order] == records.x[np.argsort(records.x[:, 0])]).all()
    assert not filled[:30].all()  # in random places
    again, other = padded(records, 50, where=Seeded(1)), padded(records, 50, where=Seeded(2))
    assert (again.y == made.y).all()
    assert (other.y != made.y).any()


def test_places_of_the_others_have_the_same_law_without_a_record():
    """Over many draws every record is everywhere equally often, and a null is where a record would be."""
    counts = np.zeros(6)
    for seed in range(3000):
        made = padded(CohortRecords(x=np.ones((2, 1)), y=np.array([0, 1])), 6, where=Seeded(seed))
        counts[np.flatnonzero(made.y == 1)[0]] += 1
    assert abs(counts / 3000 - 1 / 6).max() < 0.04


def test_tables_of_labels_and_readers_are_padded_too(tmp_path):
    table = CohortRecords(x={"a": np.ones((3, 2)), "b": np.ones(3, dtype=np.int64)}, y=np.array([[1, 0]] * 3))
    made = padded(table, 5, where=Seeded(0))
    assert np.isnan(made.y).all(axis=1).sum() == 2
    assert made.labelled(2).sum() == 3
    rows = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(3, 2))
    rows[:] = [[1, 1], [2, 2], [3, 3]]
    lazy = padded(CohortRecords(x=rows, y=np.array([0, 1, 2])), 7, where=Seeded(3))
    found, readable = lazy.readable_rows(np.arange(7))
    assert readable.all()
    for place in range(7):
        expected = 0 if lazy.y[place] == MISSING else lazy.y[place] + 1
        assert (found[place] == expected).all()
    empty = padded(CohortRecords(x=rows[:0], y=np.zeros(0, dtype=np.int64)), 4, where=Seeded(3))
    assert (empty.rows(np.arange(4)) == 0).all()


def test_more_than_the_slots_and_persons_are_refused():
    with pytest.raises(BadInput, match="more records than slots"):
        padded(blobs(30), 29, where=Seeded(0))
    owned = CohortRecords(x=np.ones((2, 1)), y=np.array([0, 1]), persons=["a", "b"])
    with pytest.raises(BadInput, match="for records"):
        padded(owned, 29, where=Seeded(0))


def test_a_cohort_that_is_not_padded_is_refused_and_its_size_is_not_told():
    trainer, phase = DPSGD(nn.Linear(5, 3), classes=3), TrainingPhase.of(PLAN, 1)
    for count in (60, 61, SLOTS - 1):
        with pytest.raises(BadInput, match="not padded to its") as refused:
            trainer.check(phase=phase, cohorts={"initial": blobs(120), "phase-1": blobs(count)})
        assert str(count) not in str(refused.value)
    trainer.check(phase=phase, cohorts={"initial": blobs(120), "phase-1": padded(blobs(7), SLOTS, where=Seeded(0))})


def test_the_scale_of_the_noise_does_not_tell_how_many_were_asked():
    few, many = _noise_of(5), _noise_of(SLOTS)
    assert few
    assert few == many


def _noise_of(count):
    """Parameters of every draw of a phase with ``count`` asked: sensitivities and numbers of slots are among them."""
    source = RecordingSource(Seeded(1))
    ledger = Ledger.create(MemorySink(), terms_of(PLAN), source=source)
    trainer = DPSGD(nn.Linear(5, 3), classes=3, settings=Settings(engine="reference"))
    (query,) = [line for line in ledger.terms.lines if line.who == "pool"]
    model, cohorts = None, {"initial": blobs(120)}
    for number in (0, 1):
        if number:
            paid = ledger.charge(event=query.event, who="pool", why=ChargeReason(phase=1, purpose="question"))
            cohorts["phase-1"] = padded(blobs(count, seed=1), SLOTS, where=paid)
        phase = TrainingPhase.of(PLAN, number)
        model = trainer.train(phase=phase, cohorts=cohorts, start=model, receipt=charge_training(ledger, phase))
    drawn = [(call.mechanism, call.sensitivity, dict(call.parameters)) for call, _ in source.tape.calls]
    assert len(drawn) > sum(phase.steps for phase in PLAN.phases)
    return drawn
