"""One door to the models: names, seeds, a user's own, and refusals that say what to do."""

import importlib.util
import subprocess
import sys

import pytest
import torch

from discreet.errors import BadInput, MissingExtra
from discreet.models import build_model, model_names
from discreet.models.build import MODELS

VECTOR = {"inputs": (6,), "classes": 3}

OWN = """
import torch
from torch import nn

def build(*, inputs, classes, hidden=4):
    return nn.Sequential(nn.Linear(inputs[0], hidden), nn.Linear(hidden, classes))

class Own(nn.Module):
    def __init__(self, inputs, classes, dropout=0.0):
        super().__init__()
        self.dropout, self.linear = nn.Dropout(dropout), nn.Linear(inputs[0], classes)

def number(*, inputs, classes):
    return 3

def broken(*, inputs, classes):
    raise KeyError("inside")

def batch_norm(*, inputs, classes):
    return nn.Sequential(nn.Linear(inputs[0], classes), nn.BatchNorm1d(classes))

def running(*, inputs, classes):
    return nn.InstanceNorm1d(3, track_running_stats=True)

constant = 5
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_models_for_test.py").write_text(OWN)
    (tmp_path / "own_needs_more.py").write_text("import surely_not_installed_anywhere\n")
    (tmp_path / "own_fails.py").write_text("raise RuntimeError('at import')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "own_models_for_test"
    for name in ("own_models_for_test", "own_needs_more", "own_fails"):
        sys.modules.pop(name, None)


def weights(model):
    return torch.cat([weight.flatten() for weight in model.parameters()])


def test_importing_the_room_and_listing_names_does_not_import_torch():
    code = "import sys, discreet.models as m; m.model_names(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_name_has_one_line():
    names = model_names()
    assert set(MODELS.names()) < set(names)
    assert all(line and "\n" not in line for line in names.values())


def test_weights_follow_from_the_seed_and_the_callers_random_state_stays():
    before = torch.random.get_rng_state()
    first, again = build_model("mlp", **VECTOR, seed=4), build_model("mlp", **VECTOR, seed=4)
    other = build_model("mlp", **VECTOR, seed=5)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(weights(first), weights(again))
    assert not torch.equal(weights(first), weights(other))


def test_the_random_state_stays_when_the_model_is_refused():
    before = torch.random.get_rng_state()
    with pytest.raises(BadInput):
        build_model("mlp", **VECTOR, hidden=(4, "five"))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"name": "resnet10"}, "there is no such model"),
        ({"name": ""}, "a model's name is a word"),
        ({"name": None}, "a model's name is a word"),
        ({"name": "timm:"}, "there is no such model"),
        ({"inputs": ()}, "at least one axis"),
        ({"inputs": "784"}, "sequence of whole numbers"),
        ({"inputs": (0, 3)}, "at least 1"),
        ({"inputs": (2.5,)}, "at least 1"),
        ({"classes": 0}, "at least 1"),
        ({"classes": True}, "at least 1"),
        ({"dropout": 1.0}, "[0, 1)"),
        ({"dropout": float("nan")}, "[0, 1)"),
        ({"dropout": "half"}, "[0, 1)"),
        ({"seed": -1}, "at least 0"),
        ({"seed": 2**63}, "63 bits"),
        ({"depth": 3}, "its options are hidden, activation"),
        ({"hidden": ()}, "at least one hidden layer"),
        ({"hidden": 5}, "sequence of whole numbers"),
        ({"activation": "sine"}, "gelu, mish, relu, tanh"),
        ({"name": "linear", "hidden": (3,)}, "it has no options"),
        ({"name": "embedding_head", "inputs": (2, 3)}, "it takes vectors"),
        ({"name": "embedding_head", "scale": 0}, "positive and finite"),
        ({"name": "small_cnn"}, "it takes images"),
        ({"name": "resnet9", "inputs": (1, 15, 40)}, "at least 16 x 16"),
    ],
)
def test_what_cannot_be_built_is_refused_in_three_parts(changes, part):
    with pytest.raises(BadInput) as refused:
        build_model(**{"name": "mlp", **VECTOR, **changes})
    assert part in refused.value.fact
    assert refused.value.asked
    assert refused.value.remedy


def test_a_list_will_do_for_a_shape_and_for_hidden_layers():
    model = build_model("mlp", inputs=[2, 3], classes=3, hidden=[4, 5])
    assert model(torch.zeros(2, 2, 3)).shape == (2, 3)
    assert build_model("linear", inputs=6, classes=1)(torch.zeros(2, 6)).shape == (2, 1)


def test_the_gradient_of_an_embedding_head_has_the_bound_its_docstring_gives():
    model = build_model("embedding_head", **VECTOR, scale=2.0).double()
    bound = (2 * (2.0**2 + 1)) ** 0.5
    for length in (0.0, 1e-3, 1.0, 1e6):
        x = torch.nn.functional.normalize(torch.randn(1, 6, dtype=torch.float64), dim=1) * length
        loss = torch.nn.functional.cross_entropy(1e3 * model(x), torch.tensor([0])) / 1e3  # as wrong as can be
        parts = torch.autograd.grad(loss, list(model.parameters()))
        assert sum(part.square().sum() for part in parts).sqrt() <= bound * (1 + 1e-9)
        assert model.features(x).norm() == pytest.approx(2.0 if length else 0.0)


def test_a_users_own_model_is_built_from_the_seed_too(own):
    first = build_model(f"{own}:build", **VECTOR, seed=3, hidden=7)
    assert first[0].out_features == 7
    assert torch.equal(weights(first), weights(build_model(f"{own}:build", **VECTOR, seed=3, hidden=7)))
    assert build_model(f"{own}:Own", **VECTOR, dropout=0.25).dropout.p == 0.25


@pytest.mark.parametrize(
    ("name", "options", "part"),
    [
        ("no_such_module_at_all:build", {}, "there is no module no_such_module_at_all"),
        ("torch.no_such_part:build", {}, "there is no module torch.no_such_part"),
        ("own_needs_more:build", {}, "own_needs_more imports surely_not_installed_anywhere"),
        ("own_fails:build", {}, "importing own_fails raised RuntimeError"),
        ("own_models_for_test:nothing", {}, "own_models_for_test has no nothing"),
        ("own_models_for_test:constant", {}, "constant is a int, not a callable"),
        ("own_models_for_test:number", {}, "returned a int"),
        ("own_models_for_test:broken", {}, "raised KeyError"),
        ("own_models_for_test:build", {"depth": 2}, "cannot be called with inputs=, classes=, depth="),
        ("own_models_for_test:build", {"dropout": 0.5}, "cannot be called with inputs=, classes=, dropout="),
        ("own_models_for_test:batch_norm", {}, "mixes the records"),
        ("own_models_for_test:running", {}, "keeps statistics"),
        ("../models:build", {}, "does not read as module:callable"),
        ("own_models_for_test:", {}, "does not read as module:callable"),
    ],
)
def test_a_users_own_model_that_will_not_do_is_refused(own, name, options, part):
    before = torch.random.get_rng_state()
    with pytest.raises(BadInput) as refused:
        build_model(name, **VECTOR, **options)
    assert part in refused.value.fact
    assert refused.value.remedy
    assert torch.equal(torch.random.get_rng_state(), before)


def test_an_error_inside_a_users_callable_is_kept_as_the_cause(own):
    with pytest.raises(BadInput) as refused:
        build_model(f"{own}:broken", **VECTOR)
    assert isinstance(refused.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("mlp", "torch", "discreet[torch]"),
        ("transformer", "transformers", "discreet[text]"),
        ("timm:dm_nfnet_f0", "timm", "discreet[timm]"),
        ("some:thing", "torch", "discreet[torch]"),
    ],
)
def test_a_missing_library_names_the_extra(monkeypatch, name, library, extra):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda word, *rest: None if word == library else find(word, *rest))
    with pytest.raises(MissingExtra, match=library) as refused:
        build_model(name, **VECTOR)
    assert extra in refused.value.remedy
