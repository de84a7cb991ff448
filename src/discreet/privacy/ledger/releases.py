"""A ledger line that names what was released, by hash, after it was drawn and stored.

A charge comes before its draw, so it cannot name the outcome. This line comes after it and charges nothing: names of
released files with their SHA-256. From then on the ledger's hash chain covers them, too, and so does every certificate
that names a later head.

Guarantee: a line holds names and hashes alone. Hashes of what was released are as public as what was released; of
anything else a line may only hold a keyed MAC, for a plain hash would confirm a guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from discreet.errors import BadInput, DiscreetError, InvalidLedger
from discreet.privacy.ledger.entries import (
    BROKEN,
    MOST_COUNT,
    Entry,
    Why,
    checked_count,
    checked_name,
    checked_time,
    sealed,
    unsealed,
)

PURPOSE = "released"
KEYS = {"sequence", "at", "phase", "purpose", "released", "previous"}
_MOST = 100
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


def write_release(
    released: Mapping[str, str], *, sequence: int, at: str, phase: int, previous: str
) -> tuple[bytes, Entry]:
    """The line, and the entry it is read as."""
    why, found = Why(phase=phase, purpose=PURPOSE), _checked(dict(released))
    form = {"sequence": sequence, "at": at, "phase": why.phase, "purpose": why.purpose}
    line, digest = sealed(form | {"released": found, "previous": previous})
    return line, Entry(
        sequence=sequence, at=at, why=why, charges=(), key="", previous=previous, hash=digest, released=found
    )


def read_release(line: bytes) -> Entry | None:
    """What a stored line names as released; None for a line that is something else."""
    form: dict[str, Any] = unsealed(line)
    if "released" not in form or "format" in form:
        return None
    if set(form) != KEYS or form["purpose"] != PURPOSE or not isinstance(form["previous"], str):
        raise InvalidLedger("reading a ledger", "the parts of a release are not the expected ones", BROKEN)
    try:
        sequence = checked_count(form["sequence"], "the number", least=1, most=MOST_COUNT)
        why, released = Why(phase=form["phase"], purpose=PURPOSE), _checked(form["released"])
    except DiscreetError as error:
        raise InvalidLedger("reading a ledger", error.fact, BROKEN) from None
    _, digest = sealed(form)
    return Entry(
        sequence=sequence,
        at="" if form["at"] == "" else checked_time(form["at"]),
        why=why,
        charges=(),
        key="",
        previous=form["previous"],
        hash=digest,
        released=released,
    )


def _checked(released: Any) -> dict[str, str]:
    plain = isinstance(released, dict) and 0 < len(released) <= _MOST
    if not plain or not all(isinstance(one, str) and _HASH.fullmatch(one) for one in released.values()):
        raise BadInput("naming what was released", "it is not a few names with a SHA-256 each", "Hash the files")
    return {checked_name(name, "the file"): one for name, one in released.items()}
