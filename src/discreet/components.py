"""Principal components of private records, paid for: Gaussian noise on their uncentered second moment.

    A = sum of x x' over the records, each brought to length at most C first (C is public)

Guarantee: replacing a record by its null changes A by x x', of Frobenius norm |x|^2 <= C^2: with off-diagonal numbers
counted once, times sqrt 2, that is the L2 sensitivity of the vector that is released (docs/proofs/second-moment.md).
Noise on off-diagonal numbers is sqrt 2 smaller than on the diagonal. Not centered: a mean would be a second release.
What is computed from the noisy moment is free; its eigenvectors are orthonormal.

The event is one Gaussian. It joins a training path (`discreet.privacy.ledger.plan_terms`); before a branch,
where only pure losses may stand, it is a block (docs/proofs/apart.md).

Of public records nothing is paid: the result is a function of the rows that were given. Whether they are public is the
owner's word; a part of the private records is not public because it is small.

The norm bound (`into_ball`): the rows that come out have length at most ``radius`` in real arithmetic, not only as
floats: a vector that is shortened is shortened by a little more than its own rounding can be wrong. A vector with a
number that is not finite is a null: zeros. Nothing says which vectors were shortened.

Rows are read a piece at a time, so what is computed of a million rows needs the memory of one piece.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise import SealedPhase, charge_once, gaussian
from discreet.privacy.events import Event, Gaussian
from discreet.privacy.ledger import ChargeReason, Ledger, Receipt
from discreet.privacy.ledger.charges import request

__all__ = [
    "PaidComponents",
    "charge_components",
    "leading",
    "private_components",
    "public_components",
    "second_moment_event",
]
Floats = NDArray[np.float64]
ROWS = 4096
_UNIT = 2.0**-53
_WHAT = "a second moment"


def shape_of(records: Any, what: str) -> tuple[int, int]:
    """How many rows there are, and numbers in each."""
    table = records if hasattr(records, "shape") else _array(records)
    shape = tuple(table.shape)
    if len(shape) != 2 or shape[1] < 1:
        raise BadInput(what, "the records are not rows of numbers", "Give (n, inputs)")
    return int(shape[0]), int(shape[1])


def pieces(records: Any, what: str, *, rows: int = ROWS) -> Iterator[tuple[int, Floats]]:
    """Where each piece begins, and the piece in double precision."""
    table = records if hasattr(records, "shape") else _array(records)
    size, width = shape_of(table, what)
    for start in range(0, size, rows):
        piece = _array(table[start : min(start + rows, size)])
        if piece.shape != (min(rows, size - start), width):
            raise BadInput(what, "a slice of the records is not as long as it should be", "Give (n, inputs)")
        yield start, piece


def _array(values: Any) -> Floats:
    """Numbers, or nothing that could pass for rows."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.empty(0)


def into_ball(vectors: Any, radius: float) -> Floats:
    """One vector, or rows of vectors, each scaled down to length ``radius`` if it is longer."""
    rows = _vectors(vectors)
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


def _vectors(vectors: Any) -> Floats:
    try:
        array = np.array(vectors, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadInput("vectors", "they are not an array of numbers", "Give (features,) or (n, features)") from None
    if array.ndim not in (1, 2):
        raise BadInput("vectors", "they are not a vector or rows of vectors", "Give (features,) or (n, features)")
    return array


def sum_error(terms: int) -> float:
    """By how much a sum of ``terms`` floats may be off, in any order, as a share of the sum of their sizes."""
    product = terms * _UNIT
    if not product < 0.01:
        raise BadInput(f"a sum of {terms} terms", "rounding could be as large as the sum", "Take fewer")
    return math.nextafter(product / (1 - product), math.inf)


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


@dataclass(frozen=True, kw_only=True, eq=False)
class PaidComponents:
    """(k, inputs) components, largest first, and the noisy ``spectrum`` they belong to. Audience: public."""

    components: Floats
    spectrum: Floats
    norm: float
    noise_multiplier: float
    simulation: bool


def private_components(
    records: Any, *, count: int, norm: float, receipt: Receipt, who: str | None = None
) -> PaidComponents:
    """The ``count`` leading components of (n, inputs) private numbers, read a piece at a time.

    ``norm``: C, declared or from public records. n is public, as slots are: a null is a row of zeros. ``who``: of the
    groups that the receipt charges; all of them, without a name.
    """
    bound = checked_radius(norm)
    size, width = shape_of(records, _WHAT)
    leading(np.eye(width), count)  # refuses a count that cannot be before anything is drawn
    noisy = released(_moment(records, bound), bound, receipt, records=size, who=who)
    event = receipt.events(who)[0]
    assert isinstance(event, Gaussian)  # `gaussian` has checked it
    return PaidComponents(
        components=leading(noisy, count),
        spectrum=np.array(np.linalg.eigvalsh(noisy)[::-1][:count], dtype=np.float64),
        norm=bound,
        noise_multiplier=event.noise_multiplier,
        simulation=receipt.simulation,
    )


def _moment(records: Any, bound: float) -> Floats:
    """The exact second moment of rows in the ball. Private."""
    _, width = shape_of(records, _WHAT)
    total = np.zeros((width, width))
    for _, piece in pieces(records, _WHAT):
        short = into_ball(piece, bound)
        total += short.T @ short
    return total


def released(moment: Floats, bound: float, receipt: Receipt, *, records: int, who: str | None) -> Floats:
    """The noisy second moment, a symmetric matrix."""
    upper = np.triu_indices(len(moment))
    weights = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    values = moment[upper] * weights
    noisy = gaussian(values, sensitivity=reach(bound, records=records), receipt=receipt, who=who) / weights
    matrix = np.zeros_like(moment)
    matrix[upper] = noisy
    return np.asarray(matrix + np.triu(matrix, 1).T)


def reach(norm: float, *, records: int) -> float:
    """C^2, widened by what double precision may round away in the sums of either neighbour."""
    return norm**2 * (1 + 2 * (records + 1) * sum_error(records + 8))


def second_moment_event(noise_multiplier: float) -> Gaussian:
    """What the release is priced as; the multiplier is of C^2."""
    return Gaussian(noise_multiplier=noise_multiplier)


def charge_components(
    where: Ledger | SealedPhase, noise_multiplier: float, *, who: str | Sequence[str], phase: int = 0
) -> Receipt:
    """Charge the release to every group whose records it reads; durable when this returns."""
    groups = (who,) if isinstance(who, str) else tuple(who)
    events: Mapping[str, Event] = dict.fromkeys(groups, second_moment_event(noise_multiplier))
    return charge_once(where, [request(events, why=ChargeReason(phase=phase, purpose="components"))])[0]
