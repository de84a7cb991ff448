"""Tallies of private labels and cells, for the owner alone, who looks at them before a campaign begins.

Labels that are no declared class, and cells that hold no number, make nulls of their records. Nobody but the owner may
learn how many there are, so nothing refuses because of them: the owner sees the tallies on a terminal and decides. That
decision is not covered by the guarantee, and the certificate says so. Tallies are not stored, logged or exported.

Audience: owner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.oracles.label_files import PrivateLabels
from discreet.pools import Pool
from discreet.pools.rows import SEVERAL, Mask, Rows, readable_rows

Confirm = Callable[["Tallies"], bool] | bool
"""Who decides: a function of the tallies; True: start, whatever they are, without looking; False: nobody is there."""
_ROWS = 4096


@dataclass(frozen=True, kw_only=True)
class Tallies:
    """What private labelled records look like. Audience: owner; the repr has nothing of it.

    records      how many there are: declared
    classes      records by the declared class of their label
    elsewhere    records whose label is no declared class
    unlabelled   records without a label
    rows         rows of the file of labels that could not be read
    cells        cells that hold no finite number, by column
    unreadable   records with such a cell, or that could not be read at all
    usable       records that teach: readable, with a label of a declared class
    """

    records: int
    classes: Mapping[str, int] = field(repr=False)
    elsewhere: int = field(repr=False)
    unlabelled: int = field(repr=False)
    rows: int = field(repr=False)
    cells: Mapping[str, int] = field(repr=False)
    unreadable: int = field(repr=False)
    usable: int = field(repr=False)

    def text(self) -> str:
        """For a terminal."""
        lines = [f"Private records, for the owner alone: {self.usable} of {self.records} can be learnt from."]
        lines += [f"  label {name}: {count}" for name, count in self.classes.items()]
        lines.append(f"  label of no declared class: {self.elsewhere}")
        lines.append(f"  without a label: {self.unlabelled}; rows of labels that cannot be read: {self.rows}")
        bad = {name: count for name, count in self.cells.items() if count}
        lines += [f"  column {name}: {count} cells are no numbers" for name, count in bad.items()]
        lines.append(f"  records with such cells, or unreadable: {self.unreadable}")
        lines.append("Whether you start after looking at this is not covered by the guarantee.")
        return "\n".join(lines)


def tallies_of(pool: Pool, labels: PrivateLabels, classes: tuple[str, ...]) -> Tallies:
    """Count labels and cells. Reads every private record once, and keeps none."""
    said = [labels.values.get(name) for name in pool.ids]
    known = Counter(one for one in said if one is not None)
    readable = private_rows(pool)[1]
    fine = [one in classes and bool(ok) for one, ok in zip(said, readable, strict=True)]
    return Tallies(
        records=len(pool),
        classes={name: known[name] for name in classes},
        elsewhere=sum(count for name, count in known.items() if name not in classes),
        unlabelled=sum(one is None for one in said),
        rows=labels.unreadable,
        cells=_cells(pool),
        unreadable=int((~readable).sum()),
        usable=sum(fine),
    )


def private_rows(pool: Pool) -> tuple[NDArray[Any], Mask]:
    """All rows, and which of them can be read. Where none of several can, a reader refuses; that would be an error of
    private cells, so they are read a few at a time then.
    """
    try:
        return readable_rows(pool.x, slice(0, len(pool)))
    except BadInput:
        few = SEVERAL - 1
        parts = [readable_rows(pool.x, slice(at, min(at + few, len(pool)))) for at in range(0, len(pool), few)]
        rows, fine = zip(*parts, strict=True)
        return np.concatenate(rows), np.concatenate(fine)


def _cells(pool: Pool) -> dict[str, int]:
    """How many cells of each column hold no finite number, before center and scale."""
    if not isinstance(pool.x, Rows):
        return {}
    counts: NDArray[np.int64] | None = None
    for first in range(0, len(pool), _ROWS):
        stored = np.asarray(pool.x.stored(slice(first, min(first + _ROWS, len(pool))))[0])
        flat = stored.reshape(len(stored), -1)
        wrong = (~np.isfinite(flat)).sum(axis=0) if flat.dtype.kind == "f" else np.zeros(flat.shape[1], dtype=np.int64)
        counts = wrong if counts is None else counts + wrong
    if counts is None:
        return {}
    names = pool.declared.columns
    if names is None or len(names) != len(counts):
        what = pool.declared.array or (names[0] if names else "numbers")
        names = tuple(f"{what}[{place}]" for place in range(len(counts))) if len(counts) <= _NAMED else (what,)
    if len(names) != len(counts):  # pictures, and other records of many numbers
        return {names[0]: int(counts.sum())}
    return dict(zip(names, counts.tolist(), strict=True))


_NAMED = 200
"""Columns of an array that are told one by one, at most."""
