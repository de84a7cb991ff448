"""The norm bound: every vector is brought into a ball of a public radius, by itself.

Guarantee: the rows that come out have length at most ``radius`` in real arithmetic, not only as floats: a vector that
is shortened is shortened by a little more than its own rounding can be wrong. A vector with a number that is not finite
is a null: zeros. Nothing says which vectors were shortened.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput

Floats = NDArray[np.float64]
_UNIT = 2.0**-53


def into_ball(vectors: Any, radius: float) -> Floats:
    """One vector, or rows of vectors, each scaled down to length ``radius`` if it is longer."""
    rows = _rows(vectors)
    bound = checked_radius(radius)
    if rows.size == 0:
        return rows
    largest = np.abs(rows).max(axis=-1, keepdims=True)
    rows = np.where(np.isfinite(largest), rows, 0.0)
    # lengths of vectors whose largest number is 1: squares neither overflow nor lose what matters
    with np.errstate(all="ignore"):  # zeros, and numbers beyond the smallest: a warning would tell of them
        ones = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
        unit = rows / ones
        length = np.sqrt((unit * unit).sum(axis=-1, keepdims=True))  # each row by itself: alone or among others
        # A sum of d squares, its root, four products and quotients: off by less than (d + 8) u of itself.
        safe = length * (1 + (rows.shape[-1] + 16) * 2 * _UNIT)
        shortened = unit * (bound / safe)
        inside = safe * ones <= bound
    return np.asarray(np.where(inside, rows, shortened))


def checked_radius(radius: Any) -> float:
    """A declared, public, positive number of sensible size."""
    if isinstance(radius, bool) or not isinstance(radius, (int, float)) or not 1e-100 <= radius <= 1e100:
        raise BadInput(
            "the radius of a norm bound", "it is not a number from 1e-100 to 1e100", "Declare one, such as 1"
        )
    return float(radius)


def _rows(vectors: Any) -> Floats:
    try:
        found = np.array(vectors, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadInput("vectors", "they are not an array of numbers", "Give (features,) or (n, features)") from None
    if found.ndim not in (1, 2):
        raise BadInput("vectors", "they are not a vector or rows of vectors", "Give (features,) or (n, features)")
    return found


def sum_error(terms: int) -> float:
    """By how much a sum of ``terms`` floats may be off, in any order, as a share of the sum of their sizes."""
    product = terms * _UNIT
    if not product < 0.01:
        raise BadInput(f"a sum of {terms} terms", "rounding could be as large as the sum", "Take fewer")
    return math.nextafter(product / (1 - product), math.inf)
