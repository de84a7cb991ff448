"""`discreet user` and `discreet serve`: what they print, keep and refuse."""

import json
import re

import numpy as np
import pytest

from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.recipes.opening import create

TOML = """format = "discreet.campaign/1"
name = "small"
[pool]
path = "pool.npz"
kind = "npz"
id = "id"
array = "x"
size = 40
[task]
kind = "multiclass"
classes = ["a", "b"]
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 8
batch = 4
epochs = 2
accountant = "rdp"
[oracle]
name = "web"
[model]
name = "linear"
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numbers = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
    np.savez("pool.npz", id=np.array([f"r{number}" for number in range(40)]), x=numbers)
    (tmp_path / "small.toml").write_text(TOML)
    return tmp_path


def said(capsys, *arguments, code=0):
    assert run(list(arguments)) == code
    return capsys.readouterr()


def test_users_are_added_listed_renewed_and_removed(place, capsys):
    create(CampaignConfig.read("small.toml"))
    token = said(capsys, "user", "add", "ida", "--role", "annotator").out.strip()
    assert re.fullmatch(r"dt_[\w-]{43}", token)
    form = json.loads(said(capsys, "user", "add", "olga", "--role", "owner", "--campaign", "small.toml", "--json").out)
    assert (form["format"], form["simulation"], form["name"]) == ("discreet.user/1", False, "olga")
    assert said(capsys, "user", "token", "ida").out.strip() != token
    said(capsys, "user", "remove", "ida")
    listed = json.loads(said(capsys, "user", "list", "--json").out)
    assert [(one["name"], one["role"], one["active"]) for one in listed["users"]] == [
        ("ida", "annotator", False),
        ("olga", "owner", True),
    ]
    assert "token" not in json.dumps(listed)
    assert "no token" in said(capsys, "user", "list").out


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["user", "add", "a b", "--role", "annotator"], "no name of a user"),
        (["user", "add", "ida", "--role", "admin"], "no role"),
        (["user", "token", "ida"], "no such user"),
        (["user", "remove", "ida"], "no such user"),
        (["user", "list", "--campaign", "other.toml"], "other.toml"),
        (["serve", "small.toml", "--host", "0.0.0.0"], "in the clear"),
        (["serve", "small.toml", "--anonymous-loopback", "--public-name", "x.org"], "others could reach"),
        (["serve", "small.toml", "small.toml", "--anonymous-loopback"], "which campaign"),
    ],
)
def test_refusals_are_one_clear_line(place, capsys, arguments, fact):
    create(CampaignConfig.read("small.toml"))
    refused = said(capsys, *arguments, code=2)
    assert fact in refused.err
    assert refused.out == ""


def test_a_campaign_whose_questions_go_elsewhere_is_not_served(place, capsys):
    create(CampaignConfig.read("small.toml"))
    (place / "small.toml").write_text(TOML.replace('"web"', '"files"'))
    assert "its questions go elsewhere" in said(capsys, "serve", "small.toml", code=2).err


def test_which_campaign_is_said_where_there_are_several(place, capsys):
    (place / "other.toml").write_text(TOML)
    assert "2 campaign files" in said(capsys, "user", "list", code=2).err


def test_people_on_pages_answer_into_the_store(place, capsys):
    campaign = create(CampaignConfig.read("small.toml"))
    ran = json.loads(said(capsys, "run", "small.toml", "--json").out)
    assert (ran["waiting"], ran["done"]) == (8, False)
    assert campaign.exposures() == [], "a run shows nobody anything"
    campaign.tell({one.id: "a" for one in campaign.open()}, annotator="ida")
    assert json.loads(said(capsys, "run", "small.toml", "--json").out)["done"]
