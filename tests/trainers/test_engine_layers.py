"""The fast engine's sums are the reference's: every kind of layer, over shapes, strides, groups, padding, dilation,
layouts, views and persons.
"""

import sys
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from discreet.models import build_model
from discreet.trainers.dp_sgd.engine import convolutions as convolving
from discreet.trainers.dp_sgd.engine import native, parts
from discreet.trainers.dp_sgd.engine.convolutions import Folding, folds
from discreet.trainers.dp_sgd.engine.fast import FastGradients
from discreet.trainers.dp_sgd.engine.patches import conv_shape
from discreet.trainers.dp_sgd.optimization import cross_entropy, multilabel_bce

pytestmark = pytest.mark.thorough

SAME = 1e-4
LONG, SHORT = 1e9, 1e-3
CLASSES = 3


class Chain(nn.Module):
    """Layers, then a mean over all places, then an affine layer."""

    def __init__(self, *layers, width):
        super().__init__()
        self.body, self.head = nn.Sequential(*layers), nn.Linear(width, CLASSES)

    def forward(self, x):
        seen = self.body(x)
        return self.head(torch.tanh(seen.flatten(2).mean(dim=2) if seen.dim() > 2 else seen))


def same(model, rows, *, views=1, together=1, loss=cross_entropy, targets=None, channels_last=False):
    """Sums of long and of clipped gradients, by both; ``rows`` (records x views, ...)."""
    model.train()
    split = {k: v.unflatten(0, (-1, views)) for k, v in rows.items()} if isinstance(rows, dict) else None
    given_views = split or rows.unflatten(0, (-1, views))
    count = len(next(iter(given_views.values())) if split else given_views)
    targets = torch.arange(count) % CLASSES if targets is None else targets
    quick = FastGradients(model, loss, channels_last=channels_last)
    usable = torch.arange(count) % 4 != 1
    for clip in (LONG, SHORT):
        for counts in (None, usable):
            options = {"clip": clip, "usable": counts, "together": together}
            found = quick.sum_of(given_views, targets, **options)
            expected = quick.reference.clipped_sum(given_views, targets, **options)
            assert expected.norm() > 0
            assert (found - expected).norm() <= SAME * expected.norm()


@pytest.fixture(params=["chosen", "whole", "compiled", "ghost"])
def way(request, monkeypatch):
    """Each way of finding lengths, whatever the shapes would choose."""
    if request.param == "compiled":
        assert native.kernels() is not None, "these tests need a C compiler: apt-get install gcc"
        monkeypatch.setattr(sys.modules[__name__], "FastGradients", partial(FastGradients, compiled=True))
    if request.param != "chosen":
        for place in (parts, convolving):
            monkeypatch.setattr(place, "writes_out", lambda places, *_, **__: places > 1 and request.param != "ghost")
    return request.param


@st.composite
def convolutions(draw, dims):
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    before, after = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    kernel, stride, dilation = (draw(st.tuples(*[st.integers(1, most)] * dims)) for most in (4, 3, 2))
    padding = draw(st.one_of(st.tuples(*[st.integers(0, 3)] * dims), st.sampled_from(["same", "valid"])))
    stride = (1,) * dims if padding == "same" else stride
    least = [dilation[axis] * (kernel[axis] - 1) + 1 for axis in range(dims)]
    sides = [draw(st.integers(size, size + 5)) for size in least]
    kind = nn.Conv2d if dims == 2 else nn.Conv1d
    mode = "circular" if padding != "same" and min(sides) > 3 and draw(st.booleans()) else "zeros"
    layer = kind(before, after, kernel, stride, padding, dilation, groups, bias=draw(st.booleans()), padding_mode=mode)
    return layer, torch.randn(6, before, *sides), after


@pytest.mark.parametrize("dims", [1, 2])
def test_convolutions(dims, way):
    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(convolutions(dims), st.sampled_from([(1, 1), (2, 1), (1, 2), (3, 2)]), st.booleans())
    def check(case, arranged, last):
        layer, rows, after = case
        views, together = arranged
        if last and dims == 2:
            rows = rows.contiguous(memory_format=torch.channels_last)
        same(Chain(layer, width=after), rows, views=views, together=together, channels_last=last)

    check()


def test_linear_layers_over_places(way):
    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(
        st.integers(1, 9),
        st.integers(1, 12),
        st.integers(1, 12),
        st.booleans(),
        st.sampled_from([(1, 1), (2, 1), (1, 3), (2, 3)]),
    )
    def check(places, before, after, bias, arranged):
        views, together = arranged
        layer = nn.Sequential(nn.Linear(before, after, bias=bias), nn.Tanh(), nn.Linear(after, 4))
        model = Turned(layer)
        same(model, torch.randn(6, places, before), views=views, together=together)

    check()


class Turned(nn.Module):
    """Layers along the last axis, then a mean over places."""

    def __init__(self, body, width=4):
        super().__init__()
        self.body, self.head = body, nn.Linear(width, CLASSES)

    def forward(self, x):
        seen = self.body(x)
        return self.head(seen.mean(dim=1) if seen.dim() > 2 else seen)


class Tied(nn.Module):
    """One table for words and for scores; one layer used twice."""

    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(CLASSES + 4, 5), nn.Linear(5, 5)

    def forward(self, x):
        seen = torch.tanh(self.layer(torch.tanh(self.layer(self.table(x)))))
        return functional.linear(seen.mean(dim=1), self.table.weight)[:, :CLASSES]


class Scaled(nn.Module):
    """Parameters that are no layer: scales, shifts, positions, a token of its own."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 4))
        self.positions = nn.Parameter(torch.randn(1, 6, 4))
        self.scale, self.shift = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(()))
        self.mix, self.temperature = nn.Parameter(torch.randn(4, CLASSES)), nn.Parameter(torch.tensor([2.0]))

    def forward(self, x):
        seen = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        seen = torch.tanh(self.scale * seen - self.shift)
        return (seen.mean(dim=1) @ self.mix) / self.temperature


class Repeats(nn.Module):
    """A convolution used on two sizes."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Conv2d(2, 2, 3, padding=1), nn.Linear(2, CLASSES)

    def forward(self, x):
        small = self.layer(functional.avg_pool2d(self.layer(x), 2))
        return self.head(small.flatten(2).amax(dim=2))


class Encoder(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.body = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, **options)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        mask = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), diagonal=1)
        hidden = torch.zeros(x.shape[:2], dtype=torch.bool)
        hidden[:, -1] = True
        return self.head(self.body(x, src_mask=mask, src_key_padding_mask=hidden).mean(dim=1))


class Weighs(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.MultiheadAttention(8, 2), nn.Linear(8, CLASSES)

    def forward(self, x):  # rows second, as is this layer's default
        seen, weights = self.body(*[x.transpose(0, 1)] * 3)
        return self.head(seen.mean(dim=0)) + weights.mean(dim=(1, 2))[:, None]


class Overwrites(nn.Module):
    """Activations and sums in place, as many published networks have them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.head = nn.GroupNorm(2, 4), nn.Linear(4, CLASSES)

    def forward(self, x):
        seen = functional.relu(self.first(x), inplace=True)
        added = self.norm(self.second(seen))
        added += seen
        return self.head(functional.silu(added, inplace=True).mean(dim=(2, 3)))


WORDS = torch.tensor([[0, 1, 2, 2], [3, 3, 3, 3], [0, 0, 1, 6], [5, 4, 3, 2], [1, 1, 0, 0], [2, 6, 2, 6]])
CASES = {
    "embedding": (lambda: Turned(nn.Embedding(7, 4)), WORDS),
    "embedding with padding": (lambda: Turned(nn.Embedding(7, 4, padding_idx=-7)), WORDS),
    "embedding of one word": (lambda: Turned(nn.Embedding(7, 4)), WORDS[:, 0]),
    "tied": (Tied, WORDS),
    "group norm": (lambda: Chain(nn.GroupNorm(2, 4), width=4), torch.randn(6, 4, 5, 3) * 3 + 1),
    "group norm of vectors": (lambda: Chain(nn.GroupNorm(2, 4), width=4), torch.randn(6, 4)),
    "group norm of sequences": (lambda: Chain(nn.GroupNorm(4, 4), width=4), torch.randn(6, 4, 5)),
    "layer norm": (lambda: Turned(nn.LayerNorm(4)), torch.randn(6, 3, 4)),
    "layer norm of vectors": (lambda: Turned(nn.LayerNorm(4)), torch.randn(6, 4)),
    "layer norm of maps": (lambda: Chain(nn.LayerNorm([2, 3]), width=4), torch.randn(6, 4, 2, 3)),
    "layer norm without shift": (lambda: Turned(nn.LayerNorm(4, bias=False)), torch.randn(6, 3, 4)),
    "rms norm": (lambda: Turned(nn.RMSNorm(4)), torch.randn(6, 3, 4)),
    "scales and shifts": (Scaled, torch.randn(6, 5, 4)),
    "one convolution twice": (Repeats, torch.randn(6, 2, 6, 6)),
    "encoder": (Encoder, torch.randn(6, 5, 8)),
    "encoder, norm first": (lambda: Encoder(norm_first=True), torch.randn(6, 5, 8)),
    "attention with weights": (Weighs, torch.randn(6, 5, 8)),
    "in place": (Overwrites, torch.randn(6, 1, 7, 7)),
}


@pytest.mark.parametrize("arranged", [(1, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_layers(name, arranged, way):
    torch.manual_seed(0)
    model, rows = CASES[name][0](), CASES[name][1]
    views, together = arranged
    same(model, rows, views=views, together=together)
    if rows.dim() == 4:
        same(model, rows.contiguous(memory_format=torch.channels_last), views=views, channels_last=True)


def test_frozen_weights_and_frozen_layers():
    torch.manual_seed(0)
    model = Chain(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4), width=4)
    model.body[0].requires_grad_(False)
    model.body[2].weight.requires_grad_(False)
    model.body[3].bias.requires_grad_(False)
    same(model, torch.randn(6, 1, 8, 8))


def test_a_parameter_that_is_not_used_has_no_gradient():
    model = Chain(nn.Linear(4, 4), width=4)
    model.spare = nn.Parameter(torch.ones(3))
    same(model, torch.randn(6, 4))


def test_several_labels_and_losses_of_ones_own():
    torch.manual_seed(0)
    labels = torch.randint(0, 2, (6, CLASSES)).float()
    labels[0, 1] = torch.nan
    same(Chain(nn.Linear(4, 4), width=4), torch.randn(6, 4), loss=multilabel_bce(smoothing=0.1), targets=labels)

    def own(outputs, target):
        wanted = torch.arange(CLASSES) == target
        return (outputs.logsumexp(dim=1) - (outputs * wanted).sum(dim=1)).abs() + outputs.square().sum()

    same(Chain(nn.Linear(4, 4), width=4), torch.randn(12, 4), views=2, loss=own)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("linear", (1, 8, 8), {}),
        ("mlp", (1, 8, 8), {"hidden": (16, 8)}),
        ("small_cnn", (1, 28, 28), {}),
        ("small_cnn", (3, 15, 18), {"activation": "relu"}),
        ("resnet9", (3, 16, 16), {"width": 8}),
        ("embedding_head", (20,), {}),
    ],
)
def test_models(name, shape, options, channels_last):
    torch.manual_seed(0)
    model = build_model(name, inputs=shape, classes=CLASSES, **options)
    same(model, torch.randn(8, *shape), channels_last=channels_last)
    same(model, torch.randn(8, *shape), views=2, together=2, channels_last=channels_last)


def test_more_units_than_a_block():
    torch.manual_seed(0)
    rows = torch.randn(1500, 3)
    same(Chain(nn.Linear(3, 4), width=4), rows)
    same(Chain(nn.Conv1d(1, 2, 2), width=2), rows[:, None])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.integers(2, 3),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.booleans(),
)
def test_convolutions_that_are_folded_give_the_input_its_gradient(step, times, padding, more, last):
    kernel = tuple(step * count for count in times)
    sides = [max(1, size - 2 * around) + extra for size, around, extra in zip(kernel, padding, more, strict=True)]
    layer = nn.Conv2d(3, 4, kernel, stride=step, padding=padding)
    x = torch.randn(2, 3, *sides, requires_grad=True)
    given_x = x.contiguous(memory_format=torch.channels_last) if last else x
    shape = conv_shape(layer.weight, (step, step), padding, (1, 1), 1)
    assert folds(shape)
    out = layer(given_x)
    towards = torch.randn_like(out)
    (expected,) = torch.autograd.grad(out, x, towards)
    made = Folding.apply(given_x, layer.weight.detach(), layer.bias.detach(), shape, padding)
    (found,) = torch.autograd.grad(made, x, towards)
    torch.testing.assert_close(made, out)
    torch.testing.assert_close(found, expected)
