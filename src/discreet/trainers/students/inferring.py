"""Labels for records that were not asked about, by the student itself: free."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.trainers.students.asking import Pupil

SURE = 0.9
"""A record is learnt from by its own label where the model gives it this probability."""


def with_pseudo_labels(pupil: Pupil, model: Any, sure: float = SURE, there: Any | None = None) -> Any:
    """The model, trained once more with its own labels of unasked records (of those ``there``) that it is sure of."""
    rest = np.setdiff1d(np.arange(len(pupil.x)) if there is None else there, pupil.asked)
    if not len(rest):
        return model
    proba = probabilities(model, pupil.x[rest])
    clear = proba.max(axis=1) >= sure
    codes = np.asarray(model.classes_)[proba.argmax(axis=1)]
    pupil.inferred |= dict(zip(rest[clear].tolist(), codes[clear].tolist(), strict=True))
    return pupil.model()


def probabilities(model: Any, x: Any) -> NDArray[np.float64]:
    """Class probabilities; of a model that has scores only, their softmax."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(x), dtype=np.float64)
    scores = np.asarray(model.decision_function(x), dtype=np.float64)
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1) / 2
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))


def margins(model: Any, x: Any) -> NDArray[np.float64]:
    """The probability of the first class less that of the second: small where the model is torn."""
    proba = probabilities(model, x)
    if proba.shape[1] < 2:
        return np.zeros(len(proba))
    ordered = np.sort(proba, axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2])
