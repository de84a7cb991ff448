"""How good is the model? ``public``: on public records, free. ``paid``: on private ones kept apart, for a price.
``none``: not asked.

Paid: held-out records are never asked and never trained, so they have a trajectory of their own, `held-out`
(`terms_of(plan, held_out=...)`). What leaves is one histogram with discrete Laplace noise: how many labelled records
were right and how many wrong, for every true class if wanted. A record is in one cell (in one a label, where there are
L labels), its null in none, so one histogram has sensitivity 1 (L; m times that for persons with m records).

Accuracy is right / (right + wrong), clipped to [0, 1]: post-processing. Its interval covers both the noise and the
records being a sample.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import discrete_laplace
from discreet.privacy.budget import Number
from discreet.privacy.events import DiscreteLaplace
from discreet.privacy.ledger import Receipt
from discreet.roles import Predictor
from discreet.trainers.accuracy import Evaluation, count_cells, evaluation_of
from discreet.trainers.dp_sgd.checks import hushed, in_full
from discreet.trainers.dp_sgd.cohorts import CohortRecords, slots_of
from discreet.trainers.tensors import row_of


def evaluation_event(*, epsilon: Number, labels: int = 1, records_per_person: int = 1) -> DiscreteLaplace:
    """What one paid evaluation costs a held-out unit: ``epsilon``, whatever the number of classes.

    ``labels``: how many labels a record has (1, if it is of one class).
    """
    if any(type(count) is not int or count < 1 for count in (labels, records_per_person)):
        raise BadInput("a paid evaluation", "labels and records a person are whole numbers from 1", "Count again")
    return DiscreteLaplace(epsilon=epsilon, sensitivity=labels * records_per_person)


def evaluate_public(predictor: Predictor, x: Any, y: Any, *, classes: int) -> Evaluation:
    """On public records: nothing is charged, nothing hidden."""
    records = CohortRecords(x=x, y=y).of_classes(classes)
    with in_full("the predictor", "Give records as it takes them"):
        predicted = predictor.predict_proba(records.rows(np.arange(len(records))))
    counts = _histogram(predicted, records, np.arange(len(records)), classes, by_class=True)
    each = records.y.shape[1] if records.y.ndim == 2 else 1
    return evaluation_of("public", counts, noise=0.0, each=each, epsilon=Decimal(0), simulation=False)


def evaluate_paid(
    predictor: Predictor,
    records: CohortRecords,
    *,
    classes: int,
    receipt: Receipt,
    who: str | None = None,
    by_class: bool = False,
    records_per_person: int = 1,
) -> Evaluation:
    """On held-out private records, for what ``receipt`` was charged (`evaluation_event`).

    ``by_class`` shows every class, and adds noise in as many places. A person's records beyond ``records_per_person``
    are left out, the first ones kept.
    """
    if type(receipt) is not Receipt:
        raise ReceiptRefused("a paid evaluation", "there is no receipt for it", "Charge evaluation_event first")
    if receipt.unit == "person" and records.persons is None:
        raise BadInput("a paid evaluation", "the ledger protects persons, and nothing says whose records these are",
                       "Give the cohort persons")  # fmt: skip
    records = records.of_classes(classes)
    event = receipt.charge_of(who).event
    labels = records.y.shape[1] if records.y.ndim == 2 else 1
    if not isinstance(event, DiscreteLaplace) or event.sensitivity != labels * records_per_person:
        raise BadInput(
            "a paid evaluation",
            f"{labels} labels and {records_per_person} records a person were not what was charged for",
            "Charge evaluation_event with the same numbers",
        )
    rows = np.arange(len(records))
    if records.persons is not None:
        everyone, usable = np.arange(records.units), np.ones(len(records), dtype=bool)
        order = np.arange(len(records), dtype=np.float64)
        slots, filled = slots_of(records, everyone, usable, records_per_person, order)
        rows = np.sort(slots[filled])
    elif records_per_person != 1:
        raise BadInput("records_per_person", "nothing says whose records they are", "Give the cohort persons")
    predicted = _predicted(predictor, records, rows)
    counts = _histogram(predicted, records, rows, classes, by_class=by_class)
    noisy = discrete_laplace(counts, receipt=receipt, who=who)
    return evaluation_of(
        "paid",
        noisy,
        noise=event.sensitivity / float(event.epsilon),
        each=event.sensitivity,
        epsilon=event.epsilon,
        simulation=receipt.simulation,
    )


def _predicted(predictor: Predictor, records: CohortRecords, rows: NDArray[Any]) -> Any:
    """What is said of every record; NaN of one that cannot be read or that the predictor fails on, which counts
    nowhere. Where it fails on all of them it is not a record that is broken, and that is said.
    """
    read, readable = records.readable_rows(rows)
    try:
        with hushed("the predictor"):
            predicted = np.asarray(predictor.predict_proba(read), dtype=np.float64)
    except BadInput:
        each = [_alone(predictor, row_of(read, index)) for index in range(len(rows))]
        width = next((len(row) for row in each if row is not None), None)
        if width is None:
            raise
        predicted = np.array([row if row is not None and len(row) == width else np.full(width, np.nan) for row in each])
    if predicted.shape[:1] == readable.shape:
        predicted[~readable] = np.nan
    return predicted


def _alone(predictor: Predictor, row: Any) -> NDArray[Any] | None:
    try:
        with hushed("the predictor"):
            predicted: NDArray[Any] = np.asarray(predictor.predict_proba(row), dtype=np.float64)[0]
    except (BadInput, IndexError):
        return None
    return predicted


def _histogram(
    predicted: Any, records: CohortRecords, rows: NDArray[Any], classes: int, *, by_class: bool
) -> NDArray[np.int64]:
    """Cells (part, wrong | right): a part is a true class, a label, or everything."""
    usable = records.labelled(classes)[rows]
    if records.y.ndim == 1:  # class numbers that came as floats are looked at like all others
        with np.errstate(invalid="ignore"):
            numbers = np.nan_to_num(records.y[rows].astype(np.float64), nan=-1.0, posinf=-1.0, neginf=-1.0)
        usable &= (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < classes)
    predicted = np.asarray(predicted)
    wanted = (len(rows), records.y.shape[1] if records.y.ndim == 2 else classes)
    if predicted.shape != wanted:
        raise BadInput(
            "an evaluation", f"the predictor gives {predicted.shape}, not {wanted}", "Check classes and labels"
        )
    usable &= ~np.isnan(predicted).any(axis=1)
    predicted = predicted[usable]
    truth = records.y[rows[usable]]
    if truth.ndim == 2:
        known, right = ~np.isnan(truth.astype(np.float64)), (predicted > 0.5) == (truth > 0.5)
        wrong_right = [(known & ~right).sum(axis=0), (known & right).sum(axis=0)]
        return np.stack(wrong_right, axis=1).astype(np.int64)
    parts = truth.astype(np.int64) if by_class else np.zeros(len(truth), dtype=np.int64)
    return count_cells(parts, predicted.argmax(axis=1) == truth, classes if by_class else 1)
