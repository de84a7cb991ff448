"""Dense numbers for 16-byte codes, many at once: open addressing in numpy arrays.

Codes are words of a cipher (`discreet.noise.unit_words`), uniform and secret, so that their own bits are the hash and
nobody can choose texts that collide. Exact: two codes get one number only if all of their 16 bytes agree.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.noise.unit_words import Codes

Places = NDArray[np.int64]
BYTES = 48
"""About what one code takes: its 16 bytes, a count, two to four places of 4 bytes."""
_FREE = -1


class CodeTable:
    """Codes in the order they were first seen. One thread's own."""

    def __init__(self, expected: int = 1 << 12) -> None:
        size = 1 << max(13, int(2 * expected - 1).bit_length())
        self._places = np.full(size, _FREE, dtype=np.int32)
        self._codes = np.empty((size // 2, 2), dtype=np.uint64)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def codes(self) -> Codes:
        """All of them, by number."""
        return self._codes[: self._used]

    def numbers(self, codes: Codes) -> Places:
        """The number of each code; new ones are added."""
        self._make_room(len(codes))
        found = np.empty(len(codes), dtype=np.int64)
        left, at = np.arange(len(codes)), self._first(codes)
        while left.size:
            here = np.take(self._places, at)
            free = here == _FREE
            if free.any():
                self._claim(codes, left[free], at[free])
                here = np.take(self._places, at)
            same = self._equal(codes, left, here)
            found[left[same]] = here[same]
            other = np.flatnonzero(~same)
            left, at = left[other], self._next(at[other])
        return found

    def known(self, codes: Codes) -> Places:
        """The number of each code, -1 where there is none; nothing is added."""
        found = np.full(len(codes), _FREE, dtype=np.int64)
        left, at = np.arange(len(codes)), self._first(codes)
        while left.size and self._used:
            here = np.take(self._places, at)
            there = here != _FREE
            left, at, here = left[there], at[there], here[there]
            same = self._equal(codes, left, here)
            found[left[same]] = here[same]
            other = np.flatnonzero(~same)
            left, at = left[other], self._next(at[other])
        return found

    def _first(self, codes: Codes) -> Places:
        return (codes[:, 0] & np.uint64(self._places.size - 1)).astype(np.int64)

    def _next(self, at: Places) -> Places:
        return (at + 1) & (self._places.size - 1)

    def _equal(self, codes: Codes, left: Places, here: NDArray[np.int32]) -> NDArray[np.bool_]:
        stored = np.take(self._codes, here, axis=0)  # far faster than indexing with an array, for rows of a table
        asked = codes if left.size == len(codes) else np.take(codes, left, axis=0)
        return np.asarray((stored[:, 0] == asked[:, 0]) & (stored[:, 1] == asked[:, 1]))

    def _claim(self, codes: Codes, wanting: Places, at: Places) -> None:
        """Of those that want a free place one gets it; the others, perhaps equal to it, look again."""
        self._places[at] = wanting  # the last one stays
        winners = self._places[at] == wanting
        wanting, at = wanting[winners], at[winners]
        self._codes[self._used : self._used + wanting.size] = np.take(codes, wanting, axis=0)
        self._places[at] = np.arange(self._used, self._used + wanting.size)
        self._used += wanting.size

    def _make_room(self, more: int) -> None:
        """At most half of the places are taken, also if all codes are new."""
        if 2 * (self._used + more) <= self._places.size:
            return
        size = 1 << int(2 * (self._used + more) - 1).bit_length()
        codes = np.empty((size // 2, 2), dtype=np.uint64)
        codes[: self._used] = self.codes
        self._codes, self._places = codes, np.full(size, _FREE, dtype=np.int32)
        self._refill()

    def _refill(self) -> None:
        left, at = np.arange(self._used), self._first(self.codes)
        while left.size:
            free = self._places[at] == _FREE
            self._places[at[free]] = left[free]
            stays = self._places[at] == left
            left, at = left[~stays], self._next(at[~stays])
