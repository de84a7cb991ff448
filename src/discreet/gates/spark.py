"""The gate on Spark: the same release as the local engine's under the same key, from a laptop's cores to a cluster.

    gate.release(open_log("logs/", text="query", person="user"), receipt=receipt, engine="spark")
    gate.release(frame_log(frame, text="query", person="user"), receipt=receipt, engine="spark")

A log of files is read by the workers, each file (and each group of rows of a Parquet file) by one task, with the local
engine's own readers: every worker must see the files under the same path. A log that is a DataFrame must name its
units, by persons or ids of rows: Spark's rows have no number that stays. A Parquet scan has one (`scan_log`).

Guarantee: as of `CrowdGate`. The exact count decides; a sketch only drops what cannot reach k. The driver holds the
sketch and what is released. The key is part of the tasks' serialised functions alone: in no plan, setting, log, event
log or page, and in no broadcast (docs/howto/release-on-spark.md says what that leaves to the cluster's settings).
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from discreet.errors import BadInput, DiscreetError, MissingExtra
from discreet.gates import spark_tasks as tasks
from discreet.gates.gate import CrowdGate
from discreet.gates.query_log import QueryLog, Told, unwatched
from discreet.gates.released import OwnersFigures
from discreet.gates.sketches import CountMin
from discreet.gates.spark_logs import FrameLog, Send, frame_log, framed, scan_log
from discreet.noise.carried import CarriedKey
from discreet.noise.keyed import SecretKey

__all__ = ["FrameLog", "frame_log", "release_spark", "require_spark", "scan_log", "session"]
WIDTH, DEPTH = 1 << 20, 4
_CLUSTER = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "MASTER")
"""By any of these somebody else says where Spark runs."""
_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_OURS = re.compile(r"BadInput: (?P<asked>[^\n]*?): (?P<fact>[^\n]*?)\. (?P<remedy>[^\n]*)\.")


def require_spark() -> None:
    """Refuse, before anything is charged, where Spark cannot run."""
    asked = "releasing on Spark"
    try:
        import pandas  # noqa: F401 - Spark's Arrow functions ask for it
        import pyspark  # noqa: F401
    except ImportError:
        raise MissingExtra(asked, "pyspark or pandas is not installed", "pip install 'discreet[spark]'") from None
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
    gate: CrowdGate,
    log: QueryLog | FrameLog,
    *,
    key: SecretKey,
    told: Told = unwatched,
    spark: Any = None,
    width: int = WIDTH,
    depth: int = DEPTH,
) -> tuple[Any, Any, OwnersFigures]:
    """Texts in the order of their bytes, how many units kept each, and the owner's figures.

    ``width`` and ``depth`` are those of the sketch: 4 bytes a counter in every task, 8 while they are added up.
    """
    spark = spark or (log.frame.sparkSession if isinstance(log, FrameLog) else session())
    job = tasks.Job(gate=gate, key=CarriedKey(key), units=log.unit is not None, width=width, depth=depth)
    broadcasts: list[Any] = []

    def send(value: Any) -> Any:
        broadcasts.append(spark.sparkContext.broadcast(value))
        return broadcasts[-1]

    try:
        frame, source = framed(spark, log, send)
        told("surveying", 0, 2)
        survey = tasks.Survey(job)
        pieces = frame.mapInArrow(tasks.surveyed(job, source), "piece long, cells binary")
        merged = pieces.repartition("piece").mapInArrow(tasks.merged(), "piece long, cells binary").toArrow()
        survey.take(zip(merged["piece"].to_pylist(), merged["cells"].to_pylist(), strict=True))
        told("counting", 1, 2)
        counted = _counted(job, frame, source, survey.sketch, send).toArrow()
    except Exception as problem:  # noqa: BLE001 - Spark's messages quote whatever failed
        raise _said(problem) from None
    finally:
        for sent in broadcasts:  # they are files
            sent.destroy()
    if isinstance(log, QueryLog):
        log.check_unchanged()
    told("counting", 2, 2)
    return *_ordered(counted), _figures(job, survey)


def _counted(job: tasks.Job, frame: Any, source: tasks.Source, sketch: CountMin, send: Send) -> Any:
    """The frame of what reached k."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    sent, total = send(sketch.cells), sketch.total

    def bounds() -> CountMin:
        found = job.sketch()
        found.merge_cells(sent.value, total)
        return found

    if not job.units:
        kept = frame.mapInArrow(tasks.counted(job, source, bounds), "text string, kept long")
        counts = kept.groupBy("text").agg(sql.sum("kept").alias("kept"))
    else:
        schema = "unit long, more long, cap long, text string"
        pairs = frame.mapInArrow(tasks.paired(job, source, bounds), schema).repartition("unit", "more").distinct()
        place = sql.row_number().over(Window.partitionBy("unit", "more").orderBy("cap"))
        capped = pairs.withColumn("place", place).filter(sql.col("place") <= job.gate.values)
        kept = capped.filter(sql.col("text").isNotNull())
        counts = kept.groupBy("text").agg(sql.count(sql.lit(1)).alias("kept"))
    return counts.filter(sql.col("kept") >= job.gate.k)


def _ordered(found: Any) -> tuple[Any, Any]:
    """By the bytes of the texts, as the local engine has them."""
    import pyarrow
    from pyarrow import compute

    texts = found["text"].combine_chunks().cast(pyarrow.string())
    order = compute.sort_indices(texts.cast(pyarrow.binary()))
    return texts.take(order), found["kept"].combine_chunks().take(order).to_numpy(zero_copy_only=False)


def _figures(job: tasks.Job, survey: tasks.Survey) -> OwnersFigures:
    return OwnersFigures(
        rows=survey.rows,
        broken=survey.broken,
        without_text=survey.without_text,
        without_unit=survey.without_unit,
        kept=None if job.units else survey.kept,
        values_about=round(survey.values.estimate()),
        units_about=round(survey.units.estimate()) if job.units else None,
    )


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
