"""The journal of a stream: all or nothing, one decision an id, and files that are none."""

import sqlite3

import pytest

from discreet.errors import BadInput, InvalidStore, StoreUnavailable
from discreet.storage.stream_store import Changes, StreamStore, storable


@pytest.fixture
def store(tmp_path):
    made = StreamStore(tmp_path / "journal.db")
    yield made
    made.close()


def decided(count, start=0):
    return [(place, f"r{place}", place % 2) for place in range(start + 1, start + count + 1)]


def test_what_is_stored_is_found(store):
    assert store.state() is store.facts() is None
    assert store.last_place() == 0
    store.begin({"ledger": "abc"})
    changes = Changes(
        decided=decided(1200), opened=[(0, "r1", b"12345678"), (2, "r3", None)], early={"x": "ok", "y": None}
    )
    store.commit(changes, {"a": 1}, b"zz")
    assert store.facts() == {"ledger": "abc"}
    assert store.state() == ({"a": 1}, b"zz")
    assert store.decided(f"r{number}" for number in range(1190, 1300)) == {one[1]: one for one in decided(11, 1189)}
    assert store.decisions_after(1000, most=3) == decided(3, 1000)
    assert store.open_questions() == [(0, "r1", b"12345678"), (2, "r3", None)]
    assert store.labels_before(["x", "y", "z"]) == {"x": "ok", "y": None}
    store.commit(Changes(closed=[0], forgotten=2, used=["x"]), {"a": 2}, b"")
    assert store.open_questions() == [(2, "r3", None)]
    assert store.labels_before(["x", "y"]) == {"y": None}
    assert store.last_place() == 1200


def test_it_ends_once(store):
    store.begin({})
    assert not store.ended()
    store.end()
    store.end()
    assert store.ended()
    assert store.facts() == {}


def test_a_second_decision_for_an_id_is_refused_and_nothing_of_it_is_stored(store):
    store.commit(Changes(decided=decided(3)), {"a": 1}, b"1")
    for wrong in ((4, "r2", 0), (3, "r9", 0)):
        with pytest.raises(InvalidStore) as refused:
            store.commit(Changes(decided=[(5, "r5", 1), wrong]), {"a": 2}, b"2")
        assert "r2" not in str(refused.value)
    assert store.state() == ({"a": 1}, b"1")
    assert store.last_place() == 3


def test_it_is_for_its_owner_alone_and_overwrites_what_was_answered(store, tmp_path):
    store.commit(Changes(decided=decided(1), opened=[(0, "r1", b"PRIVATE!" * 50)]), {}, b"")
    store.commit(Changes(closed=[0]), {}, b"")
    store.close()
    assert (tmp_path / "journal.db").stat().st_mode & 0o077 == 0
    assert b"PRIVATE!" not in (tmp_path / "journal.db").read_bytes()
    assert not (tmp_path / "journal.db-wal").exists()


def test_files_that_are_no_journals_are_refused(tmp_path):
    (tmp_path / "text.db").write_text("something else, longer than a header of a database file " * 20)
    with pytest.raises(InvalidStore):
        StreamStore(tmp_path / "text.db")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE things (a)")
    other.close()
    with pytest.raises(InvalidStore, match="no journal of a stream"):
        StreamStore(tmp_path / "other.db")
    with pytest.raises(BadInput, match="ordinary file"):
        StreamStore(tmp_path)
    with pytest.raises(StoreUnavailable):
        StreamStore(tmp_path / "no" / "such.db")


def test_a_journal_of_another_version_is_refused(store, tmp_path):
    store.begin({})
    store.close()
    with sqlite3.connect(tmp_path / "journal.db") as driver:
        driver.execute("UPDATE stream SET format = 'discreet.stream-journal/2'")
    driver.close()
    again = StreamStore(tmp_path / "journal.db")
    with pytest.raises(InvalidStore, match="another version"):
        again.facts()
    again.close()


@pytest.mark.parametrize(("identifier", "fits"), [
    ("a", True), ("ü" * 500, True), ("ü" * 501, False), ("x" * 1000, True), ("x" * 1001, False), ("", False),
    ("a\n", False), ("\ud800", False), ("a b", True),
])  # fmt: skip
def test_ids_are_short_printable_texts(identifier, fits):
    assert storable(identifier) is fits
