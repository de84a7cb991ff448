"""What became of the cells of a pool, by column: how many cannot be read, and how many records are nulls by them.

Audience: the owner. Counts are of private records: nothing here is stored or logged, and no cell raises an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.derived import JoinedPool, JoinedRows
from discreet.pools.pool import Pool
from discreet.pools.rows import SEVERAL, Mask, StoredRows
from discreet.pools.schema import CellCounts
from discreet.pools.tables import EncodedRows

_ROWS = 4096
_NAMED = 200
"""Columns of an array that are told one by one, at most."""


@dataclass(frozen=True, kw_only=True)
class HeldOutCounts:
    """What of the private records to measure on cannot be read, and how many have no label of a declared class, or are
    in no declared group (None: no groups are declared). Audience: owner.
    """

    cells: CellCounts
    unlabelled: int
    ungrouped: int | None

    def text(self) -> str:
        """For the owner's terminal."""
        lines = [self.cells.text("count nowhere")]
        records = self.cells.records
        lines.append(f"  {self.unlabelled} of {records} have no label of a declared class, and count nowhere")
        if self.ungrouped is not None:
            lines.append(f"  {self.ungrouped} of {records} are in no declared group")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """A form for ``--json``."""
        return {
            "records": self.cells.records,
            "nulls": self.cells.nulls,
            "columns": self.cells.columns,
            "unlabelled": self.unlabelled,
            "ungrouped": self.ungrouped,
        }


def owner_words(counts: Mapping[str, CellCounts | HeldOutCounts | None]) -> str:
    """Counts by the name of what was counted, for the owner's terminal."""
    return "\n".join(f"{name}, for the owner alone: {part.text()}" for name, part in counts.items() if part is not None)


def cell_counts(pool: Pool) -> CellCounts:
    """How many cells of each column cannot be read, and how many records are nulls. Reads every record once.

    Without a schema, a cell that holds no finite number is ``unreadable``; of pictures only records are counted.
    Audience: owner.
    """
    if isinstance(pool, JoinedPool):
        return _sum([cell_counts(part) for part in pool.parts])
    encoded = _of_schema(pool.x)
    if encoded is not None:
        return encoded
    fine, columns = np.ones(len(pool), dtype=bool), dict[str, dict[str, int]]()
    if pool.x is not None:
        fine &= readable(pool.x)
        columns |= {name: _counts(unreadable=cells, nulls=cells) for name, cells in _bad_cells(pool).items()}
    if pool.text is not None:
        with_text = readable(pool.text)
        fine &= with_text
        nulls = int((~with_text).sum())
        columns[pool.declared.text or "text"] = _counts(missing=nulls, nulls=nulls)
    return CellCounts(records=len(pool), nulls=int((~fine).sum()), columns=columns)


def readable(part: Any) -> Mask:
    """Which records of the numbers or the texts of a pool can be read."""
    if not hasattr(part, "readable"):
        return np.ones(len(part), dtype=bool)
    spans = (slice(first, min(first + _ROWS, len(part))) for first in range(0, len(part), _ROWS))
    return np.concatenate([np.zeros(0, dtype=bool), *(_readable(part, span) for span in spans)])


def _readable(part: Any, span: slice) -> Mask:
    """Where none of several can be read, a reader refuses: then few are read at a time, for that is no error here."""
    try:
        return np.asarray(part.readable(span)[1])
    except BadInput:
        if span.stop - span.start < SEVERAL:
            raise
        few = range(span.start, span.stop, SEVERAL - 1)
        return np.concatenate([part.readable(slice(at, min(at + SEVERAL - 1, span.stop)))[1] for at in few])


def _of_schema(x: Any) -> CellCounts | None:
    """The counts of records that a schema encodes; None of others."""
    if isinstance(x, EncodedRows):
        return x.counts()
    parts = [_of_schema(part) for part in x.parts] if isinstance(x, JoinedRows) else [None]
    known = [part for part in parts if part is not None]
    return _sum(known) if len(known) == len(parts) else None


def _sum(parts: list[CellCounts]) -> CellCounts:
    first, *others = parts
    return sum(others, start=first)


def _counts(**counts: int) -> dict[str, int]:
    return {"missing": 0, "unreadable": 0, "outside": 0, "nulls": 0} | counts


def _bad_cells(pool: Pool) -> dict[str, int]:
    """How many cells of each column hold no finite number, before center and scale."""
    parts = pool.x.parts if isinstance(pool.x, JoinedRows) else [pool.x]
    stored = [part for part in parts if isinstance(part, StoredRows)]
    if len(stored) < len(parts):
        return {}
    counts = sum((_not_finite(part) for part in stored), start=np.zeros(1, dtype=np.int64))
    names = pool.declared.columns
    if names is None or len(names) != len(counts):
        what = pool.declared.array or (names[0] if names else "numbers")
        names = tuple(f"{what}[{column}]" for column in range(len(counts))) if len(counts) <= _NAMED else (what,)
    if len(names) != len(counts):  # pictures, and other records of many numbers
        return {names[0]: int(counts.sum())}
    return dict(zip(names, counts.tolist(), strict=True))


def _not_finite(rows: StoredRows) -> NDArray[np.int64]:
    """By column, the cells that hold no finite number."""
    counts = np.zeros(int(np.prod(rows.shape[1:])), dtype=np.int64)
    for first in range(0, len(rows), _ROWS):
        stored = np.asarray(rows.stored(slice(first, min(first + _ROWS, len(rows))))[0])
        if stored.dtype.kind == "f":
            counts += (~np.isfinite(stored.reshape(len(stored), -1))).sum(axis=0)
    return counts
