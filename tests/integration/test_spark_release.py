"""Both engines let out the same under one key: a real Spark on this machine, with two workers."""

import base64
import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_secrets import PLANTED, SECRET, TEXT
from spark_texts import BadPart

from discreet.cli.app import run
from discreet.errors import BadInput
from discreet.gates import CrowdGate, QueryLog, open_log, table_log
from discreet.gates.spark import frame_log, release_spark, scan_log, session
from discreet.noise import SecretKey, release_key
from discreet.noise.unit_words import UnitWords

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


@pytest.fixture(scope="module")
def spark():
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # for the workers: what a user would have installed there
    settings = {"spark.sql.shuffle.partitions": "3", "spark.master": "local[2]"}
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


@pytest.mark.parametrize(("unit", "values"), [("person", 1), ("person", 3), ("row_id", 1), (None, 1)])
@pytest.mark.parametrize("width", [2, 1 << 12])
def test_both_engines_release_the_same(spark, unit, values, width):
    files = [rows_of(1, 3000), [], rows_of(2, 500), rows_of(3, 1)]
    gate = CrowdGate(k=4, beta=0.5, values=values, counts=True, persons=unit == "person")
    here, there = both(gate, log_of(files, unit), spark, width=width)
    assert here[:2] == there[:2]
    assert len(here[0]) > 3
    plain = files if unit else [[(None, text) for _, text in rows] for rows in files]
    assert dict(zip(*here[:2], strict=True)) == reference_release(gate, key_of(gate), plain)
    for name in ("rows", "broken", "without_text", "without_unit"):
        assert getattr(here[2], name) == getattr(there[2], name)


def packed(path, raw):
    kind = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    with pa.output_stream(str(path), compression=kind) as out:
        out.write(raw)


@pytest.mark.parametrize(("unit", "values"), [("person", 2), ("row_id", 1), (None, 1)])
def test_files_of_all_kinds(spark, tmp_path, unit, values):
    """Parquet in groups of rows, CSV and JSON lines, gzip and zstd, in folders; broken rows in all of them."""
    rows = [(who, text) for who, text in rows_of(8, 2000) if who is not None]
    (tmp_path / "more").mkdir()
    lines = [json.dumps({"text": text, "who": who}, ensure_ascii=False).encode() for who, text in rows[:700]]
    packed(tmp_path / "a.jsonl", b"\n".join([*lines[:50], b"{broken", b'{"text": "\xff"}', b"", *lines[50:]]))
    packed(tmp_path / "more" / "b.ndjson.gz", b"\n".join(lines[:400]))
    table = "\n".join(f'{who},"{text or ""}"' for who, text in rows[700:1400]).encode()
    packed(tmp_path / "c.csv.zst", b"who,text\n" + table + b"\none,too,many\np9,\xff\xfe\n")
    packed(tmp_path / "d.csv", b"who,text\n" + table)
    columns = {"who": [who for who, _ in rows[1400:]], "text": pa.array([text for _, text in rows[1400:]], pa.string())}
    pq.write_table(pa.table(columns), tmp_path / "e.parquet", row_group_size=100)
    raw = pa.array([b"\xff", b"text 1", None] * 20, pa.binary())
    pq.write_table(pa.table({"who": [f"q{number}" for number in range(60)], "text": raw}), tmp_path / "f.parquet")
    log = open_log(tmp_path, text="text", **({unit: "who"} if unit else {}))
    gate = CrowdGate(k=4, beta=0.5, values=values, counts=True, persons=unit == "person")
    here, there = both(gate, log, spark, width=64)
    assert here[:2] == there[:2]
    assert len(here[0]) > 3
    assert here[2].broken == 4 + 20
    for name in ("rows", "broken", "without_text", "without_unit"):
        assert getattr(here[2], name) == getattr(there[2], name)


def test_a_log_without_rows_releases_nothing(spark):
    for log in (log_of([]), log_of([[]])):
        gate = CrowdGate(k=2, beta=0.5, counts=True, persons=False)
        assert both(gate, log, spark, width=64)[1][:2] == ([], [])


def test_a_log_that_changes_is_refused(spark, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n' * 20)
    log = open_log(path, text="text")
    path.write_text('{"text": "a"}\n' * 21)
    gate = CrowdGate(k=2, beta=0.5, persons=False)
    with pytest.raises(BadInput, match="changed"):
        release_spark(gate.price(), log, coin=gate.coin, key=key_of(gate), spark=spark, width=64)


def written(place, files, **options):
    """As Parquet files, in the order of their names."""
    place.mkdir()
    for number, rows in enumerate(files):
        columns = {"a text": pa.array([text for _, text in rows], pa.string()), "who`s": [unit for unit, _ in rows]}
        pq.write_table(pa.table(columns), place / f"a b%20{number} ö.parquet", **options)


def test_a_scan_knows_rows_by_file_and_number(spark, tmp_path):
    """Small groups of rows, and files cut between them: Spark's tasks begin in the middle of a file."""
    files = [[(None, text) for _, text in rows_of(seed, 4000)] for seed in (4, 5)]
    written(tmp_path / "log", files, row_group_size=500)
    gate = CrowdGate(k=4, beta=0.5, counts=True, persons=False)
    cut = spark.newSession()
    cut.conf.set("spark.sql.files.maxPartitionBytes", "2000")
    log = scan_log(cut, [str(tmp_path / "log")], text="a text")
    assert log.frame.rdd.getNumPartitions() > 4
    texts, counts, figures = release_spark(gate.price(), log, coin=gate.coin, key=key_of(gate), width=64)
    assert dict(zip(texts.to_pylist(), counts.tolist(), strict=True)) == reference_release(gate, key_of(gate), files)
    assert figures.rows == 8000


@pytest.mark.parametrize("unit", ["person", "row_id"])
def test_a_frame_in_any_order_releases_the_same(spark, tmp_path, unit):
    files = [rows_of(6, 3000)]
    written(tmp_path / "log", files)
    frame = spark.read.parquet(str(tmp_path / "log"))
    gate = CrowdGate(k=4, beta=0.5, values=1, counts=True, persons=unit == "person")
    wanted = reference_release(gate, key_of(gate), files)
    for one in (frame, frame.repartition(5).orderBy("a text")):
        log = frame_log(one, text="a text", **{unit: "who`s"})
        texts, counts, _ = release_spark(gate.price(), log, coin=gate.coin, key=key_of(gate), width=64)
        assert dict(zip(texts.to_pylist(), counts.tolist(), strict=True)) == wanted
    assert len(wanted) > 3


def test_whole_numbers_are_units_as_their_digits(spark):
    rows = [(number % 50, f"text {number % 3}") for number in range(150)]
    frame = spark.createDataFrame(rows, "who long, text string")
    gate = CrowdGate(k=4, beta=0.5, values=1, counts=True)
    texts, counts, _ = release_spark(
        gate.price(), frame_log(frame, text="text", person="who"), coin=gate.coin, key=key_of(gate), width=64
    )
    wanted = reference_release(gate, key_of(gate), [[(str(who), text) for who, text in rows]])
    assert dict(zip(texts.to_pylist(), counts.tolist(), strict=True)) == wanted


def test_nothing_below_k_with_a_sketch_that_tells_nothing_apart(spark, tmp_path):
    """10^6 rows; all values share two counters, or 4096: what passes is what a plain count finds."""
    generator = np.random.default_rng(7)
    values, people = np.minimum(generator.zipf(1.5, 10**6), 10**5), generator.integers(0, 200_000, 10**6)
    table = pa.table({"text": pa.array(values).cast(pa.string()), "who": pa.array(people).cast(pa.string())})
    for number in range(4):
        pq.write_table(table.slice(number * 250_000, 250_000), tmp_path / f"{number}.parquet")
    gate = CrowdGate(k=20, beta=0.3, values=2, counts=True)
    wanted = plain_count(gate, key_of(gate), values, people)
    below = {text for text, count in wanted.items() if count < gate.k}
    frame = spark.read.parquet(str(tmp_path))
    for width in (2, 1 << 12):
        log = frame_log(frame, text="text", person="who")
        texts, counts, figures = release_spark(gate.price(), log, coin=gate.coin, key=key_of(gate), width=width)
        found = dict(zip(texts.to_pylist(), counts.tolist(), strict=True))
        assert not below & found.keys()
        assert found == {text: count for text, count in wanted.items() if count >= gate.k}
    receipt, _ledger = paid(gate)
    here = gate.release(table_log(table, text="text", person="who"), receipt=receipt)
    assert dict(zip(here.texts.to_pylist(), here.counts.tolist(), strict=True)) == found
    assert len(found) > 100
    assert len(below) > 1000
    assert figures.values_about == pytest.approx(np.unique(values).size, rel=0.05)
    assert figures.units_about == pytest.approx(np.unique(people).size, rel=0.05)


def plain_count(gate, key, values, people):
    """How many people kept each value, one step after the other, with pandas."""
    import pandas

    pairs = pandas.DataFrame({"who": people, "value": values}).drop_duplicates()
    words = UnitWords(key)
    codes = [encoded(of, pairs[name]) for of, name in ((words.unit_codes, "who"), (words.value_codes, "value"))]
    pairs["cap"], pairs["coin"] = words.caps(*codes), words.coins(*codes)
    first = pairs.sort_values("cap").groupby("who").head(gate.values)
    kept = first[(first["coin"] // 2) < int(Fraction(gate.beta) * 2**63)]
    return {str(value): count for value, count in kept.groupby("value").size().items()}


def encoded(of, column):
    raw = [str(one).encode() for one in column.tolist()]
    return of(np.frombuffer(b"".join(raw), np.uint8), np.concatenate([[0], np.cumsum([len(one) for one in raw])]))


@pytest.mark.long
def test_a_hundred_million_rows(spark, tmp_path):
    """Rows as units, 20 files of 5 million; what passes is what coins and counts say, one file after the other."""
    generator, size = np.random.default_rng(9), 5_000_000
    gate = CrowdGate(k=100, beta=0.3, counts=True, persons=False)
    words, kept = UnitWords(key_of(gate)), np.zeros(10**6 + 1, dtype=np.int64)
    names = pa.array([f"text {number}" for number in range(10**6 + 1)])
    for number in range(20):
        values = np.minimum(generator.zipf(1.4, size), 10**6)
        table = pa.table({"text": pa.DictionaryArray.from_arrays(pa.array(values.astype(np.int32)), names)})
        pq.write_table(table, tmp_path / f"{number:02}.parquet", row_group_size=10**6)
        fell = words.rows(number, 0, size) >> np.uint64(1) < np.uint64(int(Fraction(gate.beta) * 2**63))
        kept += np.bincount(values[fell], minlength=kept.size)
    wanted = {f"text {value}": int(kept[value]) for value in np.flatnonzero(kept >= gate.k)}
    for log in (open_log(tmp_path, text="text"), scan_log(spark, [str(tmp_path)], text="text")):
        texts, counts, figures = release_spark(
            gate.price(), log, coin=gate.coin, key=key_of(gate), spark=spark, width=1 << 12
        )
        assert figures.rows == 10**8
        assert dict(zip(texts.to_pylist(), counts.tolist(), strict=True)) == wanted


def test_the_page_runs(spark, tmp_path, monkeypatch, capsys):
    """The blocks of docs/howto/release-on-spark.md that need Spark."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/howto/release-on-spark.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    for block in blocks:
        exec(compile(block, "page", "exec"), {})
    assert "['play the next song']" in capsys.readouterr().out


@pytest.mark.parametrize("person", [True, False])
def test_the_command_writes_the_same_file_by_both_engines(spark, tmp_path, capsys, person):
    written(tmp_path / "log", [rows_of(10, 3000), rows_of(11, 500)])
    for engine in ("local", "spark"):
        asked = ["release", str(tmp_path / "log"), "--text", "a text", "--k", "20", "--beta", "0.3", "--epsilon", "1.5"]
        asked += ["--delta", "1e-4", "--engine", engine, "--out", str(tmp_path / f"{engine}.parquet"), "--counts"]
        asked += ["--simulation-seed", "3", "--json", *(["--person", "who`s"] if person else [])]
        assert run(asked) == 0, capsys.readouterr().err
        assert json.loads(capsys.readouterr().out)["simulation"]
    tables = [pq.read_table(tmp_path / f"{engine}.parquet") for engine in ("local", "spark")]
    assert tables[0].equals(tables[1])
    assert tables[0].num_rows > 1


def test_a_text_that_ones_own_function_cannot_take_is_left_out(spark):
    """Neither an error nor a word about it: both would tell that somebody wrote it."""
    gate = CrowdGate(k=2, beta=0.5, normalisation="nfkc,spark_texts:fail")
    rows = [(f"p{number}", "plain" if number % 2 else "a secret text") for number in range(80)]
    texts, _, _ = release_spark(
        gate.price(), log_of([rows], "person"), coin=gate.coin, key=key_of(gate), spark=spark, width=64
    )
    assert texts.to_pylist() == ["plain"]


def test_a_part_that_is_not_there_is_said_without_a_row(spark):
    log = QueryLog(parts=[BadPart()], text="text")
    gate = CrowdGate(k=2, beta=0.5, persons=False)
    with pytest.raises(BadInput, match="a task failed with FileNotFoundError") as caught:
        release_spark(gate.price(), log, coin=gate.coin, key=key_of(gate), spark=spark, width=64)
    assert "quoted" not in str(caught.value)


def test_refusals(spark):
    frame = spark.createDataFrame([("a", 1.5, "x")], "text string, number double, who string")
    for wrong in (
        {"text": "text"},
        {"text": "text", "person": "who", "row_id": "who"},
        {"text": "text", "person": "number"},
        {"text": "none", "person": "who"},
    ):
        with pytest.raises(BadInput):
            frame_log(frame, **wrong)
    gate = CrowdGate(k=2, beta=0.5, persons=False)
    receipt, _ledger = paid(gate)
    with pytest.raises(BadInput, match="person column"):
        gate.release(frame_log(frame, text="text", person="who"), receipt=receipt, engine="spark")
    with pytest.raises(BadInput, match="local"):
        gate.release(frame_log(frame, text="text", row_id="who"), receipt=receipt, engine="local")
    assert gate.release(frame_log(frame, text="text", row_id="who"), receipt=receipt, engine="spark").figures.rows == 1


def test_keys_and_texts_are_in_nothing_that_spark_writes_down(tmp_path):
    """Plans, logs of every level, event logs; the key not even among stored blocks. A planted key is found."""
    said = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("spark_secrets.py")), str(tmp_path)],
        capture_output=True,
        timeout=600,
    )
    assert said.returncode == 0, said.stderr[-2000:]
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    stored = {path.name for path in written if "local" in path.parts or path.name == "stored.bin"}
    written |= {Path("stdout"): said.stdout, Path("stderr"): said.stderr}
    assert {"debug.log", "plans.txt"} <= {path.name for path in written}
    found = {
        (path.name, what)
        for path, raw in written.items()
        for what, forms in SOUGHT.items()
        if any(f in raw for f in forms)
    }
    assert not {what for what in found if what[1] == "secret"}
    assert any(name.startswith("events") for name, what in found if what == "planted")
    assert {name for name, what in found if what == "text"} <= stored


def printed(key):
    """The ways in which 32 bytes are written."""
    signed = [one - 256 if one > 127 else one for one in key]
    lists = [", ".join(map(str, numbers)).encode() for numbers in (key, signed)]
    return [key, key.hex().encode(), key.hex().upper().encode(), base64.b64encode(key)[:40], *lists]


SOUGHT = {
    "secret": [
        form
        for use in ("", "gate/units", "gate/values", "gate/coins", "gate/caps", "gate/rows", "gate/sketch")
        for form in printed(SecretKey(SECRET).derive(use)._bytes if use else SECRET)
    ],
    "planted": printed(PLANTED),
    "text": [TEXT.encode()],
}
