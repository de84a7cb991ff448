"""`discreet init` and `pool check` tell the owner, by column, what cannot be read; nothing else depends on it."""

import csv
import json

import pytest
from test_campaign_verbs import FILE

from discreet.cli.app import run

SCHEMA = """[age]
type = "number"
low = 0
high = 100
missing = "null"
[job]
type = "category"
values = ["a", "b"]
"""
NULLS = 37


def write(place, name, *, bad, simulation=""):
    """A campaign on a table, of which ``bad`` ages are words."""
    with (place / f"{name}.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["id", "age", "job"])
        out.writerows([f"r{row}", "secret" if row < bad else row % 100, "ab?"[row % 3]] for row in range(120))
    (place / "schema.toml").write_text(SCHEMA)
    old = FILE[FILE.index("path = ") : FILE.index("size = ")]
    text = FILE.replace(old, f'path = "{name}.csv"\nkind = "csv"\nid = "id"\nschema = "schema.toml"\n')
    (place / f"{name}.toml").write_text(text.replace('"tiny"', f'"{name}"').replace('"ORACLE"', '"files"') + simulation)
    return f"{name}.toml"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def terminal(monkeypatch):
    """A person at a terminal, who answers what was set."""
    said = {"answer": True, "questions": []}
    monkeypatch.setattr("discreet.cli.init._attended", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda text, **_: said["questions"].append(text) or said["answer"])
    return said


def begun(place, name):
    return (place / f"{name}.db.files").is_dir() and run(["status", f"{name}.toml"]) == 0


def test_the_owner_sees_counts_by_column_and_decides(place, terminal, capsys):
    file = write(place, "t", bad=NULLS)
    terminal["answer"] = False
    assert run(["init", file]) == 0
    told = capsys.readouterr()
    assert f"{NULLS} of 120 records are nulls" in told.err
    assert f"column age, cells: {NULLS} cannot be read; {NULLS} records are nulls by them" in told.err
    assert "column job, cells: 40 are outside of what is declared" in told.err
    assert "not covered by the guarantee" in told.err
    assert not begun(place, "t")
    terminal["answer"] = True
    capsys.readouterr()
    assert run(["init", file, "--log-json", "log.jsonl"]) == 0
    told = capsys.readouterr()
    assert str(NULLS) in told.err
    assert str(NULLS) not in told.out + (place / "log.jsonl").read_text()
    assert run(["init", file]) == 0  # it is there: nobody is asked again
    assert len(terminal["questions"]) == 2


def test_what_is_declared_wrongly_is_refused_before_anything_is_counted(place, terminal, capsys):
    file = place / write(place, "t", bad=NULLS)
    text = file.read_text()
    for old, new in {'"linear"': '"lineer"', '"entropy"': '"entropi"', 'id = "id"': 'id = "idd"'}.items():
        file.write_text(text.replace(old, new))
        assert run(["init", "t.toml"]) == 2
        assert "nulls" not in capsys.readouterr().err
    assert terminal["questions"] == []


@pytest.mark.parametrize("options", [[], ["--yes"], ["--json"]])
def test_unattended_runs_do_not_depend_on_what_can_be_read(place, capsys, options):
    outputs = []
    for bad in (0, NULLS, 120):
        file = write(place, "t", bad=bad)
        assert run(["init", file, *options]) == 0
        shown = capsys.readouterr()
        assert run(["status", file]) == 0
        outputs.append((shown.out, shown.err, capsys.readouterr().out))
        for stored in place.glob("t.db*"):
            stored.rename(place / f"{bad}-{stored.name}")
    assert outputs[0] == outputs[1] == outputs[2]
    assert ("discreet pool check t.toml" in outputs[0][1]) == (options != ["--yes"])


def test_pool_check_tells_it_and_its_exit_code_does_not(place, capsys):
    for name, bad in (("none", 0), ("some", NULLS)):
        file = write(place, name, bad=bad)
        assert run(["init", file, "--yes"]) == 0
        capsys.readouterr()
        assert run(["pool", "check", file]) == 0
        told = capsys.readouterr().out
        assert "every record is what it was" in told
        assert f"{bad} of 120 records are nulls" in told
        assert run(["pool", "check", file, "--json"]) == 0
        form = json.loads(capsys.readouterr().out)
        assert (form["audience"], form["records"], form["nulls"]) == ("owner", 120, bad)
        assert form["columns"]["age"]["unreadable"] == bad
        assert "secret" not in told


def test_a_simulation_asks_nobody(place, terminal):
    file = write(place, "t", bad=NULLS, simulation="[simulation]\nseed = 3\n")
    assert run(["init", file]) == 0
    assert terminal["questions"] == []


def with_held_out(place, name, *, bad, typo):
    """The same, with a paid evaluation: ``bad`` of 60 ages are words, ``typo`` labels are no class, "c" is no group."""
    file = write(place, name, bad=0)
    with (place / "held.csv").open("w", newline="") as rows:
        out = csv.writer(rows)
        out.writerow(["id", "age", "job", "ward"])
        out.writerows([f"h{row}", "secret" if row < bad else row, "a", "xyc"[row % 3]] for row in range(60))
    labels = "".join(f"h{row},{'a.' if row < typo else 'ab'[row % 2]}\n" for row in range(60))
    (place / "held-labels.csv").write_text(f"record,label\n{labels}")
    paid = 'kind = "paid"\nepsilon = "1"\npath = "held.csv"\nlabels = "held-labels.csv"\n'
    with (place / file).open("a") as config:
        config.write(f'[evaluation]\n{paid}group = "ward"\ngroups = ["x", "y"]\n')
    return file


def test_the_owner_is_told_of_held_out_records_and_labels(place, terminal, capsys):
    file = with_held_out(place, "t", bad=7, typo=41)
    assert run(["init", file]) == 0
    told = capsys.readouterr()
    assert "Held-out records, for the owner alone: 7 of 60 records are nulls, and count nowhere" in told.err
    assert "column age, cells: 7 cannot be read" in told.err
    assert "41 of 60 have no label of a declared class" in told.err
    assert "20 of 60 are in no declared group" in told.err
    assert "of 60" not in told.out
    assert run(["pool", "check", file, "--json"]) == 0
    form = json.loads(capsys.readouterr().out)["held_out"]
    assert (form["records"], form["nulls"], form["unlabelled"], form["ungrouped"]) == (60, 7, 41, 20)
    assert run(["pool", "check", file]) == 0
    assert "41 of 60 have no label" in capsys.readouterr().out


def test_unattended_runs_do_not_depend_on_held_out_records(place, capsys):
    outputs = []
    for bad, typo in ((0, 0), (7, 41), (60, 60)):
        file = with_held_out(place, "t", bad=bad, typo=typo)
        assert run(["init", file, "--log-json", f"{bad}.jsonl"]) == 0
        shown = capsys.readouterr()
        assert run(["status", file, "--json"]) == 0
        assert "unlabelled" not in (place / f"{bad}.jsonl").read_text()
        outputs.append((shown.out, shown.err, capsys.readouterr().out))
        for stored in place.glob("t.db*"):
            stored.rename(place / f"{bad}-{stored.name}")
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_table_of_which_nothing_can_be_read_begins_like_any_other(place, capsys):
    outputs = []
    for bad in (0, 120):
        file = place / write(place, "t", bad=bad)
        file.write_text(file.read_text().replace('schema = "schema.toml"', 'columns = ["age"]'))
        assert run(["init", "t.toml", "--yes"]) == 0
        outputs.append(capsys.readouterr())
        for stored in place.glob("t.db*"):
            stored.rename(place / f"{bad}-{stored.name}")
    assert outputs[0] == outputs[1]
