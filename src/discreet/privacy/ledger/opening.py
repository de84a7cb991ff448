"""The first line of a ledger, and reading all of it.

The opening holds the terms, so that everything a ledger claims follows from its own lines. Reading checks each line's
bytes, hash and place; whether the charges keep the terms is checked by whoever opens or verifies the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet._version import __version__
from discreet.errors import InvalidLedger
from discreet.privacy.ledger.amendments import read_amendment
from discreet.privacy.ledger.entries import (
    BROKEN,
    NOTHING_BEFORE,
    Entry,
    checked_time,
    read_entry,
    sealed,
    unsealed,
)
from discreet.privacy.ledger.releases import read_release
from discreet.privacy.ledger.terms import Terms

FORMAT = "discreet.ledger/1"
KEYS = {"format", "id", "at", "simulation", "version", "terms", "sequence", "previous"}


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
    if set(form) != KEYS or form["format"] != FORMAT:
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
        entry = read_amendment(line) or read_release(line) or read_entry(line)
        if entry.sequence != number or entry.previous != previous:
            raise InvalidLedger("reading a ledger", f"line {number + 1} does not follow the line before it", BROKEN)
        if not (entry.at or opening.terms.overflow):
            raise InvalidLedger("reading a ledger", f"line {number + 1} does not say when it was written", BROKEN)
        entries.append(entry)
        previous = entry.hash
    return opening, entries
