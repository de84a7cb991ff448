"""Every verb of a store covers what it writes, in one transaction with it, whoever else writes at the same time."""

import multiprocessing
import shutil
import sqlite3
from datetime import timedelta

import pytest

from discreet.errors import CampaignExists, InvalidStore
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, adaptive
from discreet.records import Answer, Question, Shown
from discreet.storage import open_storage
from discreet.storage.moves import copy_campaign
from discreet.storage.tables import row_mac_heads

pytestmark = pytest.mark.thorough

HOLD = timedelta(minutes=5)
QUEUE = {"places": 2, "cap": None, "hold": HOLD, "enough": "imported"}


def codes(first, last):
    return [(f"r{number}", number.to_bytes(16, "big")) for number in range(first, last)]


def questions(phase, numbers):
    return [
        Question(id=f"q{number}", record=f"r{number}", phase=phase, place=place) for place, number in enumerate(numbers)
    ]


@pytest.fixture(params=[False, True], ids=["production", "simulation"])
def filled(tmp_path, request):
    """A pool of two cohorts, of which the second begins in the middle of a block; every kind of row."""
    with open_storage(tmp_path / "s.db") as storage:
        store = storage.create("scans", config={"a": 1}, simulation=request.param)
        store.add_records(codes(0, 2500), {"kind": "npz"})
        store.add_records(codes(2500, 2600))
        store.record("created", phase=0)
        asked = questions(0, [1, 999, 1000, 2499, 2500])
        store.publish(0, asked, above={"r1", "r999"}, cohorts={"r1": "high"})
        store.publish(0, asked, above={"r1", "r999"}, cohorts={"r1": "high"})  # again
        store.show([Shown(question_id=one.id, audience="file.csv") for one in asked])
        store.tell([Answer(question_id=one.id, value="a", annotator="ann") for one in asked])
        store.tell([Answer(question_id="q1", value="b", annotator="ann")])
        store.next_question("bo", **QUEUE)
        store.assign("cy", [one.id for one in asked], places=3, n=2, cap=None, hold=HOLD)
        store.keep_file("labels", phase=0, data=b"{}")
        store.keep_file("labels", phase=0, data=b"[]", replace=True)
        Ledger.create(store.sink(step=("opened", 0, {})), adaptive(Budget(epsilon=1, delta="1e-6"))).close()
        yield store


def covered(store):
    found = store.check_rows()
    return (found.state, found.wrong, found.chain) == ("covered", (), True)


def test_every_verb_covers_what_it_writes(filled):
    assert covered(filled)
    filled.mark_withdrawn(["r1", "r1001", "r2599"])
    assert covered(filled)
    filled.erase({"r1": ("withdrawn-1", b""), "r1001": ("withdrawn-2", b"p"), "r2599": ("withdrawn-3", b"")})
    assert covered(filled)
    filled.sweep(alone=True)
    filled.scrub()
    filled.finish_withdrawals()
    assert covered(filled)
    assert filled.check_database() == (True, [])


def test_a_verb_that_fails_leaves_no_mac(filled):
    before = filled.row_head()
    with pytest.raises(Exception, match="unknown"):
        filled.tell([Answer(question_id="q1", value="c", annotator="ann"), Answer(question_id="nobody", value="a")])
    with pytest.raises(Exception, match="enrolled already"):
        filled.add_records(codes(2599, 2700))
    assert filled.row_head() == before
    filled.tell([Answer(question_id="q1", value="c", annotator="ann")])
    assert filled.row_head() != before
    assert covered(filled)


def test_a_moved_campaign_is_covered_in_its_new_store(filled, tmp_path):
    if not filled.simulation:
        shutil.copy(filled.directory / "rows.key", filled.directory / "manifest.key")  # a key of the owner's
    head = filled.row_head()
    with open_storage(tmp_path / "s.db") as source, open_storage(tmp_path / "new.db") as target:
        copy_campaign(source, target, "scans")
        moved = target.load("scans")
        assert moved.row_head() == head
        moved.tell([Answer(question_id="q1", value="c", annotator="ann")])
        assert covered(moved)


def test_rows_of_another_campaign_are_no_help(tmp_path):
    with open_storage(tmp_path / "s.db") as storage:
        for name in ("one", "two"):
            store = storage.create(name, config={}, simulation=False)
            store.add_records(codes(0, 3))
            store.publish(0, questions(0, range(3)))
            store.tell([Answer(question_id="q1", value="a" if name == "one" else "b", annotator="ann")])
    connection = sqlite3.connect(tmp_path / "s.db")
    with connection:
        for table in ("answers", "row_macs", "row_mac_heads"):
            connection.execute(f"delete from {table} where campaign = 1")
            connection.execute(f"update {table} set campaign = 1 where campaign = 2")
    connection.close()
    with open_storage(tmp_path / "s.db") as storage:
        assert storage.load("one").check_rows().state == "another key"


def test_the_key_is_the_owners_alone_and_made_once(tmp_path):
    with open_storage(tmp_path / "s.db") as storage:
        store = storage.create("scans", config={}, simulation=False)
        key = store.directory / "rows.key"
        before = key.read_bytes()
        assert key.stat().st_mode & 0o777 == 0o600
        with pytest.raises(CampaignExists):
            storage.create("scans", config={}, simulation=False)
        store.record("created", phase=0)
        assert key.read_bytes() == before
        assert {path.name for path in store.directory.iterdir()} == {"rows.key", "rows.mark"}


def test_a_campaign_without_its_macs_takes_no_changes(filled):
    filled.database.steadily(lambda: removed(filled))
    assert filled.check_rows().state == "removed"
    with pytest.raises(InvalidStore, match="were removed"):
        filled.tell([Answer(question_id="q1", value="c", annotator="ann")])


def removed(store):
    with store.database.writing("removing MACs") as connection:
        connection.execute(row_mac_heads.delete())


def _answers(place, who, numbers):
    with open_storage(place) as storage:
        store = storage.load("scans")
        for number in numbers:
            store.tell([Answer(question_id=f"q{number}", value=who, annotator=who)])


def test_processes_that_answer_at_once_make_one_chain(tmp_path):
    with open_storage(tmp_path / "s.db") as storage:
        store = storage.create("scans", config={}, simulation=False)
        store.add_records(codes(0, 20))
        store.publish(0, questions(0, range(20)))
    spawn = multiprocessing.get_context("spawn")
    workers = [
        spawn.Process(target=_answers, args=(tmp_path / "s.db", who, range(20)[:: 1 if who == "ann" else -1]))
        for who in ("ann", "bo")
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    with open_storage(tmp_path / "s.db") as storage:
        store = storage.load("scans")
        assert len(store.answers()) == 40
        assert covered(store)
