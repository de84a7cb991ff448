"""Components of records that are nobody's secret.

Guarantee: the result is a function of the rows that were given. Whether they are public is the owner's word; a part of
the private records is not public because it is small.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.components.rows import Floats, pieces, shape_of
from discreet.errors import BadInput


def public_components(records: Any, count: int) -> Floats:
    """(count, inputs): principal components of public rows, centered by their own mean, read a piece at a time."""
    what = "components of public records"
    size, width = shape_of(records, what)
    moment, total = np.zeros((width, width)), np.zeros(width)
    for _, piece in pieces(records, what):
        if not np.isfinite(piece).all():
            raise BadInput(what, "a row has a number that is not finite", "Leave such rows out")
        moment += piece.T @ piece
        total += piece.sum(axis=0)
    mean = total / max(size, 1)
    return leading(moment / max(size, 1) - np.outer(mean, mean), count)


def leading(moment: Floats, count: int) -> Floats:
    """The ``count`` eigenvectors of largest eigenvalue, as rows; the largest number of each is positive."""
    if type(count) is not int or not 1 <= count <= len(moment):
        raise BadInput(
            f"{count} components", f"there are {len(moment)} inputs", "Ask for 1 to as many as there are inputs"
        )
    _, vectors = np.linalg.eigh(moment)
    rows = vectors[:, ::-1].T[:count]
    signs = np.sign(rows[np.arange(count), np.abs(rows).argmax(axis=1)])
    return np.ascontiguousarray(rows * signs[:, None])
