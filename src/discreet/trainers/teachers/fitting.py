"""One teacher: fitted to its own records, heard on the public ones. Runs in any process.

A teacher always votes, whatever its records are: none, of one class, or such that fitting them raises. In these cases
it votes for its one class, or for the first. That is a function of its own records alone, so one unit still moves one
vote, and nobody sees that it failed.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, repr=False)
class TeacherTask:
    """What one teacher learns from: rows, class numbers, and its seed."""

    number: int
    x: Any
    y: Integers
    seed: int


@dataclass(frozen=True, kw_only=True, repr=False)
class TrainedTeacher:
    """A teacher that was fitted: linear, or its votes (class numbers) on the public records. ``failed``: owner only."""

    number: int
    linear: LinearVoter | None = None
    votes: Integers | None = None
    failed: bool = False


def fit_teacher(estimator: Any, task: TeacherTask, public: Any, classes: int) -> TrainedTeacher:
    """Fit a copy of ``estimator``. Raises nothing that its records could cause."""
    known = np.unique(task.y)
    if len(known) < 2:
        return _constant(task, public, classes, int(known[0]) if len(known) else 0, failed=False)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            model = seeded(estimator, task.seed).fit(task.x, task.y)
            linear = linear_voter(model, classes) if np.ndim(public) == 2 else None
            if linear is not None:  # all teachers of a linear kind, so that their product has one shape
                if not (np.isfinite(linear.weights).all() and np.isfinite(linear.offsets).all()):
                    return _constant(task, public, classes, 0, failed=True)
                return TrainedTeacher(number=task.number, linear=linear)
            votes = np.asarray(model.predict(public), dtype=np.int64)
        if votes.shape != (len(public),) or votes.min() < 0 or votes.max() >= classes:
            return _constant(task, public, classes, 0, failed=True)
        return TrainedTeacher(number=task.number, votes=votes)
    except Exception:  # noqa: BLE001 - what it says may quote a record, and that it failed is private
        return _constant(task, public, classes, 0, failed=True)


def seeded(estimator: Any, seed: int) -> Any:
    """A fresh copy with a seed, if it takes one and was given none."""
    from sklearn.base import clone

    copy = clone(estimator)
    if copy.get_params().get("random_state", 0) is None:
        copy.set_params(random_state=seed)
    return copy


def fitted_quietly(estimator: Any, x: Any, y: Integers, seed: int) -> Any:
    """A fresh copy, fitted; what a library has to say about it is not told."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return seeded(estimator, seed).fit(x, y)


def _constant(task: TeacherTask, public: Any, classes: int, code: int, *, failed: bool) -> TrainedTeacher:
    if np.ndim(public) == 2:
        return TrainedTeacher(number=task.number, linear=constant_voter(code, classes, public.shape[1]), failed=failed)
    return TrainedTeacher(number=task.number, votes=np.full(len(public), code, dtype=np.int64), failed=failed)


# Many linear teachers at once: one product a block of records, instead of one a teacher.
#
# Votes are those of scikit-learn's linear classifiers, up to rounding of the products: the class of the largest score;
# of two classes the second if its score is above 0.

Floats = NDArray[np.floating[Any]]
_BLOCK_BYTES = 1 << 20
"""Scores of a block and a class stay in the cache while they are compared."""
_NEVER = -1e30
"""The score of a class that a teacher does not know."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LinearVoter:
    """One teacher: a row of weights and an offset for each class; of two classes, of the second alone."""

    weights: Floats
    offsets: Floats


def linear_voter(model: Any, classes: int) -> LinearVoter | None:
    """``model``, fitted on class numbers, as a `LinearVoter`; None if it is not one of scikit-learn's linear ones."""
    from sklearn.linear_model._base import LinearClassifierMixin

    if not isinstance(model, LinearClassifierMixin):
        return None
    if not type(model).predict.__module__.startswith("sklearn.linear_model."):  # somebody's own way to predict
        return None
    known = np.asarray(model.classes_, dtype=np.int64)
    weights = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    offsets = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), (len(weights),)).copy()
    if classes == 2:
        return LinearVoter(weights=weights, offsets=offsets)
    full, shift = np.zeros((classes, weights.shape[1])), np.full(classes, _NEVER)
    if len(weights) == 1:  # two classes known: the second has the score, the first 0
        full[known[1]], shift[known[1]], shift[known[0]] = weights[0], offsets[0], 0.0
    else:
        full[known], shift[known] = weights, offsets
    return LinearVoter(weights=full, offsets=shift)


def constant_voter(code: int, classes: int, inputs: int) -> LinearVoter:
    """A teacher that always votes for one class."""
    rows = 1 if classes == 2 else classes
    offsets = np.full(rows, 1.0 if code else -1.0) if classes == 2 else np.full(rows, _NEVER)
    if classes > 2:
        offsets[code] = 0.0
    return LinearVoter(weights=np.zeros((rows, inputs)), offsets=offsets)


def linear_counts(voters: Sequence[LinearVoter], x: Floats, classes: int) -> Integers:
    """Votes of all ``voters`` on each row of ``x``, (n, classes)."""
    with np.errstate(all="ignore"):  # a warning would tell that some teacher's weights are huge
        return _counts(voters, x, classes)


def _counts(voters: Sequence[LinearVoter], x: Floats, classes: int) -> Integers:
    dtype = np.float32 if x.dtype == np.float32 else np.float64
    weights: Floats = np.stack([voter.weights for voter in voters], axis=1).astype(dtype)  # class, teacher, input
    offsets: Floats = np.stack([voter.offsets for voter in voters], axis=1).astype(dtype)
    turned = np.ascontiguousarray(weights.transpose(0, 2, 1))
    block = max(1, _BLOCK_BYTES // (len(voters) * dtype().itemsize))
    counts = np.zeros((len(x), classes), dtype=np.int64)
    for start in range(0, len(x), block):
        rows: Floats = np.ascontiguousarray(x[start : start + block], dtype=dtype)
        scores = rows @ turned[0]
        scores += offsets[0]
        if classes == 2:
            second = np.count_nonzero(scores > 0, axis=1)
            counts[start : start + block, 0], counts[start : start + block, 1] = len(voters) - second, second
            continue
        counts[start : start + block] = _winners(rows, scores, turned, offsets)
    return counts


def _winners(rows: Floats, best: Floats, turned: Floats, offsets: Floats) -> Integers:
    winner = np.zeros(best.shape, dtype=np.int16)
    for code in range(1, len(turned)):
        scores = rows @ turned[code]
        scores += offsets[code]
        winner[scores > best] = code  # the first of equals, as argmax
        np.maximum(best, scores, out=best)
    return np.stack([np.count_nonzero(winner == code, axis=1) for code in range(len(turned))], axis=1)
