"""Records that do not fit into memory: in parts by their secret codes, in files that have no name.

A record is some words of 8 bytes; its part is chosen by the highest bits of one of them, so that equal codes meet in
one part. What is on the disk are keyed codes, no texts, in files that are removed when they are opened: a process that
is killed leaves nothing behind.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

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

    def __len__(self) -> int:
        """How many records."""
        return sum(self._rows)

    @property
    def filled(self) -> list[int]:
        """The parts that hold something."""
        return [number for number, rows in enumerate(self._rows) if rows]

    @property
    def on_disk(self) -> int:
        """Bytes."""
        return 8 * self.words * len(self) - self._bytes

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

    def parts(self, most: int) -> Iterator[Records]:
        """All records, in pieces of about ``most`` bytes in which equal codes are together. Once."""
        for number in self.filled:
            yield from self.part(number, most)

    def part(self, number: int, most: int) -> Iterator[Records]:
        """The pieces of one part, which is given up then."""
        size = 8 * self.words * self._rows[number]
        cuts = 1 << max(0, int(size // max(1, most)).bit_length())
        for cut in range(cuts if size else 0):
            kept = [self._cut(block, cut, cuts) for block in self._blocks(number)]
            yield np.concatenate(kept)
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
