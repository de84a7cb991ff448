"""What pays for a selection: charged before anything is drawn, one receipt for each part of its price."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from discreet.errors import BadInput
from discreet.noise import SealedPhase, charge_once
from discreet.privacy.events import Repeated
from discreet.privacy.exact import exact_sum
from discreet.privacy.ledger import Ledger, Receipt, Why
from discreet.privacy.ledger.entries import Charge
from discreet.privacy.ledger.requests import request
from discreet.roles import Selector


def several(receipt: Receipt | Sequence[Receipt]) -> list[Receipt]:
    """Receipts, in the order of the price."""
    return [receipt] if isinstance(receipt, Receipt) else list(receipt)


def one_receipt(receipt: Receipt | Sequence[Receipt]) -> Receipt:
    """The one there is."""
    found = several(receipt)
    if len(found) != 1:
        raise BadInput("a selection", f"it has {len(found)} receipts, and is paid by one", "Charge its price")
    return found[0]


def pure_price(*paid: Receipt) -> Decimal:
    """What the charges cost, taken by themselves; infinite where there is no epsilon at delta 0.

    Groups that one receipt charges are served by the same draws, so a record pays the dearest of them, not their sum.
    """
    return exact_sum(max(_pure(charge) for charge in receipt.entry.charges) for receipt in paid)


def _pure(charge: Charge) -> Decimal:
    epsilon = Repeated(event=charge.event, count=charge.count).pure_epsilon()
    return Decimal("Infinity") if epsilon is None else epsilon


def charge_selection(
    where: Ledger | SealedPhase,
    selector: Selector,
    *,
    k: int,
    pool_size: int,
    who: str | Sequence[str],
    why: Why | str,
) -> list[Receipt]:
    """A receipt for each part of the price, durable when this returns; after a restart, the same ones again
    (`discreet.noise.charge_once`).

    ``who``: the pool; and, for a selector that reads labelled records too, every group of theirs.
    """
    groups = [who] if isinstance(who, str) else list(who)
    wanted = []
    for event in selector.price(k, pool_size):
        each, count = (event.event, event.count) if isinstance(event, Repeated) else (event, 1)
        wanted.append(request(dict.fromkeys(groups, each), count=count, why=why))
    return charge_once(where, wanted) if wanted else []
