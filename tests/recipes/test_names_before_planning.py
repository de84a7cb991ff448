"""A name that is not there is refused before a plan is made, with the names that are."""

import sys

import numpy as np
import pytest
from small_campaigns import BUDGET, tables

from discreet.api import create_campaign
from discreet.config import CampaignConfig
from discreet.errors import BadInput, InvalidConfig
from discreet.pools import ArrayPool
from discreet.recipes.opening import create
from discreet.recipes.private_pool import plan_of

pytestmark = pytest.mark.thorough

POOL = ArrayPool(ids=[f"r{place}" for place in range(300)], x=np.zeros((300, 4), dtype=np.float32))
PAID = {"selection_epsilon": "2", "selector": "threshold-response"}


@pytest.fixture(autouse=True)
def no_planner(monkeypatch):
    """Whoever plans fails the test."""

    def plan(request):
        raise AssertionError("planned before the names were checked")

    monkeypatch.setattr(sys.modules["discreet.recipes.private_pool"], "make_plan", plan)


WRONG = {
    "model": ({"model": "liner"}, "model", "Did you mean linear"),
    "model of one's own": ({"model": "nobody_has:this"}, "model.name", "cannot be imported|no module"),
    "attribute of one's own model": ({"model": "own_parts:nothing_here"}, "model", "nothing_here"),
    "score": ({**PAID, "scorer": "entropi"}, "scorer", "Did you mean entropy. Choose one of .*margin"),
    "score of one's own": (
        {**PAID, "scorer": "nobody_has:this", "tables": {"scorer": {"range": [0.0, 1.0]}}},
        "scorer.name",
        "cannot be imported",
    ),
    "selector": ({**PAID, "selector": "treshold-response"}, "selector.name", "Did you mean threshold-response"),
    "optimizer": ({"trainer": {"optimizer": "adom"}}, "trainer", "Did you mean adam"),
    "schedule of the learning rate": ({"trainer": {"schedule": "constan"}}, "trainer", "Did you mean constant"),
    "loss": ({"trainer": {"loss": "cross-entropi"}}, "trainer", "Did you mean cross-entropy"),
    "augmentation": ({"trainer": {"augment": [{"name": "flop"}]}}, "trainer.augment", "Did you mean flip"),
    "schedule": ({"plan": {"schedule": "step-amplificaton"}}, "plan.schedule", "Did you mean step-amplification"),
    "accountant": ({"plan": {"accountant": "rpd"}}, "plan.accountant", "Choose one of"),
    "oracle": ({"tables": {"oracle": {"name": "file"}}}, "oracle.name", "Did you mean files"),
    "function that answers": (
        {"tables": {"oracle": {"name": "callable", "function": "nobody_has:this"}}},
        "oracle.function",
        "cannot be imported",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_name_is_refused_before_planning(tmp_path, what):
    changes, place, words = WRONG[what]
    further = changes.get("tables", {})
    given = tables(**{name: value for name, value in changes.items() if name != "tables"})
    given |= {name: given[name] | table for name, table in further.items()}
    with pytest.raises(BadInput, match=f"(?i){words}") as refused:
        create_campaign("small", storage=tmp_path / "c.db", pool=POOL, budget=BUDGET, recipe=given)
    assert f"[{place.partition('.')[0]}]" in str(refused.value)
    assert not (tmp_path / "c.db.files").exists() or not list((tmp_path / "c.db.files").iterdir())


def test_the_line_of_the_file_is_named(tmp_path):
    form = {
        "format": "discreet.campaign/1",
        "name": "small",
        "pool": {"path": "here", "kind": "arrays", "size": 300},
        "budget": {"epsilon": "8", "delta": "1e-4"},
        **tables(**PAID, scorer="entropi"),
    }
    with pytest.raises(InvalidConfig, match=r"\[scorer\]"):
        create(CampaignConfig.from_json(form, directory=tmp_path), pool=POOL)


def test_a_plan_alone_checks_names_too():
    form = {
        "format": "discreet.campaign/1",
        "name": "small",
        "pool": {"path": "here", "kind": "arrays", "size": 300},
        "budget": {"epsilon": "8", "delta": "1e-4"},
        **tables(model="liner"),
    }
    with pytest.raises(InvalidConfig, match="Did you mean linear"):
        plan_of(CampaignConfig.from_json(form))


def test_every_name_and_file_that_is_not_there_is_told_at_once(tmp_path):
    form = {
        "format": "discreet.campaign/1",
        "name": "small",
        "pool": {"path": "pool.csv", "kind": "csv", "id": "id", "columns": ["age"], "size": 300},
        "budget": {"epsilon": "8", "delta": "1e-4"},
        **tables(**PAID, trainer={"optimizer": "adom", "loss": "cross-entropi"}),
    }
    form["evaluation"] = {"kind": "public", "path": "held.csv", "labels": "labels.csv"}
    with pytest.raises(InvalidConfig) as refused:
        create(CampaignConfig.from_json(form, directory=tmp_path))
    told = str(refused.value)
    assert told.count("it is not there") == 3
    assert "Did you mean adam" in told
    assert "Did you mean cross-entropy" in told
    form |= {"model": {"name": "liner"}, "scorer": {"name": "entropi"}, "oracle": {"name": "file"}}
    with pytest.raises(InvalidConfig) as refused:
        CampaignConfig.from_json(form)
    assert all(f"there is no '{name}'" in str(refused.value) for name in ("liner", "entropi", "file"))
