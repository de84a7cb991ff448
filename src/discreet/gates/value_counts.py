"""How many units kept each value, exactly, in bounded memory.

Values are known by their codes (16 bytes). Those that come first are counted in a table; when it is full, others are
set aside (`Spill`) and counted part by part in the end. With a sketch, values that it says cannot have reached k are
left out before: a count-min sketch never under-counts, so nothing that should pass is lost, and what passes is counted
exactly here, so nothing else is let out.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.gates.code_table import BYTES, CodeTable
from discreet.gates.spill import PIECE, Spill
from discreet.noise.unit_words import Codes

Counts = NDArray[np.int64]


class UpperCounts(Protocol):
    """A sketch that never under-counts."""

    def upper(self, codes: Codes) -> NDArray[Any]:
        """At least as many as each code was counted."""


class ValueCounts:
    """Counts by code. Safe in several threads."""

    def __init__(
        self, *, memory: int, directory: Path | None = None, sketch: UpperCounts | None = None, k: int = 1
    ) -> None:
        self._most = max(1 << 12, memory // 2 // BYTES)
        self._table, self._counts = CodeTable(), np.zeros(1 << 12, dtype=np.int64)
        self._memory, self._sketch, self._k = memory, sketch, k
        self._rest = Spill(words=3, by=1, memory=memory // 4, directory=directory)
        self._lock, self._full = threading.Lock(), False
        self.total = 0

    def add(self, codes: Codes, counts: Counts | None = None) -> None:
        """Count each code once, or as often as ``counts`` says."""
        times = np.ones(len(codes), dtype=np.int64) if counts is None else counts
        if self._sketch is not None:
            maybe = np.asarray(self._sketch.upper(codes)) >= self._k
            codes, kept = np.compress(maybe, codes, axis=0), times[maybe]
        else:
            kept = times
        with self._lock:
            self.total += int(times.sum())
            # for good: a code that was set aside once is never in the table
            full = self._full = self._full or len(self._table) + len(codes) > self._most
            numbers = self._table.known(codes) if full else self._table.numbers(codes)
            self._grow()
            there = numbers >= 0
            np.add.at(self._counts, numbers[there], kept[there])
        away = ~there
        if away.any():
            self._rest.add(np.column_stack([np.compress(away, codes, axis=0), kept[away].astype(np.uint64)]))

    def _grow(self) -> None:
        if self._counts.size < len(self._table):
            grown = np.zeros(max(2 * self._counts.size, len(self._table)), dtype=np.int64)
            grown[: self._counts.size] = self._counts
            self._counts = grown

    def reached(self, k: int) -> tuple[Codes, Counts]:
        """The codes that were counted at least ``k`` times. Ends the counting."""
        counts = self._counts[: len(self._table)]
        codes = [self._table.codes[counts >= k]]
        enough = [counts[counts >= k]]
        for piece in self._rest.parts(max(PIECE, self._memory // 4)):
            table = CodeTable(len(piece))
            numbers = table.numbers(np.ascontiguousarray(piece[:, :2]))
            sums = np.zeros(len(table), dtype=np.int64)
            np.add.at(sums, numbers, piece[:, 2].astype(np.int64))
            codes.append(table.codes[sums >= k])
            enough.append(sums[sums >= k])
        return np.concatenate(codes), np.concatenate(enough)

    def close(self) -> None:
        """Give up what was set aside."""
        self._rest.close()
