"""Counting in memory that does not grow: what may be discarded before an exact count, and estimates for the owner.

    CountMin       an upper bound of how often each value was added
    CountMeanMin   an estimate of it, with the other values' expected share taken off; too low as often as too high

Guarantee: `CountMin.upper` is never below what was added, whatever the width, the keys or the collisions, also after
`merge`. So a value whose bound is below k did not reach k. Nothing else here decides anything: sketches are of private
data, and what they say is for the owner.

Values come as codes, 64 or 128 bits each: `UnitWords.value_codes`, keyed, so that nobody without the key can choose
values that collide. Codes of distinct values are taken to be distinct.

Symbols: ``width`` w counters in each of ``depth`` d rows; N is the sum of what was added. Per row a value is counted
too high by N/w on average, and the bound is above the count by e N/w or more with a chance of about exp(-d). Cormode
and Muthukrishnan, 2005; conservative update after Estan and Varghese, 2002; count-mean-min after Deng and Rafiei, 2007,
and Goyal, Daume and Cormode, 2012.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.keyed import SecretKey
from discreet.noise.stream import Words

Counts = NDArray[np.int64]
_NARROW = 2**32 - 1
"""What a counter of 4 bytes can hold; before a sum could pass it, counters are made 8 bytes wide."""
_CHUNK = 1 << 16
"""Codes at once, so that what is computed of them stays in the processor's cache."""
_MOST_DEPTH = 64


class CountMin:
    """An upper bound for every count, in ``width * depth`` counters of 4 bytes.

    With ``conservative``, only those counters rise that must: bounds are closer, adding takes longer, and a merged
    sketch is no longer the one that had been added to at once. It is still never below (docs/reference/sketches.md).
    """

    def __init__(self, width: int, depth: int, seed_key: SecretKey, *, conservative: bool = False) -> None:
        if type(width) is not int or not 1 <= width < 2**32 or type(depth) is not int or not 1 <= depth <= _MOST_DEPTH:
            raise BadInput(
                f"a sketch of {depth} rows of {width} counters",
                f"it has 1 to {_MOST_DEPTH} rows, of fewer than 2^32 counters",
                "Give some 2^20 counters in 4 rows",
            )
        self.width, self.depth, self.conservative = width, depth, conservative
        self.total = 0
        self.cells: NDArray[Any] = np.zeros((depth, width), dtype=np.uint32)
        drawn = seed_key.words([f"{row}/{part}" for row in range(depth) for part in range(3)], "sketch")
        self._seeds = drawn.reshape(depth, 3) | np.array([1, 1, 0], dtype=np.uint64)  # odd multipliers, a free shift

    @property
    def memory(self) -> int:
        """Bytes of all counters."""
        return self.cells.nbytes

    def add(self, codes: Words, counts: Any = 1) -> None:
        """Count each code once, or as often as ``counts`` says."""
        codes = _checked(codes)
        given = np.broadcast_to(np.asarray(counts), (len(codes),))
        if given.dtype.kind not in "iu" or (given.size and given.min() < 0):
            raise BadInput("adding to a sketch", "counts are whole numbers from 0", "Count again")
        self._grow(int(given.sum(dtype=np.uint64)))
        for start in range(0, len(codes), _CHUNK):
            part = slice(start, start + _CHUNK)
            (self._raise if self.conservative else self._sum)(codes[part], given[part])

    def upper(self, codes: Words) -> Counts:
        """For each code a number that is never below how often it was added."""
        codes = _checked(codes)
        found = np.empty(len(codes), dtype=np.int64)
        for start in range(0, len(codes), _CHUNK):
            part = slice(start, start + _CHUNK)
            found[part] = np.min([self.cells[row][at] for row, at in enumerate(self._places(codes[part]))], axis=0)
        return found

    def merge(self, other: CountMin) -> None:
        """Count also what ``other`` counted; it must have the same size and the same key."""
        if (self.width, self.depth) != (other.width, other.depth) or not np.array_equal(self._seeds, other._seeds):
            raise BadInput("merging two sketches", "their sizes or keys differ", "Make both alike")
        self.conservative |= other.conservative
        self.merge_cells(other.cells, other.total)

    def merge_cells(self, cells: NDArray[Any], total: int) -> None:
        """Count also what was counted in ``cells``, of a sketch like this one elsewhere."""
        if cells.shape != self.cells.shape:
            raise BadInput("merging two sketches", "their sizes differ", "Make both alike")
        self._grow(total)
        self.cells += cells.astype(self.cells.dtype, copy=False)

    def _grow(self, added: int) -> None:
        self.total += added
        if self.total > _NARROW and self.cells.dtype != np.uint64:
            self.cells = self.cells.astype(np.uint64)

    def _places(self, codes: Words) -> Iterator[NDArray[np.int64]]:
        """The counter of each code in each row: multiply-shift, then scaled to the width."""
        for low, high, shift in self._seeds:
            mixed = codes * low + shift if codes.ndim == 1 else codes[:, 0] * low + codes[:, 1] * high + shift
            yield (((mixed >> np.uint64(32)) * np.uint64(self.width)) >> np.uint64(32)).astype(np.int64)

    def _sum(self, codes: Words, counts: Any) -> None:
        counts = counts.astype(self.cells.dtype)
        for row, at in enumerate(self._places(codes)):
            np.add.at(self.cells[row], at, counts)

    def _raise(self, codes: Words, counts: Any) -> None:
        """Each distinct code's counters to its bound before, plus its count here; those above stay.

        Every counter of a code is then at least its count, so long as it was before.
        """
        codes, counts = _together(codes, counts)
        places = list(self._places(codes))
        least = np.min([self.cells[row][at] for row, at in enumerate(places)], axis=0) + counts
        for row, at in enumerate(places):
            np.maximum.at(self.cells[row], at, least.astype(self.cells.dtype))

    def __repr__(self) -> str:
        """Never what was counted."""
        return f"CountMin(width={self.width}, depth={self.depth}, conservative={self.conservative})"


class CountMeanMin:
    """Estimates of counts, for the owner: the median over rows of a counter less what others are expected to add.

    With conservative update (the default) what others add is taken from each row's own sum.
    """

    def __init__(self, width: int, depth: int, seed_key: SecretKey, *, conservative: bool = True) -> None:
        if type(width) is int and width < 2:
            raise BadInput(f"estimates from rows of {width}", "others have no counter of their own", "Give 2 or more")
        self._sketch = CountMin(width, depth, seed_key, conservative=conservative)

    def add(self, codes: Words, counts: Any = 1) -> None:
        """Count each code once, or as often as ``counts`` says."""
        self._sketch.add(codes, counts)

    def merge(self, other: CountMeanMin) -> None:
        """Count also what ``other`` counted."""
        self._sketch.merge(other._sketch)

    def estimates(self, codes: Words) -> NDArray[np.float64]:
        """An estimate for each code: from 0, and never above the upper bound; it may be below the count."""
        codes = _checked(codes)
        sums = self._sketch.cells.sum(axis=1, dtype=np.uint64).astype(np.float64)
        found = np.empty(len(codes))
        for start in range(0, len(codes), _CHUNK):
            part = slice(start, start + _CHUNK)
            places = enumerate(self._sketch._places(codes[part]))
            seen = np.stack([self._sketch.cells[row][at].astype(np.float64) for row, at in places])
            residues = seen - (sums[:, None] - seen) / (self._sketch.width - 1)
            found[part] = np.clip(np.median(residues, axis=0), 0, seen.min(axis=0))
        return found

    def __repr__(self) -> str:
        """Never what was counted."""
        return f"CountMeanMin(of {self._sketch!r})"


@dataclass(frozen=True, kw_only=True)
class FalseReleases:
    """What a release decided by count-mean-min would have got wrong, in numbers of values."""

    values: int
    reach: int
    """At or above k in truth."""
    false: int
    """Below k, and released: each breaks the promise."""
    missed: int
    """At or above k, and not released."""


def false_releases(
    counts: Counts, k: int, width: int, depth: int, *, conservative: bool = True, seed: int = 0
) -> FalseReleases:
    """How wrong a release by count-mean-min alone would be. A simulation, for public data.

    ``counts`` is how often each value was kept. Occurrences come in random order, added 65,536 at a time.
    """
    key = SecretKey(seed.to_bytes(32, "little"))
    codes = key.derive("values").words(str(number) for number in range(len(counts)))
    sketch = CountMeanMin(width, depth, key.derive("sketch"), conservative=conservative)
    if conservative:  # what is counted depends on the order
        stream = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        np.random.default_rng(seed).shuffle(stream)
        for start in range(0, len(stream), _CHUNK):
            sketch.add(codes[stream[start : start + _CHUNK]])
    else:
        sketch.add(codes, counts)
    taken, reach = sketch.estimates(codes) >= k, counts >= k
    return FalseReleases(
        values=len(counts),
        reach=int(reach.sum()),
        false=int((taken & ~reach).sum()),
        missed=int((reach & ~taken).sum()),
    )


def _checked(codes: Words) -> Words:
    """(n,) words, or (n, 2)."""
    found = np.asarray(codes)
    if found.dtype != np.uint64 or not (found.ndim == 1 or (found.ndim == 2 and found.shape[1] == 2)):
        raise BadInput("adding to a sketch", "codes are 64 bits, or 128 in two words", "Use UnitWords.value_codes")
    return found


def _together(codes: Words, counts: Any) -> tuple[Words, Any]:
    """Each distinct code once, and the sum of its counts."""
    if not len(codes):
        return codes, counts
    columns = codes[:, None] if codes.ndim == 1 else codes
    order = np.lexsort(columns.T)
    ordered = columns[order]
    first = np.flatnonzero(np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)]))
    return codes[order[first]], np.add.reduceat(counts[order].astype(np.uint64), first)
