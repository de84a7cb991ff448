"""Records and models as whole numbers of steps, so that every sum of products is exact.

A record of the ball of radius M is cut to multiples of 2^-25 M' (M' the next power of two) towards 0, a model to
multiples of 2^-25 of its ball. Then each partial sum of <w, x> and of |x|^2 is a whole number below 2^53, which floats
hold exactly: the result is the same in whatever order a library adds, one record at a time or many. And |x| <= M holds
exactly, not but for rounding (docs/proofs/streams.md).

A record that is not finite is a null: it has no place in the slab and teaches nothing. No error says that it was there.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from fractions import Fraction
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput

Floats = NDArray[np.float64]
FINE = 25
_F8 = np.dtype(np.float64)


def power_above(radius: float) -> float:
    """The smallest power of two that is not below ``radius``."""
    return float(2.0 ** math.ceil(math.log2(radius)))


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
        found = x.copy() if places is None else x.take(places, axis=0)
        with np.errstate(all="ignore"):  # a warning would tell how large a number is
            np.multiply(found, self._steps, found)
            np.trunc(found, found)  # in place: new arrays would cost more than what is done to them
            outside = ~(np.einsum("ij,ij->i", found, found) <= self._most)
        nulls = np.zeros(len(found), dtype=bool)
        if outside.any():
            rows = np.flatnonzero(outside)
            projected = self._projected(x[rows if places is None else places[rows]])
            nulls[rows] = np.isnan(projected[:, 0])
            found[rows] = np.where(nulls[rows][:, None], 0.0, projected)
        return found, nulls

    def _outside(self, x: Floats) -> Floats | None:
        found = self._projected(x.reshape(1, -1))[0]
        return None if np.isnan(found[0]) else found

    def _projected(self, x: Floats) -> Floats:
        """Rows that are not surely inside, projected; NaN where they are not finite. The largest coordinate is scaled
        to 2^25 steps first, so that the length is exact, too.
        """
        with np.errstate(all="ignore"):
            largest = np.abs(x).max(axis=1)
            shrunk = np.trunc(x / largest[:, None] * 2.0**FINE)
            lengths = np.sqrt(np.einsum("ij,ij->i", shrunk, shrunk))
            factors = self.reach * (1 - 2.0**-50) / lengths
            whole = np.trunc(x * self._steps)
            inside = np.einsum("ij,ij->i", whole, whole) <= self._most
            found = np.where(inside[:, None], whole, np.trunc(shrunk * factors[:, None]))
        found[~np.isfinite(x).all(axis=1)] = np.nan
        return np.asarray(found)

    def model(self, weights: Floats) -> Floats:
        """Weights projected onto the ball, in steps."""
        length = math.sqrt(float(np.dot(weights, weights)))
        if length > self.radius:
            weights = weights * (self.radius * (1 - 2.0**-50) / length)
        return np.asarray(np.trunc(weights * self._steps))


class Reading:
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
        try:
            found = np.ascontiguousarray(x, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            found = np.empty(0)
        if found.ndim != 2 or found.shape[1] != self._size:
            raise BadInput("records", f"they are not rows of {self._size} numbers", "Give the declared features")
        return found

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
        try:
            return np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return None
