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
from discreet.privacy.training_phase import TrainingPhase
from discreet.testing import check_neighbours
from discreet.trainers.dp_sgd import MISSING, CohortRecords, charge_training
from discreet.trainers.evaluation import evaluate_paid, evaluate_public, evaluation_event


class Sign:
    """Says class 1 where the first number is positive."""

    def predict_proba(self, x):
        return np.stack([x[:, 0] <= 0, x[:, 0] > 0], axis=1).astype(float)


class EveryLabel:
    """Says yes to every label whose number is positive."""

    def predict_proba(self, x):
        return (x > 0).astype(float)


def held_out(count=4000, wrong=0.2, seed=0, persons=None):
    luck = np.random.default_rng(seed)
    x = luck.normal(size=(count, 3))
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
    np.testing.assert_allclose(found.parts, by_hand)


@pytest.mark.parametrize("by_class", [False, True])
def test_paid_accuracy_is_near_and_its_interval_covers_it(by_class):
    event, covered = evaluation_event(epsilon="0.5"), 0
    for seed in range(40):
        receipt = charged(event, seed)
        found = evaluate_paid(Sign(), held_out(seed=seed), classes=2, receipt=receipt, by_class=by_class)
        assert abs(found.accuracy - 0.8) < 0.02
        covered += found.low <= 0.8 <= found.high
        assert found.simulation
        assert found.to_json()["epsilon"] == "0.5"
    assert covered >= 38


def test_the_interval_covers_much_noise_on_few_records():
    covered = widths = 0
    for seed in range(60):
        receipt = charged(evaluation_event(epsilon="0.05"), seed)
        found = evaluate_paid(Sign(), held_out(count=300, seed=seed), classes=2, receipt=receipt)
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
    assert found.accuracy > 0.95

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
        for by_class in (False, True):
            receipt = charged(evaluation_event(epsilon=50))
            found = evaluate_paid(
                Sign(), CohortRecords(x=records.x, y=y), classes=2, receipt=receipt, by_class=by_class
            )
            assert found.accuracy > 0.97


def test_an_interval_of_few_records_is_wide():
    found = evaluate_public(Sign(), np.ones((5, 3)), np.ones(5, int), classes=2)
    assert (found.accuracy, found.high) == (1.0, 1.0)
    assert found.low < 0.6


def test_labels_that_go_together_are_not_many_records():
    """14 labels of one record that are right or wrong together: the interval is that of the records."""
    covered = 0
    for seed in range(60):
        luck = np.random.default_rng(seed)
        x = luck.normal(size=(200, 1)).repeat(14, axis=1)
        y = np.where(luck.random((200, 1)) < 0.2, x <= 0, x > 0).astype(np.float32)
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


def test_several_labels_cost_several_cells():
    luck = np.random.default_rng(0)
    x = luck.normal(size=(2000, 3))
    y = (x > 0).astype(np.float32)
    y[:, 2] = 1 - y[:, 2]
    y[:100, 0] = np.nan
    records = CohortRecords(x=x, y=y)
    free = evaluate_public(EveryLabel(), x, y, classes=3)
    assert free.parts == (1.0, 1.0, 0.0)
    found = evaluate_paid(EveryLabel(), records, classes=3, receipt=charged(evaluation_event(epsilon=3, labels=3)))
    np.testing.assert_allclose(found.parts, (1, 1, 0), atol=0.02)
    with pytest.raises(BadInput, match="charged"):
        evaluate_paid(EveryLabel(), records, classes=3, receipt=charged(evaluation_event(epsilon=3)))


@pytest.mark.parametrize("persons", [None, 4])
@pytest.mark.parametrize("by_class", [False, True])
def test_the_kit_finds_nothing(by_class, persons):
    most = 1 if persons is None else 2
    names = None if persons is None else np.array([f"p{i // persons}" for i in range(40)])
    records = held_out(count=40, persons=names)

    def run(data, ledger):
        receipt = ledger.charge(
            event=evaluation_event(epsilon=1, records_per_person=most), who="held-out", why="evaluation"
        )
        return evaluate_paid(Sign(), data, classes=2, receipt=receipt, by_class=by_class, records_per_person=most)

    others = []
    for unit in (0, 5, records.units - 1):
        x, y = records.x.copy(), records.y.copy()
        x[records.owners == unit], y[records.owners == unit] = 0, MISSING
        others.append(CohortRecords(x=x, y=y, persons=names))
    terms = None if persons is None else FOR_PERSONS
    assert check_neighbours(run, records, neighbours=others, terms=terms).releases == 1


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
