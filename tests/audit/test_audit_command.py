"""`discreet audit` of files, of campaigns in stores, and of recipes by name."""

import json

import numpy as np
import pytest

from discreet.api import create_campaign
from discreet.audit.auditing import RECIPES, targets_of
from discreet.cli.app import run
from discreet.cli.verify import _subject
from discreet.config import StreamConfig, read_campaign
from discreet.errors import BadInput
from discreet.pools import ArrayPool
from discreet.recipes import private_pool
from discreet.report.plan_figure import audit_bars, draw_audit

pytestmark = pytest.mark.thorough


def created(tmp_path, name, **changes):
    """A campaign in a store."""
    pool = ArrayPool(ids=[f"r{number}" for number in range(200)], x=np.zeros((200, 3), dtype=np.float32))
    sizes = {"classes": ("a", "b"), "initial": 60, "queries": [30], "batch": 30, "epochs": 2}
    recipe = private_pool(**sizes, plan={"accountant": "rdp"}, simulation={"seed": 3}, **changes)
    create_campaign(name, storage=tmp_path / "c.db", pool=pool, budget={"epsilon": "8", "delta": "1e-4"}, recipe=recipe)


def test_a_recipe_by_its_name(capsys, tmp_path):
    assert run(["audit", "--recipe", "stream", "--canaries", "1000", "--json", "--plot", str(tmp_path / "a.png")]) == 0
    form = json.loads(capsys.readouterr().out)
    assert form["format"] == "discreet.audit/1"
    assert form["verdict"] == "holds"
    assert [one["recipe"] for one in form["recipes"]] == ["stream"]
    bars = audit_bars(form)
    assert len(bars) == sum(len(target["attacks"]) for target in form["recipes"][0]["targets"])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    draw_audit(form, tmp_path / "b.svg")


def test_an_injected_fault_ends_with_1(capsys):
    assert run(["audit", "--recipe", "public-data", "--plant", "private-top", "--canaries", "500"]) == 1
    said = capsys.readouterr().out
    assert "TOO FAR" in said
    assert said.endswith("A claim is broken.\n")


@pytest.mark.parametrize("name", RECIPES)
def test_example_files_have_targets(name, tmp_path):
    """Of every recipe's example the targets do as the file says."""
    path = tmp_path / "example.toml"
    assert run(["init", str(path), "--example", name]) == 0
    subject = _subject(str(path), None)
    recipe = subject.recipe_name
    if recipe == "private-pool":
        assert targets_of(recipe, subject)[1]["campaign"].selector == subject.selector.name
        return
    if recipe == "public-data" and subject.selector.name != "near-private":
        with pytest.raises(BadInput, match="checkpoint"):
            targets_of(recipe, subject)
        return
    _, targets = targets_of(recipe, subject)
    assert targets
    if isinstance(subject, StreamConfig):
        assert targets["updates"].noise == subject.noise.name


def test_a_campaign_in_a_store(tmp_path):
    created(tmp_path, "small")
    found = _subject(str(tmp_path / "c.db"), None)
    assert found.recipe_name == "private-pool"
    assert targets_of("private-pool", found)[1]["training"].selector == "random"
    created(tmp_path, "other", selection_epsilon="2")
    other = _subject(str(tmp_path / "c.db"), "other")
    assert targets_of("private-pool", other)[1]["campaign"].selector == "threshold-response"
    with pytest.raises(BadInput, match="--campaign"):
        _subject(str(tmp_path / "c.db"), None)


@pytest.mark.parametrize(
    "wrong",
    [
        ["nowhere.toml"],
        ["nowhere.db"],
        ["--campaign", "scans"],
        ["--recipe", "none"],
        ["--recipe", "stream", "--plant", "fixed-batches"],
    ],
)
def test_nonsense_is_refused(wrong, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["audit", *wrong]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_reading_reads_either(tmp_path):
    path = tmp_path / "s.toml"
    assert run(["init", str(path), "--example", "stream"]) == 0
    assert StreamConfig.read(path)
    with pytest.raises(BadInput):
        read_campaign(path)


def test_without_research_there_are_no_faults(monkeypatch, capsys):
    monkeypatch.setattr("discreet.audit.auditing.find_spec", lambda name: None)
    assert run(["audit", "--recipe", "stream", "--plant", "no-noise"]) == 2
    assert "Install discreet-research" in capsys.readouterr().err
