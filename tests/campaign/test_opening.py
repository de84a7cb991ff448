"""Creating and opening: a campaign keeps its terms; where things are may change."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from small_campaign import TOML, changed, write_pool, written

from discreet.api import load_campaign
from discreet.campaign.state import ledger_of
from discreet.config import CampaignConfig
from discreet.errors import BadInput, CampaignExists, InvalidConfig, NoSuchCampaign, PoolChanged
from discreet.pools import ArrayPool
from discreet.recipes import opening, specification
from discreet.recipes.opening import create, differences, load
from discreet.recipes.pool_changes import changes, extend, join


@pytest.fixture(scope="module", autouse=True)
def plan_made_once():
    """Planning takes longer than everything else here."""
    private_pool = sys.modules["discreet.recipes.private_pool"]  # the package has a function of that name
    kept, make = [], private_pool.plan_of
    private_pool.plan_of = lambda config: kept[0] if kept else kept.append(make(config)) or kept[0]
    yield
    private_pool.plan_of = make


@pytest.fixture
def config(tmp_path):
    return CampaignConfig.read(written(tmp_path))


def test_creating_again_is_loading_unless_that_is_not_wanted(config):
    first = create(config)
    asked = first.ask()
    assert create(config).ask() == load(config).ask() == asked
    with pytest.raises(CampaignExists):
        create(config, load_if_exists=False)


def test_of_two_that_create_at_once_the_slower_one_loads(config, monkeypatch):
    create(config)
    monkeypatch.setattr(opening.Storage, "campaigns", lambda self: [])  # as it was when the slower one looked
    assert create(config).state.step == "ask"
    with pytest.raises(CampaignExists):
        create(config, load_if_exists=False)


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("budget", "epsilon", "9"),
        ("plan", "batch", 5),
        ("trainer", "learning_rate", 2.0),
        ("task", "classes", ["b", "a"]),
        ("selector", "threshold_epsilon", "0.2"),
        ("simulation", "seed", 3),
        ("model", "seed", 9),
    ],
)
def test_terms_stay_as_they_were(config, tmp_path, table, key, value):
    create(config)
    with pytest.raises(BadInput, match="created with something else") as refused:
        load(changed(tmp_path, table, key, value))
    assert f"{table}.{key}" in str(refused.value) or table in str(refused.value)


def test_where_things_are_and_who_answers_may_change(config, tmp_path):
    asked = create(config).ask()
    (tmp_path / "pool.npz").rename(tmp_path / "moved.npz")
    with pytest.raises(BadInput, match="pool"):
        load(config)
    assert load(changed(tmp_path, "pool", "path", "moved.npz")).ask() == asked
    (tmp_path / "moved.npz").rename(tmp_path / "pool.npz")
    assert load(changed(tmp_path, "trainer", "checkpoint_every", 7)).ask() == asked
    assert load(changed(tmp_path, "oracle", "per_question", 2)).ask() == asked


def test_differences_name_keys_and_forgive_what_may_change():
    before = {"plan": {"batch": 1, "epochs": 2}, "pool": {"path": "a", "size": 3}, "oracle": {"name": "files"}}
    now = {"plan": {"batch": 2, "epochs": 2}, "pool": {"path": "b", "size": 4}, "oracle": {"name": "simulated"}}
    assert differences(before, now) == ["plan.batch", "pool.size"]
    assert differences(before, before | {"simulation": {"seed": 1}}) == ["simulation.seed"]
    assert differences({"pool": {"pathology": 1}}, {"pool": {"pathology": 2}}) == ["pool.pathology"]
    files = {"log": {"path": "a", "text": "query"}}, {"log": {"path": "b", "text": "words"}}
    assert differences(*files) == ["log.path", "log.text"]
    assert differences(*files, may_change=["log.path"]) == ["log.text"]


def test_load_by_name_finds_the_store_where_it_is_now(config, tmp_path, monkeypatch):
    """A store that was copied elsewhere is opened there, not where it was."""
    asked = create(config).ask()
    there = tmp_path / "elsewhere"
    there.mkdir()
    for name in ("small.db", "small.db.files"):
        (tmp_path / name).rename(there / name)
    monkeypatch.chdir(tmp_path)
    assert load_campaign("small", storage=there / "small.db").ask() == asked
    with pytest.raises(NoSuchCampaign, match="this store has 'small'"):
        load_campaign("large", storage=there / "small.db")
    assert not (tmp_path / "small.db").exists()


def test_ids_that_changed_are_refused(config, tmp_path):
    create(config)
    write_pool(tmp_path / "pool.npz", [f"r{number}" for number in (*range(39), 99)])
    with pytest.raises(PoolChanged, match="1 enrolled records are missing, 1 are not enrolled") as refused:
        load(config)
    assert "r99" not in str(refused.value)
    write_pool(tmp_path / "pool.npz", [f"r{number}" for number in reversed(range(40))])
    with pytest.raises(PoolChanged, match="order is another"):
        load(config)


def test_a_pool_is_extended_once_however_often_it_is_tried(config, tmp_path):
    campaign = create(config)
    asked = campaign.ask()
    write_pool(tmp_path / "more.npz", [f"n{number}" for number in range(5)], seed=2)
    assert extend(campaign, config, tmp_path / "more.npz") == (1, 5)
    again = load(config)
    assert len(again.pool) == 45
    assert extend(again, config, tmp_path / "more.npz") == (1, 5)
    assert again.ask() == asked
    assert not changes(again)
    write_pool(tmp_path / "third.npz", ["n4", "n5"], seed=3)
    with pytest.raises(BadInput):
        extend(again, config, tmp_path / "third.npz")
    assert len(load(config).pool) == 45


def test_a_file_that_joined_and_moved_is_found_where_the_campaign_file_says(config, tmp_path):
    write_pool(tmp_path / "more.npz", [f"n{number}" for number in range(5)], seed=2)
    extend(create(config), config, tmp_path / "more.npz")
    (tmp_path / "more.npz").rename(tmp_path / "moved.npz")
    with pytest.raises(InvalidConfig, match="more.npz, which joined the pool later, is not there") as refused:
        load(config)
    assert "[pool] further" in str(refused.value)
    moved = replace(config, pool=replace(config.pool, further=("moved.npz",)))
    assert len(load(moved).pool) == 45
    assert not changes(load(moved))
    with pytest.raises(InvalidConfig, match="2 files are named, and 1 joined"):
        load(replace(config, pool=replace(config.pool, further=("moved.npz", "pool.npz"))))


def test_a_pool_given_in_python_is_extended_in_python(tmp_path):
    text = TOML.replace('path = "pool.npz"\nkind = "npz"\nid = "id"\narray = "x"', 'path = "here"\nkind = "arrays"')
    config = CampaignConfig.read(written(tmp_path, text))
    numbers = np.random.default_rng(1).normal(size=(43, 3)).astype(np.float32)
    names = [f"r{number}" for number in range(43)]
    campaign = create(config, pool=ArrayPool(ids=names[:40], x=numbers[:40]))
    with pytest.raises(BadInput, match="join"):
        extend(campaign, config, tmp_path / "more.npz")
    assert join(campaign, ArrayPool(ids=names[40:], x=numbers[40:])) == (1, 3)
    whole = load(config, pool=ArrayPool(ids=names, x=numbers))
    assert len(whole.pool) == 43
    assert len(whole.ask()) == 8
    longer = replace(config, pool=replace(config.pool, size=43))  # as create_campaign declares the pool it is given
    assert len(create(longer, pool=ArrayPool(ids=names, x=numbers)).pool) == 43
    with pytest.raises(PoolChanged):
        load(config, pool=ArrayPool(ids=names[:40], x=numbers[:40]))
    with pytest.raises(BadInput, match="given in Python"):
        load(config)


def test_creating_can_be_cut_off_anywhere(config, monkeypatch):
    """After the row, the key of the manifest, the records, the ledger: what follows is done by whoever comes next."""
    for place, (module, name) in enumerate(((specification, "macs"), (opening, "Ledger"))):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, None)
            with pytest.raises((TypeError, AttributeError)):
                create(config)
        with opening.open_storage(config.storage_url()) as storage:
            store = storage.load("small")
            assert len(store.pool_cohorts()) == place
            assert store.transitions() == []
    campaign = load(config)
    assert [one.kind for one in campaign.store.transitions()] == ["created"]
    with ledger_of(campaign.store) as ledger:
        assert len(ledger) == 0
    assert not changes(campaign)


def test_keys_are_for_their_owner_alone(config):
    campaign = create(config)
    campaign.labels()
    for path in campaign.store.directory.rglob("*.key"):
        assert path.stat().st_mode & 0o077 == 0
    assert campaign.store.directory.stat().st_mode & 0o077 == 0
