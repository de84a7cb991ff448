"""What Spark's workers do with the rows of a log: the local engine's coins and forms, on batches of Arrow.

Twice over the log. The first time (`surveyed`) each task counts its rows and fills a count-min sketch of the kept
values and two HyperLogLogs; `merged` adds those of all tasks up. The second time (`counted`, or `paired` where rows
name units) only what the merged sketch lets pass is handed to Spark, which counts it exactly.

Guarantee: a worker says nothing of a row but to the next stage of its job. What goes wrong in it is raised again
without its message (`quietly`), for messages quote data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, DiscreetError
from discreet.gates.gate import CrowdGate
from discreet.gates.hyperloglog import HyperLogLog
from discreet.gates.normalising import Normaliser, offsets_of, raw_bytes
from discreet.gates.query_log import Rows
from discreet.gates.sketches import CountMin
from discreet.noise.carried import CarriedKey
from discreet.noise.unit_words import Codes, UnitWords

FIGURES, VALUES, UNITS = -1, -2, -3
"""Pieces of a survey that are no part of its sketch."""
PIECE = 1 << 12
"""Counters of one piece: small, for Spark hands pieces on in batches of thousands."""
_SIGN = np.uint64(1 << 63)
_KINDS = {FIGURES: "<i8", VALUES: "<u1", UNITS: "<u1"}


@dataclass(frozen=True)
class Taken:
    """Rows that a task took from a log, how many broken ones beside them, and, where units are not named, the runs of
    consecutive rows that they are: (number of the file, number of the first row, how many).
    """

    rows: Rows
    broken: int
    runs: Sequence[tuple[int, int, int]] = ()


Source = Callable[[Iterator[Any]], Iterator[Taken]]
"""From what Spark gives a task to rows."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What every task of a release is told."""

    gate: CrowdGate
    key: CarriedKey
    units: bool
    width: int
    depth: int

    def sketch(self) -> CountMin:
        """An empty one; equal keys make all tasks' alike."""
        return CountMin(self.width, self.depth, self.key.key().derive("gate/sketch"))


class Survey:
    """What one task, or all of them, saw of a log. For the owner."""

    def __init__(self, job: Job) -> None:
        self.sketch, self.values, self.units = job.sketch(), HyperLogLog(), HyperLogLog()
        self.rows = self.broken = self.without_text = self.without_unit = self.kept = 0

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """To be merged piece by piece; counters that are all zero are left out."""
        figures = [self.rows, self.broken, self.without_text, self.without_unit, self.kept, self.sketch.total]
        yield FIGURES, np.array(figures, dtype="<i8").tobytes()
        yield VALUES, self.values.registers.tobytes()
        yield UNITS, self.units.registers.tobytes()
        cells = self.sketch.cells.reshape(-1)
        for number, start in enumerate(range(0, cells.size, PIECE)):
            piece = cells[start : start + PIECE]
            if piece.any():
                yield number, piece.astype("<u8").tobytes()

    def take(self, pieces: Iterable[tuple[int, bytes]]) -> None:
        """All pieces of a merged survey."""
        cells, total = np.zeros(self.sketch.cells.size, dtype=np.uint64), 0
        for number, raw in pieces:
            if number == FIGURES:
                figures = np.frombuffer(raw, dtype="<i8").tolist()
                self.rows, self.broken, self.without_text, self.without_unit, self.kept, total = figures
            elif number == VALUES:
                self.values.registers = np.frombuffer(raw, dtype=np.uint8).copy()
            elif number == UNITS:
                self.units.registers = np.frombuffer(raw, dtype=np.uint8).copy()
            else:
                cells[number * PIECE : (number + 1) * PIECE] = np.frombuffer(raw, dtype="<u8")
        self.sketch.merge_cells(cells.reshape(self.sketch.cells.shape), total)


def surveyed(job: Job, source: Source) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """One task's survey, as pieces."""

    def survey(batches: Iterator[Any]) -> Iterator[Any]:
        found, coins = Survey(job), _Coins(job)
        for taken in source(batches):
            rows = taken.rows
            found.rows, found.broken = found.rows + len(rows) + taken.broken, found.broken + taken.broken
            forms, places = coins.forms(rows)
            found.without_text += len(rows) - len(forms)
            values = coins.values(forms)
            if job.units:
                units, named = coins.units(rows, places)
                found.without_unit += int(len(forms) - named.sum())
                found.units.add(units)
                found.values.add(values[named])
                units, values, _ = coins.capped(units, values[named])
                fell = coins.fell(coins.words.coins(units, values))
            else:
                found.values.add(values)
                fell = coins.fell(coins.of_rows(taken))[places]
                found.kept += int(fell.sum())
            found.sketch.add(values[fell])
        numbers, raws = zip(*found.pieces(), strict=True)
        yield _batch(piece=list(numbers), cells=list(raws))

    return quietly(survey)


def merged() -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Pieces of the same number, added up."""

    def merge(batches: Iterator[Any]) -> Iterator[Any]:
        found: dict[int, Any] = {}
        for batch in batches:
            for number, raw in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                piece = np.frombuffer(raw.as_buffer(), dtype=_KINDS.get(number, "<u8"))
                if number not in found:
                    found[number] = piece.copy()
                elif number in (VALUES, UNITS):
                    np.maximum(found[number], piece, out=found[number])
                else:
                    found[number] += piece
        if found:
            yield _batch(piece=list(found), cells=[piece.tobytes() for piece in found.values()])

    return quietly(merge)


def counted(job: Job, source: Source, sketch: Callable[[], CountMin]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Where rows are units: the forms whose coins fell and which may reach k, and how often in each batch."""

    def count(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        from pyarrow import compute

        coins, bounds = _Coins(job), sketch()
        for taken in source(batches):
            forms, _ = coins.forms(taken.rows, coins.fell(coins.of_rows(taken)))
            passing = bounds.upper(coins.values(forms)) >= job.gate.k
            found = compute.value_counts(forms.filter(_mask(passing)))
            if len(found):
                yield _batch(text=found.field("values").cast(pyarrow.string()), kept=found.field("counts"))

    return quietly(count)


def paired(job: Job, source: Source, sketch: Callable[[], CountMin]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Where rows name units: each unit's first values of a batch in the order of their caps.

    The text is there only where its coin fell and it may reach k; the others hold their places among the unit's values.
    """

    def pair(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        from pyarrow import compute

        coins, bounds = _Coins(job), sketch()
        for taken in source(batches):
            forms, places = coins.forms(taken.rows)
            units, named = coins.units(taken.rows, places)
            values = coins.values(forms)[named]
            units, values, chosen = coins.capped(units, values)
            passing = coins.fell(coins.words.coins(units, values)) & (bounds.upper(values) >= job.gate.k)
            texts = forms.take(pyarrow.array(np.flatnonzero(named)[chosen])).cast(pyarrow.string())
            texts = compute.if_else(_mask(passing), texts, pyarrow.scalar(None, texts.type))
            caps = (coins.words.caps(units, values) ^ _SIGN).view(np.int64)  # Spark's numbers are signed
            yield _batch(unit=units[:, 0].view(np.int64), more=units[:, 1].view(np.int64), cap=caps, text=texts)

    return quietly(pair)


class _Coins:
    """The words of a release, on rows."""

    def __init__(self, job: Job) -> None:
        self.words, self._gate = UnitWords(job.key.key()), job.gate
        self._normaliser = Normaliser(job.gate.normalisation)

    def fell(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return (words >> np.uint64(1)) < np.uint64(self._gate.coin)

    def of_rows(self, taken: Taken) -> NDArray[np.uint64]:
        """The words of all rows."""
        return np.concatenate([np.zeros(0, dtype=np.uint64), *(self.words.rows(*run) for run in taken.runs)])

    def forms(self, rows: Rows, wanted: NDArray[np.bool_] | None = None) -> tuple[Any, NDArray[np.int64]]:
        """The forms of those ``wanted`` rows that have one, and their places among the rows."""
        import pyarrow

        texts = _plain(rows.texts)
        there = texts.is_valid().to_numpy(zero_copy_only=False)
        places = np.flatnonzero(there if wanted is None else there & wanted)
        forms = self._normaliser.texts(texts.take(pyarrow.array(places))).cast(pyarrow.large_string())
        usable = forms.is_valid()
        return forms.filter(usable), places[usable.to_numpy(zero_copy_only=False)]

    def values(self, forms: Any) -> Codes:
        return self.words.value_codes(np.frombuffer(raw_bytes(forms), np.uint8), offsets_of(forms))

    def units(self, rows: Rows, places: NDArray[np.int64]) -> tuple[Codes, NDArray[np.bool_]]:
        """Codes of the units of rows that name one, and which of the ``places`` do."""
        import pyarrow
        from pyarrow import compute

        who = _plain(rows.units).take(pyarrow.array(places)).cast(pyarrow.large_string())
        named = compute.and_(who.is_valid(), compute.not_equal(who, "")).fill_null(False)
        who = who.filter(named)
        codes = self.words.unit_codes(np.frombuffer(raw_bytes(who), np.uint8), offsets_of(who))
        return codes, named.to_numpy(zero_copy_only=False)

    def capped(self, units: Codes, values: Codes) -> tuple[Codes, Codes, NDArray[np.int64]]:
        """Each unit's distinct values, the first ones of them by their caps; and where they stand.

        A unit's first values of the whole log are among its first ones of every batch that they are in.
        """
        order = np.lexsort((values[:, 1], values[:, 0], self.words.caps(units, values), units[:, 1], units[:, 0]))
        pairs = np.hstack([units, values])[order]
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
        order, pairs = order[new], pairs[new]
        other = np.ones(len(order), dtype=np.bool_)
        other[1:] = (pairs[1:, :2] != pairs[:-1, :2]).any(axis=1)
        begins = np.flatnonzero(other)
        rank = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
        chosen = order[rank < self._gate.values]
        return units[chosen], values[chosen], chosen


def quietly(function: Callable[[Iterator[Any]], Iterator[Any]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The same, with errors that quote nothing: our own pass, of others only the kind."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from function(batches)
        except DiscreetError as problem:
            raise BadInput(problem.asked, problem.fact, problem.remedy) from None
        except Exception as problem:  # noqa: BLE001 - its message may quote a row
            kind = type(problem).__name__
            raise BadInput("releasing on Spark", f"a task failed with {kind}", "Release locally to find out") from None

    task.__name__ = function.__name__
    return task


def _plain(column: Any) -> Any:
    import pyarrow

    return column.dictionary_decode() if pyarrow.types.is_dictionary(column.type) else column


def _mask(chosen: NDArray[np.bool_]) -> Any:
    import pyarrow

    return pyarrow.array(chosen)


def _batch(**columns: Any) -> Any:
    import pyarrow

    return pyarrow.RecordBatch.from_pydict(columns)
