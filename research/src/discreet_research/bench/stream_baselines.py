"""What a stream is compared with: one private batch at the end, and a batch that is not private.

    ObjectivePerturbation   every record is asked; one private model when all have come (the stream paper's Algorithm
                            1): `discreet_research.bench.objective_perturbation`
    batch_svm               the same without privacy: **not private**

The first pays nothing for asking: everybody is asked, whatever they are. What is not private says so in its name and
its repr.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.components import into_ball
from discreet.errors import BadInput
from discreet.stream.linear_model import Floats, float_array

NOT_PRIVATE = "NOT PRIVATE: fitted to the records themselves"


@dataclass(frozen=True, kw_only=True, eq=False)
class BaselineModel:
    """A linear model without an intercept, and what may be said of it. ``claim`` is in words, for every artefact."""

    name: str
    weights: Floats
    private: bool
    claim: str
    simulation: bool

    def predict_many(self, vectors: Any) -> NDArray[np.int64]:
        """1 or -1 for rows of vectors."""
        return np.where(np.asarray(vectors, dtype=np.float64) @ self.weights >= 0, 1, -1)

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<BaselineModel {self.name}: {self.claim}>"


def signed_rows(vectors: Any, labels: Any, *, records: int, features: int, radius: float) -> Floats:
    """y x for every slot: vectors in the ball, and zeros where there is no label of 1 or -1, or no record."""
    rows, signs = float_array(vectors), float_array(labels)
    if rows.ndim != 2 or rows.shape[1] != features or signs.shape != (len(rows),) or len(rows) > records:
        raise BadInput(
            "a batch to learn from",
            f"it is not at most {records} rows of {features} numbers with a label each",
            "Give (n, features) and (n,); a label that is missing is 0",
        )
    known = np.where(np.abs(signs) == 1, signs, 0.0)
    slots = np.zeros((records, features))
    slots[: len(rows)] = into_ball(rows, radius) * known[:, None]
    return slots


def batch_svm(vectors: Any, labels: Any, *, regularization: float, radius: float = 1.0) -> BaselineModel:
    """The support vector machine of all records at once: hinge loss, lambda/2 |w|^2. **Not private.**

    Records without a label of 1 or -1 are left out.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    count, width = len(vectors), np.shape(vectors)[-1]
    signed = signed_rows(vectors, labels, records=count, features=width, radius=radius)
    signs = np.asarray(labels, dtype=np.float64)
    labelled = np.abs(signs) == 1
    if not regularization > 0 or len(set(signs[labelled].tolist())) != 2:
        raise BadInput("a batch SVM", "lambda is not above 0, or a class has no record", "Give both classes")
    machine = LinearSVC(
        loss="hinge",
        C=1 / (regularization * int(labelled.sum())),
        fit_intercept=False,
        max_iter=20_000,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a model that is nearly the best is a baseline, too
        machine.fit(signed[labelled] * signs[labelled, None], signs[labelled])
    return BaselineModel(
        name="batch SVM",
        weights=np.asarray(machine.coef_[0], dtype=np.float64),
        private=False,
        claim=NOT_PRIVATE,
        simulation=False,
    )
