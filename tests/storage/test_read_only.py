"""`status`, `verify` and `report` where nothing can be written: a read-only directory, a full disk.

Each by its real cause where the system lets us: a read-only mount, a small file system that is full; else another user,
and a limit on the size of files.
"""

import contextlib
import io
import json
import os
import resource
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from test_migrations import m998_planted
from tiny_campaign import asked, killed

from discreet.cli.app import run
from discreet.errors import DiscreetError, InvalidStore, StoreUnavailable
from discreet.storage import open_storage, tables
from discreet.storage.stream_store import StreamStore

pytestmark = pytest.mark.thorough

NOBODY = 65534
FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    place = asked(tmp_path_factory.mktemp("begun"))
    all_verbs(place, tmp_path_factory.mktemp("reports"))  # another user may not be allowed to import
    return place


@pytest.fixture
def here(begun, tmp_path):
    shutil.copytree(begun, tmp_path / "here")
    return tmp_path / "here"


def mounted(*options):
    return subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def read_only(place):
    """``place``, where nobody can write: not even who could."""
    view = place.with_name("view")
    view.mkdir()
    if os.geteuid() == 0 and mounted("--bind", str(place), str(view)):
        assert mounted("-o", "remount,ro,bind", str(view))
        try:
            yield view
        finally:
            subprocess.run(["umount", "-l", str(view)], check=True)
        return
    root = os.geteuid() == 0
    parts = [place, *place.rglob("*")]
    for one in parts:
        if root:
            os.chown(one, NOBODY, NOBODY)
        one.chmod(0o500 if one.is_dir() else 0o400)
    above = [(one, one.stat().st_mode) for one in list(place.parents)[:4]] if root else []
    for one, mode in above:
        one.chmod(mode | (0o777 if one == place.parent else 0o011))
    if root:
        os.seteuid(NOBODY)
    try:
        yield place
    finally:
        if root:
            os.seteuid(0)
        for one in parts:
            one.chmod(0o700 if one.is_dir() else 0o600)


def listing(place):
    return {one.relative_to(place): one.read_bytes() for one in place.rglob("*") if one.is_file()}


def said(*arguments):
    """What a command printed, when it went well."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(one) for one in arguments])
    assert code == 0, err.getvalue()
    return out.getvalue()


def all_verbs(place, elsewhere):
    """The campaign is read by every verb that only looks; it stands where it stood last."""
    status = json.loads(said("status", place / "c.toml", "--json"))
    assert (status["step"], status["labels_asked"]) == ("answer", 10)
    assert json.loads(said("status", place / "c.toml", "--audience", "owner", "--json"))["answers"]["open"] == 10
    assert "tiny.db" not in said("verify", place / "c.toml", "--json")
    said("report", place / "c.toml", "--audience", "owner", "--out", elsewhere / "report.html")
    said("ledger", "show", place / "c.toml")
    said("exposure", place / "c.toml")
    said("storage", "show", place / "tiny.db")


@pytest.mark.parametrize("left", ["nothing", "a log", "a log and its index", "an empty log"])
def test_a_read_only_directory(here, tmp_path, left):
    """What a killed process left in the log is read: `immutable` would show the campaign as it was before."""
    if left.startswith("a log"):
        killed(here)
    if left == "a log and its index":
        (here / "tiny.db-shm").write_bytes(bytes(32768))
    if left == "an empty log":
        (here / "tiny.db-wal").write_bytes(b"")
    before = listing(here)
    with read_only(here) as place:
        all_verbs(place, tmp_path)
        with open_storage(place / "tiny.db", read_only=True) as storage:
            store = storage.load("tiny")
            for act in (lambda: store.record("drawn", phase=0), lambda: store.exclusive("training").__enter__()):
                with pytest.raises(StoreUnavailable, match="reading only"):
                    act()
        assert run(["ask", str(place / "c.toml"), "--out", str(tmp_path / "q.csv")]) == 2
    assert listing(here) == before


def test_a_read_only_directory_beside_a_live_writer(here, tmp_path):
    writer = sqlite3.connect(here / "tiny.db", isolation_level=None)
    writer.execute("UPDATE campaigns SET created = created || ''")
    with read_only(here) as place:
        all_verbs(place, tmp_path)
    writer.close()


def test_looking_writes_nothing_where_it_could(here, tmp_path):
    before = listing(here)
    all_verbs(here, tmp_path)
    assert listing(here) == before


def test_a_change_while_it_is_read_without_locks_is_an_error(here):
    killed(here)
    with read_only(here) as place, open_storage(place / "tiny.db", read_only=True) as storage:
        assert storage.campaigns() == ["tiny"]
        if place == here:
            return  # nobody can change it
        (here / "tiny.db-wal").write_bytes((here / "log").read_bytes()[:-100])
        with pytest.raises(StoreUnavailable, match="changed while it was read"):
            storage.campaigns()


@pytest.mark.parametrize("left", ["nothing", "a log"])
def test_a_full_disk(here, tmp_path, left):
    if left == "a log":
        killed(here)
    without_room(lambda: _looked(here))
    (small := tmp_path / "small").mkdir()
    if os.geteuid() != 0 or not mounted("-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)):
        return
    try:
        shutil.copytree(here, small / "here")
        with contextlib.suppress(OSError), (small / "fill").open("wb", 0) as file:
            while file.write(bytes(1024)):
                pass
        all_verbs(small / "here", tmp_path)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def _looked(place):
    assert json.loads(said("status", place / "c.toml", "--json"))["labels_asked"] == 10
    assert json.loads(said("verify", place / "c.toml", "--json"))["ok"]


def without_room(act):
    """``act`` in a process that can make no file longer."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
            act()
            os.write(write, b"done")
        except BaseException as error:  # noqa: BLE001
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        assert file.read() == "done"
    os.waitpid(child, 0)


def test_an_older_store_is_not_brought_up_to_date_by_who_only_looks(tmp_path, monkeypatch):
    path = tmp_path / "older.db"
    path.write_bytes((FIXTURES / "m001_tables.sqlite").read_bytes())
    before = path.read_bytes()
    monkeypatch.setattr(tables, "MIGRATIONS", (*tables.MIGRATIONS, m998_planted))
    with pytest.raises(InvalidStore, match="behind this version") as refused:
        open_storage(path, read_only=True)
    assert "discreet storage upgrade" in refused.value.remedy
    assert path.read_bytes() == before
    assert run(["storage", "upgrade", str(path)]) == 0
    open_storage(path, read_only=True).close()


def test_a_campaign_that_is_not_finished_is_not_finished_by_who_only_looks(here, capsys):
    with sqlite3.connect(here / "tiny.db") as store:
        store.execute("DELETE FROM transitions")
    capsys.readouterr()
    assert run(["status", str(here / "c.toml")]) == 2
    assert "discreet init" in capsys.readouterr().err


def test_a_journal_of_a_stream(tmp_path):
    place = tmp_path / "here"
    place.mkdir()
    store = StreamStore(place / "journal.db")
    store.begin({"name": "a"})
    files = {name: (place / name).read_bytes() for name in ("journal.db", "journal.db-wal")}
    store.close()
    for name, content in files.items():
        (place / name).write_bytes(content)
    with read_only(place) as view:
        found = StreamStore(view / "journal.db", read_only=True)
        assert found.facts() == {"name": "a"}
        with pytest.raises(DiscreetError):
            found.end()
        found.close()
