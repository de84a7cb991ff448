"""`verify` notices every change to a stream's journal and to what it published; nothing runs on a changed journal."""

import json
import sqlite3

import pytest
from small_streams import EVERYTHING, TEXT, config_in, label, mixed, record, taken

from discreet.cli.app import run
from discreet.errors import InvalidStore, LedgerUnavailable
from discreet.storage.journal_mac import BLOCK, JournalMac, Moves
from discreet.storage.stream_store import Changes, StreamStore
from discreet.stream.publishing import digest_of
from discreet.stream.service import StreamService
from discreet.stream.stream_directory import verify_stream

TAMPERINGS = {
    "ask bits flipped": ("UPDATE records SET asked = 1 - asked WHERE place <= 5", "decisions"),
    "half of the decisions deleted": ("DELETE FROM records WHERE place > 20", "decisions"),
    "old decisions deleted": ("DELETE FROM records WHERE place < 20", "decisions"),
    "two ids swapped": (
        "UPDATE records SET id = CASE place WHEN 3 THEN 'x' ELSE id END WHERE place IN (3, 4)",
        "decisions",
    ),
    "an open question's record changed": (
        "UPDATE questions SET vector = zeroblob(length(vector)) WHERE number = (SELECT min(number) FROM questions)",
        "questions",
    ),
    "an open question deleted": (
        "DELETE FROM questions WHERE number = (SELECT min(number) FROM questions)",
        "questions",
    ),
    "an early label added": ("INSERT INTO early_labels (id, label) VALUES ('late', 'ok')", "early labels"),
    "the state changed": ("UPDATE state SET body = replace(body, 'counts', 'count5')", "state"),
    "the declaration changed": ("UPDATE stream SET facts = '{}' WHERE number = 1", "declaration"),
    "a published hash changed": ("UPDATE published SET sha256 = 'ff'", "published"),
    "codes deleted": ("DELETE FROM codes", "codes"),
    "codes changed": ("UPDATE codes SET body = replace(body, 'places', 'place5')", "codes"),
}


def failed(config):
    return [check.name for check in verify_stream(config).checks if not check.ok]


def begun(place, text=EVERYTHING, count=60):
    config = config_in(place, text)
    with StreamService(config) as service:
        taken(service, [record(number) for number in range(count)])
        taken(service, [label(number) for number in range(0, count, 2)])
    return config


def tamper(config, statement):
    connection = sqlite3.connect(config.directory / "journal.db")
    with connection:
        assert connection.execute(statement).rowcount != 0
    connection.close()


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_changed_journal_does_not_verify(tmp_path, name):
    statement, part = TAMPERINGS[name]
    config = begun(tmp_path)
    assert failed(config) == []
    tamper(config, statement)
    assert "journal" in failed(config)
    detail = next(check.detail for check in verify_stream(config).checks if check.name == "journal")
    assert part in detail


@pytest.mark.parametrize("name", ["half of the decisions deleted", "the state changed", "codes deleted"])
def test_nothing_runs_on_a_changed_journal(tmp_path, name):
    config = begun(tmp_path)
    tamper(config, TAMPERINGS[name][0])
    with pytest.raises(InvalidStore, match="not what was stored"):
        StreamService(config)


def test_persons_are_covered(tmp_path):
    path = tmp_path / "journal.db"
    store = StreamStore(path)
    store.protect(bytes(32))
    store.commit(Changes(decided=[(1, "a", 1)], persons={b"code": 1}), {}, b"")
    store.commit(Changes(decided=[(2, "b", 1)], persons={b"code": 2}), {}, b"")
    assert store.differences(bytes(32)) == []
    store.close()
    for statement in ("UPDATE persons SET records = 1", "DELETE FROM persons"):
        connection = sqlite3.connect(path)
        with connection:
            connection.execute(statement)
        connection.close()
        again = StreamStore(path)
        assert again.differences(bytes(32)) == ["persons"]
        assert again.differences(b"\1" * 32) == ["codes"]
        again.close()


def test_a_missing_journal_or_key_does_not_verify_and_a_missing_key_is_refused(tmp_path):
    config = begun(tmp_path)
    (key,) = (config.directory / "keys").glob("mac-*.key")
    key.rename(tmp_path / "key")
    assert failed(config) == ["journal", "models"]
    with pytest.raises(LedgerUnavailable, match="authentication codes"):
        StreamService(config)
    (tmp_path / "key").rename(key)
    (config.directory / "journal.db").unlink()
    assert failed(config) == ["journal", "models"]


def test_a_model_that_was_written_anew_with_its_hash_does_not_verify(tmp_path):
    config = begun(tmp_path)
    for path in config.models.glob("*.json"):
        form = json.loads(path.read_text())
        form["model"]["weights"] = [0.0 for _ in form["model"]["weights"]]
        form["sha256"] = digest_of(form)
        path.write_text(json.dumps(form))
    assert failed(config) == ["models"]


def test_an_ended_stream_can_still_be_verified(tmp_path):
    config = config_in(tmp_path, EVERYTHING)
    with StreamService(config) as service:
        taken(service, [record(number) for number in range(30)])
        service.end()
    assert [path.name.split("-")[0] for path in (config.directory / "keys").iterdir()] == ["mac"]
    assert failed(config) == []
    tamper(config, TAMPERINGS["ask bits flipped"][0])
    assert failed(config) == ["journal", "models"]


def test_production_streams_are_covered_and_the_command_says_so(tmp_path, capsys):
    config = begun(tmp_path, TEXT)
    path = tmp_path / "stream.toml"
    path.write_text(TEXT)
    assert run(["verify", str(path)]) == 0
    assert "journal: every row is what was stored" in capsys.readouterr().out
    tamper(config, TAMPERINGS["half of the decisions deleted"][0])
    assert run(["verify", str(path)]) == 1
    said = capsys.readouterr().out
    assert "FAILED  journal" in said
    assert "p1" not in said


def test_cutting_into_batches_changes_no_code_and_blocks_are_chained(tmp_path):
    """A chain over rows, whatever the transactions were: recomputed from the rows it is the same, over block ends."""
    mac = JournalMac(b"\7" * 32)
    store = StreamStore(tmp_path / "journal.db")
    with store._database.writing("a test") as connection:
        tip = mac.computed(connection)
        rows = [(place, f"r{place}", place % 2) for place in range(1, BLOCK + 500)]
        for start, end in ((0, 1), (1, BLOCK - 3), (BLOCK - 3, BLOCK + 7), (BLOCK + 7, len(rows))):
            part = rows[start:end]
            connection.exec_driver_sql("INSERT INTO records (place, id, asked) VALUES (?,?,?)", part)
            tip = mac.moved(tip, Moves(decided=part), connection)
        mac.store(connection, tip)
        assert mac.differences(connection) == []
        read = mac.read(connection)
        assert (read.places, read.chain, read.block.digest()) == (tip.places, tip.chain, tip.block.digest())
        connection.exec_driver_sql("UPDATE records SET asked = 1 - asked WHERE place = 10")
        assert mac.differences(connection) == ["decisions"]
    store.close()


def test_equal_journals_have_codes_that_say_nothing(tmp_path):
    """Two stores of one content and one key: sums are masked, so that they cannot be compared or subtracted."""
    bodies = []
    for name in ("a", "b"):
        store = StreamStore(tmp_path / f"{name}.db")
        store.protect(bytes(32))
        store.commit(Changes(decided=[(1, "a", 1)], opened=[(0, "a", b"12345678")]), {}, b"")
        with store._database.reading("a test") as connection:
            bodies.append(json.loads(connection.exec_driver_sql("SELECT body FROM codes").scalar()))
        store.close()
    assert bodies[0]["sums"]["questions"] != bodies[1]["sums"]["questions"]
    assert bodies[0]["head"] == bodies[1]["head"]


def test_many_batches_of_records_labels_and_persons_verify(tmp_path):
    config = config_in(tmp_path, EVERYTHING)
    lines = mixed(200)
    for start in range(0, len(lines), 37):
        with StreamService(config) as service:
            taken(service, lines[start : start + 37])
    assert failed(config) == []
