"""From a record to a vector: bounded in real arithmetic, the same alone and among others, of public constants."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from discreet.components import into_ball, sum_error
from discreet.errors import BadInput
from discreet.stream.columns import ChoiceColumn, NumberColumn, RecordSchema
from discreet.stream.preparation import Preparation, components_of, constants_of


def exactly_within(row, radius):
    return sum(Fraction(float(value)) ** 2 for value in row) <= Fraction(radius) ** 2


@settings(deadline=None, max_examples=300)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=st.floats(width=64)),
    st.sampled_from([1.0, 0.1, 3.7, 1e-50, 1e50]),
)
def test_rows_are_within_the_ball_in_real_arithmetic(rows, radius):
    found = into_ball(rows, radius)
    for before, after in zip(rows, found, strict=True):
        assert exactly_within(after, radius)
        assert into_ball(before, radius).tobytes() == after.tobytes()
        if not np.isfinite(before).all():
            assert not after.any()


def test_a_long_vector_keeps_its_direction_and_a_short_one_itself():
    found = into_ball([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [3e300, 4e300], [3e-310, 4e-310]], 1.0)
    assert np.allclose(found[[0, 3]], [0.6, 0.8], rtol=1e-14)
    assert found[1].tolist() == [0.3, 0.4]
    assert found[2].tolist() == [0.0, 0.0]
    assert found[4].tolist() == [3e-310, 4e-310]


@pytest.mark.parametrize("radius", [0, -1, math.inf, math.nan, "1", True, None])
def test_a_radius_is_a_positive_number(radius):
    with pytest.raises(BadInput, match="radius"):
        into_ball([1.0], radius)


@pytest.mark.parametrize("vectors", [3.0, [[[1.0]]], "text", [[1.0], [1.0, 2.0]]])
def test_what_is_no_vector_is_refused(vectors):
    with pytest.raises(BadInput):
        into_ball(vectors, 1.0)


def test_a_sum_that_could_be_all_rounding_is_refused():
    assert sum_error(100) > 100 * 2.0**-53
    with pytest.raises(BadInput, match="rounding"):
        sum_error(10**15)


def whole():
    schema = RecordSchema(
        columns=(NumberColumn(name="a"), NumberColumn(name="b"), ChoiceColumn(name="c", values=("x", "y")))
    )
    chance = np.random.default_rng(3)
    made = Preparation(schema=schema, radius=2.0).with_constants([1.0, 2.0, 0, 0], [2.0, 1.0, 1, 1], origin="public")
    return made.with_components(chance.normal(size=(3, 4)), origin="paid")


def test_the_steps_come_in_their_order():
    made = whole()
    assert (made.inputs, made.width) == (4, 3)
    row = made.one({"a": 3, "b": 2.5, "c": "y"})
    assert np.allclose(row, into_ball(made.components @ np.array([1.0, 0.5, 0.0, 1.0]), 2.0))
    assert Preparation(inputs=2).rows([[3.0, 4.0]])[0] == pytest.approx([0.6, 0.8])


def test_a_record_is_prepared_the_same_alone_and_among_others():
    chance = np.random.default_rng(5)
    made = Preparation(inputs=37).with_components(chance.normal(size=(11, 37)), origin="declared")
    rows = chance.normal(size=(64, 37)) * 10.0 ** chance.integers(-5, 5, (64, 1))
    together = made.many(rows)
    for row, found in zip(rows, together, strict=True):
        assert made.one(row).tobytes() == found.tobytes()
        assert made.many([row.tolist(), [1.0]])[0].tobytes() == found.tobytes()


@pytest.mark.parametrize("record", [None, "x", [1.0], [1.0, float("nan")], [1.0, 10**400], {}, [[1.0, 2.0]]])
def test_a_record_that_cannot_be_read_is_a_null(record):
    made = Preparation(inputs=2, center=5.0)
    assert np.isnan(made.one(record)).all()
    assert made.many([record, [5.0, 6.0]])[1] == pytest.approx([0.0, 1.0])


def test_of_columns_only_what_is_no_record_is_a_null():
    made = whole()
    assert np.isnan(made.many([None, 3, [1.0]])).all()
    assert np.isfinite(made.many([{}, {"a": "?"}])).all()


def test_errors_show_no_values():
    made = Preparation(inputs=2)
    words = np.array([["secret", "1"], ["2", "3"]])
    assert np.isnan(made.many(words)[0]).all()
    with pytest.raises(BadInput) as told:
        made.rows([["secret", 1.0]])
    assert "secret" not in str(told.value)
    assert told.value.__cause__ is None


def test_an_array_of_another_width_is_a_mistake_of_the_caller():
    with pytest.raises(BadInput, match="rows of 2 numbers"):
        Preparation(inputs=2).many(np.ones((3, 4)))


def test_it_reads_back_from_json_to_the_bit():
    made = whole()
    again = Preparation.from_json(json.loads(json.dumps(made.to_json())))
    records = [{"a": 0.1, "b": 7, "c": "x"}, {"a": None}]
    assert again.digest == made.digest
    assert again.many(records).tobytes() == made.many(records).tobytes()
    assert again.components_origin == "paid"
    with pytest.raises(BadInput):
        Preparation.from_json(made.to_json() | {"more": 1})
    assert "4 inputs to 3 features" in repr(made)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"inputs": 0},
        {"inputs": 2, "center": [1.0, 2.0, 3.0]},
        {"inputs": 2, "center": float("inf")},
        {"inputs": 2, "scale": 0.0},
        {"inputs": 2, "scale": "much"},
        {"inputs": 2, "components": [[1.0]]},
        {"inputs": 2, "components": [[1.0, float("nan")]]},
        {"inputs": 2, "components": np.empty((0, 2))},
        {"inputs": 2, "constants_origin": "fitted"},
        {"inputs": 3, "schema": RecordSchema(columns=(NumberColumn(name="a"),))},
    ],
)
def test_preparations_that_mean_nothing_are_refused(options):
    with pytest.raises(BadInput):
        Preparation(**options)


# -- a public sample


def test_constants_of_a_public_sample():
    sample = np.array([[0.0, 5.0, 7.0], [4.0, 5.0, 9.0]])
    center, scale = constants_of(sample)
    assert (center.tolist(), scale.tolist()) == ([2, 5, 8], [2, 1, 1])  # what never changes has scale 1
    center, scale = constants_of(sample, by="range")
    assert (center.tolist(), scale.tolist()) == ([0, 5, 7], [4, 1, 2])
    for broken in ([[1.0, 2.0]], [1.0, 2.0], [[1.0], [float("nan")]], "x"):
        with pytest.raises(BadInput, match="public sample"):
            constants_of(broken)
    with pytest.raises(BadInput, match="no such way"):
        constants_of(sample, by="median")


def test_components_of_a_public_sample_are_its_principal_ones():
    from sklearn.decomposition import PCA

    chance = np.random.default_rng(1)
    sample = chance.normal(size=(500, 6)) * [5, 4, 3, 2, 1, 0.5] @ chance.normal(size=(6, 6))
    centred = Preparation(inputs=6).with_constants(sample.mean(axis=0), 1.0, origin="public").scaled(sample)
    ours, theirs = components_of(centred, 3), PCA(3).fit(sample).components_
    assert np.allclose(np.abs((ours * theirs).sum(axis=1)), 1, atol=1e-9)
    assert (ours[np.arange(3), np.abs(ours).argmax(axis=1)] > 0).all()
    for count in (0, 7, 2.0):
        with pytest.raises(BadInput, match="components"):
            components_of(sample, count)
