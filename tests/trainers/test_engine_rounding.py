"""Attacks on the fast engine's arithmetic: records that cancel, that are huge, that are not finite, that all point the
same way. None may add more than C, widened by `margin`, and none may move another's part.
"""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from discreet.models import build_model
from discreet.trainers.dp_sgd.engine import convolutions, parts
from discreet.trainers.dp_sgd.engine.fast import FastGradients
from discreet.trainers.dp_sgd.engine.parts import BLOCK, margin
from discreet.trainers.dp_sgd.optimization import cross_entropy

CLIP = 1.0


class Cancels(nn.Module):
    """A layer over places whose outputs are added with changing signs: equal places cancel."""

    def __init__(self, places, before, after=16, *, scale=1.0):
        super().__init__()
        self.body = nn.Linear(before, after, bias=False)
        self.register_buffer("signs", scale * torch.tensor([1.0, -1.0]).repeat(places // 2)[:, None])
        self.register_buffer("mix", torch.randn(after, 3))

    def forward(self, x):
        return torch.tanh((self.body(x) * self.signs).sum(dim=1)) @ self.mix


@pytest.fixture
def ghostly(monkeypatch):
    for place in (parts, convolutions):
        monkeypatch.setattr(place, "writes_out", lambda *_, **__: False)


def longest_of(places, before, heights):
    """The longest that any of many cancelling records gets to be, and the exact sums of what it adds."""
    torch.manual_seed(places + before)
    model = Cancels(places, before, scale=50.0)
    rows = torch.stack([height * torch.randn(before).expand(places, before) for height in heights])
    rows += torch.randn(rows.shape)
    engine = FastGradients(model, cross_entropy)
    targets = torch.arange(len(rows)) % 3
    lengths = [float(engine.sum_of(rows[[row], None], targets[[row]], clip=CLIP).norm()) for row in range(len(rows))]
    whole = engine.sum_of(rows[:, None], targets, clip=CLIP)
    gaps = []
    for row in range(len(rows)):
        usable = torch.arange(len(rows)) != row
        blank = torch.where(usable[:, None, None], rows, 0.0)
        gaps.append(float((whole - engine.sum_of(blank[:, None], targets, clip=CLIP, usable=usable)).norm()))
    return max(*lengths, *gaps)


HEIGHTS = [10.0**power for power in np.arange(0, 7, 0.5)]


@pytest.mark.parametrize(("places", "before"), list(itertools.product([2, 4, 16, 64], [4, 300, 2400])))
def test_places_that_cancel_do_not_hide_a_records_length(places, before, ghostly):
    assert longest_of(places, before, HEIGHTS) <= CLIP * (1 + margin(len(HEIGHTS)))


def test_without_lengthening_they_would(ghostly, monkeypatch):
    """The attack has power: the engine without its guard is caught."""
    for place in (parts, convolutions):
        monkeypatch.setattr(place, "hidden_share", lambda *_: 0.0)
    assert max(longest_of(places, 2400, HEIGHTS) for places in (2, 4, 16, 64)) > 1.5 * CLIP


def test_the_lengthening_is_not_seen_on_ordinary_records(ghostly):
    torch.manual_seed(0)
    engine = FastGradients(Cancels(16, 300), cross_entropy)
    rows, targets = torch.randn(40, 1, 16, 300), torch.arange(40) % 3
    short = 1e-6
    found = engine.sum_of(rows, targets, clip=short)
    expected = engine.reference.clipped_sum(rows, targets, clip=short)
    assert (found - expected).norm() <= 1e-4 * expected.norm()


@pytest.mark.parametrize("count", [2, BLOCK, BLOCK + 1, 5 * BLOCK])
def test_records_that_point_the_same_way(count):
    """The worst case of a sum of single precision: all vectors equal, of length C, with an odd mantissa."""
    torch.manual_seed(1)
    model = nn.Linear(7, 3)
    rows = torch.randn(1, 7).repeat(count, 1)
    rows[0] = -rows[0] * 0.7
    engine = FastGradients(model, cross_entropy)
    targets = torch.ones(count, dtype=torch.long)
    whole = engine.sum_of(rows[:, None], targets, clip=0.0317)
    usable = torch.arange(count) > 0
    blank = torch.where(usable[:, None], rows, 0.0)
    gap = whole - engine.sum_of(blank[:, None], targets, clip=0.0317, usable=usable)
    assert 0.99 * 0.0317 <= float(gap.norm()) <= 0.0317 * (1 + margin(count))


HOSTILE = [float("nan"), float("inf"), -float("inf"), 3e38, 1e30, 1e20]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("name", ["mlp", "small_cnn", "resnet9"])
def test_one_hostile_record_moves_nobody_else(name, value):
    torch.manual_seed(2)
    shape, options = ((3, 16, 16), {"width": 8}) if name == "resnet9" else ((1, 16, 16), {})
    model = build_model(name, inputs=shape, classes=3, **options).train()
    engine = FastGradients(model, cross_entropy, channels_last=True)
    rows, targets = torch.randn(6, 1, *shape), torch.arange(6) % 3
    rows[4] = value
    whole = engine.clipped_sum(rows, targets, clip=CLIP)
    assert torch.isfinite(whole).all()
    usable = torch.arange(6) != 4
    blank = torch.where(usable.reshape(-1, 1, 1, 1, 1), rows, 0.0)
    others = engine.clipped_sum(blank, targets, clip=CLIP, usable=usable)
    alone = engine.reference.clipped_sum(rows[4:5], targets[4:5], clip=CLIP)
    assert float((whole - others).norm()) <= CLIP * (1 + margin(6))
    np.testing.assert_allclose((whole - others).numpy(), alone.numpy(), atol=2e-4)


def test_a_person_with_one_broken_record_counts_with_the_others():
    torch.manual_seed(3)
    engine = FastGradients(nn.Linear(4, 3), cross_entropy)
    rows, targets = torch.randn(6, 1, 4), torch.arange(6) % 3
    rows[3] = torch.nan
    found = engine.clipped_sum(rows, targets, clip=0.1, together=3)
    expected = engine.reference.clipped_sum(rows, targets, clip=0.1, together=3)
    assert (found - expected).norm() <= 1e-5 * expected.norm()


def test_a_record_the_model_fails_on_is_a_null():
    torch.manual_seed(4)
    model = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 3))
    engine = FastGradients(model, cross_entropy)
    words, targets = torch.tensor([[[0, 1]], [[2, 99]], [[3, 3]]]), torch.arange(3)
    found = engine.clipped_sum(words, targets, clip=0.1)
    usable = torch.tensor([True, False, True])
    beside = engine.clipped_sum(torch.where(usable[:, None, None], words, 0), targets, clip=0.1, usable=usable)
    assert torch.equal(found, beside)


def test_no_rows_no_sum():
    engine = FastGradients(nn.Linear(4, 3), cross_entropy)
    assert not engine.clipped_sum(torch.randn(0, 1, 4), torch.zeros(0, dtype=torch.long), clip=1.0).any()
