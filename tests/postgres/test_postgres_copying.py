"""Campaigns go from SQLite to PostgreSQL and back; both ways with everything they have."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "storage"))

from test_copying import check_moved, check_takes_nothing, filled, seen, spends

from discreet.cli.app import app
from discreet.errors import StoreUnavailable
from discreet.storage import moves, open_storage
from discreet.storage.moves import abandon_move, copy_campaign

pytestmark = pytest.mark.integration


@pytest.fixture
def file(tmp_path):
    with open_storage(tmp_path / "old.db") as storage:
        filled(storage)
        yield storage


@pytest.fixture
def database(url, tmp_path):
    with open_storage(url, directory=tmp_path / "host") as storage:
        storage.create("other", config={}, simulation=True)
        yield storage


def test_there_and_back(file, database, tmp_path):
    before = seen(file.load("scans"))
    there = copy_campaign(file, database, "scans")
    assert seen(database.load("scans")) == before
    assert copy_campaign(file, database, "scans").moved_before
    with open_storage(tmp_path / "again.db") as again:
        back = copy_campaign(database, again, "scans")
        assert (back.digest, back.ledger_head) == (there.digest, there.ledger_head)
        check_moved(database, again, before)
    check_takes_nothing(file.load("scans"), "moved to another store")
    assert database.create("new", config={}, simulation=True).name == "new", "numbers go on"


@pytest.fixture
def one_directory(server, url, tmp_path):
    other = server.database()
    with (
        open_storage(url, directory=tmp_path / "home") as old,
        open_storage(other, directory=tmp_path / "home") as new,
    ):
        filled(old)
        yield old, new, tmp_path / "home"
    server.drop(other)


def test_a_move_between_databases_with_one_directory_keeps_the_key_of_the_step(one_directory):
    old, new, home = one_directory
    (key,) = home.rglob("phase-1-x.key")
    before = key.read_bytes()
    copy_campaign(old, new, "scans")
    assert key.read_bytes() == before
    assert copy_campaign(old, new, "scans").moved_before
    assert key.read_bytes() == before
    assert spends(new.load("scans")) == 1


def test_taking_back_a_move_with_one_directory_keeps_the_key_of_the_step(one_directory, monkeypatch):
    old, new, home = one_directory
    (key,) = home.rglob("phase-1-x.key")
    before = key.read_bytes()

    def dying(scope, token):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(moves, "leave", dying)
        with pytest.raises(KeyboardInterrupt):
            copy_campaign(old, new, "scans")
    assert abandon_move(old, new, "scans")
    assert key.read_bytes() == before
    assert spends(old.load("scans")) == 1


def test_a_backup_of_a_database_in_a_file(url, database, tmp_path):
    filled(database)
    before = seen(database.load("scans"))
    with open_storage(tmp_path / "backup.db") as backup:
        copy_campaign(database, backup, "scans", backup=True)
        assert seen(backup.load("scans")) == before
        check_takes_nothing(backup.load("scans"), "backup")
    assert spends(database.load("scans")) == 1


def test_a_server_that_is_started_again_in_the_middle(server, file, database, monkeypatch):
    """The source is not lost to anybody, the target refuses; the same again finishes."""
    before = seen(file.load("scans"))
    real = moves.leave

    def restarting(scope, token):
        server.restart("immediate")
        real(scope, token)
        server.restart("immediate")

    monkeypatch.setattr(moves, "leave", restarting)
    copy_campaign(file, database, "scans")
    check_moved(file, database, before)


def test_a_turn_that_was_lost_ends_the_move_of_a_database(server, database, tmp_path, monkeypatch):
    filled(database)
    before = seen(database.load("scans"))
    real = moves.leave

    def restarting(scope, token):
        server.restart("immediate")
        real(scope, token)

    with open_storage(tmp_path / "new.db") as new:
        with monkeypatch.context() as patch:
            patch.setattr(moves, "leave", restarting)
            with pytest.raises(StoreUnavailable, match="turn was lost"):
                copy_campaign(database, new, "scans")
        check_takes_nothing(database.load("scans"), "being moved")
        with pytest.raises(StoreUnavailable, match="not finished"):
            new.load("scans")
        copy_campaign(database, new, "scans")
        check_moved(database, new, before)


def test_the_verbs(file, url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        done = CliRunner().invoke(app, ["storage", *map(str, words), "--json"], catch_exceptions=False)
        return json.loads(done.stdout)

    made = run("copy", file.path, url, "--to-directory", tmp_path / "host")
    assert made["campaigns"][0]["name"] == "scans"
    assert run("show", url)["campaigns"] == [{"name": "scans", "simulation": False, "state": "in use"}]
    assert run("upgrade", url)["steps"] == []
    assert not list(tmp_path.glob("*.files/locks"))
    assert run("abandon", url, "--from-directory", tmp_path / "host")["campaigns"] == []
