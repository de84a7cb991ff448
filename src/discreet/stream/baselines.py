"""What a stream is compared with: label everything, one private batch at the end, and a batch that is not private.

    label_everything        every record is asked, and teaches by private SGD (the stream paper's Algorithm 2)
    ObjectivePerturbation   every record is asked; one private model when all have come (Algorithm 1):
                            `discreet.stream.objective_perturbation`
    batch_svm               the same without privacy: **not private**

The first two pay nothing for asking: everybody is asked, whatever they are.

Guarantee: what is not private says so in its name, its repr and its stored form.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.components import into_ball
from discreet.errors import BadInput
from discreet.privacy.ledger import Ledger, Receipt
from discreet.stream.ask_rules import AskEverything
from discreet.stream.learner import StreamLearner
from discreet.stream.linear_model import Floats, float_array
from discreet.stream.optimizer import UpdateNoise
from discreet.stream.schedules import Immediate

FORMAT = "discreet.stream-baseline/1"
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

    @property
    def sha256(self) -> str:
        """Of its weights, to the bit."""
        return hashlib.sha256(self.weights.astype("<f8").tobytes()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Plain values. Audience: public, where it is private; otherwise the owner alone."""
        return {
            "format": FORMAT,
            "name": self.name,
            "private": self.private,
            "claim": self.claim,
            "simulation": self.simulation,
            "audience": "public" if self.private else "owner",
            "weights": self.weights.tolist(),
            "sha256": self.sha256,
        }

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


def label_everything(
    *, noise: UpdateNoise, receipt: Receipt | None = None, ledger: Ledger | None = None, **settings: Any
) -> StreamLearner:
    """A learner that asks every record, and learns from each at once unless ``window`` says otherwise.

    A record costs its one update: the price is the noise's event alone.
    """
    settings = {"window": Immediate()} | settings
    return StreamLearner(asking=AskEverything(), noise=noise, receipt=receipt, ledger=ledger, **settings)
