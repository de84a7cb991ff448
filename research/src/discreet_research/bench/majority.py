"""What always answering the largest class has on the records that an experiment measures on, beside its accuracies.

Rows of newer runs say it themselves. Committed rows of older runs do not; of their sets it is known from the public
test files. Where one class has most of these records, accuracy says little: balanced accuracy is shown, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.simulation.results import Row, Table
from discreet_research.bench.rows import grouped, half_interval

OF_TEST_FILES = {
    "adult": 12_435 / 16_281,
    "banking77": 40 / 3_080,
    "cifar10": 1_000 / 10_000,
    "clinc150": 30 / 4_500,
    "CLINC150 log": 3_123 / 5_000,
    "digits": 50 / 450,
    "fashion-mnist": 1_000 / 10_000,
    "kdd99": 7_991 / 10_000,
    "mnist-0-9": 1_009 / 1_989,
    "mnist": 1_135 / 10_000,
    "normal": 0.504,  # made up for each seed; the mean of five
    "pneumonia": 390 / 624,
    "the same": 3_123 / 5_000,
}
"""By how a problem's name begins; the longest fits."""


def largest_class(classes: NDArray[np.int64]) -> float:
    """The share of the largest class."""
    return float(np.unique(classes, return_counts=True)[1].max() / len(classes))


def majority_tables(rows: Sequence[Row]) -> list[Table]:
    """A line a problem; and of imbalanced ones whose rows tell it, balanced accuracies. None where none is measured."""
    measured = [row for row in rows if _accuracy(row) is not None]
    shares = {problem: _majority(problem, of_problem) for problem, of_problem in grouped(measured, "problem").items()}
    lines = tuple((problem, f"{100 * share:.1f}") for problem, share in shares.items() if share is not None)
    if not lines:
        return []
    columns = ("problem", "majority, %")
    note = "Of the records that models are measured on: an accuracy, or one less an error, says little below this."
    tables = [Table(title="Always the largest class", columns=columns, rows=lines, note=note)]
    for problem, share in shares.items():
        recalls = [row for row in measured if row["problem"] == problem and row.get("mean_recall") is not None]
        if recalls and (share or 0) > 0.5:
            tables.append(_balanced(problem, recalls))
    return tables


def _balanced(problem: str, rows: Sequence[Row]) -> Table:
    lines = []
    for method, of_method in grouped(rows, "method").items():
        last = max(row["phase"] for row in of_method)
        final = [row for row in of_method if row["phase"] == last]
        lines.append((method, *(half_interval(row[key] for row in final) for key in ("test_accuracy", "mean_recall"))))
    title = f"{problem}: balanced accuracy"
    return Table(title=title, columns=("method", "accuracy, %", "balanced accuracy, %"), rows=tuple(lines))


def _accuracy(row: Row) -> float | None:
    """Of a model; ``accuracy`` of a row with ``iou`` is that of a selection."""
    for column in ("test_accuracy", "error", *([] if "iou" in row else ["accuracy"])):
        if row.get(column) is not None:
            return float(row[column])
    return None


def _majority(problem: str, rows: Sequence[Row]) -> float | None:
    told = [row["majority"] for row in rows if row.get("majority") is not None]
    if told:
        return float(np.mean(told))
    names = [name for name in OF_TEST_FILES if problem.startswith(name)]
    return OF_TEST_FILES[max(names, key=len)] if names else None
