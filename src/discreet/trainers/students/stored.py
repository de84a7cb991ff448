"""A student as bytes, and back: arrays alone, no code.

    linear     weights of a logistic regression: predicting needs nothing else
    constant   one class
    lessons    of any other estimator: what it learnt from, public records and class numbers; it is fitted again when it
               is read, with the same seed

Guarantee: everything in it is public or was paid for: public records, released answers, and functions of them. Reading
runs no code but the estimator that the caller names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, InvalidCheckpoint
from discreet.pools.array_files import array_bytes, arrays_in
from discreet.trainers.students.student import Constant, Integers, probabilities, softmax_of
from discreet.trainers.teachers.fitting import fitted_quietly
from discreet.trainers.teachers.training import UNREADABLE

FORMAT = "discreet.student/1"


class LinearStudent:
    """A logistic regression as its weights."""

    def __init__(self, coef: NDArray[np.float64], intercept: NDArray[np.float64], classes: Integers, c: float) -> None:
        self.coef_, self.intercept_, self.classes_, self.C = coef, intercept, classes, c

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        """As scikit-learn's: of two classes a sigmoid, of several a softmax."""
        scores = np.asarray(x, dtype=np.float64) @ self.coef_.T + self.intercept_
        if len(self.coef_) == 1:
            scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
        return softmax_of(scores)

    def predict(self, x: Any) -> Integers:
        """The likeliest class."""
        return np.asarray(self.classes_[self.predict_proba(x).argmax(axis=1)], dtype=np.int64)


@dataclass(frozen=True, kw_only=True, repr=False)
class StudentModel:
    """A `Predictor` of declared classes. Audience: public.

    model     predicts class numbers
    classes   how many are declared
    ids       of the records it learnt from
    codes     their class numbers, as answered or inferred
    flat      whether records are rows of numbers to it, whatever their shape is
    """

    model: Any
    classes: int
    ids: tuple[str, ...]
    codes: Integers
    flat: bool

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        """Of every declared class; one that no answer named has 0."""
        known = probabilities(self.model, flattened(x) if self.flat else np.asarray(x))
        declared = np.zeros((len(known), self.classes))
        declared[:, np.asarray(self.model.classes_, dtype=np.int64)] = known
        return declared

    def sample_proba(self, x: Any, draws: int) -> NDArray[np.float64]:
        """Refused: there is one student."""
        raise BadInput(f"{draws} draws of a student", "it has one prediction", "Use predict_proba")

    def embed(self, x: Any) -> NDArray[np.float64]:
        """Refused: any classifier may be a student."""
        raise BadInput("embeddings of a student", "it need not have any", "Embed by a public encoder")

    def __repr__(self) -> str:
        """Public facts only."""
        return f"StudentModel({type(self.model).__name__}, {self.classes} classes)"

    def to_bytes(self, x: Any) -> bytes:
        """Its arrays. ``x``: the rows of ``ids``, in their order."""
        parts: dict[str, Any] = {"kind": "lessons", "x": np.asarray(x)}
        if isinstance(self.model, Constant):
            parts = {"kind": "constant", "known": self.model.classes_}
        elif _is_logistic(self.model):
            parts = {"kind": "linear", "coef": self.model.coef_, "intercept": self.model.intercept_}
            parts |= {"known": self.model.classes_, "strength": float(getattr(self.model, "C", 1.0))}
        about = {"format": FORMAT, "classes": self.classes, "flat": self.flat}
        learnt = {"ids": np.array(self.ids, dtype=np.str_), "codes": np.asarray(self.codes, dtype=np.int64)}
        return array_bytes(np.savez, **{name: np.asarray(part) for name, part in (about | learnt | parts).items()})


def student_from_bytes(content: bytes, *, estimator: Any | None, seed: int = 0) -> StudentModel:
    """The inverse of `StudentModel.to_bytes`. ``estimator``: of a student that is fitted again."""
    try:
        with arrays_in(content) as held:
            if str(held["format"]) != FORMAT:
                raise KeyError
            kind, codes = str(held["kind"]), held["codes"].astype(np.int64)
            classes, flat = int(held["classes"]), bool(held["flat"])
            ids = tuple(held["ids"].tolist())
            if kind == "constant":
                model: Any = Constant(int(held["known"][0]))
            elif kind == "linear":
                known = held["known"].astype(np.int64)
                model = LinearStudent(held["coef"], held["intercept"], known, float(held["strength"]))
            else:
                model = held["x"]
    except UNREADABLE:
        raise InvalidCheckpoint("a student", "it is not in the form we write", "Restore the file") from None
    if kind == "lessons":
        if estimator is None:
            raise BadInput("a student", "it is fitted again when it is read", "Name its estimator")
        model = fitted_quietly(estimator, model, codes, seed)
    return StudentModel(model=model, ids=ids, codes=codes, classes=classes, flat=flat)


def flattened(x: Any) -> NDArray[Any]:
    """A row of numbers a record."""
    rows = np.asarray(x)
    return rows.reshape(len(rows), -1)


def _is_logistic(model: Any) -> bool:
    from sklearn.linear_model import LogisticRegression

    return isinstance(model, LinearStudent) or type(model) is LogisticRegression
