"""Storage for 16-byte codes: a hash table in memory, and partitioned files for what does not fit.

`CodeTable` gives dense numbers to codes by open addressing in numpy arrays. Codes are words of a cipher
(`discreet.noise.unit_words`), uniform and secret, so their own bits are the hash and nobody can choose texts that
collide. It is exact: two codes get one number only if all of their 16 bytes agree.

`Spill` keeps records in partitions by the highest bits of one of their words, so that equal codes meet in one
partition. The disk holds keyed codes, no texts, in files that are unlinked when they are opened: a process that is
killed leaves nothing behind.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

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
        numbers = np.empty(len(codes), dtype=np.int64)
        left, at = np.arange(len(codes)), self._first(codes)
        while left.size:
            here = np.take(self._places, at)
            free = here == _FREE
            if free.any():
                self._claim(codes, left[free], at[free])
                here = np.take(self._places, at)
            same = self._equal(codes, left, here)
            numbers[left[same]] = here[same]
            other = np.flatnonzero(~same)
            left, at = left[other], self._next(at[other])
        return numbers

    def known(self, codes: Codes) -> Places:
        """The number of each code, -1 where there is none; nothing is added."""
        numbers = np.full(len(codes), _FREE, dtype=np.int64)
        left, at = np.arange(len(codes)), self._first(codes)
        while left.size and self._used:
            here = np.take(self._places, at)
            occupied = here != _FREE
            left, at, here = left[occupied], at[occupied], here[occupied]
            same = self._equal(codes, left, here)
            numbers[left[same]] = here[same]
            other = np.flatnonzero(~same)
            left, at = left[other], self._next(at[other])
        return numbers

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
        left, at = np.arange(self._used), self._first(self.codes)
        while left.size:
            free = self._places[at] == _FREE
            self._places[at[free]] = left[free]
            stays = self._places[at] == left
            left, at = left[~stays], self._next(at[~stays])


def grown(array: NDArray[Any], size: int, fill: Any = 0) -> NDArray[Any]:
    """The array, or a longer copy with at least ``size`` rows."""
    if len(array) >= size:
        return array
    longer = np.full((max(3 * len(array) // 2, size), *array.shape[1:]), fill, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


Records = NDArray[np.uint64]
_BITS = 8
_BLOCK = 1 << 20
PIECE = 1 << 18
"""Bytes: smaller pieces take longer than they save."""


class Spill:
    """Records of ``words`` words each, 2^8 parts by word ``by``; at most ``memory`` bytes of them wait in memory."""

    def __init__(self, *, words: int, by: int, memory: int, directory: Path | None = None) -> None:
        self.words, self.by, self.memory, self.directory = words, by, memory, directory
        self._waiting: list[list[Records]] = [[] for _ in range(1 << _BITS)]
        self._files: list[IO[bytes] | None] = [None] * (1 << _BITS)
        self._bytes, self._rows, self._lock = 0, [0] * (1 << _BITS), threading.Lock()

    @property
    def filled(self) -> list[int]:
        """The parts that hold something."""
        return [number for number, rows in enumerate(self._rows) if rows]

    def add(self, records: Records) -> None:
        """Take records; from several threads, too."""
        part = (records[:, self.by] >> np.uint64(64 - _BITS)).astype(np.uint8)
        order = np.argsort(part, kind="stable")  # of bytes: a radix sort
        cuts = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=1 << _BITS))])
        ordered = np.take(records, order, axis=0)
        with self._lock:
            for number in np.flatnonzero(np.diff(cuts)):
                self._waiting[number].append(ordered[cuts[number] : cuts[number + 1]])
                self._rows[number] += int(cuts[number + 1] - cuts[number])
            self._bytes += ordered.nbytes
            if self._bytes > self.memory:
                self._write()

    def _write(self) -> None:
        for number, waiting in enumerate(self._waiting):
            if not waiting:
                continue
            file = self._files[number]
            if file is None:
                file = self._files[number] = tempfile.TemporaryFile(dir=self.directory)  # noqa: SIM115 - closed by close
            file.write(np.concatenate(waiting).astype("<u8", copy=False).data)
            self._waiting[number] = []
        self._bytes = 0

    def parts(self, piece_bytes: int) -> Iterator[Records]:
        """All records, in pieces of about ``most`` bytes in which equal codes are together. Once."""
        for number in self.filled:
            yield from self.part(number, piece_bytes)

    def part(self, number: int, piece_bytes: int) -> Iterator[Records]:
        """The pieces of one part, which is given up then."""
        size = 8 * self.words * self._rows[number]
        cuts = 1 << max(0, int(size // max(1, piece_bytes)).bit_length())
        for cut in range(cuts if size else 0):
            blocks = [self._cut(block, cut, cuts) for block in self._blocks(number)]
            yield np.concatenate(blocks)
        self._waiting[number], file = [], self._files[number]
        if file is not None:
            file.close()
            self._files[number] = None

    def _cut(self, block: Records, cut: int, cuts: int) -> Records:
        if cuts == 1:
            return block
        below = (block[:, self.by] >> np.uint64(64 - _BITS - cuts.bit_length() + 1)) & np.uint64(cuts - 1)
        return np.compress(below == np.uint64(cut), block, axis=0)

    def _blocks(self, number: int) -> Iterator[Records]:
        file = self._files[number]
        if file is not None:
            file.seek(0)
            while data := file.read(8 * self.words * _BLOCK):
                yield np.frombuffer(data, dtype="<u8").reshape(-1, self.words)
        yield from self._waiting[number]

    def close(self) -> None:
        """Give all of it up."""
        for file in self._files:
            if file is not None:
                file.close()
        self._waiting, self._files = [[] for _ in range(1 << _BITS)], [None] * (1 << _BITS)
