"""`discreet release`: texts out, charged first, once; nonsense costs nothing, and nothing of the log is said."""

import gzip
import json
import os
import shutil
import stat
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.cli.app import run
from discreet.errors import InvalidLedger
from discreet.gates import CrowdGate
from discreet.gates.release_files import REGISTER, RepeatedRelease
from discreet.noise.keys import write_secret
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import FileSink, Ledger, Line, committed

pytestmark = pytest.mark.thorough

ASKED = ["--text", "query", "--k", "40", "--beta", "0.2", "--epsilon", "0.5", "--delta", "1e-6"]
FIELDS = {"format", "simulation", "released", "out", "ledger", "unit", "epsilon", "delta", "costs", "event"}
FIELDS |= {"not_promised"}


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chance = np.random.default_rng(0)
    words = [f"Secret {number}" for number in (60 * chance.random(8000) ** 4).astype(int)]
    users = [f"user{number}" for number in chance.integers(0, 5000, 8000)]
    pq.write_table(pa.table({"query": words, "user": users, "id": list(range(8000))}), "log.parquet")
    return tmp_path


def release(*extra, out="to_label.parquet", log="log.parquet"):
    return run(["release", log, *ASKED, "--out", out, *extra])


def test_persons_json_and_the_file(log, capsys):
    assert release("--person", "user", "--json", "--counts", "--annotators", "3", "--owner") == 0
    said = capsys.readouterr()
    form = json.loads(said.out)
    assert set(form) == FIELDS
    assert (form["format"], form["simulation"], form["unit"]) == ("discreet.release/1", False, "person")
    assert form["not_promised"] is None
    assert form["costs"]["epsilon"] <= 0.5
    owner = json.loads(said.err)
    assert (owner["audience"], owner["rows"], owner["broken"]) == ("owner", 8000, 0)
    assert owner["units"] > 3000
    table = pq.read_table("to_label.parquet")
    assert table.column_names == ["query", "count", "annotators"]
    assert table["query"].to_pylist() == sorted(table["query"].to_pylist())
    assert len(table) == form["released"] > 0
    assert min(table["count"].to_pylist()) >= 40
    assert set(table["annotators"].to_pylist()) == {3}
    assert all(text.startswith("secret ") for text in table["query"].to_pylist())
    assert sorted(path.name for path in log.iterdir()) == [
        REGISTER,
        "log.parquet",
        "to_label.parquet",
        "to_label.parquet.ledger",
        "to_label.parquet.ledger.mark",
    ]
    assert run(["verify", "to_label.parquet.ledger"]) == 0
    with Ledger.open(FileSink("to_label.parquet.ledger", must_exist=True)) as book:
        entry, named = book.entries
        assert list(named.released) == ["to_label.parquet"]
        assert entry.charges[0].event == CrowdGate(k=40, beta=0.2, counts=True).price()
        assert book.terms.budget.unit == "person"


def test_a_release_ledger_without_its_charge_is_recognised(log, capsys):
    assert release("--person", "user") == 0
    book = log / "to_label.parquet.ledger"
    book.write_bytes(book.read_bytes().splitlines(keepends=True)[0])  # whole by itself: a ledger before its release
    capsys.readouterr()
    assert run(["verify", book.name]) == 1
    assert (
        "FAILED  mark: it has 1 lines, and to_label.parquet.ledger.mark says that it had 3" in capsys.readouterr().out
    )
    (log / "to_label.parquet").unlink()
    assert release("--person", "user") == 2
    assert run(["ledger", "show", book.name]) == 2
    book.unlink()
    assert release("--person", "user") == 2
    assert not book.exists()
    assert not (log / "to_label.parquet").exists()


def test_a_copy_without_its_mark_is_verified_and_not_charged(log, capsys):
    assert release("--person", "user") == 0
    (log / "to_label.parquet.ledger").rename(log / "copy.ledger")
    capsys.readouterr()
    assert run(["verify", "copy.ledger"]) == 0
    assert "not compared: there is no copy.ledger.mark" in capsys.readouterr().out
    assert run(["ledger", "show", "copy.ledger", "--json"]) == 0
    assert "copy.ledger.mark" in capsys.readouterr().err
    with pytest.raises(InvalidLedger, match=r"copy\.ledger\.mark"):
        FileSink("copy.ledger", must_exist=True)


def test_rows_and_what_is_not_promised(log, capsys):
    assert release(out="a.csv") == 0
    words = capsys.readouterr().out
    assert "NOT guaranteed" in words
    assert "secret" not in words.lower()
    assert release("--row-id", "id", out="b.jsonl") == 0
    assert (log / "a.csv").read_text().splitlines()[0] == '"query"'
    assert all(set(json.loads(line)) == {"query"} for line in (log / "b.jsonl").read_text().splitlines())


def test_fixed_memory_and_a_seed_repeat_the_release(log):
    for out, extra in (("a.csv", ()), ("b.csv", ("--memory", "64M")), ("c.csv", ())):
        assert release("--person", "user", "--simulation-seed", "7", *extra, out=out) == 0
    assert (log / "a.csv").read_text() == (log / "b.csv").read_text() == (log / "c.csv").read_text()
    for out in ("d.csv", "e.csv"):
        assert release("--person", "user", "--counts", out=out) == 0
    assert (log / "d.csv").read_text() != (log / "e.csv").read_text()


def test_a_setting_that_does_not_keep_the_promise_names_what_would(log, capsys):
    assert release("--person", "user", "--beta", "0.6") == 2
    said = capsys.readouterr().err
    for word in ("beta 0.", "k ", "epsilon ", "delta "):
        assert word in said
    assert sorted(path.name for path in log.iterdir()) == ["log.parquet"]
    named = said.split("One of these would: ")[1].rstrip(".\n").split(", ")
    beta = next(one.split()[1] for one in named if one.startswith("beta"))
    assert release("--person", "user", "--beta", beta) == 0


@pytest.mark.parametrize(
    "extra",
    [
        ["--text", "missing"],
        ["--person", "missing"],
        ["--person", "user", "--row-id", "id"],
        ["--max-values-per-person", "2"],
        ["--k", "0"],
        ["--beta", "1"],
        ["--delta", "0"],
        ["--delta", "2"],
        ["--epsilon", "much"],
        ["--out", "a.txt"],
        ["--out", "no/such/place.csv"],
        ["--annotators", "0"],
        ["--annotators", "99999999999999999999"],
        ["--person", ""],
        ["--row-id", ""],
        ["--text", ""],
        ["--memory", "999999999999G"],
        ["--engine", "abacus"],
        ["--memory", "lots"],
        ["--memory", "1K"],
        ["--normalise", "magic"],
        ["--normalise", "no_such_module:clean"],
        ["--text", "user", "--person", "user"],
    ],
)
def test_nonsense_costs_nothing(log, capsys, extra):
    assert release(*extra) == 2
    assert capsys.readouterr().out == ""
    assert sorted(path.name for path in log.iterdir()) == ["log.parquet"]


@pytest.mark.parametrize("extra", [["--text", "quary"], ["--person", "usr"]])
def test_a_column_that_no_line_has_costs_nothing(log, capsys, extra):
    (log / "log.jsonl").write_text("".join(f'{{"query": "secret", "user": {number}}}\n' for number in range(100)))
    assert release("--person", "user", *extra, log="log.jsonl") == 2
    assert extra[1] in capsys.readouterr().err
    assert not (log / "to_label.parquet.ledger").exists()


def test_a_process_that_waited_for_the_ledger_looks_again_before_it_charges(log, monkeypatch):
    gate = CrowdGate(k=40, beta=0.2)
    budget = Budget(epsilon=1, delta="1e-5", unit="person")
    Ledger.create(FileSink("book"), committed(budget, [Line(who="queries", event=gate.price(), count=2)])).close()
    opened = Ledger.open

    def late(*given, **named):
        (log / "to_label.parquet").write_text("of the other process")
        return opened(*given, **named)

    monkeypatch.setattr(Ledger, "open", late)
    assert release("--person", "user", "--ledger", "book") == 2
    monkeypatch.undo()
    with Ledger.open(FileSink(log / "book", must_exist=True)) as book:
        assert not book.entries


def test_missing_options_are_named(log, capsys):
    assert run(["release"]) == 2
    assert "QUERIES, --text, --k, --beta, --epsilon, --delta, --out" in capsys.readouterr().err
    assert release(log="nothing.parquet") == 2


def test_a_file_is_never_replaced_and_a_release_is_made_once(log, capsys):
    (log / "to_label.parquet").write_text("mine")
    assert release("--person", "user") == 2
    assert (log / "to_label.parquet").read_text() == "mine"
    (log / "to_label.parquet").unlink()
    assert release("--person", "user") == 0
    (log / "to_label.parquet").unlink()
    assert release("--person", "user") == 2  # its ledger was committed to one
    assert "to_label" not in {path.stem for path in log.glob("*.parquet")}
    assert not list(log.glob("*.unfinished"))


def test_an_existing_ledger_is_charged(log, capsys):
    gate = CrowdGate(k=40, beta=0.2)
    budget = Budget(epsilon=1, delta="1e-5", unit="person")
    Ledger.create(FileSink("book"), committed(budget, [Line(who="queries", event=gate.price(), count=2)])).close()
    for out in ("a.csv", "b.csv"):
        assert release("--person", "user", "--ledger", "book", out=out) == 0
    assert release("--person", "user", "--ledger", "book", out="c.csv") == 2
    assert "committed" in capsys.readouterr().err
    assert release("--ledger", "book", out="c.csv") == 2  # rows, where persons were promised something
    assert not (log / "c.csv").exists()
    assert not list(log.glob("*.unfinished"))
    with Ledger.open(FileSink("book", must_exist=True)) as book:
        assert len({entry.key for entry in book.entries if entry.charges}) == 2
        assert len(book.releases) == 2


def test_a_key_that_a_kill_left_beside_a_finished_file_ends(log):
    assert release("--person", "user") == 0
    left = log / "to_label.parquet.unfinished"
    left.mkdir()
    (left / "part.parquet").hardlink_to(log / "to_label.parquet")
    write_secret(left / "phase-0-12345678.key", "phase", key=bytes(32))
    before = (log / "to_label.parquet").read_bytes()
    assert release("--person", "user") == 2
    assert not left.exists()
    assert (log / "to_label.parquet").read_bytes() == before


def test_a_key_without_its_ledger_is_refused(log, capsys):
    left = log / "to_label.parquet.unfinished"
    left.mkdir()
    write_secret(left / "phase-0-12345678.key", "phase", key=bytes(32))
    assert release("--person", "user") == 2
    assert "ledger" in capsys.readouterr().err


def test_the_table(capsys):
    assert run(["release", "--table"]) == 0
    shown = capsys.readouterr().out
    assert "129 of 256 cells keep the guarantee, 98 by the older theorem" in shown
    assert "shades 0 that do not, and leaves 5 out that do" in shown
    assert run(["release", "--table", "--json"]) == 0
    form = json.loads(capsys.readouterr().out)
    assert form["format"] == "discreet.release-table/1"
    assert len(form["cells"]) == 256


def test_a_second_release_of_a_log_under_another_ledger_warns_that_costs_add_up(log, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("default", RepeatedRelease)
        assert release("--person", "user", out="a.csv") == 0
        assert "add up" not in capsys.readouterr().err
        assert release("--person", "user", out="b.csv") == 0
        said = capsys.readouterr().err
        assert "a.csv" in said
        assert "add up" in said
        (log / "elsewhere").mkdir()
        shutil.copy("log.parquet", "elsewhere/renamed.parquet")  # a copy is known by its content
        assert release("--person", "user", out="c.csv", log="elsewhere/renamed.parquet") == 0
        assert "a.csv, b.csv" in capsys.readouterr().err
        assert release("--person", "user", out="d.csv", log="elsewhere/renamed.parquet") == 0
        assert "c.csv" in capsys.readouterr().err
    assert stat.S_IMODE((log / REGISTER).stat().st_mode) == 0o600


def test_releases_that_one_ledger_adds_up_and_simulations_do_not_warn(log, capsys):
    price = CrowdGate(k=40, beta=0.2).price()
    terms = committed(Budget(epsilon=1, delta="1e-5", unit="person"), [Line(who="queries", event=price, count=2)])
    Ledger.create(FileSink("week.ledger"), terms).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedRelease)
        assert release("--person", "user", "--simulation-seed", "1", out="tried.csv") == 0
        assert not (log / REGISTER).exists()
        for out in ("a.csv", "b.csv"):
            assert release("--person", "user", "--ledger", "week.ledger", out=out) == 0


@pytest.mark.parametrize("kind", ["parquet", "jsonl.gz"])
def test_a_log_that_is_damaged_inside_is_refused_before_the_charge(log, capsys, kind):
    import gzip

    if kind == "parquet":
        data = bytearray((log / "log.parquet").read_bytes())
        data[200:1200] = bytes(1000)  # pages of the first column: the end, which says what is there, is whole
        (log / "bad.parquet").write_bytes(data)
    else:
        lines = "".join(json.dumps({"query": f"Secret {n % 60}", "user": f"user{n}"}) + "\n" for n in range(60_000))
        packed = gzip.compress(lines.encode())
        (log / "bad.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    assert release("--person", "user", log=f"bad.{kind}") == 2
    assert "Secret" not in capsys.readouterr().err
    assert not (log / "to_label.parquet.ledger").exists()
    assert release("--person", "user") == 0


def failed(capsys, *words):
    capsys.readouterr()
    code = run(["verify", *words, "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    return code, [one["name"] for one in checks if not one["ok"]]


def test_verify_compares_the_released_file_with_the_ledger(log, capsys):
    assert release("--person", "user", out="a.csv") == 0
    assert failed(capsys, "a.csv.ledger") == (0, [])
    (log / "a.csv").write_text((log / "a.csv").read_text() + '"another text"\n')
    assert failed(capsys, "a.csv.ledger") == (1, ["released"])


def test_verify_finds_the_only_charge_of_a_release_ledger_removed(log, capsys):
    assert release("--person", "user", out="é.csv") == 0
    assert failed(capsys, "é.csv.ledger") == (0, [])
    ledger = log / "é.csv.ledger"
    ledger.write_bytes(ledger.read_bytes().splitlines(keepends=True)[0])
    assert failed(capsys, "é.csv.ledger") == (1, ["mark"])
    (log / "é.csv.ledger.mark").unlink()
    assert failed(capsys, "é.csv.ledger") == (1, ["released"])


@pytest.mark.parametrize("name", [b"to_\xfflabel.csv", b"to_label.parquet\xff.csv"])
def test_names_that_are_not_utf_8_are_refused_before_anything_is_charged(log, capsys, name):
    strange = os.fsdecode(name)
    assert release(out=strange) == 2
    assert release("--ledger", strange) == 2
    assert release(log=strange) == 2
    assert release(log="a\0b") == 2
    assert "not UTF-8" in capsys.readouterr().err
    assert [path.name for path in log.iterdir()] == ["log.parquet"]
    (log / "logs").mkdir()
    (log / "logs" / strange).write_bytes(b"query,user\na,1\n")
    assert release(log="logs") == 2
    assert "not UTF-8" in capsys.readouterr().err
    assert not list(log.glob("*.ledger"))


@pytest.mark.parametrize(
    "content", [b"que\xffry,user\na,1\n", b"\xff\xfe,query\nz,a\n", b"query,user\n\xff,1\n", b'{"que\xff": "a"}\n']
)
def test_a_log_that_is_not_utf_8_ends_in_an_exit_code(log, capsys, content):
    for name in ("strange.csv", "strange.jsonl"):
        (log / name).write_bytes(content)
        assert release(log=name, out=f"{name}.csv") in (0, 2)
        assert "Traceback" not in capsys.readouterr().err


def test_a_packed_log_of_one_endless_line_is_refused(log, capsys):
    (log / "endless.jsonl.gz").write_bytes(gzip.compress(bytes(80 << 20)))
    assert release(log="endless.jsonl.gz") == 2
    assert "64 MB" in capsys.readouterr().err
