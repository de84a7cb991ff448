"""The Spark engine of the release gate: the same release as the local engine's under the same key.

    gate.release(open_log("logs/", text="query", person="user"), receipt=receipt, engine="spark")
    gate.release(frame_log(frame, text="query", person="user"), receipt=receipt, engine="spark")

A log of files is read by the workers, each file (and each row group of a Parquet file) by one task, with the local
engine's own readers: every worker must see the files under the same path. A log that is a DataFrame must name its
units, by persons or row ids: Spark's rows have no stable number, and a DataFrame's order is not used. A Parquet scan
has (file, row number) (`scan_log`).

Guarantee: as of `CrowdGate`. The exact count decides; a sketch only drops what cannot reach k. The driver holds the
sketch and what is released. The key is part of the tasks' serialised functions alone: in no plan, setting, log, event
log or page, and in no broadcast (docs/howto/release-on-spark.md says what that leaves to the cluster's settings).
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, DiscreetError, require
from discreet.gates import spark_tasks as tasks
from discreet.gates.query_log import OwnersFigures, Progress, QueryLog, unwatched, valid_rows
from discreet.gates.sketches import CountMin
from discreet.gates.spark_tasks import Source, TaskRows
from discreet.noise.keys import CarriedKey, SecretKey
from discreet.privacy.events import ReleaseGate

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
    pieces = [
        (piece.part, position)
        for number, part in enumerate(log.parts)
        for position, piece in enumerate(part.pieces(number, text, unit))
    ]
    share = max(1, math.ceil(len(pieces) / _TASKS))
    work = [pieces[start : start + share] for start in range(0, len(pieces), share)]
    sent = send((list(log.parts), work))

    def read(batches: Iterator[Any]) -> Iterator[TaskRows]:
        parts, work = sent.value
        for number, position in (
            entry for batch in batches for task in batch.column(0).to_pylist() for entry in work[task]
        ):
            piece = next(islice(parts[number].pieces(number, text, unit), position, None))
            for rows in piece.read():
                yield TaskRows(rows, [(number, rows.first, len(rows))] if unit is None else [])

    return spark.range(0, len(work), 1, numPartitions=max(1, len(work))), read


def _selected(log: FrameLog) -> Any:
    names = {"text": log.text, "unit": log.unit}
    return log.frame.select(*(_column(name).cast("string").alias(use) for use, name in names.items() if name))


def _rows_of_frame(batches: Iterator[Any]) -> Iterator[TaskRows]:
    for table in _together(batches):
        yield TaskRows(valid_rows(0, table.column(0), table.column(1)))


def _scanned(log: FrameLog, send: Send) -> tuple[Any, Source]:
    from pyspark.sql import functions as sql

    numbers = {
        path: number
        for number, path in enumerate(sorted((_path(name) for name in log.frame.inputFiles()), key=str.encode))
    }
    sent = send(numbers)

    def read(batches: Iterator[Any]) -> Iterator[TaskRows]:
        for batch in _together(batches):
            coded = batch.column(1).dictionary_encode()
            files = np.array([sent.value[_path(name)] for name in coded.dictionary.to_pylist()], dtype=np.int64)
            file = files[coded.indices.to_numpy()] if len(files) else np.zeros(0, dtype=np.int64)
            yield TaskRows(valid_rows(0, batch.column(0), None), _runs(file, batch.column(2).to_numpy()))

    metadata = [sql.col("_metadata.file_path").alias("file"), sql.col("_metadata.row_index").alias("row")]
    return log.frame.select(_column(log.text).cast("string").alias("text"), *metadata), read


def _together(batches: Iterator[Any]) -> Iterator[Any]:
    """Small batches as larger ones."""
    import pyarrow

    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(piece) for piece in waiting) >= _TOGETHER:
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
    parts = urlsplit(address)
    return parts.netloc + unquote(parts.path)


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


WIDTH, DEPTH = 1 << 20, 4
_CLUSTER = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "MASTER")
"""By any of these somebody else says where Spark runs."""
_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_OURS = re.compile(r"BadInput: (?P<asked>[^\n]*?): (?P<fact>[^\n]*?)\. (?P<remedy>[^\n]*)\.")


def require_spark() -> None:
    """Refuse, before anything is charged, where Spark cannot run."""
    asked = "releasing on Spark"
    for library in ("pyspark", "pandas"):  # Spark's Arrow functions ask for pandas
        require(library, extra="spark", asked=asked)
    from shutil import which

    if not os.environ.get("JAVA_HOME") and which("java") is None:
        raise BadInput(asked, "there is no Java", "Install Java 17 or newer, and set JAVA_HOME")


def check_log(log: Any) -> None:
    """Refuse, before anything is charged, what is no log for Spark."""
    if not isinstance(log, (QueryLog, FrameLog)):
        raise BadInput("releasing on Spark", "it is not given a log", "Use open_log, frame_log or scan_log")
    if isinstance(log, FrameLog) and "connect" in type(log.frame).__module__.split("."):
        raise BadInput("releasing on Spark", "Spark Connect would carry the key in its plans", "Use a classic session")


def session(**settings: str) -> Any:
    """The session that is active, or a new one: quiet, without a web page, and with this Python in its workers.

    Where nothing says which cluster, it is this machine, with no port open to others.
    """
    require_spark()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not any(name in os.environ for name in _CLUSTER):
        settings = {"spark.master": "local[*]"} | settings
    here = _LOOPBACK if settings.get("spark.master", "").startswith("local") else {}
    builder = SparkSession.builder.appName("discreet")
    for name, value in (_QUIET | here | settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def release_spark(
    event: ReleaseGate,
    log: QueryLog | FrameLog,
    *,
    coin: int,
    key: SecretKey,
    progress: Progress = unwatched,
    spark: Any = None,
    width: int = WIDTH,
    depth: int = DEPTH,
) -> tuple[Any, Any, OwnersFigures]:
    """Texts in the order of their bytes, how many units kept each, and the owner's figures.

    ``width`` and ``depth`` are those of the sketch: 4 bytes a counter in every task, 8 while they are added up.
    """
    spark = spark or (log.frame.sparkSession if isinstance(log, FrameLog) else session())
    job = tasks.Job(event=event, coin=coin, key=CarriedKey(key), units=log.unit is not None, width=width, depth=depth)
    broadcasts: list[Any] = []

    def send(value: Any) -> Any:
        broadcasts.append(spark.sparkContext.broadcast(value))
        return broadcasts[-1]

    try:
        frame, source = framed(spark, log, send)
        progress("surveying", 0, 2)
        survey = tasks.Survey(job)
        pieces = frame.mapInArrow(tasks.surveyed(job, source), "piece long, cells binary")
        merged = pieces.repartition("piece").mapInArrow(tasks.merged(), "piece long, cells binary").toArrow()
        survey.take(zip(merged["piece"].to_pylist(), merged["cells"].to_pylist(), strict=True))
        progress("counting", 1, 2)
        counted = _counted(job, frame, source, survey.sketch, send).toArrow()
    except Exception as problem:  # noqa: BLE001 - Spark's messages quote whatever failed
        raise _said(problem) from None
    finally:
        for sent in broadcasts:  # they are files
            sent.destroy()
    if isinstance(log, QueryLog):
        log.check_unchanged()
    progress("counting", 2, 2)
    figures = replace(
        survey.figures,
        kept=None if job.units else survey.kept,
        values_about=round(survey.values.estimate()),
        units_about=round(survey.units.estimate()) if job.units else None,
    )
    return *_ordered(counted), figures


def _counted(job: tasks.Job, frame: Any, source: tasks.Source, sketch: CountMin, send: Send) -> Any:
    """The frame of what reached k."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    sent, total = send(sketch.cells), sketch.total

    def bounds() -> CountMin:
        merged = job.sketch()
        merged.merge_cells(sent.value, total)
        return merged

    if not job.units:
        passing = frame.mapInArrow(tasks.counted(job, source, bounds), "text string, kept long")
        counts = passing.groupBy("text").agg(sql.sum("kept").alias("kept"))
    else:
        schema = "unit long, more long, cap long, text string"
        pairs = frame.mapInArrow(tasks.paired(job, source, bounds), schema).repartition("unit", "more").distinct()
        rank = sql.row_number().over(Window.partitionBy("unit", "more").orderBy("cap"))
        capped = pairs.withColumn("place", rank).filter(sql.col("place") <= job.event.values)
        passing = capped.filter(sql.col("text").isNotNull())
        counts = passing.groupBy("text").agg(sql.count(sql.lit(1)).alias("kept"))
    return counts.filter(sql.col("kept") >= job.event.k)


def _ordered(counted: Any) -> tuple[Any, Any]:
    """By the bytes of the texts, as the local engine has them."""
    import pyarrow
    from pyarrow import compute

    texts = counted["text"].combine_chunks().cast(pyarrow.string())
    order = compute.sort_indices(texts.cast(pyarrow.binary()))
    return texts.take(order), counted["kept"].combine_chunks().take(order).to_numpy(zero_copy_only=False)


def _said(problem: Exception) -> DiscreetError:
    """What a task of ours said; of everything else only its kind."""
    if isinstance(problem, DiscreetError):
        return problem
    ours = _OURS.search(str(problem))
    if ours:
        return BadInput(ours["asked"], ours["fact"], ours["remedy"])
    return BadInput(
        "releasing on Spark", f"it failed with {type(problem).__name__}", "See the log of the driver, which is yours"
    )
