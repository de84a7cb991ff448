"""Charges that a redo finds again instead of making them twice.

In production a phase is sealed (`SealedPhase`): after a crash the same charges return the same receipts, and every draw
is the same draw. A simulation needs no seal: its seed repeats the draws, and an entry that is already in the ledger is
found again here. A production ledger used directly cannot resume: a second run is a second charge.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.noise.sealed import SealedPhase
from discreet.privacy.ledger import Entry, Ledger, Receipt, Request


def charge_once(where: Ledger | SealedPhase, wanted: Sequence[Request]) -> list[Receipt]:
    """A receipt for each request, durable when this returns; after a restart, the same ones again.

    All requests or none, but for a sealed phase, which makes them one after the other and goes on where it was.
    """
    if isinstance(where, SealedPhase):
        return [where.charge_requested(one) for one in wanted]
    earlier = [_earlier(where, one) for one in wanted]
    missing = [one for one, found in zip(wanted, earlier, strict=True) if found is None]
    fresh = iter(where.charge_all(missing) if missing else [])
    return [where.reissue(found, source=where.source) if found and where.source else next(fresh) for found in earlier]


def _earlier(ledger: Ledger, wanted: Request) -> Entry | None:
    """In a simulation: the entry of the same charge, made before this ledger was opened with the same seed."""
    if not ledger.simulation or ledger.source is None or not ledger.source.fingerprint:
        return None
    key = ledger.source.fingerprint
    same = (entry for entry in ledger.earlier if entry.public == (wanted.why, wanted.charges) and entry.key == key)
    return next(same, None)
