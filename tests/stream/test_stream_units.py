"""Whole steps: sums are exact in any order, |x| <= M holds exactly, and what is not finite is a null."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput
from discreet.stream.linear_model import Ball, Linear, RecordReader


def in_steps(ball, weights):
    """Weights projected onto a ball, in its steps."""
    length = np.linalg.norm(weights)
    return np.trunc(weights * (min(1.0, ball.radius * (1 - 2.0**-50) / length) if length else 1.0) / ball.step)


def exactly(vector):
    return [Fraction(float(number)) for number in vector]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    radius=st.sampled_from([1.0, 0.3, 7.5, 2.0**-20, 1e6]),
    size=st.integers(1, 40),
    stretch=st.sampled_from([0.01, 0.999, 1.0, 1.001, 3.0, 1e20, 1e290]),
)
def test_records_are_in_the_ball_exactly_and_near_where_they_were(seed, radius, size, stretch):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(8, size))
    x /= np.linalg.norm(x, axis=1)[:, None]
    x *= stretch * radius
    ball = Ball(radius, size)
    many, nulls = ball.many(x)
    assert not nulls.any()
    for row, found in zip(x, many, strict=True):
        assert np.array_equal(ball.one(row), found)
        assert sum(n * n for n in exactly(found)) <= Fraction(ball.reach) ** 2
        assert (found == np.trunc(found)).all()
        wanted = row / max(stretch, 1.0)
        assert np.abs(found * ball.step - wanted).max() <= 1e-6 * radius


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 300), rows=st.sampled_from([1, 3]))
def test_scores_are_exact_whatever_the_order(seed, size, rows):
    rng = np.random.default_rng(seed)
    records, model = Ball(1.0, size), Ball(1.0, size * rows)
    x = rng.normal(size=(5, size)) / np.sqrt(size)
    linear = Linear(model, records, rows)
    linear.set(in_steps(model, rng.normal(size=size * rows) * rng.choice([0.01, 1.0, 50.0])))
    assert float(np.linalg.norm(linear.weights)) <= 1
    steps, _ = records.many(x)
    scores = linear.scores(steps)
    order = rng.permutation(size)
    for row, score in zip(steps, scores, strict=True):
        for weights, one in zip(linear.rows, np.atleast_1d(score), strict=True):
            true = sum(a * b for a, b in zip(exactly(row), exactly(weights), strict=True))
            assert Fraction(float(one)) == true == Fraction(float(row[order].dot(weights[order])))


def test_what_is_not_finite_is_a_null_and_nothing_is_said():
    ball = Ball(1.0, 3)
    x = np.array([[np.nan, 0, 0], [0.1, np.inf, 0], [0.1, 0.2, 0.3], [1e308, 1e308, -1e308], [-np.inf, np.nan, 0]])
    many, nulls = ball.many(x)
    assert nulls.tolist() == [True, True, False, False, True]
    assert (many[nulls] == 0).all()
    some, which = ball.many(x, np.array([4, 2, 3]))
    assert np.array_equal(some, many[[4, 2, 3]])
    assert np.array_equal(which, nulls[[4, 2, 3]])
    for row, null, found in zip(x, nulls, many, strict=True):
        one = ball.one(row)
        assert (one is None) == null
        assert null or np.array_equal(one, found)
    assert many[3] * ball.step == pytest.approx(np.array([1, 1, -1]) / np.sqrt(3), abs=1e-6)


def test_the_zero_record_is_no_null():
    ball = Ball(1.0, 2)
    assert ball.one(np.zeros(2)).tolist() == [0, 0]
    assert not ball.many(np.zeros((1, 2)))[1].any()


def test_distances_are_those_to_the_boundary():
    rng = np.random.default_rng(3)
    records, model = Ball(1.0, 4), Ball(1.0, 4)
    linear = Linear(model, records, 1)
    x = rng.normal(size=(20, 4)) / 4
    steps, _ = records.many(x)
    assert (linear.distances(linear.scores(steps)) == 0).all()  # at w = 0
    w = rng.normal(size=4)
    linear.set(in_steps(model, w))
    wanted = np.abs(x @ w) / np.linalg.norm(w)
    assert linear.distances(linear.scores(steps)) == pytest.approx(wanted, abs=1e-6)
    assert linear.edge(0.2) * linear.per_score == pytest.approx(0.2)


def test_distances_of_more_classes_are_those_to_the_nearest_boundary():
    rng = np.random.default_rng(4)
    records, model = Ball(1.0, 4), Ball(1.0, 12)
    linear = Linear(model, records, 3)
    x = rng.normal(size=(50, 4)) / 4
    steps, _ = records.many(x)
    assert (linear.distances(linear.scores(steps)) == 0).all()
    linear.set(in_steps(model, rng.normal(size=12)))
    w = linear.weights
    for row, found in zip(x, linear.distances(linear.scores(steps)), strict=True):
        scores = w @ row
        top = scores.argmax()
        gaps = [(scores[top] - scores[k]) / np.linalg.norm(w[top] - w[k]) for k in range(3) if k != top]
        assert found == pytest.approx(min(gaps), abs=1e-6)


def test_records_come_as_vectors_dicts_or_not_at_all():
    named = RecordReader(("a", "b", "c"))
    assert named.vector({"c": 3, "a": 1, "unknown": 7}).tolist() == [1, 0, 3]
    assert named.vector({"a": "a word"}) is None
    assert named.vector({"a": None}) is None
    assert named.vector({"a": 1, "b": 2, "c": "3"}) is None
    assert named.vector({"a": 10**400, "b": 2, "c": 3}) is None
    assert RecordReader(("a",)).vector({"a": np.float32(0.5)}).tolist() == [0.5]
    assert RecordReader(("a",)).vector({}).tolist() == [0]
    assert named.vector(None) is None
    assert named.vector([1, 2, 3]).tolist() == [1, 2, 3]
    assert named.vector(np.float32([1, 2, 3])).dtype == np.float64
    assert named.vector(["1", "x", None]) is None
    for wrong in ([1, 2], np.zeros((1, 3)), 5):
        with pytest.raises(BadInput, match="3 numbers"):
            named.vector(wrong)
    with pytest.raises(BadInput, match="no names"):
        RecordReader(3).vector({"a": 1})
    assert RecordReader(2).rows([[1, 2], [3, 4]]).shape == (2, 2)
    for wrong in ([[1, 2, 3]], [1, 2], [["x", 1]], [[1], [1, 2]]):
        with pytest.raises(BadInput, match="rows of 2"):
            RecordReader(2).rows(wrong)
