"""Units cut to their values, then tossed: pairs (unit, value) go in, values whose coin fell come out.

A unit that may bring one value needs no more than the best so far (`SmallestValues`). Otherwise, and where units do not
fit into memory, all pairs of a unit meet in one part (`Spill`, by the unit's code), and each part is worked through by
itself:

    1. equal pairs are one pair,
    2. of each unit's values those ``values`` with the smallest secret cap words stay,
    3. for each that stays one coin is tossed.

Guarantee: what a unit contributes depends on its own pairs and the key alone: at most ``values`` values, each kept by a
coin of its own, however often they came (docs/proofs/release-gate.md). Tossing before cutting, or a coin an occurrence,
would not do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.gates.code_table import CodeTable
from discreet.gates.query_log import HUNDRED, Told
from discreet.gates.smallest_values import SmallestValues
from discreet.gates.spill import PIECE, Spill
from discreet.gates.threads import in_threads
from discreet.gates.value_counts import ValueCounts
from discreet.noise.unit_words import Codes, UnitWords

_ROUNDS = 8
"""Values up to which a unit's smallest words are found one after the other; above, by sorting."""
_MOST = np.uint64(2**64 - 1)
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

    def kept_values(self, counts: ValueCounts, sketch: Any | None, *, threads: int, told: Told) -> int:
        """Count the values whose coin fell; how many units there were.

        With a sketch, kept values are set aside once more until the sketch has seen all of them.
        """
        done, lock = [0, 0], threading.Lock()
        aside = Spill(words=2, by=1, memory=self._memory // 8, directory=self._directory)
        pieces = [(self._stored, number) for number in self._pairs.filled] + [(self._running, 0)]

        def one(piece: tuple[Callable[[int], Iterator[tuple[int, Codes]]], int]) -> None:
            for units, kept in piece[0](piece[1]):
                if sketch is None:
                    counts.add(kept)
                else:
                    with lock:
                        sketch.add(kept)
                    aside.add(kept)
                with lock:
                    done[0] += units
            with lock:
                done[1] += 1
                told("tossing", HUNDRED * done[1] // len(pieces), HUNDRED)

        with aside:
            in_threads(one, pieces, threads)
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
            yield self.kept_of(piece)

    def _fell(self, units: Codes, values: Codes) -> Codes:
        return np.compress(self._words.coins(units, values) < np.uint64(2 * self._coin), values, axis=0)

    def kept_of(self, pairs: NDArray[np.uint64]) -> tuple[int, Codes]:
        """Of all pairs of some units: how many units, and the values whose coin fell, one for each that kept it."""
        table = CodeTable(len(pairs) // 4)
        units = np.ascontiguousarray(pairs[:, :2])
        number = table.numbers(units)
        values = np.ascontiguousarray(pairs[:, 2:])
        words = self._words.caps(units, values)
        stays = _smallest(number, words, len(table), self._values)
        units, values = np.take(units, stays, axis=0), np.take(values, stays, axis=0)
        return len(table), self._fell(units, values)

    def close(self) -> None:
        """Give up what was set aside."""
        self._pairs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


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
        least = np.full(units, _MOST, dtype=np.uint64)
        least[number[chosen[-1]]] = words[chosen[-1]]
        left = left[words[left] > least[number[left]]]
    return np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)


def _each_smallest(
    number: NDArray[np.int64], words: NDArray[np.uint64], left: NDArray[np.int64], units: int
) -> NDArray[np.int64]:
    least = np.full(units, _MOST, dtype=np.uint64)
    np.minimum.at(least, number[left], words[left])
    smallest = left[words[left] == least[number[left]]]
    one = np.full(units, -1, dtype=np.int64)
    one[number[smallest]] = smallest  # the same pair again: any of them
    return one[one >= 0]


def _ranked(number: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Of sorted pairs, the how-manieth distinct word of its unit each is; a repeated one ranks last."""
    fresh = np.ones(number.size, dtype=bool)
    fresh[1:] = (number[1:] != number[:-1]) | (words[1:] != words[:-1])
    so_far = np.cumsum(fresh)
    starts = np.ones(number.size, dtype=bool)
    starts[1:] = number[1:] != number[:-1]
    before = np.maximum.accumulate(np.where(starts, so_far - 1, 0))
    return np.where(fresh, so_far - before - 1, np.iinfo(np.int64).max)
