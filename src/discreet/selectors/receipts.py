"""What pays for a selection."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from discreet.errors import BadInput
from discreet.privacy.exact import exact_sum
from discreet.privacy.ledger import Receipt


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
    """What the charges cost, taken by themselves; infinite where there is no epsilon at delta 0."""
    each = [event.pure_epsilon() for receipt in paid for event in receipt.events()]
    known = [epsilon for epsilon in each if epsilon is not None]
    return exact_sum(known) if len(known) == len(each) else Decimal("Infinity")
