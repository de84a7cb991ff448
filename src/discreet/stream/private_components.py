"""Principal components of private records, paid for: Gaussian noise on their uncentered second moment.

    A = sum of x x' over the records, each brought to length at most C first (C is public)

Guarantee: replacing a record by its null changes A by x x', of Frobenius norm |x|^2 <= C^2: with off-diagonal numbers
counted once, times sqrt 2, that is the L2 sensitivity of the vector that is released (docs/proofs/second-moment.md).
Noise on off-diagonal numbers is sqrt 2 smaller than on the diagonal. Not centered: a mean would be a second release.
What is computed from the noisy moment is free.

The moment is released before a record of the stream is asked or missed, and Gaussian noise has no pure loss: so every
path of the ledger pays a block of (epsilon, delta) for it (`stream_terms(preparation=...)`, docs/proofs/apart.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise import gaussian
from discreet.privacy.events import Gaussian
from discreet.privacy.ledger import Receipt
from discreet.stream.ball import checked_radius, into_ball, sum_error
from discreet.stream.public_sample import leading
from discreet.stream.terms import PREPARED

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class PaidComponents:
    """(k, inputs) components, largest first, and the noisy ``spectrum`` they belong to. Audience: world."""

    components: Floats
    spectrum: Floats
    norm: float
    noise_multiplier: float
    simulation: bool


def private_components(records: Any, *, count: int, norm: float, receipt: Receipt) -> PaidComponents:
    """The ``count`` leading components of (n, inputs) private numbers, as `Preparation.scaled` gives them.

    ``norm``: C. The receipt is of `charge_preparation` with a `second_moment_event`; n is public, as slots are.
    """
    bound = checked_radius(norm)
    rows = _rows(records)
    leading(np.eye(rows.shape[1]), count)  # refuses a count that cannot be before anything is drawn
    noisy = _released(rows, bound, receipt)
    event = receipt.charge_of(PREPARED).event
    assert isinstance(event, Gaussian)  # `gaussian` has checked it
    return PaidComponents(
        components=leading(noisy, count),
        spectrum=np.array(np.linalg.eigvalsh(noisy)[::-1][:count], dtype=np.float64),
        norm=bound,
        noise_multiplier=event.noise_multiplier,
        simulation=receipt.simulation,
    )


def _released(rows: Floats, bound: float, receipt: Receipt) -> Floats:
    """The noisy second moment, a symmetric matrix."""
    short = into_ball(rows, bound)
    upper = np.triu_indices(rows.shape[1])
    weights = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    values = (short.T @ short)[upper] * weights
    noisy = gaussian(values, sensitivity=reach(bound, records=len(rows)), receipt=receipt, who=PREPARED) / weights
    whole = np.zeros((rows.shape[1], rows.shape[1]))
    whole[upper] = noisy
    return whole + np.triu(whole, 1).T


def reach(norm: float, *, records: int) -> float:
    """C^2, widened by what double precision may round away in the sums of either neighbour."""
    return norm**2 * (1 + 2 * (records + 1) * sum_error(records + 8))


def second_moment_event(noise_multiplier: float) -> Gaussian:
    """What the release is priced as; the multiplier is of C^2."""
    return Gaussian(noise_multiplier=noise_multiplier)


def _rows(records: Any) -> Floats:
    try:
        rows = np.asarray(records, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        rows = np.empty(0)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise BadInput("a second moment", "the records are not rows of numbers", "Give (n, inputs)")
    return rows
