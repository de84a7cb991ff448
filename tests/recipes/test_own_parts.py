"""Scores, models, losses and first weights of the user's own: used, or refused at the line before anything begins."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from small_campaigns import BUDGET, accuracy, finish, made, pool_and_truth, tables

from discreet.api import create_campaign
from discreet.config import CampaignConfig
from discreet.errors import InvalidConfig
from discreet.recipes.learning import model_of
from discreet.recipes.opening import create

pytestmark = pytest.mark.thorough

OWN = {"selection_epsilon": "2", "threshold_epsilon": "0.3", "selector": "threshold-response", "queries": [30]}


@pytest.mark.parametrize(
    "changes",
    [
        {**OWN, "scorer": {"name": "own_parts:halves", "range": [0.0, 0.5]}},
        {**OWN, "scorer": {"name": "own_parts:length", "range": [0.0, 50.0], "needs": "embedding"}},
        {"queries": [], "model": "own_parts:small", "model_options": {"hidden": 8}, "epochs": 20},
        {"queries": [], "trainer": {"loss": "own_parts:focal", "learning_rate": 1.0, "engine": "reference"}},
    ],
    ids=["score", "score of embeddings", "model", "loss"],
)
def test_what_is_right_is_used(changes, tmp_path):
    pool, truth = pool_and_truth()
    given = dict(changes)
    recipe_of = given.pop("scorer", None)
    recipe = tables(**given)
    if recipe_of:
        recipe["scorer"] = recipe_of
    campaign = create_campaign("own", storage=tmp_path / "c.db", pool=pool, budget=BUDGET, recipe=recipe)
    finish(campaign, truth)
    assert accuracy(campaign, pool, truth) > 0.75


TOML = """format = "discreet.campaign/1"
name = "own"
[pool]
path = "pool.npz"
kind = "npz"
id = "id"
array = "x"
size = 300
[task]
kind = "multiclass"
classes = ["a", "b", "c"]
[budget]
epsilon = "8"
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 60
queries = [30]
batch = 30
epochs = 2
accountant = "rdp"
selection_epsilon = "2"
[selector]
name = "threshold-response"
threshold_epsilon = "0.3"
[scorer]
name = "entropy"
[oracle]
name = "files"
[model]
name = "linear"
[trainer]
learning_rate = 1.0
"""
SCORE, MODEL, RATE = 'name = "entropy"', 'name = "linear"', "learning_rate = 1.0"


@pytest.mark.parametrize(
    ("old", "new", "at", "word"),
    [
        (SCORE, 'name = "own_parts:nothing"\nrange = [0.0, 1.0]', "own_parts:nothing", "cannot be imported"),
        (SCORE, 'name = "no_such_module:score"\nrange = [0.0, 1.0]', "no_such_module", "ModuleNotFoundError"),
        (SCORE, 'name = "own_parts:NOT_A_FUNCTION"\nrange = [0.0, 1.0]', "own_parts", "cannot be called"),
        (SCORE, 'name = "own_parts:of_the_pool"\nrange = [0.0, 1.0]', "own_parts", "one number a record"),
        (SCORE, 'name = "own_parts:failing"\nrange = [0.0, 1.0]', "own_parts", "ended with ValueError"),
        (SCORE, 'name = "own_parts:halves"\nrange = [0.0, 1.0]\nneeds = "draws"', "own_parts", "no dropout"),
        (SCORE, 'name = "bald"', 'name = "bald"', "no dropout"),
        (MODEL, 'name = "own_parts:absent"', "own_parts:absent", "has no absent"),
        (MODEL, 'name = "own_parts:mixing"', "own_parts:mixing", "BatchNorm"),
        (MODEL, 'name = "own_parts:wrong_width"', "own_parts:wrong_width", "a row of 3 a record"),
        (RATE, 'loss = "own_parts:gone"', "own_parts:gone", "cannot be imported"),
        (RATE, 'loss = "own_parts:NOT_A_FUNCTION"', "own_parts:NOT", "cannot be called"),
        (RATE, 'loss = "own_parts:no_number"', "own_parts:no_number", "loss"),
    ],
)
def test_what_is_wrong_is_refused_at_its_line(old, new, at, word, tmp_path):
    pool, _ = pool_and_truth()
    text = TOML.replace(old, new)
    line = next(number for number, row in enumerate(text.splitlines(), start=1) if at in row)
    config = CampaignConfig.from_text(text, name="own.toml", directory=tmp_path)
    with pytest.raises(InvalidConfig, match=word) as refused:
        create(config, pool=pool)
    assert refused.value.line == line
    assert "unmistakable" not in str(refused.value)
    assert not list(tmp_path.glob("*.db.d/*"))


def names_of_linear(pool, tmp_path):
    campaign = made(tmp_path, pool, name="plain", queries=[])
    return {name: tuple(value.shape) for name, value in model_of(campaign.recipe.config, (4,)).state_dict().items()}


def test_public_weights_are_where_training_begins(tmp_path):
    pool, truth = pool_and_truth()
    shapes = names_of_linear(pool, tmp_path)
    given = {name: torch.full(shape, 0.25) for name, shape in shapes.items()}
    save_file(given, tmp_path / "public.safetensors")
    recipe = tables(queries=[])
    recipe["model"]["init"] = str(tmp_path / "public.safetensors")
    campaign = create_campaign("warm", storage=tmp_path / "c.db", pool=pool, budget=BUDGET, recipe=recipe)
    module = model_of(campaign.recipe.config, (4,))
    assert all(torch.equal(value, given[name]) for name, value in module.state_dict().items())
    finish(campaign, truth)
    assert accuracy(campaign, pool, truth) > 0.75


@pytest.mark.parametrize("wrong", ["missing", "no safetensors", "another head", "strange name", "empty"])
def test_a_file_of_other_weights_is_refused(wrong, tmp_path):
    pool, _ = pool_and_truth()
    path = tmp_path / "public.safetensors"
    shapes = names_of_linear(pool, tmp_path)
    given = {name: torch.zeros(shape) for name, shape in shapes.items()}
    head = next(iter(given))
    if wrong == "no safetensors":
        path.write_bytes(b"not weights")
    elif wrong == "another head":
        save_file({**given, head: torch.zeros(10, 4)}, path)
    elif wrong == "strange name":
        save_file({**given, "trunk.weight": torch.zeros(2)}, path)
    elif wrong == "empty":
        save_file({}, path)
    recipe = tables(queries=[])
    recipe["model"]["init"] = str(path)
    words = {"missing": "it is not there", "no safetensors": "not a safetensors", "another head": "1 of its 2 tensors"}
    with pytest.raises(InvalidConfig, match=words.get(wrong, "tensors")) as refused:
        create_campaign("cold", storage=tmp_path / "c.db", pool=pool, budget=BUDGET, recipe=recipe)
    assert "[model] init" in str(refused.value)


def test_a_file_without_the_head_leaves_the_head_as_it_was_drawn(tmp_path):
    pool, _ = pool_and_truth()
    plain = made(tmp_path, pool, name="mlp", queries=[], model="mlp", model_options={"hidden": [5]})
    drawn = model_of(plain.recipe.config, (4,)).state_dict()
    trunk = next(name for name in drawn if "head" not in name)
    save_file({trunk: torch.full(drawn[trunk].shape, 0.125)}, tmp_path / "trunk.safetensors")
    recipe = tables(queries=[], model="mlp", model_options={"hidden": [5]})
    recipe["model"]["init"] = str(tmp_path / "trunk.safetensors")
    campaign = create_campaign("half", storage=tmp_path / "c.db", pool=pool, budget=BUDGET, recipe=recipe)
    found = model_of(campaign.recipe.config, (4,)).state_dict()
    assert float(found[trunk].max()) == 0.125
    assert all(torch.equal(found[name], drawn[name]) for name in drawn if name != trunk)
    assert np.isfinite([float(value.sum()) for value in found.values()]).all()
