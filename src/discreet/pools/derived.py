"""Pools made of other pools: several joined to one, and one some of whose records were withdrawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, PoolChanged
from discreet.pools.manifest import ManifestKey
from discreet.pools.pool import Pool, PoolDeclaration
from discreet.pools.rows import (
    Mask,
    PlacedRows,
    Places,
    RecordArray,
    Span,
    Texts,
    places_of,
    readable_rows,
    shared_out,
    span_of,
)


class JoinedPool(Pool):
    """Pools one after another; ids must differ, records must have one shape and type."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        parts = tuple(pools)
        if not parts:
            raise BadInput("joining pools", "there is none", "Give one at least")
        _check(parts)
        starts = list(accumulate((len(part) for part in parts), initial=0))
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "_starts", starts)
        super().__init__(**_contents(parts, starts), declared=parts[0].declared)

    parts: tuple[Pool, ...]
    _starts: list[int]

    def broken(self, places: Any) -> Mask:
        """Which of the records at ``places`` could not be read. Audience: owner."""
        wanted = places_of(span_of(places, len(self)))
        broken = np.zeros(len(wanted), dtype=bool)
        for number, chosen, local in shared_out(wanted, self._starts):
            broken[chosen] = self.parts[number].broken(local)
        return broken

    def public(self) -> dict[str, Any]:
        """As of the first pool, with the size of all, and of each cohort."""
        return {**super().public(), "size": len(self), "cohorts": [len(part) for part in self.parts]}


def one_pool(parts: Sequence[Pool], declared: PoolDeclaration) -> Pool:
    """The parts of one pool, one after another. How many records each has is not public."""
    _check(parts)
    return Pool(**_contents(parts, list(accumulate((len(part) for part in parts), initial=0))), declared=declared)


def _contents(parts: Sequence[Pool], starts: list[int]) -> dict[str, Any]:
    first = parts[0]
    return {
        "ids": [name for part in parts for name in part.ids],
        "x": None if first.x is None else JoinedRows([part.x for part in parts], starts),
        "text": None if first.text is None else JoinedTexts([part.text for part in parts], starts),
        "persons": None if first.persons is None else [name for part in parts for name in part.persons or ()],
    }


class JoinedRows(RecordArray):
    """StoredRows of several arrays."""

    def __init__(self, parts: Sequence[Any], starts: list[int]) -> None:
        super().__init__(shape=(starts[-1], *parts[0].shape[1:]), dtype=parts[0].dtype)
        self.parts, self._starts = parts, starts

    def readable(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """The rows of a span and which of them could be read. Audience: owner."""
        if isinstance(span, slice):
            pieces = [readable_rows(part, local) for part, local in _slices(self.parts, self._starts, span)]
            if pieces:
                rows, fine = zip(*pieces, strict=True)
                return pieces[0] if len(pieces) == 1 else (np.concatenate(rows), np.concatenate(fine))
        places = places_of(span)
        records = np.zeros((len(places), *self.shape[1:]), dtype=self.dtype)
        readable = np.ones(len(places), dtype=bool)
        for number, chosen, local in shared_out(places, self._starts):
            records[chosen], readable[chosen] = readable_rows(self.parts[number], local)
        return records, readable


class JoinedTexts(Texts):
    """Texts of several pools."""

    def __init__(self, parts: Sequence[Any], starts: list[int]) -> None:
        super().__init__(starts[-1])
        self.parts, self._starts = parts, starts

    def readable(self, span: Span) -> tuple[list[str], Mask]:
        """The texts of a span and which of them could be read. Audience: owner."""
        places = places_of(span)
        joined, fine = [""] * len(places), np.zeros(len(places), dtype=bool)
        for number, chosen, local in shared_out(places, self._starts):
            texts, fine[chosen] = self.parts[number].readable(local)
            for row, text in zip(chosen.tolist(), texts, strict=True):
                joined[row] = text
        return joined, fine


def _slices(parts: Sequence[Any], starts: list[int], span: slice) -> list[tuple[Any, slice]]:
    slices = []
    for part, start, stop in zip(parts, starts[:-1], starts[1:], strict=True):
        first, last = max(span.start, start), min(span.stop, stop)
        if first < last:
            slices.append((part, slice(first - start, last - start)))
    return slices


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


# A pool some of whose records were withdrawn: they keep their places, and nothing of them is read.
#
# Guarantee: a withdrawn record is a null at the place it was enrolled at: zeros, an empty text, its keyed code for an
# id; it is `broken`, so it trains nothing, and who selects leaves it out. Whether the owner's file still has it or not
# makes no difference, to any other record neither: what is nulled is found by the code of its id.
#
# Where ids are positions a row that is removed renames all that follow: blank it in the file instead.


class WithdrawnPool(Pool):
    """``pool`` in the order of enrolment.

    names     enrolled ids; a withdrawn record's is its code
    sources   where each record is in ``pool``; -1: nothing is read of it
    persons   by place, if there are any
    codes     of the records that were withdrawn
    """

    def __init__(
        self,
        pool: Pool,
        *,
        names: list[str],
        sources: Places,
        persons: list[str] | None,
        codes: Iterable[str],
        key: ManifestKey,
    ) -> None:
        object.__setattr__(self, "_sources", sources)
        object.__setattr__(self, "_whole", pool)
        object.__setattr__(self, "_codes", frozenset(codes))
        object.__setattr__(self, "_key", key)
        super().__init__(
            ids=names,
            x=None if pool.x is None else PlacedRows(pool.x, sources),
            text=None if pool.text is None else WithdrawnTexts(pool.text, sources),
            persons=persons,
            declared=pool.declared,
        )

    _sources: Places
    _whole: Pool
    _codes: frozenset[str]
    _key: ManifestKey

    @property
    def withdrawn(self) -> frozenset[str]:
        """Codes of the records that were withdrawn."""
        return self._codes

    def withdrew(self, name: str) -> bool:
        """Whether the record of this id was withdrawn."""
        return name in self._codes or self._key.withdrawn_id(name) in self._codes

    def broken(self, places: Any) -> Mask:
        """Withdrawn ones, and those that could not be read. Audience: owner."""
        sources = self._sources[places_of(span_of(places, len(self)))]
        broken = sources < 0
        broken[~broken] = self._whole.broken(sources[~broken])
        return broken

    def public(self) -> dict[str, Any]:
        """As of the pool; a withdrawn record keeps its slot."""
        return {**self._whole.public(), "size": len(self)}


class WithdrawnTexts(Texts):
    """Texts by the places of enrolment; empty where nothing is read."""

    def __init__(self, texts: Any, sources: Places) -> None:
        super().__init__(len(sources))
        self._texts, self._sources = texts, sources

    def readable(self, span: Span) -> tuple[list[str], Mask]:
        """The texts of a span and which of them could be read. Audience: owner."""
        sources = self._sources[span]
        fine = sources >= 0
        enrolled = [""] * len(sources)
        if fine.any():
            texts, readable = self._texts.readable(sources[fine])
            for row, text in zip(np.flatnonzero(fine).tolist(), texts, strict=True):
                enrolled[row] = text
            fine[fine] = readable
        return enrolled, fine


def with_withdrawn(
    pool: Pool,
    ids: Sequence[str],
    *,
    marked: Iterable[int],
    erased: dict[int, bytes],
    key: ManifestKey,
    name: str,
) -> Pool:
    """``pool`` as it was enrolled under ``ids``, with nulls for withdrawn records; or `PoolChanged`.

    marked    places of records that are to be erased: used if they are there, nulls if they are not
    erased    places of records whose ids are codes now, and the codes of their persons
    """
    gaps = set(marked)
    if not erased and not gaps:
        if list(ids) != pool.ids:
            raise _changed(name, set(ids), set(pool.ids))
        return pool
    where = _places(pool, ids, erased, key)
    lost = [ids[row] for row, at in enumerate(where) if at < 0 and row not in erased and row not in gaps]
    present = [at for at in where if at >= 0]
    if lost or len(present) != len(pool) or present != sorted(present):
        extra = set(range(len(pool))) - set(present)
        raise _changed(name, set(lost), {pool.ids[at] for at in extra})
    sources = np.array([-1 if row in erased else at for row, at in enumerate(where)], dtype=np.int64)
    return WithdrawnPool(
        pool,
        names=list(ids),
        sources=sources,
        persons=_persons(pool, where, erased, key),
        codes=[ids[row] for row in erased],
        key=key,
    )


def _places(pool: Pool, ids: Sequence[str], erased: dict[int, bytes], key: ManifestKey) -> list[int]:
    """Where each enrolled record is in ``pool``, -1 where it is not. Only ids that are not enrolled are hashed."""
    position = {name: row for row, name in enumerate(pool.ids)}
    known = {name for row, name in enumerate(ids) if row not in erased}
    coded = {key.withdrawn_id(name): row for name, row in position.items() if name not in known}
    return [position.get(name, coded.get(name, -1) if row in erased else -1) for row, name in enumerate(ids)]


def _persons(pool: Pool, where: list[int], erased: dict[int, bytes], key: ManifestKey) -> list[str] | None:
    """A record that is not in the file any more stays with its person: who was asked once is not asked again."""
    if pool.persons is None:
        return None
    missing = [row for row, at in enumerate(where) if at < 0]
    names = {key.person_code(person): person for person in set(pool.persons)} if missing else {}
    strangers = {row: names.get(erased.get(row, b""), f"withdrawn-{row}") for row in missing}
    return [pool.persons[at] if at >= 0 else strangers[row] for row, at in enumerate(where)]


def _changed(name: str, missing: set[str], present: set[str]) -> PoolChanged:
    lost, added = len(missing - present), len(present - missing)
    return PoolChanged(
        f"the pool of {name}",
        f"{lost} enrolled records are missing, {added} are not enrolled, or their order is another",
        "Restore the pool; new records join with discreet pool extend",
    )
