"""What a stream costs a record: one entry, charged before the first record, however long the stream runs.

    missed: the ask bit alone                           forward 0,     backward eps_n
    asked:  the ask bit, then one update (and a count)  forward eps_a, backward 0, then the update's event

So the price is max(eps_a + eps_g, eps_n) with Gamma noise; with Gaussian noise the asked path is certified by PLD after
its selection loss. A preparation that was paid for joins every path, before the branch.
Proof: docs/proofs/streams.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from discreet.noise.sealed import SealedPhase
from discreet.privacy.budget import Budget
from discreet.privacy.events import Event
from discreet.privacy.exact import Number
from discreet.privacy.ledger import Ledger, Receipt, Terms
from discreet.stream.asking import Asking
from discreet.stream.drift import DriftWatch
from discreet.stream.update_noise import GaussianNoise, UpdateNoise

ARRIVING, ASKED, PREPARED = "arriving", "asked", "prepared"
"""The groups of a stream's ledger: every record; those who were asked; those a paid preparation looked at."""
PREPARATION, STREAM = 0, 1
"""Its phases."""


@dataclass(frozen=True, kw_only=True)
class StreamPrice:
    """What each path of a record costs, and the worst of them."""

    epsilon: Decimal
    delta: Decimal
    asked: Decimal
    missed: Decimal

    def in_words(self) -> str:
        """One sentence for people."""
        raise NotImplementedError


def stream_terms(
    budget: Budget,
    *,
    asking: Asking,
    noise: UpdateNoise,
    drift: DriftWatch | None = None,
    preparation: Sequence[Event] = (),
    preparation_delta: Number = 0,
) -> Terms:
    """The committed terms of a stream's ledger. ``preparation``: events that every record pays before it arrives; those
    that are not pure are one block of (epsilon, ``preparation_delta``).
    """
    raise NotImplementedError


def stream_price(
    *,
    delta: Number,
    asking: Asking,
    noise: UpdateNoise,
    drift: DriftWatch | None = None,
    preparation: Sequence[Event] = (),
    preparation_delta: Number = 0,
) -> StreamPrice:
    """What a stream costs a record at ``delta``: certified, rounded up."""
    raise NotImplementedError


def charge_stream(
    where: Ledger | SealedPhase, *, asking: Asking, noise: UpdateNoise, drift: DriftWatch | None = None
) -> Receipt:
    """Charge the stream's one entry; durable when it returns. After a restart (a sealed phase, or a simulation opened
    with its seed) the same receipt again.
    """
    raise NotImplementedError


def charge_preparation(where: Ledger | SealedPhase, event: Event, *, purpose: str = "preparation") -> Receipt:
    """Charge one event of a paid preparation, before the stream."""
    raise NotImplementedError


def gaussian_noise_for(
    budget: Budget, *, asking: Asking, drift: DriftWatch | None = None, preparation: Sequence[Event] = ()
) -> GaussianNoise:
    """The least Gaussian noise with which the stream keeps ``budget``, by PLD; on the safe side of the search."""
    raise NotImplementedError
