"""What a labelled record says about the model: a coefficient for each class, times the record.

The sum that is hidden is of g = c x (binary: one number c; more classes: one each, the outer product), in the direction
that lowers the loss. Guarantee: |g| <= M, for all classes together. Records have |x| <= M, so |c| <= 1 is enough, and
coefficients of more classes are clipped jointly. They are cut to multiples of 2^-16, towards 0, so that sums of them
times records are whole numbers, which do not depend on their order.

hinge              binary: y where y <w,x> < 1
logistic           binary: y / (1 + exp(y <w,x>))
softmax            classes: e_y - softmax(scores)
multiclass-hinge   classes (Crammer and Singer): e_y - e_r for the strongest rival r, where it is nearer than 1
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput

Floats = NDArray[np.float64]
FINE = 2.0**16
_SIGNS = np.array([-1.0, 1.0])
_INSIDE = 1 - 2.0**-20
"""Coefficients that are not whole stay below 1 by so much that no rounding of a sum passes M."""


@dataclass(frozen=True)
class Loss(ABC):
    """Coefficients of labelled records. Two losses of one class are equal."""

    name: ClassVar[str]
    binary: ClassVar[bool]

    @abstractmethod
    def coefficients(self, scores: Floats, labels: NDArray[np.int64]) -> Floats:
        """Binary: scores (n,), labels 0 or 1, one coefficient each. Else scores (n, K), labels 0..K-1, a row each."""

    def to_json(self) -> str:
        """Its name."""
        return self.name


class Hinge(Loss):
    """The linear SVM, as in the paper."""

    name, binary = "hinge", True

    def coefficients(self, scores: Floats, labels: NDArray[np.int64]) -> Floats:
        """-1, 0 or 1."""
        signs = _SIGNS.take(labels)
        return np.asarray(signs * (signs * scores < 1.0))


class Logistic(Loss):
    """Logistic regression."""

    name, binary = "logistic", True

    def coefficients(self, scores: Floats, labels: NDArray[np.int64]) -> Floats:
        """Between -1 and 1, cut towards 0."""
        signs = _SIGNS.take(labels)
        return np.asarray(signs * _cut(np.minimum(1.0 / (1.0 + np.exp(np.minimum(signs * scores, 700.0))), _INSIDE)))


class Softmax(Loss):
    """Multinomial logistic regression, jointly clipped."""

    name, binary = "softmax", False

    def coefficients(self, scores: Floats, labels: NDArray[np.int64]) -> Floats:
        """e_y - p, of length at most 1."""
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        coefficients = -raised / raised.sum(axis=1, keepdims=True)
        coefficients[np.arange(labels.size), labels] += 1.0
        return _jointly(coefficients)


class MulticlassHinge(Loss):
    """The linear SVM of Crammer and Singer, jointly clipped."""

    name, binary = "multiclass-hinge", False

    def coefficients(self, scores: Floats, labels: NDArray[np.int64]) -> Floats:
        """Up for the label, down for its strongest rival, where that is nearer than 1."""
        rows = np.arange(labels.size)
        rivals = scores.copy()
        label_scores = rivals[rows, labels].copy()
        rivals[rows, labels] = -np.inf
        strongest = rivals.argmax(axis=1)
        near = (label_scores - rivals[rows, strongest] < 1.0).astype(np.float64)
        coefficients = np.zeros_like(scores)
        coefficients[rows, labels] += near
        coefficients[rows, strongest] -= near
        return _jointly(coefficients)


LOSSES: dict[str, type[Loss]] = {kind.name: kind for kind in (Hinge, Logistic, Softmax, MulticlassHinge)}


def loss_named(name: str) -> Loss:
    """A loss by its name."""
    if name not in LOSSES:
        raise BadInput(f"the loss {name}", "there is none of that name", f"Choose one of {', '.join(LOSSES)}")
    return LOSSES[name]()


def _cut(values: Floats) -> Floats:
    return np.asarray(np.trunc(values * FINE) * (1.0 / FINE))


def _jointly(coefficients: Floats) -> Floats:
    lengths = np.sqrt(np.einsum("ij,ij->i", coefficients, coefficients))
    return _cut(coefficients * (_INSIDE / np.maximum(lengths, 1.0))[:, None])
