"""Turns and flips: the group, its convolutions, and a network whose output does not see them."""

import itertools

import pytest
import torch
from model_cases import one_by_one

from discreet.models import build_model
from discreet.models.resnet9 import (
    GROUPS,
    GroupConv,
    LiftingConv,
    SymmetricNorm,
    invariant_pool,
    symmetric_pool,
)

DOUBLE = torch.float64


def turned(maps, group, element):
    """What a turned input makes of maps over the group: turned places, moved orientations."""
    whole = maps.unflatten(1, (-1, group.order))
    moved = whole[:, :, group.sources(element)]
    return group.act(element, moved).flatten(1, 2)


@pytest.fixture(params=sorted(GROUPS))
def group(request):
    return GROUPS[request.param]


def shaken(module):
    """Weights as after training: away from their initial ones and zeros."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator, dtype=weight.dtype), alpha=0.3)
    return module


def test_products_and_inverses_are_those_of_the_turns(group):
    image = torch.arange(9.0).reshape(3, 3)
    elements = range(group.order)
    assert len({tuple(group.act(g, image).flatten().tolist()) for g in elements}) == group.order
    for g, h in itertools.product(elements, elements):
        assert torch.equal(group.act(g, group.act(h, image)), group.act(group.product(g, h), image))
    assert all(group.product(g, group.inverse(g)) == group.product(group.inverse(g), g) == 0 for g in elements)


@pytest.mark.parametrize("side", [6, 7])
def test_the_layers_are_equivariant(group, side):
    lift = shaken(LiftingConv(2, 3, group=group).double())
    layers = {
        "group convolution": shaken(GroupConv(3, 4, group=group).double()),
        "five by five": shaken(GroupConv(3, 2, group=group, kernel=5).double()),
        "normalisation": shaken(SymmetricNorm(3, group=group, groups=3).double()),
        "pooling": symmetric_pool,
        "activation": torch.nn.Mish(),
    }
    x = torch.randn(2, 2, side, side, dtype=DOUBLE)
    maps = torch.randn(2, 3 * group.order, side, side, dtype=DOUBLE)
    for element in range(group.order):
        torch.testing.assert_close(lift(group.act(element, x)), turned(lift(x), group, element))
        for name, layer in layers.items():
            found, expected = layer(turned(maps, group, element)), turned(layer(maps), group, element)
            torch.testing.assert_close(found, expected, msg=name)
        torch.testing.assert_close(invariant_pool(turned(maps, group, element), group), invariant_pool(maps, group))


def test_an_ordinary_convolution_and_ordinary_pooling_fail_the_same_test(group):
    conv = torch.nn.Conv2d(2, 3 * group.order, 3, padding=1, bias=False).double()
    x = torch.randn(2, 2, 7, 7, dtype=DOUBLE)
    assert not torch.allclose(conv(group.act(1, x)), turned(conv(x), group, 1))
    maps = torch.randn(2, 3 * group.order, 7, 7, dtype=DOUBLE)
    pool = torch.nn.MaxPool2d(2)
    assert not torch.allclose(pool(turned(maps, group, 1)), turned(pool(maps), group, 1))


@pytest.mark.parametrize(("height", "width"), [(16, 16), (17, 17), (19, 22), (32, 32)])
def test_the_output_does_not_see_turns_or_flips(group, height, width):
    model = build_model("equivariant_resnet9", inputs=(3, height, width), classes=5, width=2, group=group.name)
    model = shaken(model)
    x = torch.randn(2, 3, height, width)
    with torch.no_grad():
        expected = model(x)
        for element in range(group.order):
            torch.testing.assert_close(model(group.act(element, x)), expected, rtol=1e-4, atol=1e-4)
        assert not torch.allclose(model(x.roll(5, -1) * 1.5 + x), expected, atol=1e-2)  # it does see other changes


def test_c4_sees_a_flip_and_d4_does_not():
    x = torch.randn(2, 1, 16, 16, dtype=DOUBLE)
    for name, blind in (("c4", False), ("d4", True)):
        model = shaken(build_model("equivariant_resnet9", inputs=(1, 16, 16), classes=5, width=2, group=name).double())
        assert torch.allclose(model(x.flip(-1)), model(x), atol=1e-8) == blind


def test_the_gradient_of_a_turned_record_is_the_same(group):
    """So turning a record for augmentation adds nothing, and its share of the clipped sum is the same."""
    model = build_model("equivariant_resnet9", inputs=(1, 16, 16), classes=3, width=1, group=group.name).double()
    x = torch.randn(1, 1, 16, 16, dtype=DOUBLE)
    label = torch.tensor([1])
    first = one_by_one(model, x, label)
    again = one_by_one(model, group.act(3, x), label)
    for name in first:
        torch.testing.assert_close(first[name], again[name], rtol=1e-8, atol=1e-10)
