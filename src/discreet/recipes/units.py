"""What is asked as one: a record, or a person with all of their records.

A person has one score, the highest of their records', one place in a histogram and one coin, and enters one cohort with
all records. So persons pay for selection what records pay, and nothing m-fold. A person with more records than
``most`` takes part with the first ones; the others are never asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.pools import Pool
from discreet.privacy.budget import Unit

Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, repr=False)
class Units:
    """Units of a pool by name, and the places of their records."""

    names: list[str]
    records: dict[str, list[int]] | None = field(default=None)
    """None: every unit is a record, in the pool's order. Withdrawn records are left out."""
    first: dict[str, int] = field(default_factory=dict)
    """The first record of a person, also if it was withdrawn: who was asked by it stays asked."""

    @classmethod
    def of(cls, pool: Pool, unit: Unit, most: int) -> Units:
        """The units of ``pool``."""
        if unit == "record":
            return cls(names=pool.ids)
        assert pool.persons is not None  # checked when the campaign was created
        found: dict[str, list[int]] = {}
        for place, person in enumerate(pool.persons):
            mine = found.setdefault(person, [])
            if len(mine) < most:
                mine.append(place)
        first = {person: mine[0] for person, mine in found.items()}
        gone = pool.withdrawn
        left = (
            {person: [p for p in mine if pool.ids[p] not in gone] for person, mine in found.items()} if gone else found
        )
        return cls(names=list(found), records=left, first=first)

    def gone(self, pool: Pool) -> frozenset[str]:
        """Units all of whose records were withdrawn."""
        if self.records is None:
            return pool.withdrawn
        return frozenset(name for name, mine in self.records.items() if not mine)

    def places(self, numbers: Places) -> Places:
        """Places of the records of units, given by their numbers; units in that order."""
        if self.records is None:
            return numbers
        found = [place for number in numbers.tolist() for place in self.records[self.names[number]]]
        return np.array(found, dtype=np.int64)

    def scores(self, numbers: Places, of_records: NDArray[np.float64]) -> NDArray[np.float64]:
        """A score a unit, of the scores of the records at `places`; NaN of a unit that has none left."""
        if self.records is None:
            return of_records
        counts = np.array([len(self.records[self.names[number]]) for number in numbers.tolist()], dtype=np.int64)
        found = np.full(counts.size, np.nan)
        there = np.flatnonzero(counts)
        if there.size:
            found[there] = np.fmax.reduceat(of_records, (np.cumsum(counts) - counts)[there])
        return found

    def record_ids(self, pool: Pool, names: Iterable[str]) -> list[str]:
        """Ids of the records of units, units in that order."""
        if self.records is None:
            return list(names)
        return [pool.ids[place] for name in names for place in self.records[name]]


class RowsAt:
    """Rows of ``x`` at places, in one type, read when they are asked for: a part of a pool, never copied whole.

    ``broken``: which of the rows that were read so far could not be, and are blank. Audience: owner.
    """

    def __init__(self, x: Any, places: Places | Sequence[int], *, dtype: Any = np.float32) -> None:
        self._x, self._places = x, np.asarray(places, dtype=np.int64)
        self.broken = np.zeros(len(self._places), dtype=np.bool_)
        self.shape = (len(self._places), *x.shape[1:])
        self.dtype = np.dtype(dtype)
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._places)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Rows by a slice, a mask or places; one row by its number."""
        if isinstance(key, int | np.integer):
            return np.asarray(self._x[int(self._places[key])], dtype=self.dtype)
        places = self._places[key]
        whole = len(places) and isinstance(key, slice) and (np.diff(places) == 1).all()
        span = slice(int(places[0]), int(places[-1]) + 1) if whole else places
        if not hasattr(self._x, "readable"):
            return np.asarray(self._x[span], dtype=self.dtype)
        rows, fine = self._x.readable(span)
        self.broken[key] = ~np.asarray(fine)
        return np.asarray(rows, dtype=self.dtype)

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<RowsAt: {len(self)} records>"
