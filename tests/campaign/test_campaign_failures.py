"""What goes wrong, by its real cause, on the command line: one clear line, exit code 2, nothing charged or lost."""

import io
import os
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest
from small_campaign import TOML, write_pool, written

from discreet.cli.app import run
from discreet.recipes import opening
from discreet.storage import open_storage

pytestmark = pytest.mark.thorough

SECRET = "zebra"


def charged(place):
    with open_storage(place / "small.db", must_exist=True) as storage:
        return storage.load("small").sink().read()


def standing(place):
    with open_storage(place / "small.db", must_exist=True) as storage:
        return [(one.kind, one.phase) for one in storage.load("small").transitions()]


def verb(place, name, *more):
    return [name, str(place / "small.toml"), *map(str, more)]


def answered(place):
    """A file with an answer to every open question."""
    with open_storage(place / "small.db", must_exist=True) as storage:
        asked = storage.load("small").questions()
    rows = [f"{one.id},{'ab'[one.place % 2]}" for one in asked]
    (place / "answers.csv").write_text("\n".join(["question_id,label", *rows]) + "\n")
    return place / "answers.csv"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """A campaign before each of its verbs; copying one is quicker than making it."""
    whole = tmp_path_factory.mktemp("whole")
    written(whole)
    found = {}
    for name in ("init", "ask", "tell", "train", "ask", "tell", "train"):
        stage = f"{name} again" if name in found else name
        shutil.copytree(whole, found.setdefault(stage, tmp_path_factory.mktemp("stage") / "campaign"))
        assert run(verb(whole, name, *([answered(whole)] if name == "tell" else []))) == 0
    return found


@pytest.fixture
def at(made_once, tmp_path, capsys):
    """The campaign before a verb, in a place of its own."""

    def copied(stage, place=tmp_path / "campaign"):
        shutil.copytree(made_once[stage], place)
        capsys.readouterr()
        return place

    return copied


@pytest.fixture
def refused(capsys):
    """Run a verb that must fail as it should; its message."""

    def refuse(place, *arguments):
        before = (charged(place), standing(place)) if (place / "small.db").exists() else None
        capsys.readouterr()
        assert run(verb(place, *arguments)) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        if before is not None:
            assert (charged(place), standing(place)) == before
        return clear(shown.err)

    return refuse


def clear(message):
    assert message.count("\n") == 1, message
    assert message.startswith("discreet: ")
    assert "Traceback" not in message
    assert SECRET not in message
    return message


def goes_on(place, *verbs):
    for name in verbs:
        assert run(verb(place, name, *([answered(place)] if name == "tell" else []))) == 0


def in_child(act):
    """The exit code and the message of ``act`` in a forked process that may do itself harm."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            sys.stdout, sys.stderr = io.StringIO(), os.fdopen(write, "w", buffering=1)
            code = act()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as file:
        message = file.read()
    _, status = os.waitpid(child, 0)
    return (None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)), message


def test_a_file_that_asks_the_impossible(tmp_path, refused):
    written(tmp_path, TOML.replace("initial = 8", "initial = 400"))
    assert "404" in refused(tmp_path, "init")
    written(tmp_path, TOML.replace("epsilon = 8", 'epsilon = "0.0001"'))
    refused(tmp_path, "init")
    written(tmp_path)
    goes_on(tmp_path, "init", "ask")


def test_an_id_that_occurs_twice(tmp_path, refused):
    written(tmp_path)
    write_pool(tmp_path / "pool.npz", [f"r{number}" for number in range(38)] + [SECRET] * 2)
    refused(tmp_path, "init")
    written(tmp_path)
    goes_on(tmp_path, "init", "ask")


def test_a_label_outside_the_classes(at, refused):
    place = at("tell")
    file = answered(place)
    file.write_text(file.read_text().replace("0.3,b", f"0.3,{SECRET}"))
    assert "line 5" in refused(place, "tell", file)
    with open_storage(place / "small.db") as storage:
        assert storage.load("small").answers() == []
    goes_on(place, "tell", "train")


@pytest.mark.parametrize("most", [1 << 10, 40_000, 80_000])
@pytest.mark.parametrize("stage", ["ask", "tell", "train", "ask again"])
def test_a_full_disk(at, stage, most):
    """Files may not grow beyond ``most`` bytes: the same error as a disk without room."""
    place, name = at(stage), stage.removesuffix(" again")
    before, arguments = charged(place), verb(place, name, *([answered(place)] if name == "tell" else []))

    def act():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        return run(arguments)

    code, message = in_child(act)
    assert code == 2 or most > 1 << 10
    if code:
        clear(message)
        assert charged(place)[: len(before)] == before
    rest = ["ask", "tell", "train", "ask", "tell", "train"][["ask", "tell", "train", "ask again"].index(stage) :]
    goes_on(place, *rest[code == 0 :])
    assert len(charged(place)) == ENTRIES


ENTRIES = 1 + 2 + 2 + 2
"""The opening, a training and its release, the threshold and the response, a training and its release: whatever went
wrong on the way, no more.
"""


@pytest.mark.parametrize("stage", ["ask", "tell", "train", "ask again"])
def test_a_locked_database(at, refused, monkeypatch, stage):
    place, name = at(stage), stage.removesuffix(" again")
    more = [answered(place)] if name == "tell" else []
    monkeypatch.setattr(opening, "open_storage", partial(open_storage, patience=0.1))
    other = sqlite3.connect(place / "small.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert "another process is writing" in refused(place, name, *more)
    other.close()
    goes_on(place, name)


def stopped_in_training(place):
    """Killed when the second checkpoint is written."""
    from discreet.trainers.dp_sgd.checkpoints import Checkpoints

    whole, written = Checkpoints.write, []

    def act():
        def write(self, progress):
            whole(self, progress)
            written.append(progress.done)
            if len(written) == 2:
                os.kill(os.getpid(), signal.SIGKILL)

        Checkpoints.write = write
        return run(verb(place, "train"))

    assert in_child(act)[0] is None
    (campaign,) = (place / "small.db.files").iterdir()
    return campaign / "checkpoints"


@pytest.mark.parametrize("damage", ["tensors", "json", "missing"])
def test_a_damaged_checkpoint(at, refused, damage):
    place = at("train")
    kept = stopped_in_training(place)
    (tensors,) = kept.glob("*.safetensors")
    if damage == "tensors":
        os.truncate(tensors, 40)
    elif damage == "json":
        os.truncate(kept / "phase-0.json", 40)
    else:
        tensors.unlink()
    message = refused(place, "train")
    assert "Remove it to begin the phase again" in message
    assert "/".join(kept.parts[-3:]) in message
    (kept / "phase-0.json").unlink()
    goes_on(place, "train", "ask", "tell", "train")
    assert len(charged(place)) == ENTRIES
    assert list(kept.iterdir()) == []


def test_a_training_that_was_killed_goes_on_from_its_checkpoint(at):
    place = at("train")
    stopped_in_training(place)
    goes_on(place, "train", "ask", "tell", "train")
    assert len(charged(place)) == ENTRIES


def test_a_damaged_model(at, refused):
    place = at("ask again")
    with open_storage(place / "small.db") as storage:
        model = storage.load("small").file("model", 0)
    whole = model.read_bytes()
    os.truncate(model, 40)
    assert "damaged" in refused(place, "ask")
    model.unlink()
    assert "gone" in refused(place, "ask")
    model.write_bytes(whole)
    goes_on(place, "ask", "tell", "train")


@pytest.mark.parametrize("stage", ["ask", "tell", "train", "ask again"])
def test_a_pool_that_was_moved_away(at, refused, stage):
    place, name = at(stage), stage.removesuffix(" again")
    (place / "pool.npz").rename(place / "other.npz")
    more = [answered(place)] if name == "tell" else []
    assert "pool" in refused(place, name, *more)
    (place / "other.npz").rename(place / "pool.npz")
    goes_on(place, name)


def test_a_record_that_was_edited(at, refused):
    place = at("train")
    (place / "pool.npz").rename(place / "kept.npz")
    write_pool(place / "pool.npz", [f"r{number}" for number in range(40)], seed=9)
    assert "some of them are not what they were" in refused(place, "train")
    (place / "kept.npz").rename(place / "pool.npz")
    goes_on(place, "train", "ask", "tell", "train")


@pytest.mark.parametrize("inside", [False, True], ids=["store", "campaign"])
def test_a_directory_that_may_not_be_written(at, inside):
    nobody = 65534
    with tempfile.TemporaryDirectory(dir="/tmp") as scratch:
        Path(scratch).chmod(0o755)  # pytest's own directories are closed to others
        place = at("train", Path(scratch) / "campaign")
        before = charged(place)
        shut = next((place / "small.db.files").iterdir()) if inside else place
        for path in [place, *place.rglob("*")]:
            if os.geteuid() == 0:
                os.chown(path, nobody, nobody)
        shut.chmod(0o555)

        def act():
            if os.geteuid() == 0:  # who may write everything
                os.setgid(nobody)
                os.setuid(nobody)
            return run(verb(place, "train"))

        code, message = in_child(act)
        assert code == 2
        assert "written" in clear(message)
        shut.chmod(0o755)
        assert charged(place) == before
        goes_on(place, "train")
