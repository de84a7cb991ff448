"""Sketches in fixed memory: what may be discarded before an exact count, and estimates for the owner.

    CountMin       an upper bound of how often each value was added
    HyperLogLog    an estimate of how many distinct values were added

Guarantee: `CountMin.upper` is never below what was added, whatever the width, the keys or the collisions, also after
`merge`. So a value whose bound is below k did not reach k. Nothing else here decides anything: sketches are of private
data, and what they say is for the owner.

Values come as codes, 64 or 128 bits each: `UnitWords.value_codes`, keyed, so that nobody without the key can choose
values that collide. Codes of distinct values are taken to be distinct.

Symbols: ``width`` w counters in each of ``depth`` d rows; N is the sum of what was added. Per row a value is counted
too high by N/w on average, and the bound is above the count by e N/w or more with a chance of about exp(-d). Cormode
and Muthukrishnan, 2005; conservative update after Estan and Varghese, 2002.

HyperLogLog: its standard error is 1.04 / sqrt(2^precision), 0.8% at 14, at any number of values, and `merge` of the
sketches of parts is the sketch of the whole, bit for bit. Flajolet, Fusy, Gandouet and Meunier, 2007; the estimator of
Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017 (algorithm 6), which needs no bias tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.keys import SecretKey
from discreet.noise.stream import Words

Counts = NDArray[np.int64]
_NARROW = 2**32 - 1
"""What a counter of 4 bytes can hold; before a sum could pass it, counters are made 8 bytes wide."""
CHUNK = 1 << 16
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

    def add(self, codes: Words, counts: Any = 1) -> None:
        """Count each code once, or as often as ``counts`` says."""
        codes = checked_codes(codes)
        each_count = np.broadcast_to(np.asarray(counts), (len(codes),))
        if each_count.dtype.kind not in "iu" or (each_count.size and each_count.min() < 0):
            raise BadInput("adding to a sketch", "counts are whole numbers from 0", "Count again")
        self._grow(int(each_count.sum(dtype=np.uint64)))
        for start in range(0, len(codes), CHUNK):
            part = slice(start, start + CHUNK)
            (self._raise if self.conservative else self._sum)(codes[part], each_count[part])

    def upper(self, codes: Words) -> Counts:
        """For each code a number that is never below how often it was added."""
        codes = checked_codes(codes)
        bounds = np.empty(len(codes), dtype=np.int64)
        for start in range(0, len(codes), CHUNK):
            part = slice(start, start + CHUNK)
            bounds[part] = np.min([self.cells[row][at] for row, at in enumerate(self.places(codes[part]))], axis=0)
        return bounds

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

    def places(self, codes: Words) -> Iterator[NDArray[np.int64]]:
        """The counter of each code in each row: multiply-shift, then scaled to the width."""
        for low, high, shift in self._seeds:
            mixed = codes * low + shift if codes.ndim == 1 else codes[:, 0] * low + codes[:, 1] * high + shift
            yield (((mixed >> np.uint64(32)) * np.uint64(self.width)) >> np.uint64(32)).astype(np.int64)

    def _sum(self, codes: Words, counts: Any) -> None:
        counts = counts.astype(self.cells.dtype)
        for row, at in enumerate(self.places(codes)):
            np.add.at(self.cells[row], at, counts)

    def _raise(self, codes: Words, counts: Any) -> None:
        """Each distinct code's counters to its bound before, plus its count here; those above stay.

        Every counter of a code is then at least its count, so long as it was before.
        """
        codes, counts = _together(codes, counts)
        places = list(self.places(codes))
        least = np.min([self.cells[row][at] for row, at in enumerate(places)], axis=0) + counts
        for row, at in enumerate(places):
            np.maximum.at(self.cells[row], at, least.astype(self.cells.dtype))

    def __repr__(self) -> str:
        """Never what was counted."""
        return f"CountMin(width={self.width}, depth={self.depth}, conservative={self.conservative})"


def checked_codes(codes: Words) -> Words:
    """(n,) words, or (n, 2)."""
    words = np.asarray(codes)
    if words.dtype != np.uint64 or not (words.ndim == 1 or (words.ndim == 2 and words.shape[1] == 2)):
        raise BadInput("adding to a sketch", "codes are 64 bits, or 128 in two words", "Use UnitWords.value_codes")
    return words


def _together(codes: Words, counts: Any) -> tuple[Words, Any]:
    """Each distinct code once, and the sum of its counts."""
    if not len(codes):
        return codes, counts
    columns = codes[:, None] if codes.ndim == 1 else codes
    order = np.lexsort(columns.T)
    ordered = columns[order]
    first = np.flatnonzero(np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)]))
    return codes[order[first]], np.add.reduceat(counts[order].astype(np.uint64), first)


LEAST_PRECISION, MOST_PRECISION = 4, 18

_ALPHA = 1 / (2 * math.log(2))
_ONE = np.uint64(1)


class HyperLogLog:
    """Distinct codes, in 2^precision bytes."""

    def __init__(self, precision: int = 14) -> None:
        if type(precision) is not int or not LEAST_PRECISION <= precision <= MOST_PRECISION:
            raise BadInput(
                f"a HyperLogLog of precision {precision}",
                f"it is a whole number from {LEAST_PRECISION} to {MOST_PRECISION}",
                "Give 14, for a standard error of 0.8%",
            )
        self.precision = precision
        self.registers: NDArray[np.uint8] = np.zeros(1 << precision, dtype=np.uint8)

    def add(self, codes: Words) -> None:
        """See these codes, of 64 bits, or of 128 of which the first 64 are used."""
        checked = checked_codes(codes)
        words = checked if checked.ndim == 1 else checked[:, 0]
        rest = 64 - self.precision
        for start in range(0, len(words), CHUNK):
            part = words[start : start + CHUNK]
            low = (part & np.uint64((1 << rest) - 1)) | np.uint64(1 << rest)
            zeros = np.bitwise_count((low & (~low + _ONE)) - _ONE)  # at its end
            np.maximum.at(self.registers, (part >> np.uint64(rest)).astype(np.int64), zeros + np.uint8(1))

    def merge(self, other: HyperLogLog) -> None:
        """See also what ``other`` saw."""
        if self.precision != other.precision:
            raise BadInput("merging two sketches", "their precisions differ", "Make both alike")
        np.maximum(self.registers, other.registers, out=self.registers)

    def estimate(self) -> float:
        """About how many distinct codes were seen."""
        size, largest_rank = self.registers.size, 64 - self.precision + 1
        histogram = np.bincount(self.registers, minlength=largest_rank + 1)
        if histogram[0] == size:
            return 0.0
        sum_ = size * _tau(1 - histogram[largest_rank] / size)
        for rank in range(largest_rank - 1, 0, -1):
            sum_ = 0.5 * (sum_ + float(histogram[rank]))
        return float(_ALPHA * size * size / (sum_ + size * _sigma(float(histogram[0]) / size)))

    def __repr__(self) -> str:
        """Never what was seen."""
        return f"HyperLogLog(precision={self.precision})"


def _sigma(share: float) -> float:
    """x + sum over j from 1 of x^(2^j) 2^(j-1): empty registers' part."""
    power, weight, total = share, 1.0, share
    while True:
        power, before = power * power, total
        total += power * weight
        weight *= 2
        if total == before:
            return total


def _tau(share: float) -> float:
    """(1 - x - sum over j from 1 of (1 - x^(2^-j))^2 2^-j) / 3: full registers' part."""
    if share in (0.0, 1.0):
        return 0.0
    root, weight, total = share, 1.0, 1 - share
    while True:
        root, before = math.sqrt(root), total
        weight *= 0.5
        total -= (1 - root) ** 2 * weight
        if total == before:
            return total / 3
