"""Of every unit the value with the smallest secret word, kept up to date while pairs come in: no pair has to be stored.

For units that may bring one value. Which value that is depends on the unit's own pairs and the key, not on the order
they come in; a pair that comes again changes nothing.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from discreet.gates.code_table import CodeTable
from discreet.noise.stream import Words
from discreet.noise.unit_words import Codes

BYTES = 72
"""About what one unit takes, while its table grows."""
_MOST = np.uint64(2**64 - 1)


class SmallestValues:
    """Units that fit into ``memory`` bytes. Safe in several threads."""

    def __init__(self, memory: int) -> None:
        self._most = max(1 << 12, memory // BYTES)
        self._table, self._full, self._lock = CodeTable(), False, threading.Lock()
        self._words = np.full(1 << 12, _MOST, dtype=np.uint64)
        self._values = np.zeros((1 << 12, 2), dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._table)

    def add(self, units: Codes, values: Codes, words: Words) -> NDArray[np.int64]:
        """Take pairs with their words; returns the places of pairs whose unit is not among those that fit."""
        with self._lock:
            # for good: a unit that was sent away once is never in the table
            self._full = self._full or len(self._table) + len(units) > self._most
            numbers = self._table.known(units) if self._full else self._table.numbers(units)
            self._grow()
            if self._full:
                there = np.flatnonzero(numbers >= 0)
                smaller = there[words[there] < np.take(self._words, numbers[there])]
            else:
                smaller = np.flatnonzero(words < np.take(self._words, numbers))
            at = numbers[smaller]
            np.minimum.at(self._words, at, words[smaller])
            least = words[smaller] == self._words[at]
            self._values[at[least]] = np.take(values, smaller[least], axis=0)
        return np.flatnonzero(numbers < 0) if self._full else np.zeros(0, dtype=np.int64)

    def _grow(self) -> None:
        size, needed = self._words.size, len(self._table)
        if size < needed:
            more = max(size // 2, needed - size)
            self._words = np.concatenate([self._words, np.full(more, _MOST, dtype=np.uint64)])
            self._values = np.concatenate([self._values, np.zeros((more, 2), dtype=np.uint64)])

    def pairs(self) -> tuple[Codes, Codes]:
        """Units and the value of each."""
        return self._table.codes, self._values[: len(self._table)]
