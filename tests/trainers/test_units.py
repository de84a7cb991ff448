"""Who is one unit: persons by name, at most m rows of each, clipped one by one or together."""

import numpy as np
import pytest
import torch
from torch import nn
from training_runs import AMPLE, FOR_PERSONS, blobs, clipped, phase_of, trained

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import Seeded
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.trainers.dp_sgd import DPSGD, MISSING, CohortRecords, Settings, charge_training

CLIP = 0.7
NAN = float("nan")


def cohort(persons, y=None):
    found = blobs(len(persons))
    return CohortRecords(x=found.x, y=found.y if y is None else y, persons=persons)


def gradient(model, records, row, clip=10**6):
    return clipped(model, torch.from_numpy(records.x[row]), torch.tensor(records.y[row]), clip).numpy()


@pytest.mark.parametrize(
    "persons",
    [
        np.array([NAN, 2.0, NAN, 0.0], dtype=object),
        np.array([1.0, 2.0, 1.0, NAN]),
        np.array(["a", None, "a", "b"], dtype=object),
        np.array(["1", 1, "1", 2], dtype=object),
        np.array([["a", "b"]] * 4),
        np.array([True, False, True, False]),
        [1.0, "1", "1", "2"],
        ["a", NAN, "b", "a"],
        [True, "1", 1, "1"],
        7,
    ],
    ids=["nan", "floats", "none", "mixed", "table", "bools", "list", "list-nan", "list-bools", "number"],
)
def test_names_that_could_split_a_person_are_refused(persons):
    with pytest.raises(BadInput, match="persons"):
        CohortRecords(x=np.zeros((4, 5)), y=np.zeros(4, int), persons=persons)


@pytest.mark.parametrize("kind", [int, str, object, np.uint64])
def test_a_person_has_one_name_whatever_its_type(kind):
    names = np.array([7, 3, 7, 10], dtype=kind) if kind is not object else np.array(["7", "3", "7", "10"], dtype=object)
    found = cohort(names)
    assert found.units == 3
    assert found.owners[0] == found.owners[2]


def test_a_person_in_two_cohorts_is_refused_by_any_name(linear):
    phase = phase_of({"a": 0.5, "b": 0.5}, unit="person")
    for other in (np.array([1, 9]), np.array(["1", "9"])):
        with pytest.raises(BadInput, match="two cohorts"):
            DPSGD(linear, classes=3).check(phase=phase, cohorts={"a": cohort(np.array([1, 2])), "b": cohort(other)})


def test_persons_must_be_named_where_they_are_protected(linear):
    with pytest.raises(BadInput, match="whose"):
        DPSGD(linear, classes=3).check(phase=phase_of({"a": 0.5}, unit="person"), cohorts={"a": blobs(4)})


def test_where_records_are_protected_persons_are_not_sampled(linear):
    run = trained(linear, {"a": cohort(np.array(["p", "p", "q", "p"]))}, phase_of({"a": 0.5}, steps=1))
    assert [len(mask) for mask in run.outputs("poisson-mask")] == [4]


def test_a_ledger_of_another_unit_is_refused(linear):
    records, persons = phase_of({"a": 0.5}), phase_of({"a": 0.5}, unit="person")
    for terms, phase in ((FOR_PERSONS, records), (AMPLE, persons)):
        ledger = Ledger.create(MemorySink(), terms, source=Seeded(0))
        receipts = charge_training(ledger, phase)
        with pytest.raises(ReceiptRefused, match="protects"):
            DPSGD(linear, classes=3).train(
                phase=phase, cohorts={"a": cohort(np.array(["p", "p", "q"]))}, receipt=receipts
            )


def test_together_a_persons_gradient_is_the_mean_of_the_rows_that_count(linear):
    persons = np.array(["p"] * 5 + ["q"])
    found = cohort(persons)
    y = found.y.copy()
    y[[1, 4]] = MISSING
    found = cohort(persons, y)
    settings = {"records_per_person": 5, "person_clip": "joint", "clip": CLIP}
    run = trained(linear, {"a": found}, phase_of({"a": 1.0}, steps=1, unit="person"), **settings)
    expected = 0
    for rows in ([0, 2, 3], [5]):
        mean = np.mean([gradient(linear, found, row) for row in rows], axis=0)
        expected = expected + mean * min(1, CLIP / np.linalg.norm(mean))
    np.testing.assert_allclose(run.inputs()[0], expected, rtol=1e-5, atol=1e-6)


def test_one_by_one_every_row_is_clipped_to_c_over_m_and_none_counts_twice(linear):
    found = cohort(np.array(["p", "p", "q"]))
    run = trained(linear, {"a": found}, phase_of({"a": 1.0}, steps=1, unit="person"), records_per_person=4, clip=CLIP)
    expected = sum(gradient(linear, found, row, CLIP / 4) for row in range(3))
    np.testing.assert_allclose(run.inputs()[0], expected, rtol=1e-5, atol=1e-6)


class Attendance(nn.Module):
    """Its gradient for record i is the i-th unit vector."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, 8))

    def forward(self, x):
        return x @ self.weight.T


def attendance(y, **settings):
    found = CohortRecords(x=np.eye(8, dtype=np.float32), y=y, persons=np.array(["p"] * 6 + ["q"] * 2))
    phase = phase_of({"a": 1.0}, steps=40, unit="person")
    run = trained(Attendance(), {"a": found}, phase, classes=1, loss=lambda out, _: out.sum(), **settings)
    return np.stack(run.inputs())


def test_rows_are_chosen_anew_in_every_step_and_evenly():
    taken = attendance(np.zeros(8, int), records_per_person=2, clip=2.0)
    assert set(taken.sum(axis=1)) == {4.0}
    assert (taken[:, :6].sum(axis=1) == 2).all()
    share = taken[:, :6].mean(axis=0)
    assert (abs(share - 1 / 3) < 0.35).all()
    assert len(np.unique(taken, axis=0)) > 5


def test_rows_without_a_label_take_no_places():
    y = np.zeros(8, int)
    y[:5] = MISSING
    taken = attendance(y, records_per_person=1, clip=1.0)
    assert (taken[:, :5] == 0).all()
    assert (taken[:, 5] == 1).all()


def test_a_column_of_class_numbers_is_a_list_and_minus_one_in_a_table_is_missing():
    column = CohortRecords(x=np.zeros((3, 2)), y=np.array([[0], [-1], [1]]))
    assert column.of_classes().y.tolist() == [0, MISSING, 1]
    for kind in (int, float):
        table = CohortRecords(x=np.zeros((2, 2)), y=np.array([[0, 1], [-1, -1]], dtype=kind))
        assert table.labelled(2).tolist() == [True, False]
    assert CohortRecords(x=np.zeros((0, 2)), y=np.zeros(0, int), persons=[]).units == 0


def test_one_label_in_a_column_is_learnt_as_a_label():
    found = blobs(200, classes=2)
    records = CohortRecords(x=found.x, y=found.y[:, None])
    for classes, task, loss in ((1, "multilabel", "multilabel-bce"), (2, "multiclass", "cross-entropy")):
        run = trained(
            nn.Linear(5, classes),
            {"a": records},
            phase_of({"a": 0.5}, steps=30, sigma=0.3, batch=100),
            classes=classes,
            task=task,
            loss=loss,
        )
        assert (run.predictor.predict(found.x).reshape(-1) == found.y).mean() > 0.9


def test_a_batch_of_zero_is_no_phase():
    with pytest.raises(BadInput, match="batch"):
        phase_of({"a": 0.5}, batch=0)


def test_settings_of_persons_have_bounds():
    with pytest.raises(BadInput):
        Settings(records_per_person=10**9)
