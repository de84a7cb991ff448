"""How good is the model? ``public``: on public records, free. ``paid``: on private ones kept apart, for a price.
``none``: not asked.

Paid: held-out records are never asked and never trained, so they have a trajectory of their own, `held-out`
(`terms_of(plan, held_out=...)`). What leaves is one table of counts with discrete Laplace noise, laid out by a
`Layout`. A record adds 1 to a fixed number of cells, its null to none: that number is the sensitivity (times m for
persons with m records). Every metric, interval and subgroup is computed from the noisy table: post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import discrete_laplace
from discreet.privacy.budget import Number
from discreet.privacy.events import DiscreteLaplace
from discreet.privacy.ledger import Receipt
from discreet.roles import Predictor
from discreet.trainers.accuracy import Evaluation
from discreet.trainers.dp_sgd.checks import hushed, in_full
from discreet.trainers.dp_sgd.cohorts import CohortRecords, slots_of
from discreet.trainers.layouts import Layout, measure
from discreet.trainers.metrics import Uncertainty
from discreet.trainers.tensors import row_of


def evaluation_event(*, epsilon: Number, layout: Layout | None = None, records_per_person: int = 1) -> DiscreteLaplace:
    """What one paid evaluation costs a held-out unit: ``epsilon``, whatever the number of classes.

    ``layout``: what is counted; None: a table in which a record is once (records of one class, no groups).
    """
    if type(records_per_person) is not int or records_per_person < 1:
        raise BadInput("a paid evaluation", "records a person are a whole number from 1", "Count again")
    sensitivity = 1 if layout is None else layout.sensitivity
    return DiscreteLaplace(epsilon=epsilon, sensitivity=sensitivity * records_per_person)


def evaluate_public(
    predictor: Predictor,
    x: Any,
    y: Any,
    *,
    classes: int,
    layout: Layout | None = None,
    groups: NDArray[np.int64] | None = None,
    records_per_person: int = 1,
) -> Evaluation:
    """On public records: nothing is charged, nothing hidden. All metrics, by every distinct score.

    ``layout`` declares edges, a threshold or groups; ``groups``: the number of each record's group, -1 for none.
    ``records_per_person`` widens the intervals: records of a person may go together.
    """
    records = CohortRecords(x=x, y=y).of_classes(classes)
    layout = _layout(layout, records, classes)
    with in_full("the predictor", "Give records as it takes them"):
        predicted = predictor.predict_proba(records.rows(np.arange(len(records))))
    predicted, places = _usable(predicted, records, np.arange(len(records)), classes)
    numbers = _groups(groups, records, layout)[places]
    return measure(predicted, records.y[places], layout, numbers, records_per_person=records_per_person)


def evaluate_paid(
    predictor: Predictor,
    records: CohortRecords,
    *,
    classes: int,
    receipt: Receipt,
    who: str | None = None,
    layout: Layout | None = None,
    groups: NDArray[np.int64] | None = None,
    records_per_person: int = 1,
) -> Evaluation:
    """On held-out private records, for what ``receipt`` was charged (`evaluation_event`).

    ``layout``: what is counted; ``groups``: the number of each record's group, -1 for none. A person's records beyond
    ``records_per_person`` are left out, the first ones kept.
    """
    if type(receipt) is not Receipt:
        raise ReceiptRefused("a paid evaluation", "there is no receipt for it", "Charge evaluation_event first")
    if receipt.unit == "person" and records.persons is None:
        raise BadInput("a paid evaluation", "the ledger protects persons, and nothing says whose records these are",
                       "Give the cohort persons")  # fmt: skip
    records = records.of_classes(classes)
    layout = _layout(layout, records, classes)
    event = receipt.charge_of(who).event
    if not isinstance(event, DiscreteLaplace) or event.sensitivity != layout.sensitivity * records_per_person:
        raise BadInput(
            "a paid evaluation",
            f"{layout.sensitivity} cells a record and {records_per_person} records a person were not charged for",
            "Charge evaluation_event with the same layout and records_per_person",
        )
    numbers = _groups(groups, records, layout)
    rows = np.arange(len(records))
    if records.persons is not None:
        everyone, usable = np.arange(records.units), np.ones(len(records), dtype=bool)
        order = np.arange(len(records), dtype=np.float64)
        slots, filled = slots_of(records, everyone, usable, records_per_person, order)
        rows = np.sort(slots[filled])
    elif records_per_person != 1:
        raise BadInput("records_per_person", "nothing says whose records they are", "Give the cohort persons")
    predicted, places = _usable(_predicted(predictor, records, rows), records, rows, classes)
    counts = layout.count(predicted, records.y[places], numbers[places])
    noisy = discrete_laplace(counts, receipt=receipt, who=who)
    return layout.evaluation(
        "paid",
        noisy,
        uncertainty=Uncertainty.of_laplace(event.sensitivity / float(event.epsilon), each=records_per_person),
        epsilon=event.epsilon,
        simulation=receipt.simulation,
    )


def _layout(layout: Layout | None, records: CohortRecords, classes: int) -> Layout:
    multilabel = records.y.ndim == 2
    layout = layout or Layout(classes=classes, multilabel=multilabel)
    if (layout.classes, layout.multilabel) != (classes, multilabel):
        raise BadInput("an evaluation", "its layout is for other classes or labels", "Declare the layout of this task")
    return layout


def _groups(groups: Any, records: CohortRecords, layout: Layout) -> NDArray[np.int64]:
    """A number for each record. What is no declared group is none, and no error: it may be private."""
    if layout.groups and groups is None:
        raise BadInput("an evaluation by group", "nothing says which record is in which", "Give groups")
    if groups is None:
        return np.full(len(records), -1, dtype=np.int64)
    numbers = np.asarray(groups)
    if numbers.shape != (len(records),) or numbers.dtype.kind not in "iu":
        raise BadInput("groups", "they are not a list of a whole number for each record", "Give -1 for no group")
    return np.where((numbers >= 0) & (numbers < len(layout.groups)), numbers, -1).astype(np.int64)


def _predicted(predictor: Predictor, records: CohortRecords, rows: NDArray[Any]) -> Any:
    """What is said of every record; NaN of one that cannot be read or that the predictor fails on, which counts
    nowhere. The others are predicted beside zeros in its place, bit for bit as beside its null. Where it fails on all
    of them it is not a record that is broken, and that is said.
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
        fails = np.array([row is None or len(row) != width for row in each])
        predicted = np.array([np.full(width, np.nan) if bad else row for row, bad in zip(each, fails, strict=True)])
        with suppress(BadInput), hushed("the predictor"):
            predicted = np.array(predictor.predict_proba(_blanked(read, fails)), dtype=np.float64)
        readable = readable & ~fails
    if predicted.shape[:1] == readable.shape:
        predicted[~readable] = np.nan
    return predicted


def _blanked(read: Any, rows: NDArray[np.bool_]) -> Any:
    """Records with zeros in some rows."""
    if isinstance(read, Mapping):
        return {name: _blanked(part, rows) for name, part in read.items()}
    return np.where(rows.reshape(-1, *(1 for _ in read.shape[1:])), np.zeros((), dtype=read.dtype), read)


def _alone(predictor: Predictor, row: Any) -> NDArray[Any] | None:
    try:
        with hushed("the predictor"):
            predicted: NDArray[Any] = np.asarray(predictor.predict_proba(row), dtype=np.float64)[0]
    except (BadInput, IndexError):
        return None
    return predicted


def _usable(
    predicted: Any, records: CohortRecords, rows: NDArray[Any], classes: int
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Probabilities of the records that have a label and a prediction, and the places of these records."""
    usable = records.labelled(classes)[rows]
    if records.y.ndim == 1:  # class numbers that came as floats are looked at like all others
        with np.errstate(invalid="ignore"):
            numbers = np.nan_to_num(records.y[rows].astype(np.float64), nan=-1.0, posinf=-1.0, neginf=-1.0)
        usable &= (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < classes)
    predicted = np.asarray(predicted, dtype=np.float64)
    wanted = (len(rows), records.y.shape[1] if records.y.ndim == 2 else classes)
    if predicted.shape != wanted:
        raise BadInput(
            "an evaluation", f"the predictor gives {predicted.shape}, not {wanted}", "Check classes and labels"
        )
    usable &= np.isfinite(predicted).all(axis=1)
    return predicted[usable], rows[usable]
