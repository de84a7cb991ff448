"""Random Fourier features: the kernel, the stream of the directions, on top of other maps, and the contract."""

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.features import HashedText, RandomFourier, Scattering, build_feature_map, feature_map_from_json
from discreet.testing import check_feature_map

ROWS = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float32)


def test_inner_products_are_about_the_kernel():
    values = RandomFourier(input_shape=(6,), size=20_000, lengthscale=3.0).transform(ROWS).astype(float)
    distances = ((ROWS[:, None] - ROWS) ** 2).sum(axis=2)
    assert np.abs(values @ values.T - np.exp(-distances / 18)).max() < 0.04


def test_the_directions_are_these_in_every_version():
    made = RandomFourier(input_shape=(3,), size=4, lengthscale=2.0, seed=7)
    assert made.directions.astype(float).round(5).tolist() == KNOWN


KNOWN = [[1.05978, -0.48964, -0.41029], [0.56813, -0.334, 0.95761]]


def test_directions_are_normal_and_differ_by_seed():
    one, other = (RandomFourier(input_shape=(50,), size=2000, lengthscale=1.0, seed=seed).directions for seed in (0, 1))
    assert abs(one.mean()) < 0.02
    assert one.std() == pytest.approx(1, abs=0.02)
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.02


def test_it_keeps_the_contract():
    check_feature_map(lambda: RandomFourier(input_shape=(6,), size=64, lengthscale=2.0), ROWS)
    on_text = RandomFourier(base=HashedText(size=64), size=32)
    check_feature_map(lambda: on_text, ["one", "two words", "three more words", ""], nulls=[None])


def test_on_pictures_it_reads_back():
    made = build_feature_map("random-fourier", base=Scattering(input_shape=(12, 12)), size=32, seed=3)
    assert made.lengthscale == made.base.norm_bound
    stored = feature_map_from_json(made.identity())
    assert stored == made
    pictures = np.random.default_rng(0).random((3, 12, 12))
    assert np.array_equal(stored.transform(pictures), made.transform(pictures))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shape": (6,)}, "no bound"),
        ({"shape": (6,), "size": 7, "lengthscale": 1}, "odd"),
        ({"shape": (6,), "seed": -1, "lengthscale": 1}, "whole number"),
        ({"base": Scattering(input_shape=(12, 12), groups=0)}, "no bound"),
        ({}, "not declared"),
    ],
)
def test_what_cannot_be_is_refused(options, says):
    with pytest.raises(BadInput, match=says):
        build_feature_map("random-fourier", **options)
