"""Logs in files: the same rows whatever they are written in; what is broken is counted and never shown."""

import gzip
import json
import random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from gate_reference import paid, reference_release
from test_crowd_gate import as_dict, key_of

from discreet.errors import BadInput
from discreet.gates import CrowdGate, open_log, table_log

GATE = CrowdGate(k=3, beta=0.7, values=2, counts=True)
ROWS = [
    (f"p{number % 37}", ["Play, music", "stop", "né é", 'say "hi"', "日本", "a\nb"][number % 6])
    for number in range(400)
]
TABLE = pa.table({"when": list(range(400)), "user": [who for who, _ in ROWS], "query": [text for _, text in ROWS]})
TRUTH = reference_release(GATE, key_of(GATE), [ROWS])


def released(where, gate=GATE, **columns):
    receipt, _ledger = paid(gate)
    return gate.release(open_log(where, **({"text": "query", "person": "user"} | columns)), receipt=receipt)


def write(path):
    kind = path.name.split(".")[1]
    if kind == "parquet":
        pq.write_table(TABLE, path, row_group_size=70)
    elif kind == "csv":
        with pa.output_stream(str(path), compression={".gz": "gzip", ".zst": "zstd"}.get(path.suffix)) as file:
            pcsv.write_csv(TABLE.set_column(2, "query", pc.replace_substring(TABLE["query"], "\n", " ")), file)
    else:
        with pa.output_stream(str(path), compression={".gz": "gzip", ".zst": "zstd"}.get(path.suffix)) as file:
            for row in TABLE.to_pylist():
                file.write(json.dumps(row).encode() + b"\n")
    return path


NAMES = ["a.parquet", "a.csv", "a.csv.gz", "a.csv.zst", "a.jsonl", "a.jsonl.gz", "a.ndjson.zst", "a.json"]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_log_in_every_kind_of_file(tmp_path, name):
    found = released(write(tmp_path / name))
    assert as_dict(found) == TRUTH
    assert TRUTH
    assert (found.figures.rows, found.figures.broken, found.figures.units) == (400, 0, 37)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_numbered_the_same_in_every_kind_of_file(tmp_path, name):
    gate = CrowdGate(k=3, beta=0.5, counts=True, persons=False)
    found = released(write(tmp_path / name), gate, person=None)
    assert as_dict(found) == reference_release(gate, key_of(gate), [[(None, text) for _, text in ROWS]])


def test_a_directory_is_its_files_in_the_order_of_their_names(tmp_path):
    gate = CrowdGate(k=3, beta=0.5, counts=True, persons=False)
    (tmp_path / "more").mkdir()
    for name, part in (("b.csv", 0), ("more/a.jsonl.gz", 1), ("a.parquet", 2)):
        write(tmp_path / name)
        assert part >= 0
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden.csv").write_text("not\nours\n")
    (tmp_path / "notes.txt").write_text("query,user\n")
    one = [(None, text) for _, text in ROWS]
    assert as_dict(released(tmp_path, gate, person=None)) == reference_release(gate, key_of(gate), [one, one, one])
    both = [tmp_path / "b.csv", tmp_path / "a.parquet"]
    assert as_dict(released(both, gate, person=None)) == reference_release(gate, key_of(gate), [one, one])
    with pytest.raises(BadInput, match="twice"):
        released([tmp_path / "b.csv", tmp_path / "b.csv"], gate, person=None)


def test_broken_rows_of_a_csv_file_are_counted_and_cost_others_nothing(tmp_path):
    lines = [f"{number},u{number},secret word" for number in range(40)]
    lines.insert(3, "1,too few")
    lines.insert(20, "1,far,too,many,columns")
    lines += ["41,,secret word", "42,u42,"]
    raw = ("n,user,query\n" + "\n".join(lines) + "\n").encode() + b"43,u43,sec\xffret\n44,u\xc3,secret word\n"
    (tmp_path / "log.csv").write_bytes(raw)
    found = released(tmp_path / "log.csv")
    good = [(f"u{number}", "secret word") for number in range(40)]
    assert as_dict(found) == reference_release(GATE, key_of(GATE), [good])
    figures = found.figures
    assert (figures.rows, figures.broken, figures.without_text, figures.without_unit) == (46, 4, 1, 1)


OPEN = [
    b'7,mallory,"open',
    b'7,"mallory,open',
    b'7,mallory,"open\n8,u1,secret word\n9,u2,secret word"',  # well-formed, if it is one text; forged rows, if not
    b'7,mallory,"open\r8,u1,secret word"',
    b'7,mall"ory,"open',
    b'7,mallory,"open""',
    b"7,mallory," + b"x" * (9 << 20),
]


@pytest.mark.parametrize("line", OPEN, ids=range(len(OPEN)))
@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_a_csv_row_that_could_take_others_along_is_refused_when_the_file_is_opened(tmp_path, name, line):
    rows = [f"{number},u{number},secret word".encode() for number in range(40)]
    raw = b"\n".join([b"n,user,query", *rows[:5], line, *rows[5:]])
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    with pytest.raises(BadInput, match="quote is open") as error:
        open_log(tmp_path / name, text="query", person="user")
    assert "secret" not in str(error.value)
    assert "mallory" not in str(error.value)


def test_a_csv_row_is_its_line_whatever_quotes_are_in_it(tmp_path):
    """Each line alone gives what it gives among the others: else one of them decided about another."""
    draw = random.Random(5)
    kept = refused = 0
    for _ in range(150):
        lines = [bytes(draw.choice(b'"",ab') for _ in range(draw.randint(1, 9))) for _ in range(3)]
        apart = [_texts(tmp_path, [line]) for line in lines]
        if None in apart:
            assert _texts(tmp_path, lines) is None
            refused += 1
        else:
            assert _texts(tmp_path, lines) == [text for one in apart for text in one]
            kept += 1
    assert kept > 20
    assert refused > 20


def _texts(place, lines):
    path = place / "quotes.csv"
    path.write_bytes(b"\n".join([b"user,query", *lines, b""]))
    try:
        log = open_log(path, text="query", person="user")
    except BadInput:
        return None
    return [text for piece in log.pieces() for rows in piece.read() for text in rows.texts.to_pylist()]


@pytest.mark.parametrize("columns", [{"person": ""}, {"row_id": ""}, {"text": ""}])
def test_a_column_without_a_name_is_refused(tmp_path, columns):
    """An empty person must not mean that rows are the units, while people are promised something."""
    with pytest.raises(BadInput):
        table_log(TABLE, **({"text": "query"} | columns))
    for name in ("a.parquet", "a.csv", "a.jsonl"):
        with pytest.raises(BadInput):
            open_log(write(tmp_path / name), **({"text": "query"} | columns))


def test_a_file_counts_once_by_whatever_paths_it_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "a.csv")
    (tmp_path / "linked.csv").symlink_to(path)
    (tmp_path / "second.csv").hardlink_to(path)
    monkeypatch.chdir(tmp_path)
    for other in ("a.csv", "linked.csv", "second.csv", f"../{tmp_path.name}/a.csv"):
        with pytest.raises(BadInput, match="twice"):
            open_log([path, other], text="query")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_byte_order_mark_costs_the_first_row_nothing(tmp_path, name):
    path = write(tmp_path / name)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    found = released(path)
    assert as_dict(found) == TRUTH
    assert found.figures.broken == 0


def test_what_is_being_written_is_no_part_of_a_directory(tmp_path):
    write(tmp_path / "a.csv")
    for folder in ("out.csv.unfinished", "_temporary", ".hidden"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "part.csv")
    assert len(open_log(tmp_path, text="query").parts) == 1


def test_broken_lines_of_a_jsonl_file_are_counted_and_cost_others_nothing(tmp_path):
    good = [{"query": "secret word", "user": number} for number in range(40)]
    bad = [b"{", b"[1]", b'"x"', b'{"query": 1.5, "user": 1}', b'{"query": {"a": 1}, "user": 1}', b'{"query": "\xff"}']
    bad += [b'{"query": "\\ud800", "user": 3}', b"[" * 100_000, b'{"query": true, "user": 1}']
    lines = [json.dumps(row).encode() for row in good]
    lines[5:5] = bad
    lines += [b"", b"  ", b'{"user": 50}', b'{"query": "secret word"}', b'{"query": null, "user": 51}']
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(lines))
    found = released(tmp_path / "log.jsonl")
    rows = [(str(row["user"]), row["query"]) for row in good]
    assert as_dict(found) == reference_release(GATE, key_of(GATE), [rows])
    figures = found.figures
    assert (figures.rows, figures.broken, figures.without_text, figures.without_unit) == (52, 9, 2, 1)


@pytest.mark.parametrize("coded", [True, False])
def test_parquet_that_holds_no_utf8(tmp_path, coded):
    raw = [b"secret word"] * 60 + [b"\xff\xfe", b"caf\xc3", b"\xa9"] * 5
    names = [f"u{number}".encode() for number in range(75)]
    names[0] = b"\xff"
    table = pa.table({"query": pa.array(raw, pa.binary()), "user": pa.array(names, pa.binary())})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=coded)
    found = released(tmp_path / "a.parquet")
    good = [(f"u{number}", "secret word") for number in range(1, 60)]
    assert as_dict(found) == reference_release(GATE, key_of(GATE), [good])
    assert (found.figures.rows, found.figures.broken) == (75, 16)


SECRETS = ("Play", "stop", "p12", "日本")


@pytest.mark.parametrize(
    ("name", "spoiled"),
    [
        ("a.parquet", lambda raw: raw[: len(raw) // 2]),
        ("a.parquet", lambda raw: raw[:200] + bytes(300) + raw[500:]),
        ("a.csv.gz", lambda raw: raw[: len(raw) // 2]),
        ("a.csv.zst", lambda raw: raw[: len(raw) // 2]),
        ("a.jsonl.gz", lambda raw: raw[: len(raw) // 2]),
        ("a.csv", lambda raw: b""),
        ("a.csv", lambda raw: raw.replace(b'"user"', b'"query"', 1)),
        ("a.parquet", lambda raw: b"Play stop"),
    ],
)
def test_files_that_cannot_be_read_are_named_and_nothing_of_them(tmp_path, name, spoiled):
    path = write(tmp_path / name)
    path.write_bytes(spoiled(path.read_bytes()))
    with pytest.raises(BadInput, match=path.name) as error:
        released(path)
    assert not any(secret in str(error.value) for secret in SECRETS)
    assert error.value.__cause__ is None


def test_what_is_refused_before_a_row_is_read(tmp_path):
    path = write(tmp_path / "a.parquet")
    for where, columns in (
        (path, {"text": "missing"}),
        (path, {"person": "missing"}),
        (write(tmp_path / "a.csv"), {"text": "missing"}),
        (tmp_path / "nothing.csv", {}),
        (tmp_path / "empty", {}),
        (tmp_path / "a.txt", {}),
        (tmp_path / "a.parquet.gz", {}),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        (tmp_path / "a.txt").write_text("x")
        (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(b"x"))
        with pytest.raises(BadInput):
            open_log(where, **({"text": "query", "person": "user"} | columns))


def test_a_log_that_is_written_to_meanwhile_is_refused(tmp_path):
    path = write(tmp_path / "a.jsonl")
    receipt, _ledger = paid(GATE)
    log = open_log(path, text="query", person="user")
    with path.open("a") as file:
        file.write('{"query": "late", "user": "x"}\n')
    with pytest.raises(BadInput, match="changed"):
        GATE.release(log, receipt=receipt)
