"""Principal components of private records, paid for: Gaussian noise on their uncentered second moment.

    A = sum of x x' over the records, each brought to length at most C first (C is public)

Guarantee: replacing a record by its null changes A by x x', of Frobenius norm |x|^2 <= C^2: with off-diagonal numbers
counted once, times sqrt 2, that is the L2 sensitivity of the vector that is released (docs/proofs/second-moment.md).
Noise on off-diagonal numbers is sqrt 2 smaller than on the diagonal. Not centered: a mean would be a second release.
What is computed from the noisy moment is free.

The moment is released before a record of the stream is asked or missed, and Gaussian noise has no pure loss: so every
path of the ledger pays a block of (epsilon, delta) for it (`joined`, docs/proofs/apart.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise import gaussian
from discreet.privacy.events import Block, Composed, Event, Gaussian
from discreet.privacy.exact import Number, exact_decimal
from discreet.privacy.ledger import Ledger, Line, Path, Receipt, Stay, Terms, Why
from discreet.privacy.trajectories import block_epsilon
from discreet.stream.ball import checked_radius, into_ball, sum_error
from discreet.stream.public_sample import leading

Floats = NDArray[np.float64]
WHO = "preparation"
"""The group that is charged: the records whose second moment is released."""
Whose = Literal["every path", "set aside"]


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

    ``norm``: C. The receipt is of `Gaussian`, charged to `WHO`; n is public, as slots are.
    """
    bound = checked_radius(norm)
    rows = _rows(records)
    leading(np.eye(rows.shape[1]), count)  # refuses a count that cannot be before anything is drawn
    noisy = _released(rows, bound, receipt)
    event = receipt.charge_of(WHO).event
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
    noisy = gaussian(values, sensitivity=reach(bound, records=len(rows)), receipt=receipt, who=WHO) / weights
    whole = np.zeros((rows.shape[1], rows.shape[1]))
    whole[upper] = noisy
    return whole + np.triu(whole, 1).T


def reach(norm: float, *, records: int) -> float:
    """C^2, widened by what double precision may round away in the sums of either neighbour."""
    return norm**2 * (1 + 2 * (records + 1) * sum_error(records + 8))


def second_moment_event(noise_multiplier: float) -> Gaussian:
    """What the release is priced as; the multiplier is of C^2."""
    return Gaussian(noise_multiplier=noise_multiplier)


def charge_second_moment(ledger: Ledger, event: Gaussian) -> Receipt:
    """Charge it, before a record is looked at; durable when this returns."""
    return ledger.charge(event=event, who=WHO, why=Why(purpose="second moment"))


def joined(terms: Terms, event: Gaussian, *, delta: Number, whose: Whose = "every path") -> Terms:
    """``terms`` of a stream with the second moment as a further line; the budget stays, and must hold all of it.

    ``delta`` is the part of the budget's that the release takes, where paths branch after it. *every path*: records
    whose moment is taken may also arrive in the stream. *set aside*: they are other records, such as those that came
    before the stream began, and pay for nothing else; then the stream's records pay nothing for it.
    """
    if any(line.who == WHO for line in terms.lines) or terms.mode != "committed":
        raise BadInput("joining a second moment to terms", "they have one, or are not committed", "Join it once, first")
    lines = (Line(who=WHO, event=event), *terms.lines)
    branching = whose == "set aside" or any(stay.choice for path in terms.paths for stay in path.stays)
    stay = Stay(who=WHO, choice="touched" if branching else None)
    if whose == "set aside":
        paths = (*terms.paths, Path(name="set aside", stays=(stay,)))
    else:
        paths = tuple(replace(path, stays=_with(stay, path)) for path in terms.paths)
    return replace(terms, lines=lines, paths=paths, apart=_block(terms.apart, event, delta) if branching else None)


def _with(stay: Stay, path: Path) -> tuple[Stay, ...]:
    return (stay, *path.stays) if stay.choice else (*path.stays, stay)


def _block(before: Block | None, event: Event, delta: Number) -> Block:
    """What is released before a branch and is not pure, as one block."""
    parts = (event,) if before is None else (event, before.event)
    share = exact_decimal(delta, "delta of a second moment")
    whole = share if before is None else share + before.delta
    made = Block(event=Composed(events=parts), epsilon=0, delta=whole)
    return Block(event=made.event, epsilon=Decimal(repr(block_epsilon(made, by_pld=True))), delta=whole)


def _rows(records: Any) -> Floats:
    try:
        rows = np.asarray(records, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        rows = np.empty(0)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise BadInput("a second moment", "the records are not rows of numbers", "Give (n, inputs)")
    return rows
