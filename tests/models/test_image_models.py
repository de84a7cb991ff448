"""The image models are the published ones: their sizes, their padding, their normalisation."""

import pytest
import torch
from torch.nn import functional

from discreet.errors import BadInput
from discreet.models import build_model
from discreet.models.layers import MaxPool


def size(model):
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize(
    ("name", "inputs", "options", "parameters"),
    [
        # TensorFlow Privacy's tutorial network, as its own summary counts it
        ("small_cnn", (1, 28, 28), {}, 26_010),
        # the same by hand on SVHN: 3 * 16 * 64 + 16, 8,224, 32 * 25 * 32 + 32, 330
        ("small_cnn", (3, 32, 32), {}, 3_088 + 8_224 + 25_632 + 330),
        # Klause et al.'s code with group normalisation and scale_norm=True
        ("resnet9", (3, 32, 32), {}, 2_448_714),
        # by hand: the lifting convolution, group ones of 72 weights a pair of channels, 10 norms, a head of 4 width
        ("equivariant_resnet9", (3, 32, 32), {"group": "d4"}, 216 + 72 * 8 * 8 * 66 + 2 * 232 + 330),
        ("equivariant_resnet9", (3, 32, 32), {"group": "c4"}, 432 + 36 * 16 * 16 * 66 + 2 * 464 + 650),
        ("linear", (1, 28, 28), {}, 7_850),
        ("mlp", (1, 28, 28), {}, 784 * 256 + 256 + 2_570),
    ],
)
def test_parameters_are_as_many_as_published(name, inputs, options, parameters):
    assert size(build_model(name, inputs=inputs, classes=10, **options)) == parameters


@pytest.mark.parametrize("side", [13, 27, 28])
def test_the_first_convolution_pads_as_tensorflow_does(side):
    """'Same' with stride 2 and kernel 8: ceil(n / 2) outputs, the odd zero after, not before."""
    model = build_model("small_cnn", inputs=(1, side, side), classes=10).double()
    x = torch.randn(2, 1, side, side, dtype=torch.float64)
    outputs = -(-side // 2)
    total = (outputs - 1) * 2 + 8 - side
    pad = (total // 2, total - total // 2)
    conv = model.first[1]
    expected = functional.conv2d(functional.pad(x, (*pad, *pad)), conv.weight, conv.bias, stride=2)
    found = model.first[:2](x)
    rows = found.shape[-1]
    assert rows == 2 * model.second[0](model.first(x)).shape[-1] + 3  # pooled, the second one reads all of it
    torch.testing.assert_close(found, expected[..., :rows, :rows])


def as_published(model, x, activation):
    """The small CNN in stock functions: every row computed, the activation before the pooling."""
    (first, second), dense = (model.first[1], model.second[0]), model.dense
    extra = (3, 3 + x.shape[-1] % 2, 3, 3 + x.shape[-2] % 2)
    maps = functional.conv2d(functional.pad(x, extra), first.weight, first.bias, stride=2)
    maps = functional.max_pool2d(activation(maps), 2, stride=1)
    maps = functional.conv2d(maps, second.weight, second.bias, stride=2)
    maps = functional.max_pool2d(activation(maps), 2, stride=1)
    return model.head(activation(functional.linear(maps.flatten(1), dense.weight, dense.bias)))


@pytest.mark.parametrize(("height", "width"), [(28, 28), (13, 30), (27, 32), (15, 14), (16, 29), (18, 31)])
@pytest.mark.parametrize("name", ["relu", "tanh", "gelu"])
def test_small_cnn_is_the_published_network_gradients_included(name, height, width):
    """Neither the order of pooling and activation, nor slices, nor rows that nobody reads show in the outcome."""
    model = build_model("small_cnn", inputs=(2, height, width), classes=4, activation=name).double()
    x = torch.randn(3, 2, height, width, dtype=torch.float64)
    x[:, :, : height // 2] = 0  # blank regions: ties in every window
    expected = as_published(model, x, getattr(functional, name))
    torch.testing.assert_close(model(x), expected, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected, rtol=1e-12, atol=1e-12)
    weights = list(model.parameters())
    found, wanted = (torch.autograd.grad(out.square().sum(), weights) for out in (model(x), expected))
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("window", "stride"), [(2, 1), (2, 2), (3, 1), (3, 2), (2, 3)])
def test_pooling_by_slices_is_torchs_own(window, stride, layout):
    maps = torch.randn(2, 3, 8, 7).round(decimals=1).to(memory_format=layout)
    maps[0, 1, 3, 4], maps[1, 0, 0, 0], maps[1, 2, 5, 6] = float("nan"), float("-inf"), float("inf")
    pool = MaxPool(window, stride=stride)
    expected = functional.max_pool2d(maps, window, stride)
    for given, wanted in ((maps, expected), (maps[0], expected[0])):
        with torch.no_grad():
            torch.testing.assert_close(pool(given), wanted, rtol=0, atol=0, equal_nan=True)
    with torch.no_grad():
        torch.testing.assert_close(torch.vmap(pool)(maps), expected, rtol=0, atol=0, equal_nan=True)
        with pytest.raises(RuntimeError):
            pool(maps[..., :1])


def test_pooling_gives_the_gradient_of_a_tie_to_one_place():
    """As torch does: halves would be another gradient on blank pictures than the one published results have."""
    maps = torch.zeros(1, 1, 3, 3, requires_grad=True)
    MaxPool(2, stride=1)(maps).sum().backward()
    assert sorted(maps.grad.flatten().tolist()) == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    per_record = torch.func.vmap(torch.func.grad(lambda one: MaxPool(2, stride=1)(one).sum()))(torch.zeros(2, 1, 3, 3))
    torch.testing.assert_close(per_record, maps.grad.expand(2, 1, 3, 3))


def test_what_falls_is_never_pooled_first():
    for name, swapped in (("relu", True), ("tanh", True), ("mish", False), ("gelu", False)):
        small = build_model("small_cnn", inputs=(1, 13, 13), classes=2, activation=name)
        residual = build_model("resnet9", inputs=(1, 16, 16), classes=2, width=2, activation=name)
        for pooled in (small.first, small.second, residual.stem[1]):
            assert isinstance(pooled[-1], torch.nn.MaxPool2d) != swapped


@pytest.mark.parametrize(("height", "width"), [(13, 13), (13, 64), (31, 14)])
def test_small_cnn_takes_any_image_from_13(height, width):
    model = build_model("small_cnn", inputs=(2, height, width), classes=4, activation="relu")
    assert model(torch.zeros(3, 2, height, width)).shape == (3, 4)
    assert model.features(torch.zeros(3, 2, height, width)).shape == (3, 32)


def test_small_cnn_refuses_smaller_images():
    with pytest.raises(BadInput, match="at least 13 x 13"):
        build_model("small_cnn", inputs=(1, 12, 28), classes=10)


@pytest.mark.parametrize("name", ["resnet9", "equivariant_resnet9"])
@pytest.mark.parametrize(("height", "width"), [(16, 16), (16, 23), (33, 18)])
def test_residual_networks_take_any_image_from_16(name, height, width):
    model = build_model(name, inputs=(1, height, width), classes=4, width=2)
    assert model(torch.randn(2, 1, height, width)).shape == (2, 4)


def test_scale_normalisation_brings_the_sum_of_two_branches_back_to_unit_scale():
    model = build_model("resnet9", inputs=(3, 32, 32), classes=10, width=8)
    for branch in (model.first_residual, model.second_residual):
        torch.nn.init.constant_(branch[1][1].weight, 7.0)  # as training may leave it
    seen = {}
    for name in ("first_scale", "second_scale"):
        getattr(model, name).register_forward_hook(
            lambda _, given, out, name=name: seen.update({name: (given[0].std().item(), out.std().item())})
        )
    with torch.no_grad():
        model(torch.randn(4, 3, 32, 32))
    for before, after in seen.values():
        assert before > 3
        assert after == pytest.approx(1, abs=0.02)


def test_a_width_that_32_groups_do_not_divide_has_fewer_groups():
    model = build_model("resnet9", inputs=(3, 16, 16), classes=10, width=12)
    assert model.first_scale.num_groups == 8  # of 24 channels
