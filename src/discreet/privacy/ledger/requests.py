"""What a ledger is asked for, and what it answers: a charge to make, what one would cost, where a path stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from discreet.errors import BadInput
from discreet.privacy.events import Event
from discreet.privacy.ledger.entries import Charge, Why


@dataclass(frozen=True, kw_only=True)
class Request:
    """One charge to make, perhaps to several groups at once."""

    charges: tuple[Charge, ...]
    why: Why

    def __post_init__(self) -> None:
        groups = [charge.who for charge in self.charges]
        if not groups or len(set(groups)) != len(groups):
            raise BadInput("a charge", "it names no group, or one twice", "Name each group once")


@dataclass(frozen=True, kw_only=True)
class Total:
    """Where a path stands. ``epsilon`` is an odometer; what is claimed is in a certificate. Audience: owner."""

    path: str
    entries: int
    forward: Decimal
    backward: Decimal
    epsilon: Decimal
    remaining: Decimal


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a charge would cost. ``refusal`` says why it would not be taken, or is empty."""

    requested: Decimal
    remaining: Decimal
    total: Decimal
    fits: bool
    refusal: str = ""


def request(events: Mapping[str, Event], *, count: int = 1, why: Why | str) -> Request:
    """A checked request; ``why`` may be just the purpose, in phase 0."""
    reason = Why(purpose=why) if isinstance(why, str) else why
    charges = tuple(Charge(who=who, event=event, count=count) for who, event in events.items())
    return Request(charges=charges, why=reason)
