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
from itertools import islice
from typing import Any

import numpy as np

from discreet.errors import BadInput, DiscreetError
from discreet.gates.contributions import capped
from discreet.gates.query_log import LogRows, OwnersFigures
from discreet.gates.sketches import CountMin, HyperLogLog
from discreet.gates.values import Coder, Mask, Normaliser, Places, is_coded, missing
from discreet.noise.keys import CarriedKey
from discreet.noise.stream import Words
from discreet.noise.unit_words import Codes, UnitWords
from discreet.privacy.events import ReleaseGate

FIGURES, VALUES, UNITS = -1, -2, -3
"""Pieces of a survey that are no part of its sketch."""
PIECE = 1 << 12
"""Counters of one piece: small, for Spark hands pieces on in batches of thousands."""
_SIGN = np.uint64(1 << 63)
_SUMMED = ("rows", "broken", "without_text", "without_unit")
"""The owner's figures that a survey sends."""
_KINDS = {FIGURES: "<i8", VALUES: "<u1", UNITS: "<u1"}


@dataclass(frozen=True)
class TaskRows:
    """Rows that a task took from a log, and, where units are not named, the runs of consecutive rows that they are:
    (number of the file, number of the first row, how many).
    """

    rows: LogRows
    runs: Sequence[tuple[int, int, int]] = ()


Source = Callable[[Iterator[Any]], Iterator[TaskRows]]
"""From what Spark gives a task to rows."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What every task of a release needs."""

    event: ReleaseGate
    coin: int
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
        self.figures, self.kept = OwnersFigures(rows=0), 0

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """To be merged piece by piece; counters that are all zero are left out."""
        figures = [getattr(self.figures, name) for name in _SUMMED]
        yield FIGURES, np.array([*figures, self.kept, self.sketch.total], dtype="<i8").tobytes()
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
                *figures, self.kept, total = np.frombuffer(raw, dtype="<i8").tolist()
                self.figures = OwnersFigures(**dict(zip(_SUMMED, figures, strict=True)))
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
        total, coins = Survey(job), _Coins(job)
        for taken in source(batches):
            unnamed = 0
            values, usable = coins.coder.each(taken.rows.texts)
            if job.units:
                units, named = coins.coder.units(taken.rows.units)
                unnamed = int((usable & ~named).sum())
                total.units.add(units[named & usable])
                total.values.add(values[named & usable])
                units, values, _ = coins.capped(units, values, named & usable)
                fell = coins.fell(coins.words.coins(units, values))
            else:
                total.values.add(values[usable])
                fell = coins.of_rows(taken) & usable
                total.kept += int(fell.sum())
            total.sketch.add(values[fell])
            total.figures = total.figures.with_rows(taken.rows, empty=missing(taken.rows.texts), unnamed=unnamed)
        yield from _sent(total.pieces())

    return quietly(survey)


def merged() -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Pieces of the same number, added up."""

    def merge(batches: Iterator[Any]) -> Iterator[Any]:
        sums: dict[int, Any] = {}
        for batch in batches:
            for number, raw in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                piece = np.frombuffer(raw.as_buffer(), dtype=_KINDS.get(number, "<u8"))
                if number not in sums:
                    sums[number] = piece.copy()
                elif number in (VALUES, UNITS):
                    np.maximum(sums[number], piece, out=sums[number])
                else:
                    sums[number] += piece
        yield from _sent((number, piece.tobytes()) for number, piece in sums.items())

    return quietly(merge)


def counted(job: Job, source: Source, sketch: Callable[[], CountMin]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Where rows are units: the forms whose coins fell and which may reach k, and how often in each batch."""

    def count(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        from pyarrow import compute

        coins, bounds = _Coins(job), sketch()
        for taken in source(batches):
            values, forms = coins.coder.forms(_plain(taken.rows.texts.take(np.flatnonzero(coins.of_rows(taken)))), None)
            counts = compute.value_counts(forms.filter(pyarrow.array(bounds.upper(values) >= job.event.k)))
            if len(counts):
                yield _batch(text=counts.field("values").cast(pyarrow.string()), kept=counts.field("counts"))

    return quietly(count)


def paired(job: Job, source: Source, sketch: Callable[[], CountMin]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Where rows name units: each unit's first values of a batch in the order of their caps.

    The text is there only where its coin fell and it may reach k; the others hold their places among the unit's values.
    """

    def pair(batches: Iterator[Any]) -> Iterator[Any]:
        coins, bounds = _Coins(job), sketch()
        for taken in source(batches):
            values, usable = coins.coder.each(taken.rows.texts)
            units, named = coins.coder.units(taken.rows.units)
            units, values, chosen = coins.capped(units, values, named & usable)
            passing = coins.fell(coins.words.coins(units, values)) & (bounds.upper(values) >= job.event.k)
            caps = (coins.words.caps(units, values) ^ _SIGN).view(np.int64)  # Spark's numbers are signed
            texts = coins.texts(taken.rows, chosen, passing)
            yield _batch(unit=units[:, 0].view(np.int64), more=units[:, 1].view(np.int64), cap=caps, text=texts)

    return quietly(pair)


class _Coins:
    """The words of a release, on rows."""

    def __init__(self, job: Job) -> None:
        self.words, self._event, self._coin = UnitWords(job.key.key()), job.event, job.coin
        self._normaliser = Normaliser(job.event.normalisation)
        self.coder = Coder(self.words, self._normaliser)

    def fell(self, words: Words) -> Mask:
        return (words >> np.uint64(1)) < np.uint64(self._coin)

    def of_rows(self, taken: TaskRows) -> Mask:
        """Which rows' coins fell."""
        words = [np.zeros(0, dtype=np.uint64), *(self.words.rows(*run) for run in taken.runs)]
        return self.fell(np.concatenate(words))

    def texts(self, rows: LogRows, chosen: Places, passing: Mask) -> Any:
        """The forms of the chosen rows that pass, and nothing for the others."""
        import pyarrow

        forms = self._normaliser.texts(_plain(rows.texts.take(chosen[passing]))).cast(pyarrow.string())
        places = np.cumsum(passing) - 1
        return forms.take(pyarrow.array(places, mask=~passing))

    def capped(self, units: Codes, values: Codes, usable: Mask) -> tuple[Codes, Codes, Places]:
        """Each unit's distinct values, the first ones of them by their caps; and the rows where they stand.

        A unit's first values of the whole log are among its first ones of every batch that they are in.
        """
        rows = np.flatnonzero(usable)
        units, values = units[rows], values[rows]
        _, chosen = capped(self.words, units, values, self._event.values)
        return units[chosen], values[chosen], rows[chosen]


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


def _sent(pieces: Iterator[tuple[int, bytes]]) -> Iterator[Any]:
    """In batches of some megabytes."""
    while some := list(islice(pieces, 256)):
        yield _batch(piece=[number for number, _ in some], cells=[raw for _, raw in some])


def _plain(column: Any) -> Any:
    return column.dictionary_decode() if is_coded(column) else column


def _batch(**columns: Any) -> Any:
    import pyarrow

    return pyarrow.RecordBatch.from_pydict(columns)
