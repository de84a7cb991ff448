"""Many linear teachers at once: one product a block of records, instead of one a teacher.

Votes are those of scikit-learn's linear classifiers, up to rounding of the products: the class of the largest score;
of two classes the second if its score is above 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]
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


def constant_voter(place: int, classes: int, inputs: int) -> LinearVoter:
    """A teacher that always votes for one class."""
    rows = 1 if classes == 2 else classes
    offsets = np.full(rows, 1.0 if place else -1.0) if classes == 2 else np.full(rows, _NEVER)
    if classes > 2:
        offsets[place] = 0.0
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
    for place in range(1, len(turned)):
        scores = rows @ turned[place]
        scores += offsets[place]
        winner[scores > best] = place  # the first of equals, as argmax
        np.maximum(best, scores, out=best)
    return np.stack([np.count_nonzero(winner == place, axis=1) for place in range(len(turned))], axis=1)
