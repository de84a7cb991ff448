"""The public model: scores, the class that is predicted, and how far a record is from the boundary.

Two classes, one row of weights: the boundary is <w, x> = 0, d(x, w) = |<w, x>| / |w|. More: the class of the highest
score, and the distance to the nearest boundary with another class, min_k (s_top - s_k) / |w_top - w_k|. Where the model
does not tell classes apart (w = 0) the distance is 0. Everything here is a function of the model and one record.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet.stream.units import Ball

Floats = NDArray[np.float64]


class Linear:
    """Weights in steps of ``ball``, for records in steps of ``records``."""

    def __init__(self, ball: Ball, records: Ball, rows: int) -> None:
        self._ball, self._records, self._rows = ball, records, rows
        self.unit = ball.step * records.step
        self.set(np.zeros(rows * records.size))

    def set(self, whole: Floats) -> None:
        """Weights in steps, flat."""
        self.flat = whole
        if self._rows == 1:
            self.row = whole
            self.length = math.sqrt(whole.dot(whole))
            self.per_score = self._records.step / self.length if self.length else 0.0
            return
        self.row = self.rows[0]
        products = self.rows @ self.rows.T  # exact, and so are the squares below 2^53
        own = np.diag(products)
        lengths = np.sqrt(own[:, None] + own[None, :] - 2 * products)
        with np.errstate(divide="ignore"):
            self._inverse = np.where(lengths > 0, self._records.step / lengths, 0.0)
        np.fill_diagonal(self._inverse, 1.0)

    @property
    def rows(self) -> Floats:
        """A row of weights, or one a class."""
        return self.flat.reshape(self._rows, -1)

    @property
    def weights(self) -> Floats:
        """Real weights: (d,) of one row, else (rows, d)."""
        real = self.rows * self._ball.step
        return np.asarray(real[0] if self._rows == 1 else real)

    def edge(self, width: float) -> float:
        """Of one row: the score, in steps, up to which records are inside a slab of this width."""
        return width / self._records.step * self.length

    def scores(self, records: Floats) -> Floats:
        """In steps: (n,) of one row, else (n, rows). Exact."""
        return np.asarray(records.dot(self.row) if self._rows == 1 else records.dot(self.rows.T))

    def predicted(self, scores: Floats) -> NDArray[np.int64]:
        """The class of each."""
        if self._rows == 1:
            return (scores > 0).astype(np.int64)
        return np.asarray(scores.argmax(axis=1))

    def distances(self, scores: Floats) -> Floats:
        """To the nearest boundary."""
        if self._rows == 1:
            return np.asarray(np.abs(scores) * self.per_score)
        top = scores.argmax(axis=1)
        places = np.arange(top.size)
        gaps = (scores[places, top][:, None] - scores) * self._inverse[top]
        gaps[places, top] = np.inf
        return np.asarray(gaps.min(axis=1))
