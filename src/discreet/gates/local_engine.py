"""The local engine: exact counting of what the coins left, on one machine, in bounded memory.

Rows as units. Each row's coin is a word of its place, so most rows are dropped before anything of them is looked at;
the rest are counted by value (`discreet.gates.contributions`).

Persons, or row ids. A unit is cut to its ``values`` values before coins are tossed, which needs all of its rows
together: (unit, value) pairs are set aside by the unit's code, and each part is cut, tossed and counted by itself
(`discreet.gates.contributions`).

Either way values are known by 16-byte codes until it is known which pass; their texts are then looked for in the log
again, which ends as soon as all are found. A fixed ``memory`` puts a count-min sketch before the exact count, and a
second pass over the log after it.

Guarantee: a value is let out only if its exact count is at least k; the sketch and all hashing decide nothing else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.gates.code_storage import CodeTable
from discreet.gates.contributions import Counts, UnitValues, ValueCounts, in_threads
from discreet.gates.query_log import HUNDRED, LogRows, OwnersFigures, Piece, Progress, QueryLog
from discreet.gates.values import Coder, Normaliser, missing
from discreet.noise.keys import SecretKey
from discreet.noise.unit_words import Codes, UnitWords
from discreet.privacy.events import ReleaseGate

DEFAULT_MEMORY = 1 << 30
_DEPTH = 4


def release_locally(
    event: ReleaseGate,
    log: QueryLog,
    *,
    coin: int,
    key: SecretKey,
    memory: int | None,
    progress: Progress,
    scratch: Path | None = None,
    threads: int | None = None,
) -> tuple[Any, Counts, OwnersFigures]:
    """Texts in the order of their bytes, how many units kept each, and the owner's figures.

    ``scratch``: where parts that do not fit into memory wait, without names; ``threads``: as many as there are cores.
    """
    work = LocalWork(
        event=event,
        coin=coin,
        log=log,
        words=UnitWords(key),
        normaliser=Normaliser(event.normalisation),
        memory=memory or DEFAULT_MEMORY,
        scratch=scratch,
        threads=threads or len(os.sched_getaffinity(0)),
        progress=progress,
    )
    codes, counts = (
        work.by_rows(key if memory else None) if log.unit is None else work.by_units(key if memory else None)
    )
    texts, order = work.texts_of(codes)
    log.check_unchanged()
    return texts, counts[order], work.figures


@dataclass(kw_only=True)
class LocalWork:
    """One release on its way. Private."""

    event: ReleaseGate
    coin: int
    log: QueryLog
    words: UnitWords
    normaliser: Normaliser
    memory: int
    scratch: Path | None
    threads: int
    progress: Progress
    figures: OwnersFigures = field(default_factory=lambda: OwnersFigures(rows=0))
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def by_rows(self, sketched: SecretKey | None) -> tuple[Codes, Counts]:
        """The values that enough rows kept."""
        sketch = None
        if sketched is not None:
            sketch = make_sketch(self.memory // 2, sketched)
            adding = threading.Lock()

            def sketching(coder: Coder, piece: Piece, rows: LogRows) -> None:
                codes, times = coder.counted(rows.texts, self._fell(piece, rows))
                with adding:
                    sketch.add(codes, times)

            self._through("sketching", sketching)
        counts = self._value_counts(sketch)

        def counting(coder: Coder, piece: Piece, rows: LogRows) -> None:
            counts.add(*coder.counted(rows.texts, self._fell(piece, rows)))
            self._noted(rows)

        with closing(counts):
            self._through("counting", counting)
            self.figures = replace(self.figures, kept=counts.total)
            return counts.reached(self.event.k)

    def by_units(self, sketched: SecretKey | None) -> tuple[Codes, Counts]:
        """The values that enough units kept, each unit cut to its values first."""
        unit_values = UnitValues(
            words=self.words,
            values=self.event.values,
            coin=self.coin,
            memory=self.memory // 2,
            directory=self.scratch,
        )
        with closing(unit_values) as brought:

            def gathering(coder: Coder, _piece: Piece, rows: LogRows) -> None:
                values, usable = coder.each(rows.texts)
                units, named = coder.units(rows.units)
                both = usable & named
                if not both.all():
                    units, values = np.compress(both, units, axis=0), np.compress(both, values, axis=0)
                brought.add(units, values)
                self._noted(rows, unnamed=int((usable & ~named).sum()))

            self._through("gathering", gathering)
            sketch = None if sketched is None else make_sketch(self.memory // 4, sketched)
            counts = self._value_counts(sketch)
            units = brought.kept_values(counts, sketch, threads=self.threads, progress=self.progress)
        with closing(counts):
            self.figures = replace(self.figures, units=units, kept=counts.total)
            return counts.reached(self.event.k)

    def texts_of(self, codes: Codes) -> tuple[Any, Any]:
        """The texts of some codes, in the order of their bytes, and the places of ``codes`` in that order."""
        import pyarrow

        table = CodeTable(len(codes))
        numbers_of_codes = table.numbers(codes)
        texts: list[str | None] = [None] * len(codes)
        left = [len(codes)]

        def looking(coder: Coder, piece: Piece, rows: LogRows) -> None:
            places = self._fell(piece, rows) if self.log.unit is None else None
            seen, forms = coder.forms(rows.texts, places)
            numbers = table.known(seen)
            for index in np.flatnonzero(numbers >= 0):
                with self._lock:
                    if texts[numbers[index]] is None:
                        texts[numbers[index]] = forms[index].as_py()
                        left[0] -= 1

        if len(codes):
            self._through("naming", looking, done=lambda: not left[0])
        if left[0]:
            raise BadInput("releasing this log", "it was changed while it was read", "Repeat when nobody writes to it")
        named = [text for text in (texts[number] for number in numbers_of_codes) if text is not None]
        order = np.array(sorted(range(len(named)), key=lambda index: named[index].encode()), dtype=np.int64)
        return pyarrow.array([named[index] for index in order], pyarrow.string()), order

    def _fell(self, piece: Piece, rows: LogRows) -> Any:
        return self.words.fallen_rows(piece.part, rows.first, len(rows), self.coin)

    def _value_counts(self, sketch: Any) -> ValueCounts:
        return ValueCounts(memory=self.memory // 2, directory=self.scratch, sketch=sketch, k=self.event.k)

    def _noted(self, rows: LogRows, unnamed: int = 0) -> None:
        empty = missing(rows.texts)
        with self._lock:
            self.figures = self.figures.with_rows(rows, empty=empty, unnamed=unnamed)

    def _through(
        self, what: str, work: Callable[[Coder, Piece, LogRows], None], done: Callable[[], bool] = lambda: False
    ) -> None:
        """Every batch of the log, in several threads; ends early when ``done``."""
        pieces = list(self.log.pieces())
        total_weight, so_far, stop = sum(piece.weight for piece in pieces), [0], threading.Event()

        def read_piece(piece: Piece) -> None:
            coder = Coder(self.words, self.normaliser)
            for rows in () if done() else piece.read():
                work(coder, piece, rows)
                if done() or stop.is_set():
                    return
            with self._lock:
                so_far[0] += piece.weight
                self.progress(what, HUNDRED * so_far[0] // total_weight, HUNDRED)

        in_threads(read_piece, pieces, self.threads, stop=stop)


def make_sketch(memory: int, key: SecretKey) -> Any:
    """A count-min sketch of about so many bytes."""
    from discreet.gates.sketches import CountMin

    width = 1 << min(31, max(10, int(memory // (4 * _DEPTH)).bit_length() - 1))  # a sketch has no more counters
    return CountMin(width, _DEPTH, key.derive("gate/sketch"))
