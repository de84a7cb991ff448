"""Several pools as one: a campaign that goes on takes in a further cohort. Positions run on, ids stay.

Guarantee: a record keeps its position and its values when a cohort is added. What a pool was extended by is a public
fact: the sizes of cohorts are slots. A person may have records in several cohorts; whoever trains per person decides
what that means (a phase of training takes all records of a person in one cohort).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.pool import Pool
from discreet.pools.rows import Mask, Places, RecordArray, Span, places_of, readable_rows, span_of


class JoinedPool(Pool):
    """Pools one after another; ids must differ, records must have one shape and type."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        parts = tuple(pools)
        if not parts:
            raise BadInput("joining pools", "there is none", "Give one at least")
        _check(parts)
        object.__setattr__(self, "parts", parts)
        starts = list(accumulate((len(part) for part in parts), initial=0))
        super().__init__(
            ids=[name for part in parts for name in part.ids],
            x=None if parts[0].x is None else JoinedRows([part.x for part in parts], starts),
            text=None if parts[0].text is None else JoinedTexts([part.text for part in parts], starts),
            persons=_joined_persons(parts),
            declared=parts[0].declared,
        )

    parts: tuple[Pool, ...]

    def broken(self, places: Any) -> Mask:
        """Which of the records at ``places`` could not be read. Audience: owner."""
        wanted = places_of(span_of(places, len(self)))
        found = np.zeros(len(wanted), dtype=bool)
        starts = list(accumulate((len(part) for part in self.parts), initial=0))
        for number, chosen, local in shared_out(wanted, starts):
            found[chosen] = self.parts[number].broken(local)
        return found

    def public(self) -> dict[str, Any]:
        """As of the first pool, with the size of all, and of each cohort."""
        return {**super().public(), "size": len(self), "cohorts": [len(part) for part in self.parts]}


class JoinedRows(RecordArray):
    """Rows of several arrays."""

    def __init__(self, parts: Sequence[Any], starts: list[int]) -> None:
        super().__init__(shape=(starts[-1], *parts[0].shape[1:]), dtype=parts[0].dtype)
        self._parts, self._starts = parts, starts

    def take(self, span: Span) -> NDArray[Any]:
        """Rows of the parts that are asked."""
        return self.readable(span)[0]

    def readable(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """The rows of a span and which of them could be read. Audience: owner."""
        if isinstance(span, slice):
            pieces = [readable_rows(part, local) for part, local in _slices(self._parts, self._starts, span)]
            if pieces:
                rows, fine = zip(*pieces, strict=True)
                return pieces[0] if len(pieces) == 1 else (np.concatenate(rows), np.concatenate(fine))
        places = places_of(span)
        found = np.zeros((len(places), *self.shape[1:]), dtype=self.dtype)
        readable = np.ones(len(places), dtype=bool)
        for number, chosen, local in shared_out(places, self._starts):
            found[chosen], readable[chosen] = readable_rows(self._parts[number], local)
        return found, readable


class JoinedTexts(Sequence[str]):
    """Texts of several pools."""

    def __init__(self, parts: Sequence[Any], starts: list[int]) -> None:
        self._parts, self._starts = parts, starts

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, key: Any) -> Any:
        """One text, or a list of those of a slice, of positions or of a mask."""
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            return self[[key]][0]
        return self.readable(span_of(key, len(self)))[0]

    def readable(self, span: Span) -> tuple[list[str], Mask]:
        """The texts of a span and which of them could be read. Audience: owner."""
        places = places_of(span)
        found, fine = [""] * len(places), np.zeros(len(places), dtype=bool)
        for number, chosen, local in shared_out(places, self._starts):
            texts, fine[chosen] = self._parts[number].readable(local)
            for place, text in zip(chosen.tolist(), texts, strict=True):
                found[place] = text
        return found, fine

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<{len(self)} texts>"


def shared_out(places: Places, starts: list[int]) -> list[tuple[int, Places, Places]]:
    """For every part that is asked: its number, which of the places are its own, and where they are in it."""
    owner = np.searchsorted(np.array(starts[1:]), places, side="right")
    parts = ((int(number), np.flatnonzero(owner == number)) for number in np.unique(owner))
    return [(number, chosen, places[chosen] - starts[number]) for number, chosen in parts]


def _slices(parts: Sequence[Any], starts: list[int], span: slice) -> list[tuple[Any, slice]]:
    found = []
    for part, start, stop in zip(parts, starts[:-1], starts[1:], strict=True):
        first, last = max(span.start, start), min(span.stop, stop)
        if first < last:
            found.append((part, slice(first - start, last - start)))
    return found


def _joined_persons(parts: Sequence[Pool]) -> list[str] | None:
    found: list[str] = []
    for part in parts:
        if part.persons is None:
            return None
        found += part.persons
    return found


def _check(parts: Sequence[Pool]) -> None:
    total = sum(len(part) for part in parts)
    repeated = total - len({name for part in parts for name in part.ids})
    if repeated:
        raise BadInput("joining pools", f"{repeated} ids are in more than one", "Give new records new ids")
    facts: dict[str, Callable[[Pool], Any]] = {
        "numbers of one shape": lambda part: None if part.x is None else tuple(part.x.shape[1:]),
        "numbers of one type": lambda part: None if part.x is None else str(np.dtype(part.x.dtype)),
        "texts": lambda part: part.text is None,
        "persons": lambda part: part.persons is None,
    }
    for what, fact in facts.items():
        if len({fact(part) for part in parts}) > 1:
            raise BadInput("joining pools", f"they do not all have {what}", "Declare both in the same way")
