"""Contribution bounding and exact counts: pairs (unit, value) go in, counts of the values whose coin fell come out.

`UnitValues` cuts each unit to its ``values`` values and tosses their coins. A unit that may bring one value needs no
more than the best so far (`SmallestValues`). Otherwise, and where units do not fit into memory, all pairs of a unit
meet in one partition (`Spill`, by the unit's code), and each partition is worked through by itself:

    1. equal pairs are one pair,
    2. of each unit's values those ``values`` with the smallest secret cap words stay,
    3. for each that stays one coin is tossed.

`ValueCounts` counts how many units kept each value, exactly and in bounded memory. Codes that come first are counted
in a table; when it is full, others are spilled and counted partition by partition. With a sketch, values that cannot
have reached k are left out before: a count-min sketch never under-counts, so no value that should pass is lost.

Guarantee: what a unit contributes depends on its own pairs and the key alone: at most ``values`` values, each kept by a
coin of its own, however often they came (docs/proofs/release-gate.md). Tossing before cutting, or a coin an occurrence,
would not do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.gates.code_storage import BYTES, PIECE, CodeTable, Spill, grown
from discreet.gates.query_log import HUNDRED, Progress
from discreet.gates.sketches import CountMin
from discreet.noise.stream import Words
from discreet.noise.unit_words import Codes, UnitWords

_ROUNDS = 8
"""Values up to which a unit's smallest words are found one after the other; above, by sorting."""
_TOSSED = 1 << 20


class UnitValues:
    """Pairs of one release, in bounded memory."""

    def __init__(self, *, words: UnitWords, values: int, coin: int, memory: int, directory: Path | None = None) -> None:
        self._words, self._values, self._coin, self._memory = words, values, coin, memory
        self._pairs = Spill(words=4, by=1, memory=memory // 4, directory=directory)
        self._first = SmallestValues(memory * 3 // 4) if values == 1 else None
        self._directory = directory

    def add(self, units: Codes, values: Codes) -> None:
        """Pairs, one a row; from several threads, too."""
        if self._first is not None:
            away = self._first.add(units, values, self._words.caps(units, values))
            units, values = np.take(units, away, axis=0), np.take(values, away, axis=0)
        if len(units):
            self._pairs.add(np.hstack([units, values]))

    def kept_values(self, counts: ValueCounts, sketch: Any | None, *, threads: int, progress: Progress) -> int:
        """Count the values whose coin fell; how many units there were.

        With a sketch, kept values are set aside once more until the sketch has seen all of them.
        """
        done, lock = [0, 0], threading.Lock()
        aside = Spill(words=2, by=1, memory=self._memory // 8, directory=self._directory)
        pieces = [(self._stored, number) for number in self._pairs.filled] + [(self._running, 0)]

        def count_piece(piece: tuple[Callable[[int], Iterator[tuple[int, Codes]]], int]) -> None:
            for units, kept_values in piece[0](piece[1]):
                if sketch is None:
                    counts.add(kept_values)
                else:
                    with lock:
                        sketch.add(kept_values)
                    aside.add(kept_values)
                with lock:
                    done[0] += units
            with lock:
                done[1] += 1
                progress("tossing", HUNDRED * done[1] // len(pieces), HUNDRED)

        with closing(aside):
            in_threads(count_piece, pieces, threads)
            for piece in aside.parts(max(PIECE, self._memory // 8)):
                counts.add(piece)
        return done[0]

    def _running(self, _: int) -> Iterator[tuple[int, Codes]]:
        """Of units whose one value is known already."""
        if self._first is None:
            return
        units, values = self._first.pairs()
        for start in range(0, len(units), _TOSSED):
            some = slice(start, start + _TOSSED)
            yield len(units[some]), self._fell(units[some], values[some])

    def _stored(self, number: int) -> Iterator[tuple[int, Codes]]:
        """Of units whose pairs were set aside."""
        for piece in self._pairs.part(number, max(PIECE, self._memory // 16)):
            units, values = np.ascontiguousarray(piece[:, :2]), np.ascontiguousarray(piece[:, 2:])
            count, stays = capped(self._words, units, values, self._values)
            yield count, self._fell(np.take(units, stays, axis=0), np.take(values, stays, axis=0))

    def _fell(self, units: Codes, values: Codes) -> Codes:
        return np.compress(self._words.coins(units, values) < np.uint64(2 * self._coin), values, axis=0)

    def close(self) -> None:
        """Give up what was set aside."""
        self._pairs.close()


def capped(words: UnitWords, units: Codes, values: Codes, limit: int) -> tuple[int, NDArray[np.int64]]:
    """How many units there are, and the places of the ``limit`` values of each that have the smallest cap words."""
    table = CodeTable(len(units) // 4)
    numbers = table.numbers(units)
    return len(table), _smallest(numbers, words.caps(units, values), len(table), limit)


def _smallest(number: NDArray[np.int64], words: NDArray[np.uint64], units: int, values: int) -> NDArray[np.int64]:
    """One place for each of the ``values`` smallest distinct words of every unit.

    Equal words of one unit are one value: the word is of the pair.
    """
    if values > _ROUNDS:
        order = np.lexsort((words, number))
        return order[_ranked(number[order], words[order]) < values]
    chosen, left = [], np.arange(number.size)
    for _ in range(values):
        if not left.size:
            break
        chosen.append(_each_smallest(number, words, left, units))
        least = np.full(units, _LARGEST_WORD, dtype=np.uint64)
        least[number[chosen[-1]]] = words[chosen[-1]]
        left = left[words[left] > least[number[left]]]
    return np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)


def _each_smallest(
    number: NDArray[np.int64], words: NDArray[np.uint64], left: NDArray[np.int64], units: int
) -> NDArray[np.int64]:
    least = np.full(units, _LARGEST_WORD, dtype=np.uint64)
    np.minimum.at(least, number[left], words[left])
    smallest = left[words[left] == least[number[left]]]
    first_place = np.full(units, -1, dtype=np.int64)
    first_place[number[smallest]] = smallest  # the same pair again: any of them
    return first_place[first_place >= 0]


def _ranked(number: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Of sorted pairs, the how-manieth distinct word of its unit each is; a repeated one ranks last."""
    fresh = np.ones(number.size, dtype=bool)
    fresh[1:] = (number[1:] != number[:-1]) | (words[1:] != words[:-1])
    so_far = np.cumsum(fresh)
    starts = np.ones(number.size, dtype=bool)
    starts[1:] = number[1:] != number[:-1]
    before = np.maximum.accumulate(np.where(starts, so_far - 1, 0))
    return np.where(fresh, so_far - before - 1, np.iinfo(np.int64).max)


_UNIT_BYTES = 72
"""About what one unit takes, while its table grows."""
_LARGEST_WORD = np.uint64(2**64 - 1)


class SmallestValues:
    """Units that fit into ``memory`` bytes. Safe in several threads."""

    def __init__(self, memory: int) -> None:
        self._most = max(1 << 12, memory // _UNIT_BYTES)
        self._table, self._full, self._lock = CodeTable(), False, threading.Lock()
        self._words = np.full(1 << 12, _LARGEST_WORD, dtype=np.uint64)
        self._values = np.zeros((1 << 12, 2), dtype=np.uint64)

    def add(self, units: Codes, values: Codes, words: Words) -> NDArray[np.int64]:
        """Take pairs with their words; returns the places of pairs whose unit is not among those that fit."""
        with self._lock:
            # for good: a unit that was sent away once is never in the table
            self._full = self._full or len(self._table) + len(units) > self._most
            numbers = self._table.known(units) if self._full else self._table.numbers(units)
            self._words = grown(self._words, len(self._table), _LARGEST_WORD)
            self._values = grown(self._values, len(self._table))
            if self._full:
                known = np.flatnonzero(numbers >= 0)
                smaller = known[words[known] < np.take(self._words, numbers[known])]
            else:
                smaller = np.flatnonzero(words < np.take(self._words, numbers))
            at = numbers[smaller]
            np.minimum.at(self._words, at, words[smaller])
            least = words[smaller] == self._words[at]
            self._values[at[least]] = np.take(values, smaller[least], axis=0)
        return np.flatnonzero(numbers < 0) if self._full else np.zeros(0, dtype=np.int64)

    def pairs(self) -> tuple[Codes, Codes]:
        """Units and the value of each."""
        return self._table.codes, self._values[: len(self._table)]


Counts = NDArray[np.int64]


class ValueCounts:
    """Counts by code. Safe in several threads."""

    def __init__(
        self, *, memory: int, directory: Path | None = None, sketch: CountMin | None = None, k: int = 1
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
            codes, kept_times = np.compress(maybe, codes, axis=0), times[maybe]
        else:
            kept_times = times
        with self._lock:
            self.total += int(times.sum())
            # for good: a code that was set aside once is never in the table
            full = self._full = self._full or len(self._table) + len(codes) > self._most
            numbers = self._table.known(codes) if full else self._table.numbers(codes)
            self._counts = grown(self._counts, len(self._table))
            in_table = numbers >= 0
            np.add.at(self._counts, numbers[in_table], kept_times[in_table])
        away = ~in_table
        if away.any():
            self._rest.add(np.column_stack([np.compress(away, codes, axis=0), kept_times[away].astype(np.uint64)]))

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


def in_threads(
    work: Callable[[Any], None], items: Iterable[Any], threads: int, *, stop: threading.Event | None = None
) -> None:
    """``work`` of each item; the first error, or an interrupt, sets ``stop``, ends it, and is raised."""
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            if stop is not None:
                stop.set()
            for future in futures:
                future.cancel()
            raise
