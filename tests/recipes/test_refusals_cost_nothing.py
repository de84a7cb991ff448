"""Every verb that can charge, of every recipe: refused, it leaves the ledger as long as it was; mended, it goes on."""

import csv
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from crowd_parts import make as make_crowd
from pate_parts import make as make_teachers
from small_public import written as write_public

from discreet.campaign.loop import run as run_loop
from discreet.cli.app import run
from discreet.config import read_campaign
from discreet.errors import NotNow, ServerUnavailable
from discreet.recipes.opening import load
from discreet.storage import open_storage

sys.path.insert(0, str(Path(__file__).parents[1] / "campaign"))
from small_campaign import TOML, write_pool
from small_campaign import written as write_private

pytestmark = pytest.mark.thorough

EVALUATION = """[evaluation]
kind = "KIND"
path = "held.npz"
labels = "held.csv"
"""


def lines_in(file):
    config = read_campaign(file)
    with open_storage(config.storage_url()) as storage:
        if config.name not in storage.campaigns():
            return 0
        return len(storage.load(config.name).sink().read())


@contextmanager
def broken(path, change):
    """``path`` as ``change`` leaves it, then as it was."""
    kept = path.with_name(f"{path.name}.kept")
    shutil.copy2(path, kept)
    change(path)
    yield
    shutil.move(kept, path)


def refused(file, *arguments):
    before = lines_in(file)
    assert run([arguments[0], str(file), *arguments[1:]]) == 2
    assert lines_in(file) == before


def done(file, *arguments):
    assert run([arguments[0], str(file), *arguments[1:]]) == 0


def another_row(place):
    """The same file with one number changed."""

    def change(path):
        with np.load(path) as stored:
            arrays = dict(stored)
        arrays["x"] = arrays["x"].copy()
        arrays["x"][place] += 1
        np.savez(path, **arrays)

    return change


def answer(file, truth):
    """A file of answers to all open questions."""
    config = read_campaign(file)
    with open_storage(config.storage_url()) as storage:
        questions = storage.load(config.name).questions()
    path = file.with_name("answers.csv")
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["question_id", "label"])
        writer.writerows([one.id, truth(one.record)] for one in questions)
    done(file, "tell", str(path))


def nonsense(path):
    path.write_text("x")


def asked_rows(file, prefix):
    config = read_campaign(file)
    with open_storage(config.storage_url()) as storage:
        return [int(one.record.removeprefix(prefix)) for one in storage.load(config.name).questions()]


def write_held_out(place):
    write_pool(place / "held.npz", [f"h{number}" for number in range(30)], seed=5)
    rows = "".join(f"h{number},{'ab'[number % 2]}\n" for number in range(30))
    (place / "held.csv").write_text(f"record,label\n{rows}")


@pytest.mark.parametrize("kind", ["public", "paid"])
def test_private_pool(tmp_path, kind, capsys):
    price = 'epsilon = "0.5"\n' if kind == "paid" else ""
    file = write_private(tmp_path, TOML + EVALUATION.replace("KIND", kind) + price)
    write_held_out(tmp_path)
    pool, held, labels = (tmp_path / name for name in ("pool.npz", "held.npz", "held.csv"))
    done(file, "init")
    with broken(pool, another_row(0)):
        refused(file, "ask")
    for phase in (0, 1):
        done(file, "ask")
        refused(file, "train")  # questions are open
        answer(file, lambda record: "ab"[int(record[1:]) % 2])
        mine = asked_rows(file, "r")
        for path, change in (
            (pool, another_row(mine[-1])),
            (held, Path.unlink),
            (labels, Path.unlink),
            (labels, lambda path: path.write_text("record,label\nr1,a\n")),
            (held, lambda path: shutil.copy(pool, path)),
        ):
            with broken(path, change):
                refused(file, "train")
        done(file, "train")
        if phase == 0:
            unasked = next(place for place in range(40) if place not in mine)
            for place in (mine[0], unasked):
                with broken(pool, another_row(place)):
                    refused(file, "ask")
                    refused(file, "run")
            refused(file, "ask", "--out", str(tmp_path / "nowhere" / "questions.csv"))
            refused(file, "ask", "--out", str(tmp_path / "questions.odd"))
    done(file, "verify")
    capsys.readouterr()


def test_public_data(tmp_path, capsys):
    file = write_public(tmp_path, selector="near-private")
    pool, private, test, weights = (
        tmp_path / name for name in ("public.npz", "private.npz", "test.npz", "weights.safetensors")
    )
    done(file, "init")
    done(file, "ask")
    for path, change in (
        (test, Path.unlink),
        (tmp_path / "test.csv", lambda path: path.write_text("record,label\nnobody,a\n")),
        (weights, lambda path: path.write_bytes(b"other")),
    ):
        with broken(path, change):
            refused(file, "train")
    done(file, "train")
    for path, change in (
        (pool, another_row(3)),
        (private, Path.unlink),
        (private, lambda path: np.savez(path, id=np.array(["r1"]), x=np.zeros((1, 5), dtype=np.float32))),
    ):
        with broken(path, change):
            refused(file, "ask")
    done(file, "ask")
    answer(file, lambda record: "a")
    with broken(pool, another_row(asked_rows(file, "p")[0])):
        refused(file, "train")
    done(file, "train")
    with broken(pool, another_row(asked_rows(file, "p")[0])):  # it was asked before, and is not read again
        refused(file, "ask")
    done(file, "ask")
    capsys.readouterr()


def test_teachers(tmp_path, capsys):
    file = make_teachers(tmp_path, simulation=False)
    refused(file, "init")
    pool = tmp_path / "public.npz"
    done(file, "init", "--yes")
    for _ in range(2):
        with broken(pool, another_row(5)):
            refused(file, "ask")
            refused(file, "run")
        refused(file, "ask", "--n", "3")
        done(file, "ask")
        with broken(tmp_path / "held.csv", lambda path: path.write_text("record,label\nnobody,low\n")):
            refused(file, "train")
        done(file, "train")
    capsys.readouterr()


def test_crowd(tmp_path, capsys):
    file = make_crowd(tmp_path, simulation=False, oracle={"name": "'files'"})
    log, gold = tmp_path / "log.parquet", tmp_path / "gold.csv"

    def damaged(path):
        data = bytearray(path.read_bytes())
        data[60:460] = bytes(400)
        path.write_bytes(data)

    for path, change in (
        (log, Path.unlink),
        (log, damaged),
        (gold, Path.unlink),
        (gold, nonsense),
    ):
        with broken(path, change):
            refused(file, "init")
    assert lines_in(file) == 0
    done(file, "init")
    done(file, "ask")
    with broken(gold, Path.unlink):
        refused(file, "train")
    done(file, "train")
    capsys.readouterr()


def test_somebody_who_may_be_shown_nothing_more_is_told_before_the_charge(tmp_path, capsys):
    file = write_private(tmp_path, TOML.replace('name = "files"', 'name = "files"\nper_annotator = 8'))
    done(file, "init")
    done(file, "ask", "--annotator", "anna")
    answer(file, lambda record: "a")
    done(file, "train")
    refused(file, "ask", "--annotator", "anna")
    done(file, "ask", "--annotator", "berta")
    capsys.readouterr()


def test_a_folder_of_questions_that_cannot_be_read_is_refused_before_the_charge(tmp_path, capsys):
    file = write_private(tmp_path)
    done(file, "init")
    done(file, "run")
    (written,) = (tmp_path / "small.questions").glob("questions-*.csv")
    answer(file, lambda record: "a")
    done(file, "train")
    with broken(written, nonsense):
        refused(file, "run")
    done(file, "run")
    capsys.readouterr()


class Board:
    """An oracle that shows every question to everybody, while it is up."""

    simulation, shows_everybody, up = False, True, True

    def check(self):
        if not self.up:
            raise ServerUnavailable("asking the board", "it is down", "Start it")

    def ask(self, questions):
        raise AssertionError("asked too late")

    def collect(self):
        return []


def test_an_oracle_refuses_before_a_query_is_asked(tmp_path):
    file = write_private(tmp_path, TOML.replace('name = "files"', 'name = "files"\nper_annotator = 4'))
    done(file, "init")
    campaign, board = load(read_campaign(file)), Board()
    with pytest.raises(NotNow, match="per_annotator = 4 is less"):
        run_loop(campaign, board)
    board.up = False
    with pytest.raises(ServerUnavailable):
        run_loop(campaign, board)
    assert campaign.store.questions() == []
