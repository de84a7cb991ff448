"""Charges: who is charged, by what event, how often and why; and the bytes a ledger line is stored as.

A charge says who was touched (a cohort, a shard, the pool), by what (an event and how often) and why (phase and
purpose). One request is one atomic charge, perhaps to several groups at once: a DP-SGD step touches every cohort at a
rate of its own.

Guarantee: a line has exactly one stored form: canonical JSON (sorted keys, no spaces, ASCII) with its own hash, so a
reader that re-writes what it read finds every changed byte. Charges hold public numbers only.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from discreet.errors import BadInput, DiscreetError, InvalidLedger
from discreet.privacy.event_forms import REGISTRY, flatten, from_json, to_json
from discreet.privacy.events import Event, ThresholdResponse

KINDS = frozenset(REGISTRY.values())
NOTHING_BEFORE = "0" * 64
MOST_COUNT = 10**12
MOST_PHASE = 10**9
BROKEN = "Restore the ledger from a copy; `discreet verify` says whether a copy is whole"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/+()-]{0,119}", re.ASCII)
HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


def checked_name(value: Any, what: str) -> str:
    """``value`` if it is a short plain name: names are stored and shown, so they are kept printable."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise BadInput(
            f"{what} of a charge", "it is not a short plain name", "Use up to 120 letters, digits, spaces and ._:/+()-"
        )
    return value


def checked_count(value: Any, what: str, *, least: int, largest: int) -> int:
    """``value`` if it is a whole number in range."""
    if type(value) is not int or not least <= value <= largest:
        raise BadInput(f"{what} of a charge", f"it is not a whole number from {least} to {largest}", "Count again")
    return value


@dataclass(frozen=True, kw_only=True)
class ChargeReason:
    """The phase a charge belongs to, and what it is for: public words, never data."""

    phase: int = 0
    purpose: str

    def __post_init__(self) -> None:
        checked_count(self.phase, "the phase", least=0, largest=MOST_PHASE)
        checked_name(self.purpose, "the purpose")


@dataclass(frozen=True, kw_only=True)
class Charge:
    """``count`` times ``event``, done to everybody in the group ``who``."""

    who: str
    event: Event
    count: int = 1

    def __post_init__(self) -> None:
        checked_name(self.who, "the group")
        checked_count(self.count, "the count", least=1, largest=MOST_COUNT)
        if isinstance(self.event, Event) and not isinstance(self.event, ThresholdResponse) and _chooses(self.event):
            raise BadInput("the event of a charge", "it wraps a threshold response", "Charge the response by itself")
        if type(self.event) not in KINDS or not _storable(self.event):
            raise BadInput(
                "the event of a charge", "it has no stored form", "Use the events of discreet.privacy.events"
            )

    def to_json(self) -> dict[str, Any]:
        """A form that reads back to an equal value."""
        return {"who": self.who, "event": to_json(self.event), "count": self.count}

    @classmethod
    def from_json(cls, form: Any) -> Charge:
        """The inverse of `to_json`; strict about its keys."""
        if not isinstance(form, dict) or set(form) != {"who", "event", "count"}:
            raise InvalidLedger("reading a charge", "its keys are not who, event and count", BROKEN)
        return cls(who=form["who"], event=from_json(form["event"]), count=form["count"])


@functools.lru_cache(maxsize=4096)
def _chooses(event: Event) -> bool:
    """Whether a threshold response is inside, where nobody would see that it decides a path."""
    return any(isinstance(part, ThresholdResponse) for part, _ in flatten(event))


@functools.lru_cache(maxsize=4096)
def _storable(event: Event) -> bool:
    """Whether the event reads back as it is: a line nobody can read would end its ledger."""
    try:
        return bool(from_json(json.loads(canonical(to_json(event)))) == event)
    except (DiscreetError, ValueError, TypeError, ArithmeticError, RecursionError):
        return False


def canonical(form: Any) -> bytes:
    """The one way this value is written."""
    return json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def sealed(form: dict[str, Any]) -> tuple[bytes, str]:
    """The stored line of ``form`` and its hash."""
    digest = hashlib.sha256(canonical(form)).hexdigest()
    return canonical(form | {"hash": digest}) + b"\n", digest


def unsealed(line: bytes) -> dict[str, Any]:
    """The form a stored line holds, without its hash; any change to the line is found."""
    try:
        form = json.loads(line.decode("ascii"))
        again = canonical(form) + b"\n"
    except (ValueError, RecursionError):
        raise InvalidLedger("reading a ledger", "a line is not JSON", BROKEN) from None
    if not isinstance(form, dict) or again != line:
        raise InvalidLedger("reading a ledger", "a line is not in the one form we write", BROKEN)
    digest = form.pop("hash", None)
    if digest != hashlib.sha256(canonical(form)).hexdigest():
        raise InvalidLedger("reading a ledger", "a line does not have the hash it names", BROKEN)
    return form


def checked_time(value: Any) -> str:
    """``value`` if it is a time as we write it."""
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise InvalidLedger("reading a ledger", "a time is not in the one form we write", BROKEN)
    return value


@dataclass(frozen=True, kw_only=True)
class Request:
    """One charge to make, perhaps to several groups at once."""

    charges: tuple[Charge, ...]
    why: ChargeReason

    def __post_init__(self) -> None:
        groups = [charge.who for charge in self.charges]
        if not groups or len(set(groups)) != len(groups):
            raise BadInput("a charge", "it names no group, or one twice", "Name each group once")


@dataclass(frozen=True, kw_only=True)
class PathBalance:
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


def request(events: Mapping[str, Event], *, count: int = 1, why: ChargeReason | str) -> Request:
    """A checked request; ``why`` may be just the purpose, in phase 0."""
    reason = ChargeReason(purpose=why) if isinstance(why, str) else why
    charges = tuple(Charge(who=who, event=event, count=count) for who, event in events.items())
    return Request(charges=charges, why=reason)
