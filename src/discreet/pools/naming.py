"""Ids of records and names of persons: text, the user's own, without gaps.

Floats, gaps and mixtures are refused, for they give one thing two names (1 and 1.0). Ids must differ. Errors say how
many are wrong, never which. Assumption of every proof: ids are public and not made from what a record holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from discreet.errors import BadInput

POSITION = "position"
"""Declared as ``id``: a record's name is its place in the file."""


def positions(count: int, first: int = 0) -> list[str]:
    """Ids "0", "1", ...: the place is the name. Whoever moves a row renames it."""
    return [str(place) for place in range(first, first + count)]


def ids_of(found: Any, what: str) -> list[str]:
    """All ids as text, each once. ``what``: where they stand, for errors: a parameter."""
    ids = names_of(found, what)
    repeated = len(ids) - len(set(ids))
    if repeated:
        raise BadInput(
            f"the ids in {what}", f"{repeated} repeat an id that was there already", "Give every record its own id"
        )
    return ids


def names_of(found: Any, what: str) -> list[str]:
    """Names as text; whole numbers become text. What cannot name one thing surely is refused."""
    values = _listed(found, what)
    kinds = {type(value) for value in values}
    if type(None) in kinds:
        raise _refused(what, sum(value is None for value in values), "missing", "Fill the gaps")
    if kinds <= {int}:
        return [str(value) for value in values]
    if kinds != {str}:
        wrong = sum(not isinstance(value, str) for value in values)
        raise _refused(what, wrong, "neither all text nor all whole numbers", "Write them as text")
    if "" in values:
        raise _refused(what, values.count(""), "empty", "Fill the gaps")
    odd = sum(not _encodable(value) for value in values)
    if odd:
        raise _refused(what, odd, "not writable as UTF-8", "Rename them")
    return values


def _listed(found: Any, what: str) -> list[Any]:
    """As Python values, each of its own type; numpy would make one type of all."""
    if hasattr(found, "iloc"):
        found = found.to_numpy()
    if isinstance(found, np.ndarray):
        if found.ndim != 1:
            raise BadInput(f"the names in {what}", "they are not a plain list", "Give one name a record")
        return list(found.tolist())
    if hasattr(found, "to_pylist"):
        return list(found.to_pylist())
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise BadInput(f"the names in {what}", "they are not a list", "Give one name a record")
    return [value.item() if isinstance(value, np.generic) else value for value in found]


def _encodable(name: str) -> bool:
    """Halves of pairs cannot be encoded; what numpy takes from a damaged file cannot be decoded again."""
    try:
        return name.isascii() or name.encode().decode() == name
    except UnicodeError:
        return False


def _refused(what: str, count: int, wrong: str, remedy: str) -> BadInput:
    return BadInput(f"the names in {what}", f"{count} are {wrong}", remedy)


def check_size(asked: str, found: int, declared: int | None) -> None:
    """A pool has at least one record, and as many as were declared."""
    if found == 0:
        raise BadInput(asked, "there is no record in it", "Check the path and the kind")
    if declared is not None and found != declared:
        raise BadInput(
            asked, f"size = {declared} is declared, and it has {found} records", "Correct the size, or the file"
        )


def same_length(asked: str, parts: dict[str, Sequence[Any] | None]) -> None:
    """All that is there has a row a record."""
    if len({len(part) for part in parts.values() if part is not None}) > 1:
        named = ", ".join(name for name, part in parts.items() if part is not None)
        raise BadInput(asked, f"{named} are not equally many", "Give one of each a record")
