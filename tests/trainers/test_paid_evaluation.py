"""Evaluation: free on public records, paid for on private ones, which have a trajectory of their own."""

from decimal import Decimal

import numpy as np
import pytest
from training_runs import AMPLE, FOR_PERSONS

from discreet import plan
from discreet.errors import BadInput, BudgetExceeded, ReceiptRefused
from discreet.noise import Seeded
from discreet.privacy.certificate import certify
from discreet.privacy.events import Laplace, ThresholdResponse
from discreet.privacy.ledger import ChargeReason, Ledger, MemorySink, terms_of
from discreet.privacy.plan import TrainingPhase
from discreet.testing import check_neighbours
from discreet.trainers.dp_sgd import MISSING, CohortRecords, charge_training
from discreet.trainers.evaluation import evaluate_paid, evaluate_public, evaluation_event
from discreet.trainers.layouts import TABLES, Layout


def by_name(metrics, name):
    return next(metric for metric in metrics if metric.name == name)


class Sign:
    """Says class 1 where the first number is positive."""

    def predict_proba(self, x):
        return np.stack([x[:, 0] <= 0, x[:, 0] > 0], axis=1).astype(float)


class EveryLabel:
    """Says yes to every label whose number is positive."""

    def predict_proba(self, x):
        return (x > 0).astype(float)


def held_out(count=4000, wrong=0.2, seed=0, persons=None):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3))
    y = (x[:, 0] > 0).astype(int)
    y[: int(count * wrong)] ^= 1
    return CohortRecords(x=x, y=y, persons=persons)


def charged(event, seed=0):
    return Ledger.create(MemorySink(), AMPLE, source=Seeded(seed)).charge(event=event, who="held-out", why="evaluation")


def test_public_accuracy_is_the_share_of_right_answers():
    records = held_out()
    found = evaluate_public(Sign(), records.x, records.y, classes=2)
    assert found.accuracy == 0.8
    assert found.low < 0.8 < found.high
    assert found.high - found.low < 0.03
    assert (found.kind, found.epsilon) == ("public", 0)
    by_hand = [(np.arange(800, 4000)[records.y[800:] == k].size) / (records.y == k).sum() for k in (0, 1)]
    np.testing.assert_allclose([by_name(part, "recall").value for part in found.per_class], by_hand)


@pytest.mark.parametrize("table", ["accuracy", "confusion", "scores"])
def test_paid_accuracy_is_near_and_its_interval_covers_it(table):
    layout, covered = Layout(classes=2, table=table), 0
    event = evaluation_event(epsilon="0.5", layout=layout)
    for seed in range(40):
        receipt = charged(event, seed)
        found = evaluate_paid(Sign(), held_out(seed=seed), classes=2, receipt=receipt, layout=layout)
        assert abs(found.accuracy - 0.8) < 0.03
        covered += found.low <= 0.8 <= found.high
        assert found.simulation
        assert found.to_json()["epsilon"] == "0.5"
    assert covered >= 38


def test_the_interval_covers_much_noise_on_few_records():
    covered = widths = 0
    for seed in range(60):
        receipt = charged(evaluation_event(epsilon="0.05"), seed)
        layout = Layout(classes=2, table="accuracy")
        found = evaluate_paid(Sign(), held_out(count=300, seed=seed), classes=2, receipt=receipt, layout=layout)
        covered += found.low <= 0.8 <= found.high
        widths += found.high - found.low
    assert covered >= 56
    assert widths / 60 > 0.3  # noise of scale 20 in each cell of 300


def test_missing_labels_are_in_no_cell_and_a_broken_predictor_tells_nothing():
    records = held_out(count=1000, wrong=0.5)
    y = records.y.copy()
    y[:500] = MISSING
    found = evaluate_paid(
        Sign(), CohortRecords(x=records.x, y=y), classes=2, receipt=charged(evaluation_event(epsilon=2))
    )
    assert found.accuracy > 0.93

    class Tells:
        def predict_proba(self, x):
            raise ValueError(f"secret {x}")

    with pytest.raises(BadInput, match="ValueError") as caught:
        evaluate_paid(Tells(), records, classes=2, receipt=charged(evaluation_event(epsilon=2)))
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_labels_that_are_no_classes_are_in_no_cell_and_in_no_error():
    records = held_out(count=300, wrong=0.0)
    for odd in (7.0, -2.0, 0.5, np.nan, np.inf):
        y = records.y.astype(float)
        y[:5] = odd
        for table in TABLES:
            receipt = charged(evaluation_event(epsilon=50))
            layout = Layout(classes=2, table=table)
            found = evaluate_paid(Sign(), CohortRecords(x=records.x, y=y), classes=2, receipt=receipt, layout=layout)
            assert found.accuracy > 0.97


def test_an_interval_of_few_records_is_wide():
    found = evaluate_public(Sign(), np.ones((5, 3)), np.ones(5, int), classes=2)
    assert (found.accuracy, found.high) == (1.0, 1.0)
    assert found.low < 0.6


def test_labels_that_go_together_are_not_many_records():
    """14 labels of one record that are right or wrong together: the interval is that of the records."""
    covered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(200, 1)).repeat(14, axis=1)
        y = np.where(rng.random((200, 1)) < 0.2, x <= 0, x > 0).astype(np.float32)
        found = evaluate_public(EveryLabel(), x, y, classes=14)
        covered += found.low <= 0.8 <= found.high
    assert covered >= 54


def test_a_record_the_predictor_fails_on_is_in_no_cell():
    class Picky(Sign):
        def predict_proba(self, x):
            if (x > 90).any():
                raise ValueError("secret")
            return super().predict_proba(x)

    records = held_out(count=300, wrong=0.0)
    x = records.x.copy()
    x[:3] = 99.0

    def run(data, ledger):
        receipt = ledger.charge(event=evaluation_event(epsilon=50), who="held-out", why="evaluation")
        return evaluate_paid(Picky(), data, classes=2, receipt=receipt)

    y = records.y.copy()
    y[1] = MISSING
    check_neighbours(run, CohortRecords(x=x, y=records.y), neighbours=[CohortRecords(x=x, y=y)])
    receipt = charged(evaluation_event(epsilon=50))
    assert evaluate_paid(Picky(), CohortRecords(x=x, y=records.y), classes=2, receipt=receipt).accuracy > 0.97


def test_a_record_the_predictor_fails_on_moves_no_other():
    """Alone, records are rounded otherwise than together: one that fails must not make all others be read alone."""

    class Rounding(Sign):
        def predict_proba(self, x):
            if (x > 90).any():
                raise ValueError("secret")
            chance = np.where(x[:, 0] > 0, 0.5 + (1e-9 if len(x) > 1 else -1e-9), 0.1)
            return np.stack([1 - chance, chance], axis=1)

    records, layout = held_out(count=60, wrong=0.0), Layout(classes=2)
    x, null, y = records.x.copy(), records.x.copy(), records.y.copy()
    x[7], null[7], y[7] = 99.0, 0.0, MISSING

    def run(data, ledger):
        receipt = ledger.charge(event=evaluation_event(epsilon=1, layout=layout), who="held-out", why="evaluation")
        return evaluate_paid(Rounding(), data, classes=2, receipt=receipt, layout=layout)

    check_neighbours(run, CohortRecords(x=x, y=records.y), neighbours=[CohortRecords(x=null, y=y)])


def test_several_labels_cost_several_cells():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 3))
    y = (x > 0).astype(np.float32)
    y[:, 2] = 1 - y[:, 2]
    y[:100, 0] = np.nan
    records = CohortRecords(x=x, y=y)
    free = evaluate_public(EveryLabel(), x, y, classes=3)
    assert [by_name(part, "accuracy").value for part in free.per_class] == [1.0, 1.0, 0.0]
    for table in ("accuracy", "scores"):
        layout = Layout(classes=3, multilabel=True, table=table)
        event = evaluation_event(epsilon=3, layout=layout)
        assert event.sensitivity == 3
        found = evaluate_paid(EveryLabel(), records, classes=3, receipt=charged(event), layout=layout)
        parts = [by_name(part, "accuracy").value for part in found.per_class]
        np.testing.assert_allclose(parts, (1, 1, 0), atol=0.02)
    with pytest.raises(BadInput, match="charged"):
        evaluate_paid(EveryLabel(), records, classes=3, receipt=charged(evaluation_event(epsilon=3)))


class Soft:
    """Probabilities of ``classes`` from as many numbers; NaN for a record with a huge number, or infinity."""

    def predict_proba(self, x):
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        powers[np.abs(x).max(axis=1) > 90] = np.nan
        predicted = powers / powers.sum(axis=1, keepdims=True)
        predicted[np.abs(x).max(axis=1) > 95, -1] = np.inf
        return predicted


LAYOUTS = {
    "right or wrong": Layout(classes=3, table="accuracy"),
    "binary scores": Layout(classes=2),
    "binary scores at a threshold": Layout(classes=2, threshold=0.3, edges=(0.2, 0.8)),
    "binary confusion by group": Layout(classes=2, table="confusion", groups=("a", "b")),
    "binary scores by group": Layout(classes=2, groups=("a", "b")),
    "confusion": Layout(classes=3),
    "scores of three classes": Layout(classes=3, table="scores"),
    "scores of three classes by group": Layout(classes=3, table="scores", groups=("a", "b")),
    "labels": Layout(classes=3, multilabel=True),
    "labels, right or wrong": Layout(classes=3, multilabel=True, table="accuracy"),
    "labels by group": Layout(classes=3, multilabel=True, groups=("a", "b")),
}


@pytest.mark.parametrize("persons", [None, 4])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_kit_finds_nothing(layout, persons):
    """Neighbours change the histogram by at most the sensitivity that was charged for, in every layout."""
    most, rng = 1 if persons is None else 2, np.random.default_rng(1)
    names = None if persons is None else np.array([f"p{i // persons}" for i in range(40)])
    x, groups = rng.normal(size=(40, layout.classes)), rng.integers(-1, 2, 40)
    y = (x > 0).astype(np.float32) if layout.multilabel else rng.integers(0, layout.classes, 40)
    x[3], x[7] = 92.0, 99.0
    records = CohortRecords(x=x, y=y, persons=names)

    def run(data, ledger):
        event = evaluation_event(epsilon=1, layout=layout, records_per_person=most)
        receipt = ledger.charge(event=event, who="held-out", why="evaluation")
        return evaluate_paid(
            Soft(),
            data,
            classes=layout.classes,
            receipt=receipt,
            layout=layout,
            groups=groups if layout.groups else None,
            records_per_person=most,
        )

    others = []
    for unit in (0, 5, records.units - 1):
        null, missing = records.x.copy(), records.y.copy()
        null[records.owners == unit], missing[records.owners == unit] = 0, MISSING
        others.append(CohortRecords(x=null, y=missing, persons=names))
    terms = None if persons is None else FOR_PERSONS
    assert check_neighbours(run, records, neighbours=others, terms=terms).releases == 1


def test_the_kit_sees_a_layout_that_understates_its_sensitivity(monkeypatch):
    """The power of the test above: labels that are charged for as one are found."""
    monkeypatch.setattr(Layout, "sensitivity", 1)
    with pytest.raises(AssertionError):
        test_the_kit_finds_nothing(LAYOUTS["labels"], None)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_one_record_is_in_as_many_cells_as_it_pays_for(layout):
    rng = np.random.default_rng(2)
    for _ in range(20):
        predicted = Soft().predict_proba(rng.normal(size=(1, layout.classes)))
        truth = np.ones((1, layout.classes)) if layout.multilabel else rng.integers(0, layout.classes, 1)
        cells = layout.count(predicted, truth, np.array([1]))
        assert cells.sum() == layout.sensitivity
        assert layout.count(predicted[:0], truth[:0], np.zeros(0, int)).sum() == 0


def test_a_plan_pays_for_one_evaluation_a_phase_on_a_path_of_its_own():
    made = plan(
        epsilon=4, delta="1e-4", initial=200, queries=[100], batch=50, epochs=2, accountant="rdp", selection_epsilon=1
    )
    event = evaluation_event(epsilon="0.25")
    terms = terms_of(made, held_out=event)
    ledger = Ledger.create(MemorySink(), terms, source=Seeded(0))
    for number in range(2):
        if number:
            response = next(line.event for line in terms.lines if isinstance(line.event, ThresholdResponse))
            ledger.charge(event=response, who="pool", why=ChargeReason(phase=1, purpose="question"))
        charge_training(ledger, TrainingPhase.of(made, number))
        receipt = ledger.charge(event=event, who="held-out", why=ChargeReason(phase=number, purpose="evaluation"))
        evaluate_paid(Sign(), held_out(), classes=2, receipt=receipt)
        with pytest.raises(ReceiptRefused, match="spent"):
            evaluate_paid(Sign(), held_out(), classes=2, receipt=receipt)
    assert Decimal("0.49") < ledger.total("held-out").epsilon <= Decimal("0.5")
    assert ledger.total("initial").entries == 2  # training alone
    with pytest.raises(BudgetExceeded):
        ledger.charge(event=event, who="held-out", why=ChargeReason(phase=1, purpose="evaluation"))
    paths = {path["name"]: path for path in certify(ledger)["trajectories"]}
    assert 0.49 < paths["held-out"]["epsilon_rdp"] <= 0.5


def test_a_predictor_of_another_shape_tells_no_count():
    records = held_out(count=50)
    y = records.y.copy()
    y[:13] = MISSING
    for wrong in (EveryLabel(), type("Flat", (), {"predict_proba": lambda self, x: np.zeros(len(x))})()):
        with pytest.raises(BadInput, match="50") as caught:
            evaluate_paid(
                wrong, CohortRecords(x=records.x, y=y), classes=2, receipt=charged(evaluation_event(epsilon=1))
            )
        assert "37" not in str(caught.value)


def test_where_persons_are_protected_they_must_be_named():
    ledger = Ledger.create(MemorySink(), FOR_PERSONS, source=Seeded(0))
    receipt = ledger.charge(event=evaluation_event(epsilon=1), who="held-out", why="evaluation")
    with pytest.raises(BadInput, match="whose"):
        evaluate_paid(Sign(), held_out(), classes=2, receipt=receipt)
    with pytest.raises(ReceiptRefused):
        evaluate_paid(Sign(), held_out(), classes=2, receipt=None)


def test_a_receipt_for_something_else_is_refused():
    with pytest.raises(BadInput, match="charged"):
        evaluate_paid(Sign(), held_out(), classes=2, receipt=charged(Laplace(epsilon=1)))
    with pytest.raises(BadInput, match="whose"):
        evaluate_paid(
            Sign(),
            held_out(),
            classes=2,
            receipt=charged(evaluation_event(epsilon=1, records_per_person=2)),
            records_per_person=2,
        )
