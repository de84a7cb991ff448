"""The image models are the published ones: their sizes, their padding, their normalisation."""

import pytest
import torch
from torch.nn import functional

from discreet.errors import BadInput
from discreet.models import build_model


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
    assert found.shape[-2:] == (outputs, outputs)
    torch.testing.assert_close(found, expected)


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
