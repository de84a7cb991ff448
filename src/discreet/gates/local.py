"""The local engine: exact counting of what the coins left, on one machine, in bounded memory.

Rows as units. Each row's coin is a word of its place, so most rows are dropped before anything of them is looked at;
the rest are counted by value (`discreet.gates.value_counts`).

Persons, or row ids. A unit is cut to its ``values`` values before coins are tossed, which needs all of its rows
together: (unit, value) pairs are set aside by the unit's code, and each part is cut, tossed and counted by itself
(`discreet.gates.unit_values`).

Either way values are known by 16-byte codes until it is known which pass; their texts are then looked for in the log
again, which ends as soon as all are found. A fixed ``memory`` puts a count-min sketch before the exact count, and a
second pass over the log after it.

Guarantee: a value is let out only if its exact count is at least k; the sketch and all hashing decide nothing else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import BadInput
from discreet.gates.code_table import CodeTable
from discreet.gates.coding import Coder, missing
from discreet.gates.normalising import Normaliser
from discreet.gates.query_log import HUNDRED, Piece, QueryLog, Rows, Told
from discreet.gates.released import OwnersFigures
from discreet.gates.threads import in_threads
from discreet.gates.unit_values import UnitValues
from discreet.gates.value_counts import Counts, ValueCounts
from discreet.noise.keyed import SecretKey
from discreet.noise.unit_words import Codes, UnitWords

if TYPE_CHECKING:
    from discreet.gates.gate import CrowdGate

DEFAULT_MEMORY = 1 << 30
_DEPTH = 4


def release_locally(
    gate: CrowdGate,
    log: QueryLog,
    *,
    key: SecretKey,
    memory: int | None,
    told: Told,
    scratch: Path | None = None,
    threads: int | None = None,
) -> tuple[Any, Counts, OwnersFigures]:
    """Texts in the order of their bytes, how many units kept each, and the owner's figures.

    ``scratch``: where parts that do not fit into memory wait, without names; ``threads``: as many as there are cores.
    """
    work = LocalWork(
        gate=gate,
        log=log,
        words=UnitWords(key),
        normaliser=Normaliser(gate.normalisation),
        memory=memory or DEFAULT_MEMORY,
        scratch=scratch,
        threads=threads or len(os.sched_getaffinity(0)),
        told=told,
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

    gate: CrowdGate
    log: QueryLog
    words: UnitWords
    normaliser: Normaliser
    memory: int
    scratch: Path | None
    threads: int
    told: Told
    figures: OwnersFigures = field(default_factory=lambda: OwnersFigures(rows=0))
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def by_rows(self, sketched: SecretKey | None) -> tuple[Codes, Counts]:
        """The values that enough rows kept."""
        sketch = None
        if sketched is not None:
            sketch = make_sketch(self.memory // 2, sketched)
            adding = threading.Lock()

            def sketching(coder: Coder, piece: Piece, rows: Rows) -> None:
                codes, times = coder.counted(rows.texts, self._fell(piece, rows))
                with adding:
                    sketch.add(codes, times)

            self._through("sketching", sketching)
        counts = self._value_counts(sketch)

        def counting(coder: Coder, piece: Piece, rows: Rows) -> None:
            counts.add(*coder.counted(rows.texts, self._fell(piece, rows)))
            self._noted(rows)

        return self._reached("counting", counting, counts)

    def by_units(self, sketched: SecretKey | None) -> tuple[Codes, Counts]:
        """The values that enough units kept, each unit cut to its values first."""
        with UnitValues(
            words=self.words,
            values=self.gate.values,
            coin=self.gate.coin,
            memory=self.memory // 2,
            directory=self.scratch,
        ) as brought:

            def gathering(coder: Coder, _piece: Piece, rows: Rows) -> None:
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
            units = brought.kept_values(counts, sketch, threads=self.threads, told=self.told)
        self.figures = replace(self.figures, units=units, kept=counts.total)
        try:
            return counts.reached(self.gate.k)
        finally:
            counts.close()

    def texts_of(self, codes: Codes) -> tuple[Any, Any]:
        """The texts of some codes, in the order of their bytes, and the places of ``codes`` in that order."""
        import pyarrow

        table = CodeTable(len(codes))
        mine = table.numbers(codes)
        found: list[str | None] = [None] * len(codes)
        left = [len(codes)]

        def looking(coder: Coder, piece: Piece, rows: Rows) -> None:
            places = self._fell(piece, rows) if self.log.unit is None else None
            seen, forms = coder.forms(rows.texts, places)
            numbers = table.known(seen)
            for place in np.flatnonzero(numbers >= 0):
                with self._lock:
                    if found[numbers[place]] is None:
                        found[numbers[place]] = forms[place].as_py()
                        left[0] -= 1

        if len(codes):
            self._through("naming", looking, done=lambda: not left[0])
        if left[0]:
            raise BadInput("releasing this log", "it was changed while it was read", "Repeat when nobody writes to it")
        named = [text for text in (found[number] for number in mine) if text is not None]
        order = np.array(sorted(range(len(named)), key=lambda place: named[place].encode()), dtype=np.int64)
        return pyarrow.array([named[place] for place in order], pyarrow.string()), order

    def _fell(self, piece: Piece, rows: Rows) -> Any:
        return self.words.fallen_rows(piece.part, rows.first, len(rows), self.gate.coin)

    def _value_counts(self, sketch: Any) -> ValueCounts:
        return ValueCounts(memory=self.memory // 2, directory=self.scratch, sketch=sketch, k=self.gate.k)

    def _reached(self, what: str, work: Any, counts: ValueCounts) -> tuple[Codes, Counts]:
        try:
            self._through(what, work)
            self.figures = replace(self.figures, kept=counts.total)
            return counts.reached(self.gate.k)
        finally:
            counts.close()

    def _noted(self, rows: Rows, unnamed: int = 0) -> None:
        without = missing(rows.texts) - rows.broken
        with self._lock:
            seen = self.figures
            self.figures = OwnersFigures(
                rows=seen.rows + len(rows) + rows.left_out,
                broken=seen.broken + rows.broken + rows.left_out,
                without_text=seen.without_text + without,
                without_unit=seen.without_unit + unnamed,
            )

    def _through(
        self, what: str, work: Callable[[Coder, Piece, Rows], None], done: Callable[[], bool] = lambda: False
    ) -> None:
        """Every batch of the log, in several threads; ends early when ``done``."""
        pieces = list(self.log.pieces())
        whole, so_far, stop = sum(piece.weight for piece in pieces), [0], threading.Event()

        def one(piece: Piece) -> None:
            coder = Coder(self.words, self.normaliser)
            for rows in () if done() else piece.read():
                work(coder, piece, rows)
                if done() or stop.is_set():
                    return
            with self._lock:
                so_far[0] += piece.weight
                self.told(what, HUNDRED * so_far[0] // whole, HUNDRED)

        in_threads(one, pieces, self.threads, stop=stop)


def make_sketch(memory: int, key: SecretKey) -> Any:
    """A count-min sketch of about so many bytes."""
    from discreet.gates.sketches import CountMin

    width = 1 << min(31, max(10, int(memory // (4 * _DEPTH)).bit_length() - 1))  # a sketch has no more counters
    return CountMin(width, _DEPTH, key.derive("gate/sketch"))
