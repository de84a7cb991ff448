"""Rows of numbers that are read a piece at a time: an array, a memory-mapped one, or anything with a shape and slices.

So what is computed of a million rows needs the memory of one piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput

Floats = NDArray[np.float64]
ROWS = 4096


def shape_of(records: Any, what: str) -> tuple[int, int]:
    """How many rows there are, and numbers in each."""
    given = records if hasattr(records, "shape") else _array(records)
    shape = tuple(given.shape)
    if len(shape) != 2 or shape[1] < 1:
        raise BadInput(what, "the records are not rows of numbers", "Give (n, inputs)")
    return int(shape[0]), int(shape[1])


def pieces(records: Any, what: str, *, rows: int = ROWS) -> Iterator[tuple[int, Floats]]:
    """Where each piece begins, and the piece in double precision."""
    given = records if hasattr(records, "shape") else _array(records)
    size, width = shape_of(given, what)
    for start in range(0, size, rows):
        piece = _array(given[start : min(start + rows, size)])
        if piece.shape != (min(rows, size - start), width):
            raise BadInput(what, "a slice of the records is not as long as it should be", "Give (n, inputs)")
        yield start, piece


def _array(values: Any) -> Floats:
    """Numbers, or nothing that could pass for rows."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.empty(0)
