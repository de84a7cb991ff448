"""Kept features: the same questions and model as without, for the right records alone, erased in time."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from test_feature_campaigns import SIZE, Died, config_of, filled, finish, text_of, truth

from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.errors import BadInput, PoolChanged
from discreet.recipes import feature_cache
from discreet.recipes.feature_rows import MapReader
from discreet.recipes.opening import create, load
from discreet.recipes.pool_records import training_rows
from discreet.storage import open_storage
from discreet.storage.cached_rows import DIRECTORY
from discreet.storage.moves import abandon_move, copy_campaign
from discreet.storage.sqlite import SqliteFile


@pytest.fixture
def folder(tmp_path):
    return filled(tmp_path)


@pytest.fixture
def computed(monkeypatch):
    """How many records a map was asked about, call by call."""
    counts = []
    rows = MapReader.rows

    def counting(self, records, cached=None):
        made = rows(self, records, cached)
        read = made._read
        made._read = lambda some: (counts.append(len(some)), read(some))[1]
        return made

    monkeypatch.setattr(MapReader, "rows", counting)
    return counts


def answered(campaign):
    questions = campaign.ask()
    campaign.tell({question.id: truth(question.record) for question in questions})
    return [question.record for question in questions]


def kept_files(campaign):
    return sorted((campaign.store.directory / DIRECTORY).glob("*"))


def of(folder):
    return load(CampaignConfig.read(folder / "c.toml"))


def cached_features(kind, value):
    return text_of(kind).split("[features]\n")[1].split("[model]")[0].strip() + f"\ncache = {value}"


@pytest.mark.parametrize("kind", ["pictures", "tables", "texts"])
def test_questions_and_model_are_the_same_with_and_without(kind, folder, tmp_path_factory, computed):
    whole = {}
    for value in ("true", "false"):
        place = filled(tmp_path_factory.mktemp(value))
        campaign = create(config_of(place, kind, cached_features(kind, value)))
        asked, before = [], len(computed)
        while not campaign.done:
            asked.append(answered(of(place)))
            assert bool(kept_files(campaign)) == (value == "true" and len(asked) > 1)
            of(place).train()
        whole[value] = asked, of(place).predictor().weights(), sum(computed[before:])
        assert not kept_files(campaign), "nothing is left at the end"
    assert whole["true"][:2] == whole["false"][:2]
    assert whole["true"][2] <= SIZE < whole["false"][2]


def test_a_changed_record_is_none_of_the_kept_ones(folder, computed):
    """As without a cache: the query refuses, and the record's features are computed."""
    campaign = create(config_of(folder, "pictures", cached_features("pictures", "true")))
    answered(campaign)
    campaign.train()
    content = (folder / "pool.npz").read_bytes()
    pictures = dict(np.load(folder / "pool.npz"))
    asked = {question.record for question in campaign.store.questions()}
    place = next(number for number in range(SIZE) if f"r{number}" not in asked)
    pictures["x"][place] = 255 - pictures["x"][place]
    np.savez(folder / "pool.npz", **pictures)
    with pytest.raises(PoolChanged):
        of(folder).ask()
    (folder / "pool.npz").write_bytes(content)
    again = of(folder)
    again.ask()
    computed.clear()
    np.savez(folder / "pool.npz", **pictures)
    changed = of(folder)
    places = np.array([place, *changed.pool.places(sorted(asked))])
    features, broken = training_rows(changed.recipe.config, changed.pool, places)
    assert computed == [1]
    fresh = changed.recipe.config.features.fitted.of_inputs(changed.pool.x[places])[0]
    assert np.array_equal(features, fresh)
    assert not broken.any()


@pytest.mark.parametrize("how", ["cut", "noise", "of another campaign"])
def test_a_damaged_or_foreign_file_is_computed_again(how, folder, tmp_path_factory):
    features = cached_features("pictures", "true")
    campaign = create(config_of(folder, "pictures", features))
    answered(campaign)
    campaign.train()
    (path,) = kept_files(campaign)
    if how == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif how == "noise":
        path.write_bytes(os.urandom(path.stat().st_size))
    else:
        other = create(config_of(filled(tmp_path_factory.mktemp("other")), "pictures", features))
        answered(other)
        other.train()
        path.write_bytes(kept_files(other)[0].read_bytes())
    finish(of(folder))
    whole = create(config_of(filled(tmp_path_factory.mktemp("whole")), "pictures"))
    finish(whole)
    assert of(folder).predictor().weights() == whole.predictor().weights()


def test_withdrawal_erases_the_rows(folder):
    campaign = create(config_of(folder, "pictures", cached_features("pictures", "true")))
    gone = answered(campaign)[0]
    campaign.train()
    campaign.ask()
    (path,) = kept_files(campaign)
    place = int(campaign.pool.places([gone])[0])
    row = campaign.recipe.config.features.fitted.of_inputs(campaign.pool.x[[place]])[0].tobytes()
    assert row in path.read_bytes()
    campaign.withdraw([gone])
    assert row not in path.read_bytes()
    slot = path.stat().st_size // SIZE
    assert not any(path.read_bytes()[place * slot : (place + 1) * slot])
    finish(of(folder))
    assert not kept_files(campaign)


def test_another_host_erases_what_was_withdrawn_here(folder, monkeypatch):
    campaign = create(config_of(folder, "pictures", cached_features("pictures", "true")))
    gone = answered(campaign)[0]
    campaign.train()
    (path,) = kept_files(campaign)
    of_other_host = path.read_bytes()
    campaign.withdraw([gone])
    erased = path.read_bytes()
    path.write_bytes(of_other_host)
    of(folder)
    assert path.read_bytes() == of_other_host
    monkeypatch.setattr(SqliteFile, "shared", True)
    campaign.tidy()
    assert path.read_bytes() == erased != of_other_host


def test_a_move_and_a_backup_leave_it_behind(folder):
    campaign = create(config_of(folder, "pictures", cached_features("pictures", "true")))
    answered(campaign)
    campaign.train()
    assert kept_files(campaign)
    with (
        open_storage(f"sqlite:///{folder}/featured.db") as old,
        open_storage(folder / "backup.db") as backup,
        open_storage(folder / "new.db") as new,
    ):
        copy_campaign(old, backup, "featured", backup=True)
        assert not list(backup.home.rglob("*.rows"))
        left = new.directory_of(old.load("featured").id) / DIRECTORY
        left.mkdir(parents=True)
        (left / "abandoned-8.rows").write_bytes(b"x" * 80)
        abandon_move(old, new, "featured")
        copy_campaign(old, new, "featured")
        assert not list(old.home.rglob("*.rows"))
        assert [path.name for path in new.home.rglob("*.rows")] == ["abandoned-8.rows"]


def test_a_map_that_changed_makes_another_file(folder, monkeypatch, computed):
    campaign = create(config_of(folder, "pictures", cached_features("pictures", "true")))
    answered(campaign)
    campaign.train()
    before = kept_files(campaign)
    monkeypatch.setattr("discreet.recipes.feature_rows.version", lambda package: "9.9")
    computed.clear()
    of(folder).ask()
    after = kept_files(campaign)
    assert len(before) == len(after) == 1
    assert before != after
    assert sum(computed) == SIZE - 40


def test_work_that_died_goes_on_where_it_was(folder, monkeypatch, computed):
    monkeypatch.setattr(feature_cache, "BLOCK", 8)
    campaign = create(config_of(folder, "pictures", cached_features("pictures", "true")))
    answered(campaign)
    campaign.train()
    computed.clear()
    with monkeypatch.context() as patched:
        patched.setattr(feature_cache, "_at", lambda records, rows: died(records, rows, computed))
        with pytest.raises(Died):
            of(folder).ask()
    assert computed == [8, 8, 8]
    of(folder).ask()
    assert sum(computed) == SIZE - 40


def died(records, rows, computed):
    if len(computed) == 3:
        raise Died
    return records[rows]


KILLED = """
import time, sys
from discreet.recipes import feature_cache
from discreet.cli.app import run
feature_cache.BLOCK = 8
at = feature_cache._at
feature_cache._at = lambda *some: (print("block", flush=True), time.sleep(0.3), at(*some))[2]
sys.exit(run(["ask", "c.toml"]))
"""


@pytest.mark.parametrize(("blow", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_a_process_that_is_killed_loses_a_block_and_charges_nothing(blow, code, folder, computed):
    campaign = create(config_of(folder, "pictures", cached_features("pictures", "true")))
    answered(campaign)
    campaign.train()
    spent, rows = campaign.budget_usage().spent, (kept_files(campaign)[0]).read_bytes()
    process = subprocess.Popen([sys.executable, "-c", KILLED], cwd=folder, stdout=subprocess.PIPE, text=True)
    for _ in range(3):
        process.stdout.readline()
    process.send_signal(blow)
    process.wait(timeout=60)
    process.stdout.close()
    assert process.returncode == code
    assert kept_files(campaign)[0].read_bytes() != rows
    assert campaign.budget_usage().spent == spent
    computed.clear()
    of(folder).ask()
    assert 0 < sum(computed) <= SIZE - 40 - 8


def test_init_says_what_it_takes_and_refuses_a_small_disk(folder, monkeypatch, capsys):
    config_of(folder, "pictures", cached_features("pictures", "true"))
    with monkeypatch.context() as patched:
        patched.setattr(feature_cache, "free_bytes", lambda directory: 1000)
        assert run(["init", str(folder / "c.toml")]) == 2
        told = capsys.readouterr().err
        assert "[features] cache" in told
        assert "write cache = false" in told
    assert run(["init", str(folder / "c.toml"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["features"]
    assert told["kept"]
    assert told["bytes"] > SIZE * 4 * 9
    assert run(["init", str(folder / "c.toml")]) == 0
    assert "computed once, and kept in" in capsys.readouterr().out
    campaign = of(folder)
    answered(campaign)
    monkeypatch.setattr(feature_cache, "free_bytes", lambda directory: 1000)
    with pytest.raises(BadInput, match="keeping features"):
        of(folder).train()
    assert campaign.budget_usage().spent == 0
    config_of(folder, "pictures", cached_features("pictures", "false"))
    of(folder).train()
    assert not kept_files(campaign)


def test_left_to_itself_it_is_kept_where_there_is_room(folder, monkeypatch):
    campaign = create(config_of(folder, "pictures"))
    answered(campaign)
    with monkeypatch.context() as patched:
        patched.setattr(feature_cache, "free_bytes", lambda directory: 1000)
        campaign.train()
    assert not kept_files(campaign)
    campaign.ask()
    assert kept_files(campaign)
