"""Scattering: the published formulas, kymatio's numbers, the contract, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.features import Scattering, build_feature_map, feature_map_from_json
from discreet.features.morlet import wavelet_spectra
from discreet.testing import check_feature_map

KYMATIO = np.load(Path(__file__).parents[1] / "golden/kymatio_scattering.npz")
"""By "J L order shape": what kymatio 0.3.0's torch backend makes of `pictures(shape)`."""


def pictures(shape):
    places = np.arange(2 * np.prod(shape)).reshape(2, *shape)
    return (places * 7919 % 256 / 255).astype(np.float32)


@pytest.mark.parametrize("case", KYMATIO.files)
def test_it_has_the_numbers_of_kymatio(case):
    scales, angles, order, sides = case.split()
    shape = tuple(int(side) for side in sides.split("x"))
    made = Scattering(input_shape=shape, scales=int(scales), angles=int(angles), order=int(order), groups=0)
    values = made.transform(pictures(shape))
    assert values.shape == (2, *made.output_shape)
    assert np.abs(values - KYMATIO[case].reshape(values.shape)).max() < 5e-5


def test_one_path_is_the_definition():
    """Convolutions by their sums, on the padded picture, without a Fourier transform."""
    picture, (scale, angle) = pictures((12, 12))[0], (1, 3)
    padded = np.pad(picture, 4, mode="reflect").astype(float)
    size, place = len(padded), 1 + 1 * 8 + angle
    turn, width = (3 - angle) * np.pi / 8, 0.8 * 2**scale
    rows, columns = np.meshgrid(np.arange(-40, 41), np.arange(-40, 41), indexing="ij")
    forth = np.cos(turn) * rows + np.sin(turn) * columns
    aside = -np.sin(turn) * rows + np.cos(turn) * columns
    envelope = np.exp(-(forth**2 + aside**2 / 4) / (2 * width**2)) / (4 * np.pi * width**2)
    wave = envelope * np.exp(1j * 0.75 * np.pi / 2**scale * forth)
    wavelet = wave - wave.sum() / envelope.sum() * envelope
    round_width = 1.6
    smooth = np.exp(-(rows**2 + columns**2) / (2 * round_width**2)) / (2 * np.pi * round_width**2)

    def convolved(field, kernel, row, column):
        at_rows, at_columns = (row - rows) % size, (column - columns) % size
        return (field[at_rows, at_columns] * kernel).sum()

    field = np.array([[abs(convolved(padded, wavelet, row, column)) for column in range(size)] for row in range(size)])
    expected = [[convolved(field, smooth, row, column) for column in (4, 8, 12)] for row in (4, 8, 12)]
    found = Scattering(input_shape=(12, 12), groups=0).transform(picture[None])[0, place]
    assert np.abs(found - expected).max() < 5e-3  # samples of the second layer's input are every second pixel


def test_wavelets_have_no_mean_and_their_frequency():
    spectra = wavelet_spectra((64, 64), 1, 8)
    assert np.abs(spectra[:, 0, 0]).max() < 1e-9
    row, column = np.unravel_index(spectra[3].argmax(), (64, 64))  # the wave along the rows
    assert column == 0
    assert abs(row - 0.75 / 2 * 32) <= 1


def test_it_keeps_the_contract():
    for made in (
        lambda: Scattering(input_shape=(1, 12, 13)),
        lambda: Scattering(input_shape=(3, 8, 9), scales=1, groups=0),
        lambda: Scattering(input_shape=(32, 32)),
    ):
        shape = made().input_shape
        check_feature_map(made, np.random.default_rng(0).random((8, *shape)).astype(np.float32))


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_number_of_threads_changes_no_bit(threads, monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)
    made, rows = Scattering(input_shape=(28, 28)), np.random.default_rng(0).random((300, 28, 28)).astype(np.float32)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    values = made.transform(rows)
    alone = np.concatenate([made.transform(rows[place : place + 1]) for place in (0, 31, 32, 137, 299)])
    assert np.array_equal(alone, values[[0, 31, 32, 137, 299]])
    assert np.array_equal(made.transform(rows[::-1])[::-1], values)


def test_groups_are_those_of_torch():
    torch = pytest.importorskip("torch")
    rows = pictures((3, 16, 16))
    plain = torch.from_numpy(Scattering(input_shape=(3, 16, 16), groups=0).transform(rows))
    made = Scattering(input_shape=(3, 16, 16))
    assert made.groups == 81
    expected = torch.nn.functional.group_norm(plain, 81).numpy()
    assert np.abs(made.transform(rows) - expected).max() < 2e-3
    assert made.norm_bound == pytest.approx(np.sqrt(made.output_size), rel=1e-4)


def test_a_picture_of_one_shade_is_finite_and_short():
    made = Scattering(input_shape=(16, 16))
    for shade in (0.0, 1.0, 1e6):
        values, fine = made.readable(np.full((1, 16, 16), shade, dtype=np.float32))
        assert fine.all()
        assert np.linalg.norm(values) <= made.norm_bound


def test_a_picture_that_overflows_is_a_null():
    made = Scattering(input_shape=(16, 16))
    rows = np.random.default_rng(0).random((3, 16, 16)) * np.array([1, 1e39, 1e300])[:, None, None]
    values, fine = made.readable(rows)
    assert fine.tolist() == [True, False, False]
    assert not values[1:].any()


def test_bytes_are_pictures_too():
    made, rows = Scattering(input_shape=(16, 16)), (pictures((16, 16)) * 255).astype(np.uint8)
    assert np.array_equal(made.transform(rows), made.transform(rows.astype(np.float64)))


@pytest.mark.parametrize(
    ("shape", "channels", "groups"), [((28, 28), 81, 27), ((1, 28, 28), 81, 27), ((3, 32, 32), 243, 81)]
)
def test_the_usual_sizes(shape, channels, groups):
    made = build_feature_map("scattering", shape=shape)
    assert (made.output_shape[0], made.groups) == (channels, groups)
    assert made.output_shape[1:] == (shape[-1] // 4, shape[-1] // 4)
    assert feature_map_from_json(made.identity()) == made


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shape": (784,)}, "not pictures"),
        ({"shape": (28, 28), "scales": 9}, "whole number from 1 to 8"),
        ({"shape": (28, 28), "order": 3}, "1 to 2"),
        ({"shape": (7, 28), "scales": 3}, "fewer scales"),
        ({"shape": (28, 28), "groups": 5}, "do not divide"),
        ({"shape": (0, 28)}, "not the shape"),
        ({"shape": (28, 28), "depth": 1}, "no such option"),
        ({}, "not declared"),
    ],
)
def test_what_cannot_be_is_refused(options, says):
    with pytest.raises(BadInput, match=says):
        build_feature_map("scattering", **options)


def test_records_of_another_shape_are_refused_without_being_shown():
    made = Scattering(input_shape=(16, 16))
    for rows in (np.full((2, 16, 17), 0.123), np.array([["0.123"] * 16] * 16)[None]):
        with pytest.raises(BadInput, match="shape") as refused:
            made.transform(rows)
        assert "0.123" not in str(refused.value)
