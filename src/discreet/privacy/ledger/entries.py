"""Entries of a ledger, and the bytes they are stored as.

An entry says who was touched (a cohort, a shard, the pool), by what (an event and how often), why (phase and purpose)
and when. Under hidden selection it does not say when: times tell how many were asked. One entry is one atomic charge,
perhaps to several groups at once: a DP-SGD step touches every cohort at a rate of its own.

Guarantee: an entry has exactly one stored line. The line is canonical JSON (sorted keys, no spaces, ASCII) that holds
the hash of the line before it and its own, so a reader that re-writes what it read finds every changed byte that was
not followed by new hashes in all later lines. Entries hold public numbers only.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from discreet.errors import BadInput, DiscreetError, InvalidLedger
from discreet.privacy.event_forms import REGISTRY, flatten, from_json, to_json
from discreet.privacy.events import Event, ThresholdResponse

if TYPE_CHECKING:
    from discreet.privacy.ledger.terms import Terms

KINDS = frozenset(REGISTRY.values())
NOTHING_BEFORE = "0" * 64
MOST_COUNT = 10**12
MOST_PHASE = 10**9
BROKEN = "Restore the ledger from a copy; `discreet verify` says whether a copy is whole"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/+()-]{0,119}", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


def checked_name(value: Any, what: str) -> str:
    """``value`` if it is a short plain name: names are stored and shown, so they are kept printable."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise BadInput(
            f"{what} of a charge", "it is not a short plain name", "Use up to 120 letters, digits, spaces and ._:/+()-"
        )
    return value


def checked_count(value: Any, what: str, *, least: int, most: int) -> int:
    """``value`` if it is a whole number in range."""
    if type(value) is not int or not least <= value <= most:
        raise BadInput(f"{what} of a charge", f"it is not a whole number from {least} to {most}", "Count again")
    return value


@dataclass(frozen=True, kw_only=True)
class Why:
    """The phase a charge belongs to, and what it is for: public words, never data."""

    phase: int = 0
    purpose: str

    def __post_init__(self) -> None:
        checked_count(self.phase, "the phase", least=0, most=MOST_PHASE)
        checked_name(self.purpose, "the purpose")


@dataclass(frozen=True, kw_only=True)
class Charge:
    """``count`` times ``event``, done to everybody in the group ``who``."""

    who: str
    event: Event
    count: int = 1

    def __post_init__(self) -> None:
        checked_name(self.who, "the group")
        checked_count(self.count, "the count", least=1, most=MOST_COUNT)
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


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One atomic charge as it stands in the ledger. ``key`` is the fingerprint of a sealed key, or empty.

    ``at``: when it was made; empty under hidden selection, where the owner finds times in the steps of the campaign.
    ``terms``: of a re-planning, which charges nothing; from it on these are the ledger's terms
    (`discreet.privacy.ledger.amendments`). ``released``: names and hashes of released files; such an entry charges
    nothing, either (`discreet.privacy.ledger.releases`).
    """

    sequence: int
    at: str
    why: Why
    charges: tuple[Charge, ...]
    key: str
    previous: str
    hash: str
    terms: Terms | None = field(default=None, repr=False)
    released: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def public(self) -> tuple[Why, tuple[Charge, ...]]:
        """What must be the same whichever record was there: everything but time, key and hashes."""
        return self.why, self.charges


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


def write_entry(
    *, sequence: int, at: str, why: Why, charges: tuple[Charge, ...], key: str, previous: str
) -> tuple[bytes, Entry]:
    """A new entry and the line it is stored as."""
    form = {
        "sequence": sequence,
        "at": at,
        "phase": why.phase,
        "purpose": why.purpose,
        "charges": [charge.to_json() for charge in charges],
        "key": key,
        "previous": previous,
    }
    line, digest = sealed(form)
    entry = Entry(sequence=sequence, at=at, why=why, charges=charges, key=key, previous=previous, hash=digest)
    return line, entry


def read_entry(line: bytes) -> Entry:
    """The entry a stored line holds."""
    form = unsealed(line)
    if set(form) != {"sequence", "at", "phase", "purpose", "charges", "key", "previous"}:
        raise InvalidLedger("reading a ledger", "an entry's parts are not the expected ones", BROKEN)
    charges, key, previous = form["charges"], form["key"], form["previous"]
    if not isinstance(charges, list) or not charges or not isinstance(key, str):
        raise InvalidLedger("reading a ledger", "an entry charges nothing", BROKEN)
    if not isinstance(previous, str) or not _HASH.fullmatch(previous):
        raise InvalidLedger("reading a ledger", "an entry does not name the line before it", BROKEN)
    try:
        entry = Entry(
            sequence=checked_count(form["sequence"], "the number", least=1, most=MOST_COUNT),
            at="" if form["at"] == "" else checked_time(form["at"]),
            why=Why(phase=form["phase"], purpose=form["purpose"]),
            charges=tuple(Charge.from_json(charge) for charge in charges),
            key=checked_name(key, "the key") if key else "",
            previous=previous,
            hash=hashlib.sha256(canonical(form)).hexdigest(),
        )
    except InvalidLedger:
        raise
    except (DiscreetError, RecursionError) as error:
        fact = error.fact if isinstance(error, DiscreetError) else "it nests too deep"
        raise InvalidLedger("reading a ledger", f"an entry holds what no charge may: {fact}", BROKEN) from None
    if [charge.to_json() for charge in entry.charges] != charges:
        raise InvalidLedger("reading a ledger", "an event is not in the one form we write", BROKEN)
    return entry


def checked_time(value: Any) -> str:
    """``value`` if it is a time as we write it."""
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise InvalidLedger("reading a ledger", "a time is not in the one form we write", BROKEN)
    return value
