"""One release on Spark with everything written down that Spark can write down; and one key put where it must not be.

python spark_secrets.py DIRECTORY
"""

import contextlib
import io
import sys
from pathlib import Path

import pyarrow as pa

from discreet.gates import CrowdGate, table_log
from discreet.gates.spark import frame_log, release_spark, session
from discreet.noise import SecretKey

SECRET, PLANTED = bytes(range(101, 133)), bytes(range(171, 203))
TEXT = "a text that only the owner knows"
LOG4J = """
appender.file.type = File
appender.file.name = file
appender.file.fileName = {0}/debug.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c %m%n%ex
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
logger.sql.name = org.apache.spark
logger.sql.level = debug
"""


def main(place: Path) -> None:
    for name in ("events", "local"):
        (place / name).mkdir()
    (place / "log4j2.properties").write_text(LOG4J.format(place))
    spark = session(
        **{
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "2",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": (place / "events").as_uri(),
            "spark.local.dir": str(place / "local"),
            "spark.broadcast.compress": "false",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={place}/log4j2.properties",
            "spark.log.level": "DEBUG",
        }
    )
    gate = CrowdGate(k=3, beta=0.9, values=2, counts=True)
    table = pa.table({"text": [TEXT, "b"] * 40, "who": [f"p{number // 2}" for number in range(80)]})
    plans = io.StringIO()
    frame = spark.createDataFrame(list(zip(*table.to_pydict().values(), strict=True)), "text string, who string")
    kept = type(frame).toArrow

    def explained(self):
        with contextlib.redirect_stdout(plans):
            self.explain(mode="extended")
            self.explain(mode="formatted")
        return kept(self)

    type(frame).toArrow = explained
    for log in (table_log(table, text="text", person="who"), frame_log(frame, text="text", person="who")):
        texts, _, _ = release_spark(gate.price(), log, coin=gate.coin, key=SecretKey(SECRET), spark=spark, width=64)
        assert texts.to_pylist() == [TEXT, "b"]
    (place / "plans.txt").write_text(plans.getvalue())
    from pyspark.sql import functions as sql

    frame.select(sql.aes_encrypt(sql.col("text"), sql.lit(PLANTED))).collect()
    stored = [path.read_bytes() for path in (place / "local").rglob("*") if path.is_file()]
    (place / "stored.bin").write_bytes(b"".join(stored))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
