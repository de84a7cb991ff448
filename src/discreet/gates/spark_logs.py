"""Logs on Spark: files that the workers read, DataFrames that name their units, and Parquet that Spark scans.

Guarantee: rows are known by what stays when a job is done again. (file, row number) is that of the file; a DataFrame's
own order is not used for anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.gates.query_log import Piece, QueryLog, valid_rows
from discreet.gates.spark_tasks import Source, Taken

_TASKS = 10_000
_TOGETHER = 1 << 17
"""Rows that a worker takes together; Spark hands over 10,000."""
Send = Callable[[Any], Any]
"""To all workers; its result has the value there."""
_WHOLE = ("string", "byte", "short", "integer", "long")


@dataclass(frozen=True, kw_only=True)
class FrameLog:
    """A DataFrame as a log. ``scan``: rows are known by (file, row number), and by nothing else."""

    frame: Any = field(repr=False)
    text: str
    person: str | None = None
    row_id: str | None = None
    scan: bool = False

    @property
    def unit(self) -> str | None:
        """The column whose values are units."""
        return self.row_id if self.person is None else self.person


def frame_log(frame: Any, *, text: str, person: str | None = None, row_id: str | None = None) -> FrameLog:
    """A log of any Spark DataFrame that says whose each row is, or gives each an id of its own."""
    asked = "a log of a Spark DataFrame"
    if (person is None) == (row_id is None):
        fact = "its rows have no number that stays" if person is None else "the person is the unit"
        raise BadInput(asked, fact, "Name either a person column or a row-id column")
    _check_columns(frame, [text, row_id if person is None else person])
    return FrameLog(frame=frame, text=text, person=person, row_id=row_id)


def scan_log(spark: Any, paths: Sequence[str], *, text: str) -> FrameLog:
    """A log of Parquet files that Spark itself reads, on any file system it knows: (file, row number) is the unit.

    Files are numbered in the order of their paths, as the local engine numbers those of a directory.
    """
    try:
        frame = spark.read.parquet(*paths)
    except Exception as problem:  # noqa: BLE001 - Spark's own, whatever file system it is
        kind = type(problem).__name__
        raise BadInput(
            "scanning Parquet files", f"Spark cannot read them ({kind})", "Check the paths, and that all are Parquet"
        ) from None
    _check_columns(frame, [text])
    return FrameLog(frame=frame, text=text, scan=True)


def framed(spark: Any, log: QueryLog | FrameLog, send: Send) -> tuple[Any, Source]:
    """A frame to start from, and how a task makes rows of its batches."""
    if isinstance(log, FrameLog):
        return _scanned(log, send) if log.scan else (_selected(log), _rows_of_frame)
    text, unit = log.text, log.unit
    pieces = [(piece.part, place) for part in _pieces_of(log) for place, piece in enumerate(part)]
    share = max(1, math.ceil(len(pieces) / _TASKS))
    work = [pieces[start : start + share] for start in range(0, len(pieces), share)]
    sent = send((list(log.parts), work))

    def read(batches: Iterator[Any]) -> Iterator[Taken]:
        parts, work = sent.value
        for number, place in (one for batch in batches for task in batch.column(0).to_pylist() for one in work[task]):
            piece = next(islice(parts[number].pieces(number, text, unit), place, None))
            for rows in piece.read():
                yield Taken(rows, [(number, rows.first, len(rows))] if unit is None else [])

    return spark.range(0, len(work), 1, numPartitions=max(1, len(work))), read


def _pieces_of(log: QueryLog) -> Iterator[Iterator[Piece]]:
    return (part.pieces(number, log.text, log.unit) for number, part in enumerate(log.parts))


def _selected(log: FrameLog) -> Any:
    names = {"text": log.text, "unit": log.unit}
    return log.frame.select(*(_column(name).cast("string").alias(use) for use, name in names.items() if name))


def _rows_of_frame(batches: Iterator[Any]) -> Iterator[Taken]:
    for table in _together(batches):
        yield Taken(valid_rows(0, table.column(0), table.column(1)))


def _scanned(log: FrameLog, send: Send) -> tuple[Any, Source]:
    from pyspark.sql import functions as sql

    numbers = {
        path: number
        for number, path in enumerate(sorted((_path(name) for name in log.frame.inputFiles()), key=str.encode))
    }
    sent = send(numbers)

    def read(batches: Iterator[Any]) -> Iterator[Taken]:
        for batch in _together(batches):
            coded = batch.column(1).dictionary_encode()
            files = np.array([sent.value[_path(name)] for name in coded.dictionary.to_pylist()], dtype=np.int64)
            file = files[coded.indices.to_numpy()] if len(files) else np.zeros(0, dtype=np.int64)
            yield Taken(valid_rows(0, batch.column(0), None), _runs(file, batch.column(2).to_numpy()))

    metadata = [sql.col("_metadata.file_path").alias("file"), sql.col("_metadata.row_index").alias("row")]
    return log.frame.select(_column(log.text).cast("string").alias("text"), *metadata), read


def _together(batches: Iterator[Any]) -> Iterator[Any]:
    """Small batches as larger ones."""
    import pyarrow

    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(one) for one in waiting) >= _TOGETHER:
            yield from pyarrow.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting = []
    if waiting:
        yield from pyarrow.Table.from_batches(waiting).combine_chunks().to_batches()


def _runs(files: NDArray[np.int64], rows: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Consecutive rows of one file, together."""
    if not len(rows):
        return []
    begins = np.flatnonzero(np.concatenate([[True], (np.diff(rows) != 1) | (np.diff(files) != 0)]))
    sizes = np.diff(np.append(begins, len(rows)))
    return list(zip(files[begins].tolist(), rows[begins].tolist(), sizes.tolist(), strict=True))


def _path(address: str) -> str:
    """Of a file's address, however its letters are escaped."""
    found = urlsplit(address)
    return found.netloc + unquote(found.path)


def _column(name: str) -> Any:
    """A column by its whole name, with whatever is in it."""
    from pyspark.sql import functions as sql

    return sql.col("`" + name.replace("`", "``") + "`")


def _check_columns(frame: Any, names: Sequence[str | None]) -> None:
    for name in names:
        kinds = [kind.dataType.typeName() for kind in frame.schema.fields if kind.name == name]
        if len(kinds) != 1:
            raise BadInput(f"column {name} of the frame", "there is not exactly one of that name", "Check its name")
        if kinds[0] not in _WHOLE:
            raise BadInput(
                f"column {name} of the frame", "it holds neither texts nor whole numbers", "Cast it to string"
            )
