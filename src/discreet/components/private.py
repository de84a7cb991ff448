"""Principal components of private records, paid for: Gaussian noise on their uncentered second moment.

    A = sum of x x' over the records, each brought to length at most C first (C is public)

Guarantee: replacing a record by its null changes A by x x', of Frobenius norm |x|^2 <= C^2: with off-diagonal numbers
counted once, times sqrt 2, that is the L2 sensitivity of the vector that is released (docs/proofs/second-moment.md).
Noise on off-diagonal numbers is sqrt 2 smaller than on the diagonal. Not centered: a mean would be a second release.
What is computed from the noisy moment is free; its eigenvectors are orthonormal.

The event is one Gaussian. It joins a training path as any other (`discreet.privacy.ledger.joining`); before a branch,
where only pure losses may stand, it is a block (docs/proofs/apart.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.components.ball import checked_radius, into_ball, sum_error
from discreet.components.public import leading
from discreet.components.rows import Floats, pieces, shape_of
from discreet.noise import SealedPhase, charge_once, gaussian
from discreet.privacy.events import Event, Gaussian
from discreet.privacy.ledger import Ledger, Receipt, Why
from discreet.privacy.ledger.requests import request

_WHAT = "a second moment"


@dataclass(frozen=True, kw_only=True, eq=False)
class PaidComponents:
    """(k, inputs) components, largest first, and the noisy ``spectrum`` they belong to. Audience: world."""

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
    whole = np.zeros_like(moment)
    whole[upper] = noisy
    return np.asarray(whole + np.triu(whole, 1).T)


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
    return charge_once(where, [request(events, why=Why(phase=phase, purpose="components"))])[0]
