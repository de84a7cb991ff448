"""`discreet init, ask, tell, train, run, status, pool, verify` on a campaign, as a user meets them.

One campaign of 120 made-up records is played once; what must not change it is tried on it at every step.
"""

import csv
import json
import shutil
import sqlite3
from contextlib import contextmanager

import numpy as np
import pytest

from discreet.cli import campaign_files
from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.storage import open_storage

CLASSES = ("a", "b")
FILE = """format = "discreet.campaign/1"
name = "tiny"
[pool]
path = "pool.npz"
kind = "npz"
id = "id"
array = "x"
size = 120
[task]
kind = "multiclass"
classes = ["a", "b"]
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 30
queries = [20]
batch = 15
epochs = 2
selection_epsilon = "2"
accountant = "rdp"
[scorer]
name = "entropy"
[selector]
name = "threshold-response"
threshold_epsilon = "0.5"
[oracle]
name = "ORACLE"
[model]
name = "linear"
"""
SIMULATED = '"simulated"\npath = "truth.csv"\n[simulation]\nseed = 3'


def write_pool(place):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 4)).astype(np.float32)
    ids = np.array([f"r{number}" for number in range(150)])
    np.savez(place / "pool.npz", x=x[:120], id=ids[:120])
    np.savez(place / "more.npz", x=x[120:], id=ids[120:])
    with (place / "truth.csv").open("w") as file:
        file.write("record,label\n")
        file.writelines(f"{name},{'a' if row[0] > 0 else 'b'}\n" for name, row in zip(ids, x, strict=True))
    (place / "c.toml").write_text(FILE.replace("ORACLE", "files"))
    (place / "s.toml").write_text(FILE.replace('"ORACLE"', SIMULATED).replace('"tiny"', '"played"'))


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Asked in phase 0; nobody has answered yet."""
    place = tmp_path_factory.mktemp("begun")
    write_pool(place)
    assert run(["init", str(place / "c.toml")]) == 0
    assert run(["ask", str(place / "c.toml"), "--out", str(place / "q.csv")]) == 0
    return place


@pytest.fixture(scope="module")
def trained(begun, tmp_path_factory):
    """The same, answered and trained once."""
    place = tmp_path_factory.mktemp("trained") / "here"
    shutil.copytree(begun, place)
    answer(place / "q.csv", place / "a.csv")
    assert run(["tell", str(place / "c.toml"), str(place / "a.csv")]) == 0
    assert run(["train", str(place / "c.toml")]) == 0
    return place


@pytest.fixture
def here(begun, tmp_path, monkeypatch):
    return copied(begun, tmp_path, monkeypatch)


@pytest.fixture
def after(trained, tmp_path, monkeypatch):
    return copied(trained, tmp_path, monkeypatch)


def copied(source, tmp_path, monkeypatch):
    shutil.copytree(source, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def answer(questions, answers, label="a"):
    with questions.open() as file:
        rows = list(csv.DictReader(file))
    with answers.open("w") as file:
        file.write("question_id,label\n")
        file.writelines(f"{row['question_id']},{label}\n" for row in rows)
    return len(rows)


def said(capsys, *arguments, code=0):
    capsys.readouterr()
    found = run(list(arguments))
    printed = capsys.readouterr()
    assert found == code, printed
    assert "Traceback" not in printed.err
    return printed


def form(capsys, *arguments, code=0):
    printed = said(capsys, *arguments, "--json", code=code)
    made = json.loads(printed.out)  # one object, nothing else
    assert made["format"].startswith("discreet.")
    assert isinstance(made["simulation"], bool)
    return made


def refused(capsys, *arguments):
    """One line, exit code 2; that line."""
    printed = said(capsys, *arguments, code=2)
    assert not printed.out
    assert printed.err.startswith("discreet: ")
    assert printed.err.count("\n") == 1
    return printed.err


def charged(place):
    with open_storage(place / "tiny.db", must_exist=True) as storage:
        return sum(b'"purpose":"released"' not in line for line in storage.load("tiny").sink().read())


def test_an_example_is_written_once_and_can_be_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert form(capsys, "init", "new.toml", "--example", "private-pool")["file"] == "new.toml"
    assert CampaignConfig.read("new.toml").name == "scans"
    assert "it is there already" in refused(capsys, "init", "new.toml", "--example", "private-pool")
    assert "there is none" in refused(capsys, "init", "other.toml", "--example", "public-pol")
    assert not (tmp_path / "other.toml").exists()


def test_init_again_finds_the_campaign(here, capsys):
    made = form(capsys, "init", "c.toml")
    assert (made["name"], made["phases"], made["labels_planned"]) == ("tiny", 2, [30, 20])
    assert made["budget"]["epsilon"] == 8


def test_asking_again_shows_the_same_questions(here, capsys):
    made = form(capsys, "ask", "c.toml")
    assert [one["place"] for one in made["questions"]] == list(range(30))
    assert form(capsys, "ask", "c.toml", "--n", "4")["questions"] == made["questions"][:4]
    lines = said(capsys, "ask", "c.toml").out.splitlines()
    assert lines == [f"{one['id']}\t{one['record']}" for one in made["questions"]]
    said(capsys, "ask", "c.toml", "--out", "q.csv")  # as it is there: nothing to replace


def test_answers_late_partial_repeated_and_corrected(here, capsys):
    answer(here / "q.csv", here / "a.csv")
    whole = (here / "a.csv").read_text().splitlines(keepends=True)
    (here / "first.csv").write_text("".join(whole[:11]))
    told = form(capsys, "tell", "c.toml", "first.csv")
    assert (told["new"], told["open"]) == (10, 20)
    told = form(capsys, "tell", "c.toml", "first.csv")
    assert (told["new"], told["repeated"]) == (0, 10)
    assert "some of its questions are open" in refused(capsys, "train", "c.toml")
    (here / "other.csv").write_text(whole[0] + whole[1].replace(",a", ",b") + whole[2].replace(",a", ",SKIP"))
    assert form(capsys, "tell", "c.toml", "other.csv")["corrected"] == 2
    owner = form(capsys, "status", "c.toml", "--audience", "owner")
    assert owner["answers"] == {"asked": 30, "labelled": 9, "skipped": 1, "open": 20}
    assert "answers" not in form(capsys, "status", "c.toml")
    assert form(capsys, "train", "c.toml", "--partial")["phase"] == 0
    told = form(capsys, "tell", "c.toml", "a.csv")  # late; and it takes the corrections back, as a file does
    assert (told["new"], told["corrected"]) == (20, 2)


def test_ctrl_c_in_training_and_train_again(here, capsys, monkeypatch):
    answer(here / "q.csv", here / "a.csv")
    said(capsys, "tell", "c.toml", "a.csv")

    @contextmanager
    def impatient():
        def watch(what, done, of):
            if what == "training" and done == 2:
                raise KeyboardInterrupt

        yield watch

    with monkeypatch.context() as patch:
        patch.setattr(campaign_files, "watching", impatient)
        printed = said(capsys, "train", "c.toml", code=130)
    assert "the same command goes on" in printed.err
    lines = charged(here)
    assert "training was begun" in said(capsys, "status", "c.toml").out
    assert form(capsys, "train", "c.toml")["phase"] == 0
    assert charged(here) == lines  # not charged twice
    assert "was trained before" in said(capsys, "train", "c.toml").out


def test_nonsense_is_one_line_and_charges_nothing(after, capsys):
    before = charged(after)
    (after / "broken.toml").write_text("a =")
    (after / "unknown.csv").write_text("question_id,label\n7.7,a\n")
    (after / "outside.csv").write_text("question_id,label\n0.1,zebra\n")
    (after / "elsewhere.toml").write_text((after / "c.toml").read_text().replace('"tiny"', '"nowhere"'))
    (after / "changed.toml").write_text((after / "c.toml").read_text().replace("epochs = 2", "epochs = 3"))
    for verb in ("init", "ask", "train", "run", "status", "verify"):
        assert "No such file" in refused(capsys, verb, "nofile.toml")
        assert "line 1" in refused(capsys, verb, "broken.toml")
    assert "is a directory" in refused(capsys, "status", str(after)).lower()
    assert "no such store" in refused(capsys, "status", "elsewhere.toml")
    assert "line 21" in refused(capsys, "ask", "changed.toml")
    assert "no such file" in refused(capsys, "tell", "c.toml", "nofile.csv")
    assert "not asked: line 2" in refused(capsys, "tell", "c.toml", "unknown.csv")
    outside = refused(capsys, "tell", "c.toml", "outside.csv")
    assert "line 2" in outside
    assert "zebra" not in outside
    assert "no such audience" in refused(capsys, "status", "c.toml", "--audience", "press")
    assert "End it with" in refused(capsys, "ask", "c.toml", "--out", "q.txt")
    assert "directory does not exist" in refused(capsys, "ask", "c.toml", "--out", "no/q.csv")
    assert "the next questions are others" in refused(capsys, "ask", "c.toml", "--out", "q.csv")
    assert "it is not there" in refused(capsys, "pool", "extend", "c.toml", "nofile.npz")
    assert "120 ids" in refused(capsys, "pool", "extend", "c.toml", "pool.npz")
    assert charged(after) == before
    assert form(capsys, "status", "c.toml")["step"] == "ask"


def test_a_pool_that_moved_or_changed(after, capsys):
    (after / "pool.npz").rename(after / "away.npz")
    assert "it is not there" in refused(capsys, "ask", "c.toml")
    with np.load(after / "away.npz") as kept:
        x, ids = kept["x"].copy(), kept["id"]
    x[:, 0] += 1
    np.savez(after / "pool.npz", x=x, id=ids)
    assert form(capsys, "pool", "check", "c.toml", code=1)["changed"] == 120
    assert "not what they were" in refused(capsys, "ask", "c.toml")
    (after / "away.npz").replace(after / "pool.npz")
    assert form(capsys, "pool", "check", "c.toml")["changed"] == 0


def test_more_records_join(after, capsys):
    assert form(capsys, "pool", "extend", "c.toml", "more.npz")["records"] == 30
    asked = form(capsys, "ask", "c.toml")["questions"]
    assert 0 < len(asked) <= 20
    assert form(capsys, "verify", "c.toml")["ok"]


@pytest.mark.integration  # certificates are by PLD, too, which takes seconds to import
def test_a_certificate_is_verified_against_its_campaign(after, capsys):
    assert form(capsys, "ledger", "export", "c.toml", "--out", "certificate.json")["claim"]["epsilon"] <= 8
    assert form(capsys, "verify", "certificate.json", "--ledger", "c.toml")["ok"]
    said(capsys, "ask", "c.toml")
    verdict = form(capsys, "verify", "certificate.json", "--ledger", "c.toml")
    assert "were added since" in next(check["detail"] for check in verdict["checks"] if check["name"] == "head")
    said(capsys, "init", "s.toml")
    assert failed(form(capsys, "verify", "certificate.json", "--ledger", "s.toml", code=1))[0] == "ledger"


def test_a_campaign_is_verified(after, capsys):
    verdict = form(capsys, "verify", "c.toml")
    assert verdict["ok"]
    assert [check["name"] for check in verdict["checks"]] == [
        "lines",
        "promise",
        "mark",
        "file",
        "plan",
        "steps",
        "keys",
        "database",
        "rows",
        "files",
        "released",
    ]
    assert "c.toml holds" in said(capsys, "verify", "c.toml").out
    assert "training stage 0" in said(capsys, "ledger", "show", "c.toml").out
    assert "go with a certificate" in refused(capsys, "verify", "c.toml", "--ledger", "certificate.json")
    assert "there is no such file" in refused(capsys, "verify", "none.json", "--ledger", "c.toml")
    (after / "c.toml").write_text((after / "c.toml").read_text().replace("epochs = 2", "epochs = 3"))
    assert failed(form(capsys, "verify", "c.toml", code=1)) == ["file"]


def failed(verdict):
    assert not verdict["ok"]
    return [check["name"] for check in verdict["checks"] if not check["ok"]]


def change(place, statement):
    with sqlite3.connect(place / "tiny.db") as database:
        database.execute(statement)
    database.close()


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE ledger_lines SET line = replace(line, 'training', 'trainins') WHERE position = 1", ["lines"]),
        ("UPDATE ledger_lines SET line = CAST(replace(line, ',', ', ') AS BLOB) WHERE position = 1", ["lines"]),
        ("DELETE FROM ledger_lines WHERE position = 1", ["lines", "mark"]),
        ("DELETE FROM ledger_lines WHERE position > 0", ["mark", "steps", "released"]),
        (
            "UPDATE transitions SET facts = json_set(facts, '$.evaluation', json('{\"kind\": \"paid\"}')) "
            "WHERE kind = 'trained'",
            ["steps", "steps of phase 0"],
        ),
        (
            "UPDATE campaigns SET config = replace(config, '\"epochs\": 2', '\"epochs\": 3')",
            ["file", "plan", "campaign"],
        ),
        ("UPDATE files SET sha256 = '00' WHERE kind = 'model'", ["files of phase 0", "files", "released"]),
    ],
)
def test_what_was_changed_in_the_store_is_found(after, capsys, statement, found):
    change(after, statement)
    assert failed(form(capsys, "verify", "c.toml", code=1)) == found


def test_a_damaged_model_is_found(after, capsys):
    (model,) = (one for one in after.glob("tiny.db.files/*/objects/*") if one.read_bytes().find(b"linear") > 0)
    model.write_bytes(model.read_bytes()[:-1] + b"!")
    verdict = form(capsys, "verify", "c.toml", code=1)
    assert failed(verdict) == ["files"]
    assert "damaged" in next(check["detail"] for check in verdict["checks"] if check["name"] == "files")
    assert "does not hold" in said(capsys, "verify", "c.toml", code=1).out


def test_training_again_after_a_kill_that_came_too_late_says_that_the_phase_is_trained(after, capsys):
    store = (after / "tiny.db").read_bytes()
    assert "phase 0 was trained before" in said(capsys, "train", "c.toml").out
    assert form(capsys, "train", "c.toml")["phase"] == 0
    assert (after / "tiny.db").read_bytes() == store  # nothing is charged, nothing is trained


def test_a_simulation_runs_to_its_end_and_says_what_it_is(here, capsys):
    said(capsys, "init", "s.toml")
    ran = form(capsys, "run", "s.toml")
    assert ran["done"]
    assert ran["simulation"]
    assert form(capsys, "run", "s.toml")["done"]
    status = form(capsys, "status", "s.toml")
    assert (status["step"], status["labels_asked"]) == ("done", 50)
    assert "SIMULATION" in said(capsys, "status", "s.toml").out
    assert "SIMULATION" in said(capsys, "verify", "s.toml").out
    assert "phase 1 was trained before" in said(capsys, "train", "s.toml").out
    assert "no open questions" in said(capsys, "ask", "s.toml").out


def test_run_with_files_waits_for_people(here, capsys):
    ran = form(capsys, "run", "c.toml")
    assert (ran["done"], ran["waiting"], ran["step"]) == (False, 30, "answer")
    answer(here / "tiny.questions" / "questions-0001.csv", here / "tiny.questions" / "answers-ida.csv")
    ran = form(capsys, "run", "c.toml")
    assert ran["phase"] == 1
    assert 0 < ran["waiting"] <= 20
