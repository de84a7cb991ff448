"""Both engines let out the same under one key: a real Spark on this machine, with two workers."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from discreet.gates import CrowdGate, QueryLog, table_log
from discreet.noise import release_key

sys.path.insert(0, str(Path(__file__).parents[1] / "gates"))
from gate_reference import paid, reference_release

pytestmark = pytest.mark.integration
KINDS = [
    "play the next song",
    "Play  the NEXT song",
    "straße",
    "STRASSE",
    "日本",
    "\U0001f600 ok",
    "e\u0301",
    "é",
    " ",
    None,
]


@pytest.fixture(scope="session")
def spark():
    from discreet.gates.spark import session

    settings = {
        "spark.sql.shuffle.partitions": "3",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.master": "local[2]",
    }
    found = session(**settings)
    yield found
    found.stop()


def rows_of(seed, size, *, people=700, texts=30):
    """(unit, text) with repeats, case and compatibility forms, gaps, and a heavy tail."""
    generator = np.random.default_rng(seed)
    common = [*KINDS, *(f"text {number}" for number in range(texts))]
    return [
        (
            None if generator.random() < 0.02 else f"p{generator.integers(people)}",
            common[min(int(generator.zipf(1.3)), len(common)) - 1] if generator.random() < 0.9 else f"rare {number}",
        )
        for number in range(size)
    ]


def log_of(files, unit=None):
    parts = []
    for rows in files:
        units, texts = (
            pa.array([unit for unit, _ in rows], pa.string()),
            pa.array([text for _, text in rows], pa.string()),
        )
        parts += table_log(pa.table({"text": texts, "unit": units}), text="text").parts
    return QueryLog(parts=parts, text="text", **({unit: "unit"} if unit else {}))


def both(gate, log, spark, **options):
    """{text: count} of either engine, by the same charge."""
    found = []
    for engine in ({"engine": "local"}, {"engine": "spark", "spark": spark, **options}):
        receipt, _ledger = paid(gate)
        out = gate.release(log, receipt=receipt, **engine)
        found.append((out.texts.to_pylist(), out.counts.tolist(), out.figures))
    return found


def key_of(gate):
    receipt, _ledger = paid(gate)
    return release_key(receipt)


@pytest.mark.parametrize("unit", ["person", "row_id", None])
@pytest.mark.parametrize("values", [1, 3])
@pytest.mark.parametrize("width", [2, 1 << 12])
def test_both_engines_release_the_same(spark, unit, values, width):
    if unit != "person" and values > 1:
        pytest.skip("a row has one value")
    files = [rows_of(1, 3000), [], rows_of(2, 500), rows_of(3, 1)]
    gate = CrowdGate(k=4, beta=0.5, values=values, counts=True, persons=unit == "person")
    here, there = both(gate, log_of(files, unit), spark, width=width)
    assert here[:2] == there[:2]
    assert len(here[0]) > 3
    plain = files if unit else [[(None, text) for _, text in rows] for rows in files]
    assert dict(zip(*here[:2], strict=True)) == reference_release(gate, key_of(gate), plain)
    for name in ("rows", "broken", "without_text", "without_unit"):
        assert getattr(here[2], name) == getattr(there[2], name)
