"""Where rows lie among components, in whole numbers: a record's nearest neighbour is a function of that record alone.

Matrix products in floating point round by the shape of the block and the place of a row in it. A record that comes or
goes would move the others' last digits, and once in a while their nearest neighbour: more than the one count that is
paid for. So coordinates are whole numbers of 2^-24 of the norm bound. With |x|, |v| <= 2^24 every partial sum of a
product is a whole number below 2^53, which double precision holds exactly, in any order, with any library.

Guarantee (docs/proofs/near-private.md): `coordinates` and `nearest` treat each row by itself, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.components.ball import into_ball
from discreet.components.rows import Floats
from discreet.errors import BadInput

STEPS = float(1 << 24)
MOST_NUMBERS = 10**8
"""Of components: below, what their rounding adds to a length is less than a thousandth."""
ROWS, POINTS = 512, 2048
"""A block of products that a processor's cache holds."""
Places = NDArray[np.int64]


def whole_components(components: Floats) -> Floats:
    """Orthonormal rows in whole steps, none longer than it was."""
    if components.size > MOST_NUMBERS:
        raise BadInput(
            f"components of {components.size} numbers", f"there may be {MOST_NUMBERS} at most", "Take fewer components"
        )
    return np.asarray(np.trunc(components * (STEPS * (1 - 2.0**-20))))


def coordinates(rows: Any, components: Floats, norm: float) -> Floats:
    """(n, p) whole numbers: rows, brought into the ball of ``norm``, along `whole_components`."""
    inside = np.trunc(into_ball(rows, norm) * (STEPS / norm))
    return np.asarray(np.trunc(inside @ components.T / STEPS))


def nearest(queries: Floats, points: Floats) -> Places:
    """The place of each query's nearest point; of equally near ones, the first. Both are `coordinates`."""
    found = np.zeros(len(queries), dtype=np.int64)
    if not len(points):
        raise BadInput("nearest neighbours", "there are no points", "Give at least one")
    # |b - a|^2 - |a|^2 = (-2a, 1) (b, |b|^2): one product, in whole numbers below 2^51
    left = np.hstack([-2.0 * queries, np.ones((len(queries), 1))])
    right = np.ascontiguousarray(np.hstack([points, (points * points).sum(axis=1, keepdims=True)]))
    block = np.empty((min(ROWS, len(left)), min(POINTS, len(right))))
    for start in range(0, len(left), ROWS):
        piece = left[start : start + ROWS]
        best = np.full(len(piece), np.inf)
        for first in range(0, len(right), POINTS):
            part = right[first : first + POINTS]
            apart = block[: len(piece), : len(part)]
            if apart.flags.c_contiguous:
                np.matmul(piece, part.T, out=apart)
            else:
                apart = piece @ part.T
            place = apart.argmin(axis=1)
            least = apart[np.arange(len(piece)), place]
            closer = least < best
            best[closer] = least[closer]
            found[start : start + ROWS][closer] = place[closer] + first
    return found
