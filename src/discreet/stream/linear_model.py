"""The linear model of a stream: records and weights as whole numbers of steps, scores, and the published form.

A record of the ball of radius M is cut to multiples of 2^-25 M' (M' the next power of two) towards 0, a model to
multiples of 2^-25 of its ball. Then each partial sum of <w, x> and of |x|^2 is a whole number below 2^53, which floats
hold exactly: the result is the same in whatever order a library adds, one record at a time or many. And |x| <= M holds
exactly, not but for rounding (docs/proofs/streams.md).

A record that is not finite is a null: it has no place in the slab and teaches nothing. No error says that it was there.

Two classes, one row of weights: the boundary is <w, x> = 0, d(x, w) = |<w, x>| / |w|. More: the class of the highest
score, and the distance to the nearest boundary with another class, min_k (s_top - s_k) / |w_top - w_k|. Where the model
does not tell classes apart (w = 0) the distance is 0. Scores are functions of the model and one record.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from operator import itemgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, InvalidCheckpoint
from discreet.privacy.budget import Budget
from discreet.privacy.ledger.charges import canonical

FINE = 25
_F8 = np.dtype(np.float64)

Floats = NDArray[np.float64]


def power_above(radius: float) -> float:
    """The smallest power of two that is not below ``radius``."""
    return float(2.0 ** math.ceil(math.log2(radius)))


def float_array(values: Any) -> Floats:
    """Numbers as an array of their own; of what are none an empty one, because an error would show a value."""
    try:
        return np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        return np.empty(0)


class Ball:
    """Vectors of up to ``radius``, in steps."""

    def __init__(self, radius: float, size: int) -> None:
        self.radius, self.size = radius, size
        self.step = math.ldexp(power_above(radius), -FINE)
        self._steps = 1.0 / self.step  # a power of two
        self.reach = radius / self.step
        squared = Fraction(self.reach) ** 2
        self._most = float(math.floor(squared))  # at most 2^50, so exact
        self._surely, self._near = 0.999 * radius * radius, 4.0 * radius * radius
        self._scale = np.full(size, self._steps)
        self._out = np.empty(size)

    def one(self, x: Floats) -> Floats | None:
        """A record in steps, or None for a null. What is given back is written over by the next call."""
        out, squared = self._out, np.vdot(x, x)  # which does not warn: a warning would tell
        if not squared <= self._near:  # far outside, or not finite
            return self._outside(x)
        np.multiply(x, self._scale, out)
        np.trunc(out, out)  # which makes nothing longer
        if squared <= self._surely or out.dot(out) <= self._most:
            return out
        return self._outside(x)

    def many(self, x: Floats, places: NDArray[np.int64] | None = None) -> tuple[Floats, NDArray[np.bool_]]:
        """Rows (those at ``places``) in steps, and which of them are nulls (and are 0)."""
        steps = x.copy() if places is None else x.take(places, axis=0)
        with np.errstate(all="ignore"):  # a warning would tell how large a number is
            np.multiply(steps, self._steps, steps)
            np.trunc(steps, steps)  # in place: new arrays would cost more than what is done to them
            outside = ~(np.einsum("ij,ij->i", steps, steps) <= self._most)
        nulls = np.zeros(len(steps), dtype=bool)
        if outside.any():
            rows = np.flatnonzero(outside)
            projected = self._projected(x[rows if places is None else places[rows]])
            nulls[rows] = np.isnan(projected[:, 0])
            steps[rows] = np.where(nulls[rows][:, None], 0.0, projected)
        return steps, nulls

    def _outside(self, x: Floats) -> Floats | None:
        projected = self._projected(x.reshape(1, -1))[0]
        return None if np.isnan(projected[0]) else projected

    def _projected(self, x: Floats) -> Floats:
        """Rows that are not surely inside, projected; NaN where they are not finite. The largest coordinate is scaled
        to 2^25 steps first, so that the length is exact, too.
        """
        with np.errstate(all="ignore"):
            largest = np.abs(x).max(axis=1)
            shrunk = np.trunc(x / largest[:, None] * 2.0**FINE)
            lengths = np.sqrt(np.einsum("ij,ij->i", shrunk, shrunk))
            factors = self.reach * (1 - 2.0**-50) / lengths
            steps = np.trunc(x * self._steps)
            inside = np.einsum("ij,ij->i", steps, steps) <= self._most
            projected = np.where(inside[:, None], steps, np.trunc(shrunk * factors[:, None]))
        projected[~np.isfinite(x).all(axis=1)] = np.nan
        return np.asarray(projected)


class RecordReader:
    """Reads records as they come: vectors, dicts of declared features, or None."""

    def __init__(self, features: int | tuple[str, ...]) -> None:
        self._names = None if isinstance(features, int) else features
        self._size = features if isinstance(features, int) else len(features)
        self._shape = (self._size,)
        self._pack = struct.Struct(f"{self._size}d").pack  # three times as fast as making an array of a list
        self._get = None if self._names is None else itemgetter(*self._names, self._names[0])

    def vector(self, x: Any) -> Floats | None:
        """A record as a vector of floats, or None for a null."""
        if type(x) is np.ndarray and x.dtype == _F8 and x.shape == self._shape:
            return x
        if x is None:
            return None
        return self._mapped(x) if type(x) is dict or isinstance(x, Mapping) else self._listed(x)

    def rows(self, x: Any) -> Floats:
        """Records as the rows of an array."""
        rows = x if type(x) is np.ndarray and x.dtype == _F8 and x.flags.c_contiguous else float_array(x)
        if rows.ndim != 2 or rows.shape[1] != self._size:
            raise BadInput("records", f"they are not rows of {self._size} numbers", "Give the declared features")
        return rows

    def _mapped(self, x: Mapping[str, Any]) -> Floats | None:
        if self._names is None or self._get is None:
            raise BadInput("a record as a dict", "the features of this stream have no names", "Declare their names")
        try:
            values = self._get(x)[:-1]  # one name twice, so that it is a tuple also where there is one name
        except KeyError:
            values = tuple(x.get(name, 0.0) for name in self._names)
        try:
            return np.frombuffer(self._pack(*values))
        except (struct.error, TypeError, ValueError, OverflowError):  # a null; which part is broken is its own secret
            return None

    def _listed(self, x: Any) -> Floats | None:
        if np.shape(x) != self._shape:
            raise BadInput("a record", f"it does not have {self._size} numbers", "Give the declared features")
        vector = float_array(x)
        return vector if vector.shape == self._shape else None


class Linear:
    """Weights in steps of ``ball``, for records in steps of ``records``."""

    def __init__(self, ball: Ball, records: Ball, rows: int) -> None:
        self.ball, self._records, self._rows = ball, records, rows
        self.unit = ball.step * records.step
        self.set(np.zeros(rows * records.size))

    def set(self, weights: Floats) -> None:
        """Weights in steps, flat."""
        self.flat = weights
        if self._rows == 1:
            self.row = weights
            self.length = math.sqrt(weights.dot(weights))
            self.per_score = self._records.step / self.length if self.length else 0.0
            return
        self.row = self.rows[0]
        products = self.rows @ self.rows.T  # exact, and so are the squares below 2^53
        squares = np.diag(products)
        lengths = np.sqrt(squares[:, None] + squares[None, :] - 2 * products)
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
        real = self.rows * self.ball.step
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


FORMAT = "discreet.stream-model/1"
Label = str | int


@dataclass(frozen=True, kw_only=True)
class StreamModel:
    """A linear model of a stream as it is released: versioned, hashed, with its claim. Audience: public.

    version     how many updates and resets there were; 0 before the first
    weights     (d,) of two classes: a positive score is the second class; else (K, d), a row a class
    classes     as they were declared
    loss        by which it was learned
    claim       the budget of the ledger that pays for it
    ledger      its id
    simulation  drawn from a seed: proves nothing about people
    """

    version: int
    weights: NDArray[np.float64] = field(repr=False)
    classes: tuple[Label, ...]
    features: tuple[str, ...] | int
    loss: str
    claim: Budget
    ledger: str
    simulation: bool

    @property
    def sha256(self) -> str:
        """The hash of everything else, in one form."""
        return hashlib.sha256(canonical(self._form())).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Everything, with its hash."""
        return self._form() | {"sha256": self.sha256}

    @classmethod
    def from_json(cls, form: Any) -> Self:
        """The inverse of `to_json`; refuses one whose hash is another."""
        try:
            model = cls(
                version=form["version"],
                weights=np.array(form["weights"], dtype=np.float64),
                classes=tuple(form["classes"]),
                features=form["features"] if isinstance(form["features"], int) else tuple(form["features"]),
                loss=form["loss"],
                claim=Budget.from_json(form["claim"]),
                ledger=form["ledger"],
                simulation=form["simulation"],
            )
            same = form == model.to_json()
        except (KeyError, TypeError, ValueError):
            same = False
        if not same:
            raise InvalidCheckpoint("a published model", "its parts or its hash are not right", "Get it anew")
        return model

    def predict(self, x: Any) -> NDArray[Any]:
        """The class of each row of ``x``."""
        scores = np.asarray(x, dtype=np.float64) @ self.weights.T
        codes = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(np.asarray(self.classes)[codes])

    def _form(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": self.version,
            "weights": self.weights.tolist(),
            "classes": list(self.classes),
            "features": self.features if isinstance(self.features, int) else list(self.features),
            "loss": self.loss,
            "claim": self.claim.to_json(),
            "ledger": self.ledger,
            "simulation": self.simulation,
        }
