"""The only door: a mechanism goes through `release`, which takes one draw off a receipt before anything is drawn.

Checked in this order, so that a refused call costs nothing: the receipt is real and usable, it pays for this kind of
mechanism, the arguments make sense; then the draw is taken, then noise is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise.sources import Call, Source, Streams
from discreet.noise.stream import Floats
from discreet.privacy.events import Event
from discreet.privacy.ledger.receipts import Receipt, Ticket

T = TypeVar("T")
E = TypeVar("E", bound=Event)
RELEASE = "release"


def paid_events(
    receipt: Receipt, kinds: tuple[type[Event], ...], mechanism: str, who: str | None = None
) -> tuple[Event, ...]:
    """The events ``receipt`` paid for, all of one of ``kinds``; refuses anything that is not a usable receipt."""
    if type(receipt) is not Receipt:
        raise ReceiptRefused(
            f"drawing {mechanism} noise", "there is no receipt for it", "Charge the ledger first and pass its receipt"
        )
    receipt.check()
    if not isinstance(receipt.source, Source):
        raise ReceiptRefused(
            f"drawing {mechanism} noise",
            "the ledger was opened without a source of randomness",
            "Open it with discreet.noise.OperatingSystem()",
        )
    events = receipt.events(who)
    for event in events:
        if not isinstance(event, kinds):
            wanted = " or ".join(kind.kind for kind in kinds)
            raise ReceiptRefused(
                f"drawing {mechanism} noise on receipt {receipt.entry.sequence}",
                f"it was charged for {event.kind}, not for {wanted}",
                "Charge the event that is drawn",
            )
    return events


def paid_event(receipt: Receipt, kind: type[E], mechanism: str, who: str | None = None) -> E:
    """As `paid_events`, where all groups that are served at once were charged the same event."""
    first, *others = paid_events(receipt, (kind,), mechanism, who)
    if any(other != first for other in others):
        raise ReceiptRefused(
            f"one draw of {mechanism} noise on receipt {receipt.entry.sequence}",
            "its groups were charged for different events",
            "Serve each group by itself, or charge all of them the same",
        )
    assert isinstance(first, kind)  # checked above
    return first


def paid_epsilon(receipt: Receipt, kinds: tuple[type[Event], ...], mechanism: str, who: str | None = None) -> Fraction:
    """The exact, positive epsilon of the pure event that was charged."""
    kind = next((k for k in kinds if type(receipt) is Receipt and isinstance(receipt.events(who)[0], k)), kinds[0])
    epsilon = paid_event(receipt, kind, mechanism, who).pure_epsilon()
    assert epsilon is not None  # kinds are pure
    if epsilon == 0:
        raise BadInput(f"{mechanism} noise at epsilon=0", "no finite noise hides everything", "Charge more than 0")
    return Fraction(epsilon)


def release(
    receipt: Receipt,
    mechanism: str,
    sampler: Callable[[Streams], T],
    *,
    inputs: Any,
    measure: str,
    sensitivity: float,
    parameters: Mapping[str, Any] | None = None,
    who: str | None = None,
    slot: str = RELEASE,
    after: tuple[str, Sequence[str]] = ("", ()),
    ticket: Ticket | None = None,
) -> T:
    """Take a draw off ``receipt`` and let its source make the output."""
    taken = receipt.take(slot, who, after=after) if ticket is None else ticket
    call = Call(
        mechanism=mechanism,
        ticket=taken,
        parameters=dict(parameters or {}),
        inputs=inputs,
        measure=measure,
        sensitivity=sensitivity,
    )
    source = receipt.source
    assert isinstance(source, Source)  # checked by paid_event
    return source.perform(call, sampler)


def positive(value: Any, what: str) -> float:
    """A declared, public, positive number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise BadInput(f"{what}", "it is not a number", "Declare a positive number")
    if not (np.isfinite(value) and value > 0):
        raise BadInput(f"{what}={value}", "it must be positive and finite", "Declare a positive number")
    return float(value)


def private_floats(value: Any) -> Floats:
    """Private values as floats. One that is not finite counts as 0: an error would say that it was there."""
    try:
        values = np.array(value, dtype=np.float64)
    except OverflowError:  # a whole number beyond any float, which is as good as infinite
        values = np.vectorize(_float_or_nan, otypes=[np.float64])(np.array(value, dtype=object))
    except (TypeError, ValueError):
        raise BadInput("a value to hide", "it is not an array of numbers", "Give a number or an array") from None
    values[~np.isfinite(values)] = 0.0
    return values


def _float_or_nan(value: Any) -> float:
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return np.nan


def same_shape(result: Floats, value: Any) -> Any:
    """``result`` as a plain float where a plain number came in."""
    return float(result) if np.ndim(value) == 0 else result
