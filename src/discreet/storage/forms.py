"""How values are written in columns and read back: JSON, times, names. What cannot be is refused unseen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from discreet.errors import BadInput, InvalidStore
from discreet.records import Value

MOST_BYTES = 1000
"""Of an id or a name: what any database can index."""

MOST = 2**31 - 1
"""Of a phase or a place: what any database calls an integer."""


def now() -> datetime:
    """The time, with its zone."""
    return datetime.now(UTC)


def stamp(at: datetime) -> str:
    """A time as it is stored: UTC, of one length, so that text sorts as time does."""
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise BadInput(
            "a time to store", "it has no time zone", "Give a datetime with tzinfo, such as datetime.now(UTC)"
        )
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment(text: str) -> datetime:
    """A stored time."""
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise changed("a time") from None


def to_json(value: Mapping[str, Any] | None, what: str) -> str:
    """Plain facts as they are stored, in the order they were given."""
    return _dumped({} if value is None else value, what, ordered=False)


def canonical(value: Mapping[str, Any] | None, what: str) -> str:
    """Plain facts as text that is equal if and only if the facts are."""
    return _dumped({} if value is None else value, what, ordered=True)


def _dumped(value: Mapping[str, Any], what: str, *, ordered: bool) -> str:
    try:
        return json.dumps(dict(value), sort_keys=ordered, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise BadInput(what, "it is not plain JSON", "Use strings, finite numbers, lists and mappings") from None


def from_json(text: str) -> Any:
    """What `to_json` stored."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise changed("a fact") from None


def value_to_json(value: Value) -> str:
    """An answer's value: a class, several, or null for a skip."""
    several = isinstance(value, (tuple, list)) and all(isinstance(one, str) for one in value)
    if not (value is None or isinstance(value, str) or several):
        raise BadInput("storing answers", "a value is no class, tuple of classes or None", "Give strings")
    return json.dumps(value)


def value_from_json(text: str) -> Value:
    """What `value_to_json` stored."""
    value = from_json(text)
    if isinstance(value, list):
        return tuple(value)
    if value is None or isinstance(value, str):
        return value
    raise changed("an answer")


def unstorable(text: object, *, empty: bool = False) -> str | None:
    """Why some database could not store and index an id or a name, so that none has it; None: all can."""
    if not isinstance(text, str):
        return "it is not a string"
    if not text and not empty:
        return "it is empty"
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        return "it has characters that cannot be stored"
    if len(text.encode()) > MOST_BYTES:
        return f"it is longer than {MOST_BYTES} bytes"
    return None


def check_text(text: object, what: str, *, empty: bool = False) -> str:
    """An id or a name that every database can store and index."""
    if (fact := unstorable(text, empty=empty)) is not None:
        raise BadInput(what, fact, "Use another one")
    return str(text)


def check_number(number: object, what: str) -> int:
    """A phase or a place."""
    if type(number) is not int or not 0 <= number <= MOST:
        raise BadInput(what, "it is not a whole number from 0 on", "Count from 0")
    return number


def changed(what: str) -> InvalidStore:
    """Something was stored by another hand."""
    return InvalidStore("reading a campaign store", f"{what} in it is not in its stored form", "Restore a copy")
