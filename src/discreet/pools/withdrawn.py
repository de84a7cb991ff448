"""A pool some of whose records were withdrawn: they keep their places, and nothing of them is read.

Guarantee: a withdrawn record is a null at the place it was enrolled at: zeros, an empty text, its keyed code for an id;
it is `broken`, so it trains nothing, and who selects leaves it out. Whether the owner's file still has it or not makes
no difference, to any other record neither: what is nulled is found by the code of its id.

Where ids are positions a row that is removed renames all that follow: blank it in the file instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import PoolChanged
from discreet.pools.manifest import ManifestKey
from discreet.pools.pool import Pool
from discreet.pools.rows import Mask, Places, RecordArray, Span, places_of, readable_rows, span_of


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
            x=None if pool.x is None else WithdrawnRows(pool.x, sources),
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
        found = sources < 0
        found[~found] = self._whole.broken(sources[~found])
        return found

    def public(self) -> dict[str, Any]:
        """As of the pool; a withdrawn record keeps its slot."""
        return {**self._whole.public(), "size": len(self)}


class WithdrawnRows(RecordArray):
    """Rows by the places of enrolment; zeros where nothing is read."""

    def __init__(self, rows: Any, sources: Places) -> None:
        super().__init__(shape=(len(sources), *(int(size) for size in rows.shape[1:])), dtype=rows.dtype)
        self._rows, self._sources = rows, sources

    def take(self, span: Span) -> NDArray[Any]:
        """The records of a span."""
        return self.readable(span)[0]

    def readable(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """The records of a span and which of them could be read: withdrawn ones are not. Audience: owner."""
        sources = self._sources[span]
        if len(sources) and (sources >= 0).all():
            if (np.diff(sources) == 1).all():  # a slice is read faster
                return readable_rows(self._rows, slice(int(sources[0]), int(sources[-1]) + 1))
            return readable_rows(self._rows, sources)
        found = np.zeros((len(sources), *self.shape[1:]), dtype=self.dtype)
        there = sources >= 0
        fine = there.copy()
        if there.any():
            found[there], fine[there] = readable_rows(self._rows, sources[there])
        return found, fine


class WithdrawnTexts(Sequence[str]):
    """Texts by the places of enrolment; empty where nothing is read."""

    def __init__(self, texts: Any, sources: Places) -> None:
        self._texts, self._sources = texts, sources

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, key: Any) -> Any:
        """One text, or a list of those of a slice, of positions or of a mask."""
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            return self[[key]][0]
        return self.readable(span_of(key, len(self)))[0]

    def readable(self, span: Span) -> tuple[list[str], Mask]:
        """The texts of a span and which of them could be read. Audience: owner."""
        sources = self._sources[span]
        fine = sources >= 0
        found = [""] * len(sources)
        if fine.any():
            texts, readable = self._texts.readable(sources[fine])
            for place, text in zip(np.flatnonzero(fine).tolist(), texts, strict=True):
                found[place] = text
            fine[fine] = readable
        return found, fine

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<{len(self)} texts>"


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
    lost = [ids[place] for place, at in enumerate(where) if at < 0 and place not in erased and place not in gaps]
    there = [at for at in where if at >= 0]
    if lost or len(there) != len(pool) or there != sorted(there):
        extra = set(range(len(pool))) - set(there)
        raise _changed(name, set(lost), {pool.ids[at] for at in extra})
    sources = np.array([-1 if place in erased else at for place, at in enumerate(where)], dtype=np.int64)
    return WithdrawnPool(
        pool,
        names=list(ids),
        sources=sources,
        persons=_persons(pool, where, erased, key),
        codes=[ids[place] for place in erased],
        key=key,
    )


def _places(pool: Pool, ids: Sequence[str], erased: dict[int, bytes], key: ManifestKey) -> list[int]:
    """Where each enrolled record is in ``pool``, -1 where it is not. Only ids that are not enrolled are hashed."""
    position = {one: place for place, one in enumerate(pool.ids)}
    known = {one for place, one in enumerate(ids) if place not in erased}
    coded = {key.withdrawn_id(one): place for one, place in position.items() if one not in known}
    return [position.get(one, coded.get(one, -1) if place in erased else -1) for place, one in enumerate(ids)]


def _persons(pool: Pool, where: list[int], erased: dict[int, bytes], key: ManifestKey) -> list[str] | None:
    """A record that is not in the file any more stays with its person: who was asked once is not asked again."""
    if pool.persons is None:
        return None
    missing = [place for place, at in enumerate(where) if at < 0]
    names = {key.person_code(one): one for one in set(pool.persons)} if missing else {}
    strangers = {place: names.get(erased.get(place, b""), f"withdrawn-{place}") for place in missing}
    return [pool.persons[at] if at >= 0 else strangers[place] for place, at in enumerate(where)]


def _changed(name: str, missing: set[str], there: set[str]) -> PoolChanged:
    lost, added = len(missing - there), len(there - missing)
    return PoolChanged(
        f"the pool of {name}",
        f"{lost} enrolled records are missing, {added} are not enrolled, or their order is another",
        "Restore the pool; new records join with discreet pool extend",
    )
