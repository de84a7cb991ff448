"""One teacher: fitted to its own records, heard on the public ones. Runs in any process.

A teacher always votes, whatever its records are: none, of one class, or such that fitting them raises. In these cases
it votes for its one class, or for the first. That is a function of its own records alone, so one unit still moves one
vote, and nobody sees that it failed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.trainers.teachers.linear import LinearVoter, constant_voter, linear_voter

Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, repr=False)
class Lesson:
    """What one teacher learns from: rows, class numbers, and its seed."""

    place: int
    x: Any
    y: Integers
    seed: int


@dataclass(frozen=True, kw_only=True, repr=False)
class Taught:
    """A teacher that was fitted: linear, or its votes (class numbers) on the public records. ``failed``: owner only."""

    place: int
    linear: LinearVoter | None = None
    votes: Integers | None = None
    failed: bool = False


def teach_one(estimator: Any, lesson: Lesson, public: Any, classes: int) -> Taught:
    """Fit a copy of ``estimator``. Raises nothing that its records could cause."""
    known = np.unique(lesson.y)
    if len(known) < 2:
        return _constant(lesson, public, classes, int(known[0]) if len(known) else 0, failed=False)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            model = seeded(estimator, lesson.seed).fit(lesson.x, lesson.y)
            linear = linear_voter(model, classes) if np.ndim(public) == 2 else None
            if linear is not None:  # all teachers of a linear kind, so that their product has one shape
                if not (np.isfinite(linear.weights).all() and np.isfinite(linear.offsets).all()):
                    return _constant(lesson, public, classes, 0, failed=True)
                return Taught(place=lesson.place, linear=linear)
            votes = np.asarray(model.predict(public), dtype=np.int64)
        if votes.shape != (len(public),) or votes.min() < 0 or votes.max() >= classes:
            return _constant(lesson, public, classes, 0, failed=True)
        return Taught(place=lesson.place, votes=votes)
    except Exception:  # noqa: BLE001 - what it says may quote a record, and that it failed is private
        return _constant(lesson, public, classes, 0, failed=True)


def seeded(estimator: Any, seed: int) -> Any:
    """A fresh copy with a seed, if it takes one and was given none."""
    from sklearn.base import clone

    made = clone(estimator)
    if made.get_params().get("random_state", 0) is None:
        made.set_params(random_state=seed)
    return made


def fitted_quietly(estimator: Any, x: Any, y: Integers, seed: int) -> Any:
    """A fresh copy, fitted; what a library has to say about it is not told."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return seeded(estimator, seed).fit(x, y)


def _constant(lesson: Lesson, public: Any, classes: int, place: int, *, failed: bool) -> Taught:
    if np.ndim(public) == 2:
        return Taught(place=lesson.place, linear=constant_voter(place, classes, public.shape[1]), failed=failed)
    return Taught(place=lesson.place, votes=np.full(len(public), place, dtype=np.int64), failed=failed)
