"""The lines of a ledger: the opening, charges, re-plannings and releases; and reading all of them.

opening      the first line; it holds the terms, so that everything a ledger claims follows from its own lines
entry        one atomic charge and when it was made. Under hidden selection it does not say when: times tell how many
             were asked
re-planning  from it on the ledger has other terms (`discreet.privacy.ledger.admission`)
release      names of released files with their SHA-256, written after they were drawn and stored. It charges nothing.
             From then on the hash chain covers them, and so does every certificate that names a later head

Guarantee: every line holds the hash of the line before it and its own, so a changed byte is found unless all later
lines were hashed anew. Lines hold public facts only: hashes of what was released are as public as what was released; of
anything else a line may only hold a keyed MAC, for a plain hash would confirm a guess. Reading checks each line's
bytes, hash and place; whether the charges keep the terms is checked by whoever opens or verifies the ledger.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet._version import __version__
from discreet.errors import BadInput, DiscreetError, InvalidLedger
from discreet.privacy.ledger.charges import (
    BROKEN,
    HASH,
    MOST_COUNT,
    NOTHING_BEFORE,
    Charge,
    ChargeReason,
    canonical,
    checked_count,
    checked_name,
    checked_time,
    sealed,
    unsealed,
)
from discreet.privacy.ledger.terms import Terms

REPLANNING, RELEASED = "replanning", "released"
_MOST_FILES = 100
_WHAT = {"charges": ("an entry", ""), "terms": ("a re-planning", REPLANNING), "released": ("a release", RELEASED)}
"""By the part that only it has: what a line is, and its purpose, where it has one of its own."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One atomic charge as it stands in the ledger. ``key`` is the fingerprint of a sealed key, or empty.

    ``at``: when it was made; empty under hidden selection, where the owner finds times in the steps of the campaign.
    ``terms``: of a re-planning, which charges nothing; from it on these are the ledger's terms
    (`discreet.privacy.ledger.admission`). ``released``: names and hashes of released files; such an entry charges
    nothing, either (`discreet.privacy.ledger.entries`).
    """

    sequence: int
    at: str
    why: ChargeReason
    charges: tuple[Charge, ...]
    key: str
    previous: str
    hash: str
    terms: Terms | None = field(default=None, repr=False)
    released: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def public(self) -> tuple[ChargeReason, tuple[Charge, ...]]:
        """What must be the same whichever record was there: everything but time, key and hashes."""
        return self.why, self.charges


def write_line(
    *,
    sequence: int,
    at: str,
    why: ChargeReason,
    previous: str,
    charges: tuple[Charge, ...] = (),
    key: str = "",
    terms: Terms | None = None,
    released: Mapping[str, str] | None = None,
) -> tuple[bytes, Entry]:
    """A new entry, re-planning (``terms``) or release of files (``released``), and the line it is stored as."""
    form = {"sequence": sequence, "at": at, "phase": why.phase, "purpose": why.purpose, "previous": previous}
    if terms is not None:
        form["terms"] = terms.to_json()
    elif released is not None:
        form["released"] = released = _checked_files(dict(released))
    else:
        form |= {"charges": [charge.to_json() for charge in charges], "key": key}
    line, digest = sealed(form)
    entry = Entry(
        sequence=sequence,
        at=at,
        why=why,
        charges=charges,
        key=key,
        previous=previous,
        hash=digest,
        terms=terms,
        released=released,
    )
    return line, entry


def read_line(line: bytes) -> Entry:
    """The entry, re-planning or release that a stored line holds."""
    form = unsealed(line)
    part = next((part for part in ("terms", "released") if part in form and "format" not in form), "charges")
    what, purpose = _WHAT[part]
    expected = {"sequence", "at", "phase", "purpose", "previous", part} | ({"key"} if part == "charges" else set())
    if set(form) != expected or (purpose and form["purpose"] != purpose):
        raise InvalidLedger("reading a ledger", f"the parts of {what} are not the expected ones", BROKEN)
    charges, key, previous = form.get("charges", []), form.get("key", ""), form["previous"]
    if not isinstance(charges, list) or not (charges or purpose) or not isinstance(key, str):
        raise InvalidLedger("reading a ledger", "an entry charges nothing", BROKEN)
    if not isinstance(previous, str) or not HASH.fullmatch(previous):
        raise InvalidLedger("reading a ledger", f"{what} does not name the line before it", BROKEN)
    if part == "terms" and not isinstance(form["terms"], dict):
        raise InvalidLedger("reading a ledger", "a re-planning has no terms", BROKEN)
    try:
        entry = Entry(
            sequence=checked_count(form["sequence"], "the number", least=1, largest=MOST_COUNT),
            at="" if form["at"] == "" and part != "terms" else checked_time(form["at"]),
            why=ChargeReason(phase=form["phase"], purpose=form["purpose"]),
            charges=tuple(Charge.from_json(charge) for charge in charges),
            key=checked_name(key, "the key") if key else "",
            previous=previous,
            hash=hashlib.sha256(canonical(form)).hexdigest(),
            terms=Terms.from_json(form["terms"]) if part == "terms" else None,
            released=_checked_files(form["released"]) if part == "released" else None,
        )
    except InvalidLedger:
        raise
    except (DiscreetError, RecursionError) as error:
        fact = error.fact if isinstance(error, DiscreetError) else "it nests too deep"
        raise InvalidLedger("reading a ledger", f"{what} holds what no line may: {fact}", BROKEN) from None
    if [charge.to_json() for charge in entry.charges] != charges:
        raise InvalidLedger("reading a ledger", "an event is not in the one form we write", BROKEN)
    return entry


def _checked_files(released: Any) -> dict[str, str]:
    plain = isinstance(released, dict) and 0 < len(released) <= _MOST_FILES
    if not plain or not all(isinstance(digest, str) and HASH.fullmatch(digest) for digest in released.values()):
        raise BadInput("naming what was released", "it is not a few names with a SHA-256 each", "Hash the files")
    return {checked_name(name, "the file"): digest for name, digest in released.items()}


FORMAT = "discreet.ledger/1"
_OPENING_KEYS = {"format", "id", "at", "simulation", "version", "terms", "sequence", "previous"}


@dataclass(frozen=True, kw_only=True)
class Opening:
    """Who this ledger is and what it promises."""

    id: str
    at: str
    simulation: bool
    version: str
    terms: Terms
    hash: str


def write_opening(terms: Terms, *, id: str, at: str, simulation: bool) -> tuple[bytes, Opening]:  # noqa: A002
    """The first line of a new ledger."""
    form: dict[str, Any] = {
        "format": FORMAT,
        "id": id,
        "at": at,
        "simulation": simulation,
        "version": __version__,
        "terms": terms.to_json(),
        "sequence": 0,
        "previous": NOTHING_BEFORE,
    }
    line, digest = sealed(form)
    return line, Opening(id=id, at=at, simulation=simulation, version=__version__, terms=terms, hash=digest)


def read_opening(line: bytes) -> Opening:
    """The opening a stored line holds."""
    form = unsealed(line)
    if set(form) != _OPENING_KEYS or form["format"] != FORMAT:
        raise InvalidLedger("reading a ledger", f"its first line is not one of {FORMAT}", BROKEN)
    if form["previous"] != NOTHING_BEFORE or form["sequence"] != 0 or type(form["sequence"]) is not int:
        raise InvalidLedger("reading a ledger", "its first line is not a first line", BROKEN)
    if not isinstance(form["id"], str) or not re.fullmatch(r"[0-9a-f]{32}", form["id"], re.ASCII):
        raise InvalidLedger("reading a ledger", "it has no id", BROKEN)
    if type(form["simulation"]) is not bool or not isinstance(form["version"], str) or len(form["version"]) > 40:
        raise InvalidLedger("reading a ledger", "its first line has a part of the wrong type", BROKEN)
    if not isinstance(form["terms"], dict):
        raise InvalidLedger("reading a ledger", "it has no terms", BROKEN)
    _, digest = sealed(form)
    terms = Terms.from_json(form["terms"])
    if terms.continued is not None:
        raise InvalidLedger("reading a ledger", "it goes on from terms that it does not have", BROKEN)
    return Opening(
        id=form["id"],
        at=checked_time(form["at"]),
        simulation=form["simulation"],
        version=form["version"],
        terms=terms,
        hash=digest,
    )


def read_ledger(lines: Sequence[bytes]) -> tuple[Opening, list[Entry]]:
    """Every line, checked against the one before it."""
    if not lines:
        raise InvalidLedger("reading a ledger", "there is nothing in it", "Check the path, or create a ledger")
    opening = read_opening(lines[0])
    entries: list[Entry] = []
    previous = opening.hash
    for number, line in enumerate(lines[1:], start=1):
        entry = read_line(line)
        if entry.sequence != number or entry.previous != previous:
            raise InvalidLedger("reading a ledger", f"line {number + 1} does not follow the line before it", BROKEN)
        if not (entry.at or opening.terms.overflow):
            raise InvalidLedger("reading a ledger", f"line {number + 1} does not say when it was written", BROKEN)
        entries.append(entry)
        previous = entry.hash
    return opening, entries
