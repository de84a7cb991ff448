"""The compiled kernel: the same gradients as torch's functions, and nothing lost where there is no compiler."""

import logging
import subprocess
import sys

import numpy as np
import pytest
import torch

from discreet.models import build_model
from discreet.trainers.dp_sgd import Settings
from discreet.trainers.dp_sgd.engine import native
from discreet.trainers.dp_sgd.engine.convolutions import Convolution
from discreet.trainers.dp_sgd.engine.fast import FastGradients, choose_engine
from discreet.trainers.dp_sgd.engine.patches import Shape
from discreet.trainers.dp_sgd.optimization import cross_entropy


def shaped(channels, kernel=(3, 3), stride=(1, 1), dilation=(1, 1), padding=(1, 1, 1, 1)):
    return Shape(kernel=kernel, stride=stride, dilation=dilation, padding=padding, groups=1, channels=channels)


@pytest.mark.parametrize("after", [1, 15, 16, 17, 32, 33, 40, 64])
@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        (shaped(1, (8, 8), (2, 2), padding=(3, 1, 3, 1)), 1),
        (shaped(5, (2, 4), (1, 2), padding=(0, 0, 0, 0)), 1),
        (shaped(3, (3, 2), (2, 1), (2, 3), (1, 2, 0, 4)), 2),
        (shaped(13, (1, 1), padding=(0, 0, 0, 0)), 3),
    ],
)
def test_gradients_and_squares_are_those_of_torch(shape, rows, after):
    torch.manual_seed(0)
    units = 5
    images = torch.randn(units * rows, shape.channels, 11, 12)
    gradients = torch.randn(units * rows, after, *shape.places(11, 12))
    weight = torch.zeros(after, shape.channels, *shape.kernel)
    plain = Convolution(images, gradients, weight, shape, units=units)
    quick = Convolution(images, gradients, weight, shape, units=units, kernels=native.kernels())
    torch.testing.assert_close(quick.whole(), plain.whole(), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(quick.settled().squares(), plain.whole().double().square().sum(dim=1), rtol=1e-5, atol=0)
    totals = [torch.empty(weight.numel(), dtype=torch.float64) for _ in range(2)]
    for part, total in zip((plain, quick), totals, strict=True):
        part.settled().put(torch.linspace(0.1, 1, units), total, without=None)
    torch.testing.assert_close(*totals, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("channels", [1, 7, 16, 192, 193, 400])
@pytest.mark.parametrize("last", [True, False])
def test_sums_of_a_normalisation_are_those_of_torch(channels, last):
    torch.manual_seed(0)
    values, slopes = torch.randn(3, channels, 5, 6), torch.randn(3, channels, 5, 6)
    if last:
        values, slopes = (part.contiguous(memory_format=torch.channels_last) for part in (values, slopes))
    scales, shifts = native.kernels().normalized(values, slopes)
    torch.testing.assert_close(scales, (values * slopes).flatten(2).sum(dim=2), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(shifts, slopes.flatten(2).sum(dim=2), rtol=1e-4, atol=1e-5)


def test_what_is_not_a_number_stays_in_its_own_record():
    torch.manual_seed(0)
    images, gradients = torch.randn(4, 2, 6, 6), torch.randn(4, 3, 6, 6)
    images[1, 0, 2, 2], gradients[2, 1, 0, 0] = float("nan"), float("inf")
    part = Convolution(images, gradients, torch.zeros(3, 2, 3, 3), shaped(2), units=4, kernels=native.kernels())
    squares = part.settled().squares()
    assert torch.isfinite(squares).tolist() == [True, False, False, True]
    alone = Convolution(
        images[3:], gradients[3:], torch.zeros(3, 2, 3, 3), shaped(2), units=1, kernels=native.kernels()
    ).settled()
    assert torch.equal(alone.squares(), squares[3:])


def test_groups_doubles_and_other_devices_are_left_to_torch():
    images, gradients = torch.randn(2, 4, 5, 5), torch.randn(2, 6, 5, 5)
    assert native.takes(images, gradients)
    assert not native.takes(images, gradients, groups=2)
    assert not native.takes(images.double(), gradients.double())
    assert not native.takes(images.to("meta"), gradients.to("meta"))


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(6, 1, 1, 28, 28)).astype(np.float32)), torch.arange(6) % 3


def test_a_model_of_images_is_tried_with_the_kernel(images):
    model = build_model("small_cnn", inputs=(1, 28, 28), classes=3)
    assert choose_engine(model, cross_entropy, [images], compiled=True).compiled
    assert not choose_engine(model, cross_entropy, [images]).compiled
    assert not choose_engine(
        build_model("mlp", inputs=(1, 28, 28), classes=3), cross_entropy, [images], compiled=True
    ).compiled


def test_a_kernel_that_is_wrong_is_not_trusted(images, monkeypatch):
    right = native.Kernels.written

    def wrong(*given):
        made = right(*given)
        made[:, 0] *= 1.5
        return made

    monkeypatch.setattr(native.Kernels, "written", wrong)
    model = build_model("small_cnn", inputs=(1, 28, 28), classes=3)
    way = choose_engine(model, cross_entropy, [images], compiled=True)
    assert way.fast
    assert not way.compiled


@pytest.mark.parametrize("compiler", ["/nowhere/cc", "false"])
def test_without_a_compiler_torch_does_it(images, monkeypatch, caplog, compiler):
    monkeypatch.setenv("CC", compiler)
    native.kernels.cache_clear()
    try:
        with caplog.at_level(logging.WARNING, logger="discreet.trainers.dp_sgd"):
            model = build_model("small_cnn", inputs=(1, 28, 28), classes=3)
            quick = FastGradients(model, cross_entropy, compiled=True)
            found = quick.sum_of(*images, clip=1.0)
            FastGradients(model, cross_entropy, compiled=True)
        assert [record.getMessage().startswith("no kernels could be compiled") for record in caplog.records] == [True]
        expected = quick.reference.clipped_sum(*images, clip=1.0)
        assert (found - expected).norm() < 1e-4 * expected.norm()
    finally:
        native.kernels.cache_clear()


def test_nothing_is_left_on_disk(tmp_path):
    code = "from discreet.trainers.dp_sgd.engine.native import kernels; assert kernels() is not None"
    subprocess.run([sys.executable, "-c", code], check=True, env={"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_is_not_there():
    with pytest.raises(Exception, match="Choose auto, compiled or reference"):
        Settings(engine="fastest")
