"""Which engine trains a model: the fast one where it is right, torch.func where it is not, and the log says so once."""

import logging

import numpy as np
import pytest
import torch
from torch import nn
from training_runs import blobs, phase_of, trained

from discreet.errors import BadInput
from discreet.models import build_model
from discreet.trainers.dp_sgd import CohortRecords, Settings
from discreet.trainers.dp_sgd.engine import fast as trial
from discreet.trainers.dp_sgd.engine.fast import REFERENCE, FastGradients, GradientEngine, choose_engine
from discreet.trainers.dp_sgd.engine.recording import ModelRecording
from discreet.trainers.dp_sgd.optimization import cross_entropy


def chosen(model, *shape, words=False):
    rng = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 3, (3, 1, *shape), generator=rng) if words else torch.randn(3, 1, *shape, generator=rng)
    return choose_engine(model.train(), cross_entropy, [(rows, torch.tensor([0, 1, 2]))])


class Own(nn.Module):
    """A model given by a function of itself and x."""

    def __init__(self, forward, **parts):
        super().__init__()
        self._forward = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self._forward(self, x)


def pictures(view):
    return Own(
        lambda self, x: self.head(view(torch.relu(self.conv(x)))), conv=nn.Conv2d(1, 2, 3), head=nn.Linear(32, 3)
    )


def test_built_in_models_are_fast():
    assert chosen(build_model("mlp", inputs=(4,), classes=3), 4) == GradientEngine(fast=True)
    assert chosen(build_model("small_cnn", inputs=(1, 16, 16), classes=3), 1, 16, 16) == GradientEngine(
        fast=True, channels_last=True
    )
    resnet = build_model("resnet9", inputs=(1, 16, 16), classes=3, width=4)
    assert chosen(resnet, 1, 16, 16) == GradientEngine(fast=True, channels_last=True)


def test_a_model_that_channels_last_would_break_keeps_its_layout():
    assert chosen(pictures(lambda maps: maps.view(len(maps), -1)), 1, 6, 6) == GradientEngine(fast=True)
    assert chosen(pictures(lambda maps: maps.flatten(1)), 1, 6, 6) == GradientEngine(fast=True, channels_last=True)


UNKNOWN = {
    "einsum": Own(lambda self, x: torch.einsum("bi,oi->bo", x, self.w), w=nn.Parameter(torch.randn(3, 4))),
    "computed weights": Own(
        lambda self, x: nn.functional.linear(x, self.w * self.mask),
        w=nn.Parameter(torch.randn(3, 4)),
        mask=torch.ones(4),
    ),
    "transposed weights": Own(lambda self, x: x @ self.w.t(), w=nn.Parameter(torch.randn(3, 4))),
    "records second": Own(
        lambda self, x: self.head(self.body(x.reshape(len(x), 2, 2).transpose(0, 1))).mean(dim=0),
        body=nn.Linear(2, 4),
        head=nn.Linear(4, 3),
    ),
    "places before records": Own(
        lambda self, x: self.body(x.reshape(len(x), 2, 2).transpose(0, 1).reshape(-1, 2)).reshape(2, len(x), 3).sum(0),
        body=nn.Linear(2, 3),
    ),
    "a penalty of the weights": Own(
        lambda self, x: self.body(x) * self.body.weight.square().sum(), body=nn.Linear(4, 3)
    ),
    "recurrent": Own(
        lambda self, x: self.head(self.body(x[:, :, None])[0][:, -1]), body=nn.GRU(1, 2), head=nn.Linear(2, 3)
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_left_to_the_reference(name, caplog):
    trial._SAID.clear()
    with caplog.at_level(logging.WARNING, logger="discreet"):
        assert chosen(UNKNOWN[name], 4) == REFERENCE
        assert chosen(UNKNOWN[name], 4) == REFERENCE
    (said,) = caplog.records
    assert "torch.func" in said.message


def test_symmetric_networks_are_left_to_the_reference():
    model = build_model("equivariant_resnet9", inputs=(1, 16, 16), classes=3, width=2)
    assert chosen(model, 1, 16, 16) == REFERENCE


@pytest.mark.parametrize("mistake", ["swapped", "doubled", "missing"])
def test_an_engine_that_is_wrong_is_not_trusted(mistake, monkeypatch):
    units_of = ModelRecording.units_of

    def wrong(self, part):
        each = units_of(self, part)
        if mistake == "swapped":
            return each.flip(0) if each.shape[2] == 3 else each
        return each * {"doubled": 1.5, "missing": 0.0}[mistake]

    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    assert chosen(model, 4).fast
    monkeypatch.setattr(ModelRecording, "units_of", wrong)
    assert not chosen(model, 4).fast


def test_random_models_are_tried_without_their_luck():
    dropout = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    assert chosen(dropout, 4).fast
    own = Own(lambda self, x: self.body(nn.functional.dropout(x, 0.5, training=self.training)), body=nn.Linear(4, 3))
    assert chosen(own, 4).fast


def test_both_engines_train_the_same_model(linear):
    cohort, phase = {"a": blobs(60)}, phase_of({"a": 0.5}, steps=6)
    fast, slow = (trained(linear, cohort, phase, engine=engine) for engine in ("auto", "reference"))
    for one, other in zip(fast.inputs(), slow.inputs(), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-2)  # weights differ by the margin's noise
    np.testing.assert_allclose(fast.inputs()[0], slow.inputs()[0], rtol=0, atol=1e-5)


def test_pictures_train_in_channels_last_and_come_back_as_they_were():
    rng = np.random.default_rng(0)
    cohort = CohortRecords(x=rng.normal(size=(30, 1, 16, 16)).astype(np.float32), y=rng.integers(0, 3, 30))
    model = build_model("small_cnn", inputs=(1, 16, 16), classes=3)
    run = trained(model, {"a": cohort}, phase_of({"a": 0.5}, steps=2))
    slow = trained(model, {"a": cohort}, phase_of({"a": 0.5}, steps=2), engine="reference")
    np.testing.assert_allclose(run.inputs()[0], slow.inputs()[0], rtol=0, atol=1e-5)
    assert all(weights.is_contiguous() for weights in run.predictor.module.parameters())


def test_an_engine_that_does_not_exist_is_refused():
    with pytest.raises(BadInput, match="engine=quick"):
        Settings(engine="quick")


def test_the_engine_leaves_no_gradients_and_no_hooks_behind(linear):
    engine = FastGradients(linear, cross_entropy)
    engine.clipped_sum(torch.randn(4, 1, 5), torch.zeros(4, dtype=torch.long), clip=1.0)
    assert all(weights.grad is None and not weights._backward_hooks for weights in linear.parameters())


class Gated(nn.Module):
    """A branch behind a gate that begins at 0, wrong or right in how it treats rows."""

    def __init__(self, *, right):
        super().__init__()
        self.body, self.gate, self.head = nn.Linear(2, 2), nn.Parameter(torch.zeros(2)), nn.Linear(2, 3)
        self.right = right

    def forward(self, x):
        pairs = x.reshape(len(x), 2, 2)
        if self.right:
            branch = self.body(pairs).mean(dim=1)
        else:
            branch = self.body(pairs.transpose(0, 1).reshape(-1, 2)).reshape(2, len(x), 2).mean(dim=0)
        return self.head(pairs.mean(dim=1) + branch * self.gate)


def test_what_is_behind_a_closed_gate_is_tried_too():
    assert chosen(Gated(right=True), 4).fast
    assert not chosen(Gated(right=False), 4).fast


def test_products_are_not_shortened_even_if_a_program_asks_for_it():
    torch.manual_seed(0)
    engine = FastGradients(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)), cross_entropy)
    rows, targets = torch.randn(40, 1, 64), torch.arange(40) % 3
    expected = engine.sum_of(rows, targets, clip=0.1)
    torch.set_float32_matmul_precision("medium")
    try:
        assert torch.equal(engine.sum_of(rows, targets, clip=0.1), expected)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
