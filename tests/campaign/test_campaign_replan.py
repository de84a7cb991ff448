"""A campaign that is re-planned: shown first, made once, between phases, and gone on with."""

import shutil
import sqlite3

import pytest
from small_campaign import TOML, write_pool, written

from discreet.config import CampaignConfig
from discreet.errors import BadInput, InfeasiblePlan, NotNow, StoreUnavailable
from discreet.recipes import opening
from discreet.recipes.pool_changes import extend
from discreet.recipes.verification import verify_campaign

pytestmark = pytest.mark.thorough


def answered(campaign):
    questions = campaign.ask()
    campaign.tell({one.id: "ab"[int(one.record[1:]) % 2] for one in questions})
    return len(questions)


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory):
    place = tmp_path_factory.mktemp("replan") / "here"
    place.mkdir()
    written(place, TOML.replace("phases = 1", "phases = 2"))
    campaign = opening.create(CampaignConfig.read(place / "small.toml"))
    with pytest.raises(NotNow, match="nothing was done yet"):
        campaign.replan(because="outside", queries=())
    answered(campaign)
    with pytest.raises(NotNow, match="was begun"):
        campaign.replan(because="outside", queries=())
    campaign.train()
    return place


@pytest.fixture
def here(trained_once, tmp_path):
    shutil.copytree(trained_once, tmp_path / "here")
    return tmp_path / "here"


def loaded(place):
    return opening.load(CampaignConfig.read(place / "small.toml"))


def facts_of(place):
    """Everything in the database, but for what an open connection leaves beside it."""
    with sqlite3.connect(place / "small.db") as database:
        names = [row[0] for row in database.execute("select name from sqlite_master where type = 'table'")]
        found = {name: database.execute(f"select * from {name}").fetchall() for name in names}
    database.close()
    return found


def checks(place):
    verdict = verify_campaign(CampaignConfig.read(place / "small.toml"))
    return [check.name for check in verdict.checks if not check.ok]


def test_looking_and_being_refused_change_nothing(here):
    campaign, before = loaded(here), facts_of(here)
    shown = campaign.replan(because="outside", queries=(3, 3, 3), dry_run=True)
    assert not shown.made
    assert shown.figures["after"]["phases_left"] == 3
    for wish in (
        {"because": "outside"},
        {"because": "answers", "labels": 4},
        {"because": "outside", "labels": 4, "queries": (4,)},
        {"because": "outside", "queries": (0,)},
        {"because": "outside", "queries": (400,)},
        {"because": "outside", "epsilon": 2},
        {"because": "outside", "epsilon": 200},
        {"because": "released", "epsilon": 9},
        {"because": "outside", "labels": 4, "note": "é"},
    ):
        with pytest.raises(BadInput):
            campaign.replan(**wish)
    assert facts_of(here) == before


def test_records_that_joined_can_be_asked_for(here):
    campaign, config = loaded(here), CampaignConfig.read(here / "small.toml")
    with pytest.raises(BadInput, match="the pool has 40 units"):
        campaign.replan(because="outside", queries=(50,), dry_run=True)
    write_pool(here / "more.npz", [f"s{number}" for number in range(30)], seed=2)
    extend(campaign, config, here / "more.npz")
    shown = loaded(here).replan(because="outside", queries=(50,), epsilon=30, dry_run=True)
    assert shown.figures["after"]["phases_left"] == 1
    with pytest.raises(BadInput, match="the pool has 70 units"):
        loaded(here).replan(because="outside", queries=(63,), epsilon=30, dry_run=True)


def test_more_labels_than_the_file_has_money_for_are_warned_of(tmp_path):
    written(tmp_path, TOML.replace('delta = "1e-4"', 'delta = "1e-4"\nlabels = 14'))
    campaign = opening.create(CampaignConfig.read(tmp_path / "small.toml"))
    answered(campaign)
    campaign.train()
    more, fewer = (campaign.replan(because="outside", queries=(size,), dry_run=True) for size in (7, 6))
    assert any("up to 15 labels in all" in one and "labels = 14" in one for one in more.figures["warnings"])
    assert not any("labels in all" in one for one in fewer.figures["warnings"])


def test_it_goes_on_by_the_new_plan_to_its_end(here):
    campaign = loaded(here)
    made = campaign.replan(because="outside", epsilon="8.5", queries=(3, 3), add_phases=(2,), note="the board")
    assert made.made
    assert campaign.recipe.phases == 4
    assert campaign.replan(because="outside", epsilon="8.5", queries=(3, 3), add_phases=(2,), note="the board").made
    status = campaign.status()
    assert (status.mode, status.epsilon, len(status.replanned)) == ("adaptive", 8.5, 1)
    assert status.replanned[0]["before"] == {"mode": "committed", "epsilon": 8, "delta": 0.0001}
    asked = 0
    while not campaign.done:
        asked += answered(campaign)
        campaign.train()
    assert 0 < asked <= 8
    assert campaign.state.phase == 3
    assert checks(here) == []
    claim = campaign.certificate()["claim"]
    assert (claim["epsilon"], claim["delta"]) == (8.5, 0.0001)
    with pytest.raises(InfeasiblePlan) as refused:  # all of it is spent
        campaign.replan(because="outside", queries=())
    assert 8.5 < float(refused.value.nearest["epsilon"]) < 10
    with pytest.raises(InfeasiblePlan) as refused:
        campaign.replan(because="released", queries=())
    assert "epsilon" not in refused.value.nearest


def test_annotators_gone_means_one_last_training(here):
    campaign = loaded(here)
    campaign.replan(because="outside", labels=0)
    assert campaign.ask() == []
    campaign.train()
    assert (campaign.done, campaign.state.phase) == (True, 1)
    assert checks(here) == []
    campaign.replan(because="outside", epsilon=9, queries=())  # and another one, for a larger promise
    campaign.ask()
    campaign.train()
    assert checks(here) == []


def test_of_two_processes_one_is_told(here):
    first, second = loaded(here), loaded(here)
    shown = second.replan(because="outside", queries=(2,), dry_run=True)
    first.replan(because="released", queries=(3,))
    for verb in (second.ask, second.train, lambda: second.replan(because="outside", queries=(2,))):
        with pytest.raises(NotNow, match="another process re-planned"):
            verb()
    third = loaded(here)
    with pytest.raises(NotNow, match="since it was shown"):
        third.replan(because="outside", queries=(2,), shown=shown.digest)
    with first.store.exclusive("working"), pytest.raises(StoreUnavailable):
        third.replan(because="outside", queries=(2,))


def test_a_query_that_was_begun_is_finished_first(here, monkeypatch):
    campaign = loaded(here)
    with monkeypatch.context() as patch:
        patch.setattr(type(campaign.store), "publish", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            campaign.ask()
    with pytest.raises(NotNow, match="was begun"):
        loaded(here).replan(because="outside", queries=())


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("DELETE FROM transitions WHERE kind = 'replanned-1'", ["plan", "replanning", "steps of phase 1"]),
        (
            "UPDATE transitions SET facts = replace(facts, '\"steps\": ', '\"steps\": 1') WHERE kind = 'replanned-1'",
            None,
        ),
        ("DELETE FROM ledger_lines WHERE position = 3", ["mark", "plan", "replanning"]),
    ],
)
def test_a_store_and_a_ledger_that_differ_are_found(here, statement, found):
    loaded(here).replan(because="outside", queries=(3,))
    with sqlite3.connect(here / "small.db") as database:
        assert database.execute(statement).rowcount == 1
    database.close()
    assert checks(here) if found is None else checks(here) == found


@pytest.mark.parametrize(
    "change",
    [
        {"selection_epsilon": '"0"', "selector": "random"},
        {"individual_rates": "true"},
        {"selection": '"paper"', "selector": "exponential"},
        {"selection": '"shards"'},
        {"schedule": '"naive"'},
        {"schedule": '"scout"'},
    ],
    ids=["random", "individual", "paper", "shards", "naive", "scout"],
)
def test_every_kind_of_selection_goes_on(tmp_path, change):
    text = TOML.replace("phases = 1", "phases = 2")
    if selector := change.pop("selector", None):
        text = text.replace('name = "threshold-response"\nthreshold_epsilon = "0.1"', f'name = "{selector}"')
    text = text.replace('selection_epsilon = "2"\n', "") if "selection_epsilon" in change else text
    change.pop("selection_epsilon", None)
    text = text.replace("[plan]\n", "[plan]\n" + "".join(f"{key} = {value}\n" for key, value in change.items()))
    written(tmp_path, text)
    campaign = opening.create(CampaignConfig.read(tmp_path / "small.toml"))
    answered(campaign)
    campaign.train()
    if campaign.recipe.plan.selection.kind == "shards":
        with pytest.raises(BadInput, match="cut once"):
            campaign.replan(because="outside", queries=(2,))
    campaign.replan(because="released", queries=(3, 2))
    answered(campaign)
    campaign.train()
    assert checks(tmp_path) == []
