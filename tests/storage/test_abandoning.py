"""Moves that were cut off are taken back: wherever who takes them back is killed, the source or the target goes on."""

import signal
import subprocess
import sys

import pytest
from test_copying import Killed, check_moved, check_takes_nothing, filled, run, seen, spends

from discreet.errors import CampaignExists, StoreUnavailable
from discreet.storage import moves, open_storage
from discreet.storage.moves import abandon_move, copy_campaign

pytestmark = pytest.mark.thorough


@pytest.fixture
def old(tmp_path):
    with open_storage(tmp_path / "old.db") as storage:
        filled(storage)
        yield storage


@pytest.fixture
def new(tmp_path):
    with open_storage(tmp_path / "new.db") as storage:
        storage.create("other", config={}, simulation=True)
        yield storage


@pytest.mark.parametrize("step", ["_copy_directory", "_stored"])
def test_a_move_that_is_taken_back_leaves_no_key_of_a_step(old, new, monkeypatch, step):
    real = getattr(moves, step)

    def dying(*args, **kwargs):
        real(*args, **kwargs)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(moves, step, dying)
        with pytest.raises(Killed):
            copy_campaign(old, new, "scans")
    assert list(new.home.rglob("phase-*"))
    assert abandon_move(old, new, "scans")
    assert not list(new.home.rglob("phase-*"))
    assert list(old.home.rglob("phase-*"))


def test_who_dies_taking_a_move_back_may_still_finish_it(old, new, monkeypatch):
    """The target's keys of a step are gone by then; they are copied again before the source's are destroyed."""
    before = seen(old.load("scans"))

    def dying(*args, **kwargs):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(moves, "leave", dying)
        with pytest.raises(Killed):
            copy_campaign(old, new, "scans")
        patch.setattr(moves, "delete", dying)
        with pytest.raises(Killed):
            abandon_move(old, new, "scans")
    assert not list(new.home.rglob("phase-*"))
    copy_campaign(old, new, "scans")
    check_moved(old, new, before)


@pytest.mark.parametrize("step", ["_stored", "_compared"])
def test_a_move_that_was_cut_off_is_taken_back(old, new, monkeypatch, step):
    real = getattr(moves, step)

    def dying(*args, **kwargs):
        real(*args, **kwargs)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(moves, step, dying)
        with pytest.raises(Killed):
            copy_campaign(old, new, "scans")
    check_takes_nothing(old.load("scans"), "being moved")
    with pytest.raises(StoreUnavailable, match="not finished"):
        new.load("scans")
    assert abandon_move(old, new, "scans")
    assert spends(old.load("scans")) == 1
    assert new.campaigns() == ["other"]
    assert not abandon_move(old, new, "scans")
    before = seen(old.load("scans"))
    copy_campaign(old, new, "scans")
    assert seen(new.load("scans")) == before
    with pytest.raises(StoreUnavailable, match="was moved"):
        abandon_move(old, None, "scans")


@pytest.fixture
def half_moved(old, new, monkeypatch):
    """Everything has arrived, and the source does not say yet that it was moved."""

    def dying(scope, token):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(moves, "leave", dying)
        with pytest.raises(Killed):
            copy_campaign(old, new, "scans")
    return old, new


ABANDONING = """
import os, signal, sys
from discreet.storage import moves, open_storage
from discreet.storage.moves import abandon_move

real = moves._remove
def dying(*args):
    if sys.argv[3] == "after":
        real(*args)
    os.kill(os.getpid(), signal.SIGKILL)
moves._remove = dying
with open_storage(sys.argv[1]) as old, open_storage(sys.argv[2]) as new:
    abandon_move(old, new, "scans")
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("then", ["taken back", "finished"])
def test_killed_while_a_move_is_taken_back_the_same_again_takes_it_back_or_the_move_ends(half_moved, when, then):
    old, new = half_moved
    before = seen(old.load("scans"))
    command = [sys.executable, "-c", ABANDONING, str(old.path), str(new.path), when]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    check_takes_nothing(old.load("scans"), "being moved")
    if then == "finished":
        copy_campaign(old, new, "scans")
        check_moved(old, new, before)
        return
    assert run("abandon", old.path, new.path)["campaigns"] == ["scans"]
    assert [one["name"] for one in run("show", new.path)["campaigns"]] == ["other"]
    assert not list(new.home.rglob("phase-*"))
    assert spends(old.load("scans")) == 1


def test_what_a_move_that_was_taken_back_left_behind_is_removed(half_moved):
    """As it was left by `abandon FROM` without TO: the source goes on, and nothing ends those rows but this."""
    old, new = half_moved
    assert run("abandon", old.path)["campaigns"] == ["scans"]
    assert spends(old.load("scans")) == 1
    with pytest.raises(CampaignExists, match="another move"):
        copy_campaign(old, new, "scans")
    assert run("abandon", old.path)["campaigns"] == ["scans"], "that copy was begun, and is taken back"
    assert run("abandon", old.path, new.path)["campaigns"] == ["scans"]
    assert run("abandon", old.path, new.path)["campaigns"] == []
    assert not list(new.home.rglob("phase-*"))
    before = seen(old.load("scans"))
    copy_campaign(old, new, "scans")
    assert seen(new.load("scans")) == before


def test_a_move_is_taken_back_although_the_other_store_has_somebody_elses(old, new, monkeypatch):
    def dying(*args, **kwargs):
        raise Killed

    monkeypatch.setattr(moves, "_stored", dying)
    with pytest.raises(Killed):
        copy_campaign(old, new, "scans")
    new.create("scans", config={}, simulation=True)
    assert abandon_move(old, new, "scans")
    assert new.load("scans").simulation, "it is left alone"
    assert spends(old.load("scans")) == 1


def test_a_finisher_whose_move_was_taken_back_ends_nothing(old, new, monkeypatch):
    """Abandoned between the comparison and the end: the source goes on, and the target never takes a charge."""
    real = moves.leave

    def late(scope, token):
        moves.abandon(scope, None)
        real(scope, token)

    monkeypatch.setattr(moves, "leave", late)
    with pytest.raises(StoreUnavailable, match="taken back"):
        copy_campaign(old, new, "scans")
    assert spends(old.load("scans")) == 1
    with pytest.raises(StoreUnavailable, match="not finished"):
        new.load("scans")
