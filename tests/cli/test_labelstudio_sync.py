"""How `discreet labelstudio sync` takes turns, and how long it waits. With a real server: `tests/integration`."""

import numpy as np
import pytest

from discreet.cli.app import run
from discreet.cli.labelstudio_sync import Sync
from discreet.errors import BadInput, ServerUnavailable

FILE = """format = "discreet.campaign/1"
name = "tiny"
pool = { path = "pool.npz", kind = "npz", id = "id", array = "x", size = 60 }
task = { kind = "multiclass", classes = ["a", "b"] }
budget = { epsilon = 8, delta = "1e-4" }
recipe = { name = "private-pool" }
plan = { initial = 20, queries = [10], batch = 10, epochs = 1, selection_epsilon = "2", accountant = "rdp" }
scorer = { name = "entropy" }
selector = { name = "threshold-response", threshold_epsilon = "0.5" }
oracle = { name = "files" }
model = { name = "linear" }
"""


class Turns:
    """Plays what looks bring: True (done), False, or an error; the last one again and again."""

    def __init__(self, *played):
        self.played, self.looks = list(played), 0

    def __call__(self):
        self.looks += 1
        one = self.played.pop(0) if len(self.played) > 1 else self.played[0]
        if isinstance(one, Exception):
            raise one
        return one


class Open:
    def open(self):
        return []


@pytest.fixture
def syncing(monkeypatch):
    def made(*played, patience=5.0):
        clock, turns = [0.0], Turns(*played)
        monkeypatch.setattr("discreet.cli.labelstudio_sync.time.monotonic", lambda: clock[0])

        def pause(seconds):
            clock[0] += seconds
            if clock[0] > 50:
                raise KeyboardInterrupt

        sync = Sync(Open(), None, every=1.0, patience=patience, pause=pause)
        monkeypatch.setattr(sync, "_look", turns)
        return sync, turns, clock

    return made


def test_a_campaign_whose_people_answer_elsewhere_is_refused(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "pool.npz", x=rng.normal(size=(60, 4)).astype(np.float32), id=[f"r{n}" for n in range(60)])
    (tmp_path / "c.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    assert run(["init", "c.toml"]) == 0
    for verb in ("push", "pull", "sync", "status", "remove"):
        capsys.readouterr()
        assert run(["labelstudio", verb, "c.toml"]) == 2
        said = capsys.readouterr().err
        assert "[oracle] name: it is files. Write name = 'label-studio', and url." in said


AWAY = ServerUnavailable("reaching it", "it does not answer", "Wait")


def test_it_ends_when_it_is_done_if_that_was_wished(syncing):
    sync, turns, clock = syncing(False, False, True)
    sync.run(until_done=True)
    assert (turns.looks, clock[0]) == (3, 2.0)


def test_it_goes_on_until_it_is_interrupted_otherwise(syncing):
    sync, turns, _ = syncing(True)
    with pytest.raises(KeyboardInterrupt):
        sync.run(until_done=False)
    assert turns.looks > 40


def test_a_server_that_comes_back_in_time_is_waited_for(syncing):
    sync, _, _ = syncing(False, AWAY, AWAY, AWAY, False, AWAY, AWAY, AWAY, True)  # never five seconds in a row
    sync.run(until_done=True)
    assert sync.counts()["failed"] == 6


def test_patience_ends(syncing):
    sync, _, clock = syncing(False, AWAY)
    with pytest.raises(ServerUnavailable):
        sync.run(until_done=True)
    assert clock[0] == 6.0
    sync, turns, _ = syncing(AWAY, patience=0.0)
    with pytest.raises(ServerUnavailable):
        sync.run(until_done=True)
    assert turns.looks == 1


def test_what_is_no_matter_of_waiting_is_told_at_once(syncing):
    sync, turns, _ = syncing(BadInput("talking", "it refused the token", "Make a new one"))
    with pytest.raises(BadInput):
        sync.run(until_done=True)
    assert turns.looks == 1
