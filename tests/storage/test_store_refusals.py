"""Full, locked, read-only, missing, damaged: each said in three parts, nothing half stored. By their real causes."""

import os
import resource
import sqlite3
import stat
import sys
import time

import pytest
from sqlalchemy import event

from discreet.errors import BadInput, DiscreetError, InvalidStore, MissingExtra, NoSuchCampaign, StoreUnavailable
from discreet.records import Answer
from discreet.storage import open_storage


def three_parts(error, *, secret="record-"):
    assert error.asked
    assert error.fact
    assert error.remedy
    assert secret not in str(error)
    return True


def in_child(work):
    """What ``work`` returned, as text; in a process of its own, for what cannot be undone."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, str(work()).encode())
        except BaseException as error:  # noqa: BLE001
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def refusal_of(act):
    """The error's class and message, when it has its three parts."""
    try:
        act()
    except DiscreetError as error:
        return f"{type(error).__name__}: {error}" if three_parts(error) else "without its parts"
    return "nothing was refused"


def few_pages(storage):
    """No room for a page more than there are, on every connection."""
    event.listen(storage.database._engine, "connect", lambda driver, _: driver.execute("PRAGMA max_page_count = 1"))
    storage.database._engine.dispose()


def test_a_full_database(storage, store):
    few_pages(storage)
    for act in (
        lambda: store.add_records((f"record-{number}", b"code" * 9) for number in range(10, 20_000)),
        lambda: store.tell([Answer(question_id="q0", value="x" * 500_000)]),
        lambda: store.record("drawn", phase=0, facts={"much": "x" * 500_000}),
    ):
        with pytest.raises(StoreUnavailable, match="the disk is full") as caught:
            act()
        assert three_parts(caught.value)
    assert len(store.ids()) == 4
    assert len(store.pool_cohorts()) == 1
    assert store.answers() == []
    assert len(store.transitions()) == 1


def test_a_full_database_breaks_the_ledgers_sink_until_it_is_opened_again(storage, store):
    sink = store.sink()
    sink.append(0, [b"one\n"])
    few_pages(storage)
    with pytest.raises(StoreUnavailable, match="full"):
        sink.append(1, [b"x" * 500_000])
    with pytest.raises(DiscreetError, match="may not have landed"):
        sink.append(1, [b"two\n"])
    again = store.sink()
    assert again.read() == [b"one\n"]
    again.append(1, [b"two\n"])


def test_a_disk_that_takes_no_more_bytes(tmp_path, storage, store):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, 1 << 17))
        with open_storage(storage.path) as again:
            mine = again.load("scans")
            return " | ".join(
                (
                    refusal_of(lambda: mine.keep_file("model", phase=0, data=b"x" * (1 << 18))),
                    refusal_of(lambda: mine.add_records((f"record-{one}", b"x" * 64) for one in range(10, 20_000))),
                    refusal_of(lambda: mine.tell([Answer(question_id="q0", value="x" * (1 << 18))])),
                )
            )

    said = in_child(limited)
    assert said.count("StoreUnavailable") == 3, said
    assert said.count(": the disk") == 3, said
    assert list((store.directory / "objects").iterdir()) == []
    assert (len(store.ids()), store.answers(), store.files()) == (4, [], [])
    store.tell([Answer(question_id="q0", value="a")])  # and it goes on


def test_a_locked_database(storage, store):
    other = sqlite3.connect(storage.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    for act in (
        lambda: store.tell([Answer(question_id="q0", value="a")]),
        lambda: store.record("drawn", phase=0),
        lambda: storage.create("other", config={}, simulation=True),
        lambda: store.keep_file("model", phase=0, data=b"weights"),
    ):
        with pytest.raises(StoreUnavailable, match="another process") as caught:
            act()
        assert three_parts(caught.value)
    assert time.monotonic() - began > 0.6, "it waited before it gave up"
    assert len(store.ids()) == 4  # readers do not wait
    other.execute("ROLLBACK")
    other.close()
    assert store.tell([Answer(question_id="q0", value="a")]).new == 1
    assert storage.campaigns() == ["scans"]
    assert store.files() == []


def test_a_database_that_is_locked_while_it_is_opened(tmp_path):
    place = tmp_path / "new.db"
    other = sqlite3.connect(place, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreUnavailable, match="another process"):
        open_storage(place, patience=0.1)
    other.close()
    open_storage(place).close()


def as_anybody(work):
    """As a user without rights: root may write what is read-only."""

    def dropped():
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        return work()

    return in_child(dropped)


@pytest.fixture
def open_place(tmp_path):
    """A directory that anybody may enter, made by this test's user."""
    for directory in (tmp_path, *tmp_path.parents):
        if directory.stat().st_uid == os.getuid() and not directory.stat().st_mode & stat.S_IXOTH:
            directory.chmod(directory.stat().st_mode | 0o055)
    return tmp_path


def test_a_directory_that_may_not_be_written(open_place):
    open_storage(open_place / "scan.db").close()
    (open_place / "scan.db").chmod(0o444)
    open_place.chmod(0o555)
    for name in ("scan.db", "new.db"):
        said = as_anybody(lambda name=name: refusal_of(lambda: open_storage(open_place / name)))
        assert said.startswith("StoreUnavailable"), said
        assert "may not be written" in said
    open_place.chmod(0o755)
    assert not (open_place / "new.db").exists()


def test_a_missing_directory_and_things_that_are_no_files(tmp_path):
    for place, fact in (
        (tmp_path / "nowhere" / "scan.db", "directory does not exist"),
        (tmp_path, "not an ordinary file"),
        ("sqlite://", "outlives"),
        ("sqlite:///", "outlives"),
        ("sqlite:///:memory:", "outlives"),
        (":memory:", "outlives"),
        ("mysql://me:secret@host/db", "SQLite file or in PostgreSQL"),
        ("postgresql://me:secret@host/db", "password in it"),
        ("postgresql://me@host/db?password=secret", "password in it"),
        ("postgresql://me@host/db?sslpassword=secret", "password in it"),
        ("postgresql://host", "names no database"),
        ("postgresql://[host/db", "cannot be read"),
        ("postgresql://host/db?nonsense=secret", "cannot be read"),
    ):
        with pytest.raises(BadInput, match=fact) as caught:
            open_storage(place)
        assert three_parts(caught.value)
        assert "secret" not in str(caught.value)


def test_a_database_without_its_driver(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"discreet\[postgres\]"):
        open_storage("postgresql://me@host/db", directory=tmp_path)


def test_a_directory_is_for_databases_alone(tmp_path):
    with pytest.raises(BadInput, match="beside it"):
        open_storage(tmp_path / "scan.db", directory=tmp_path)


def test_a_store_that_must_exist(tmp_path):
    with pytest.raises(BadInput, match="no such store"):
        open_storage(tmp_path / "scan.db", must_exist=True)
    assert not list(tmp_path.iterdir())
    (tmp_path / "empty.db").touch()
    with pytest.raises(InvalidStore, match="empty"):
        open_storage(tmp_path / "empty.db", must_exist=True)
    open_storage(tmp_path / "empty.db").close()  # what a crash left is finished
    open_storage(tmp_path / "empty.db", must_exist=True).close()


def test_files_that_are_no_database(tmp_path):
    place = tmp_path / "notes.db"
    for content in (b"these are notes about record-7\n" * 100, b"SQLite format 3\0" + b"\0" * 84, os.urandom(5000)):
        place.write_bytes(content)
        with pytest.raises(InvalidStore) as caught:
            open_storage(place)
        assert three_parts(caught.value)
        assert place.read_bytes() == content


def test_a_damaged_database(tmp_path):
    place = tmp_path / "scan.db"
    with open_storage(place) as storage:
        storage.create("a", config={}, simulation=True).add_records((f"record-{one}", b"code") for one in range(5000))
    whole = place.read_bytes()
    for change in (whole[: len(whole) // 2], whole[:4096] + b"\xff" * (len(whole) - 4096)):
        place.write_bytes(change)

        def use():
            with open_storage(place) as storage:
                storage.load("a").ids()

        with pytest.raises(InvalidStore) as caught:
            use()
        assert three_parts(caught.value)


def test_a_table_that_is_gone_and_text_that_is_none(storage, store):
    other = sqlite3.connect(storage.path)
    other.execute("update answers set value = 'x'")
    other.execute("update transitions set facts = 'record-7'")
    other.execute("update records set id = cast(x'ff7265636f72642d' as text) where place = 3")
    other.execute("drop table files")
    other.commit()
    other.close()
    for act in (store.transitions, store.ids, store.files):
        with pytest.raises(InvalidStore) as caught:
            act()
        assert three_parts(caught.value)


def test_a_database_without_its_directory(storage, store):
    store.directory.rmdir()
    with pytest.raises(InvalidStore, match=r"scan\.db\.files is missing"):
        storage.load("scans")


def test_an_unknown_name_says_which_there_are(storage, store):
    with pytest.raises(NoSuchCampaign, match="'scans'"):
        storage.load("scan")


def test_a_closed_store_says_so(storage, store):
    storage.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.ids()


def test_for_the_owner_alone(storage, store):
    store.keep_file("model", phase=0, data=b"weights")
    with store.exclusive("training"):
        pass
    for place in storage.path.parent.rglob("*"):
        assert stat.S_IMODE(place.stat().st_mode) == (0o700 if place.is_dir() else 0o600), place.name


def test_the_settings_that_durability_rests_on(storage, store):
    with storage.database.reading("looking") as connection:
        said = [
            connection.exec_driver_sql(f"PRAGMA {setting}").scalar()
            for setting in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        ]
    assert said == ["wal", 2, 1, 200]
