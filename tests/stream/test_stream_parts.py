"""Slabs, windows, step sizes, losses and noise: public parts, each a value that reads back."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput
from discreet.stream import (
    BalancedSlab,
    ConstantStep,
    DriftWatch,
    FixedSlab,
    GammaNoise,
    GaussianNoise,
    Hinge,
    Immediate,
    InverseStep,
    Logistic,
    MiniBatch,
    MulticlassHinge,
    ShrinkingSlab,
    SlidingWindow,
    Softmax,
    SquareRootStep,
)
from discreet.stream.losses import FINE, loss_named
from discreet.stream.optimizer import noise_from_json, step_from_json
from discreet.stream.schedules import ENDLESS, slab_from_json, window_from_json


def test_a_shrinking_slab_is_the_papers_and_counts_updates():
    slab = ShrinkingSlab()
    assert [slab.widths(updates, 2)[0] for updates in range(4)] == [1, 1 / 2, 1 / 3, 1 / 4]
    assert slab.narrowest(2) == 0
    assert slab.moves
    kept = ShrinkingSlab(0.8, power=0.5, least=0.25)
    assert kept.widths(3, 2) == (0.4, 0.4)
    assert kept.widths(1000, 2) == (0.25, 0.25)
    assert kept.narrowest(2) == 0.25
    assert not FixedSlab(0.2).moves
    assert FixedSlab(0.2).widths(10**9, 3) == (0.2,) * 3


def test_a_balanced_slab_is_wider_for_rare_classes():
    slab = BalancedSlab(0.2, [0.9, 0.1])
    common, rare = slab.widths(0, 2)
    assert rare / common == pytest.approx(math.sqrt(9))
    assert math.sqrt(rare * common) == pytest.approx(0.2)
    assert BalancedSlab(0.2, [0.9, 0.1], strength=0).widths(5, 2) == pytest.approx((0.2, 0.2))
    with pytest.raises(BadInput, match="2 shares"):
        slab.widths(0, 3)


def test_windows_close_by_arrivals_or_by_asked_ones():
    assert SlidingWindow(5).room(3, 99) == (2, ENDLESS)
    assert MiniBatch(5).room(99, 3) == (ENDLESS, 2)
    assert Immediate().room(99, 0) == (ENDLESS, 1)


def test_step_sizes_fall_as_they_say():
    assert [ConstantStep(0.5).at(t) for t in (1, 4)] == [0.5, 0.5]
    assert [InverseStep(2.0).at(t) for t in (1, 4)] == [2.0, 0.5]
    assert [SquareRootStep(2.0).at(t) for t in (1, 4)] == [2.0, 1.0]


def test_noise_is_drawn_for_its_relation():
    assert GammaNoise(epsilon=2).reach(3.0) == 3.0
    assert GammaNoise(epsilon=2, relation="replace-one").reach(3.0) == 6.0


def test_hinge_and_logistic_say_which_way():
    scores, labels = np.array([0.5, 1.5, 0.5, -1.5]), np.array([1, 1, 0, 0])
    assert Hinge().coefficients(scores, labels).tolist() == [1, 0, -1, 0]
    found = Logistic().coefficients(scores, labels)
    assert found == pytest.approx([0.3775, 0.1824, -0.6225, -0.1824], abs=1e-4)


def test_multiclass_losses_lift_the_label_and_lower_its_rivals():
    scores, labels = np.array([[0.2, 0.1, -0.4], [2.0, 0.0, 0.5]]), np.array([1, 0])
    found = MulticlassHinge().coefficients(scores, labels)
    assert found[0] == pytest.approx([-math.sqrt(0.5), math.sqrt(0.5), 0], abs=1e-4)
    assert (found[1] == 0).all()
    soft = Softmax().coefficients(scores, labels)
    assert (soft[0] < 0).tolist() == [True, False, True]
    assert soft.sum(axis=1) == pytest.approx([0, 0], abs=1e-4)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.01, 100), classes=st.integers(2, 6))
def test_coefficients_are_jointly_clipped_and_whole_multiples(seed, scale, classes):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=20)
    for loss in (Softmax(), MulticlassHinge()):
        found = loss.coefficients(scale * rng.normal(size=(20, classes)), labels)
        assert (np.einsum("ij,ij->i", found, found) <= 1 - 2.0**-21).all()
        assert (found * FINE == np.rint(found * FINE)).all()
    for binary in (Hinge(), Logistic()):
        found = binary.coefficients(scale * rng.normal(size=20), labels % 2)
        assert (np.abs(found) <= 1).all()
        assert (found * FINE == np.rint(found * FINE)).all()


def test_logistic_never_says_more_than_one():
    found = Logistic().coefficients(np.array([-800.0, 0.0, 800.0]), np.array([1, 1, 1]))
    assert found[0] == 1 - 2.0**-16
    assert found[2] == 0


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (FixedSlab(0.2), slab_from_json),
        (ShrinkingSlab(0.3, 0.5, 0.1), slab_from_json),
        (BalancedSlab(0.2, [0.9, 0.1], 1.0), slab_from_json),
        (SlidingWindow(5), window_from_json),
        (MiniBatch(7), window_from_json),
        (Immediate(), window_from_json),
        (ConstantStep(0.1), step_from_json),
        (InverseStep(3.0), step_from_json),
        (SquareRootStep(3.0), step_from_json),
        (GammaNoise(epsilon="0.3", relation="replace-one"), noise_from_json),
        (GaussianNoise(noise_multiplier=2.5), noise_from_json),
    ],
)
def test_parts_read_back_as_they_were_written(value, read):
    assert read(value.to_json()) == value
    with pytest.raises(BadInput):
        read({})
    with pytest.raises(BadInput):
        read(value.to_json() | {"another": 1})


def test_losses_have_names():
    for loss in (Hinge(), Logistic(), Softmax(), MulticlassHinge()):
        assert loss_named(loss.to_json()) == loss
        assert loss_named(loss.name) != object()
    with pytest.raises(BadInput, match="hinge, logistic"):
        loss_named("square")


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedSlab(0.0),
        lambda: FixedSlab(float("nan")),
        lambda: ShrinkingSlab(1.0, power=0.0),
        lambda: ShrinkingSlab(1.0, least=2.0),
        lambda: BalancedSlab(0.2, [1.0]),
        lambda: BalancedSlab(0.2, [0.5, -0.5]),
        lambda: BalancedSlab(0.2, [0.5, 0.5], strength=2),
        lambda: SlidingWindow(0),
        lambda: MiniBatch(2.0),
        lambda: ConstantStep(0.0),
        lambda: InverseStep(float("inf")),
        lambda: SquareRootStep(-1.0),
        lambda: GammaNoise(epsilon=0),
        lambda: GammaNoise(epsilon=1, relation="add-remove"),
        lambda: GaussianNoise(noise_multiplier=0),
        lambda: DriftWatch(epsilon=0, window=10, most=0.5),
        lambda: DriftWatch(epsilon=1, window=0, most=0.5),
        lambda: DriftWatch(epsilon=1, window=10, most=1.0),
    ],
)
def test_parts_without_meaning_are_refused(make):
    with pytest.raises(BadInput):
        make()
