"""Every score: known answers, its range and its ends, one record at a time, and values that are none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from discreet.errors import BadInput
from discreet.scorers import (
    BALD,
    Entropy,
    LeastCertainLabel,
    LeastConfidence,
    Margin,
    MeanLabelBALD,
    MeanLabelEntropy,
    OwnScore,
    PredictiveVariance,
    RandomScore,
    VariationRatio,
    build_scorer,
)

ONE = [LeastConfidence, Margin, Entropy]
DRAWN = [BALD, PredictiveVariance, VariationRatio]
SEVERAL = [LeastCertainLabel, MeanLabelEntropy, MeanLabelBALD]
ODD = st.floats(allow_nan=True, allow_infinity=True, width=32)


@pytest.mark.parametrize(
    ("score", "values", "expected"),
    [
        (LeastConfidence(classes=4), [[0.7, 0.1, 0.1, 0.1]], 0.3),
        (LeastConfidence(classes=4), [[0.25] * 4], 0.75),
        (LeastConfidence(classes=4), [[7, 1, 1, 1]], 0.3),  # brought to sum 1
        (Margin(classes=3), [[0.6, 0.3, 0.1]], 0.7),
        (Margin(classes=2), [[0.5, 0.5]], 1.0),
        (Margin(classes=2), [[1, 0]], 0.0),
        (Entropy(classes=4), [[0.5, 0.5, 0, 0]], 0.5),
        (Entropy(classes=10), [[0.1] * 10], 1.0),
        (Entropy(classes=10, clip=0.8), [[0.1] * 10], 0.8),
        (BALD(classes=2, draws=2), [[[1, 0]], [[0, 1]]], 1.0),
        (BALD(classes=2, draws=2), [[[0.5, 0.5]], [[0.5, 0.5]]], 0.0),
        (BALD(classes=4, draws=2), [[[1, 0, 0, 0]], [[0, 1, 0, 0]]], 0.5),
        (PredictiveVariance(classes=2, draws=2), [[[1, 0]], [[0, 1]]], 0.25),  # torch.var says 0.5
        (PredictiveVariance(classes=2, draws=4), [[[0.9, 0.1]], [[0.7, 0.3]], [[0.9, 0.1]], [[0.7, 0.3]]], 0.01),
        (VariationRatio(classes=3, draws=4), [[[1, 0, 0]], [[0, 1, 0]], [[0, 0.6, 0.4]], [[0.2, 0.8, 0]]], 0.25),
        (VariationRatio(classes=3, draws=3), [[[1, 0, 0]], [[0, 1, 0]], [[0, 0, 1]]], 2 / 3),
        (LeastCertainLabel(classes=3), [[0.9, 0.4, 1.0]], 0.4),
        (MeanLabelEntropy(classes=2), [[0.5, 1.0]], 0.5),
        (MeanLabelBALD(classes=2, draws=2), [[[1, 0.5]], [[0, 0.5]]], 0.5),
    ],
)
def test_known_answers(score, values, expected):
    np.testing.assert_allclose(score.score(values), [expected], atol=1e-12)


@pytest.mark.parametrize("kind", [*ONE, *DRAWN, *SEVERAL])
def test_the_ends_of_the_range_are_reached(kind):
    score = kind(classes=4) if kind not in DRAWN else kind(classes=4, draws=8)
    rng = np.random.default_rng(0)
    shape = (8, 3000, 4) if score.needs == "draws" else (3000, 4)
    sure = rng.dirichlet([0.02] * 4, size=shape[:-1])
    sure[..., 0, :] = [0, 0, 1, 0]
    unsure = rng.dirichlet([5000.0] * 4, size=shape[:-1])
    if kind in SEVERAL:
        sure, unsure = np.round(rng.random(shape)), np.full(shape, 0.5)
    found = np.concatenate([score.score(sure), score.score(unsure)])
    bottom, top = score.range
    assert found.min() < bottom + 0.02
    assert found.max() > top - (0.35 if kind is MeanLabelBALD else 0.25 if kind is BALD else 0.02)
    assert bottom <= found.min() <= found.max() <= top


@pytest.mark.parametrize("kind", [*ONE, *DRAWN, *SEVERAL])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_whatever_the_values_are_a_score_is_in_its_range_and_one_records_own(kind, data):
    drawn = kind.needs == "draws"
    score = kind(classes=3, draws=4) if drawn else kind(classes=3)
    values = data.draw(arrays(np.float32, (4, 5, 3) if drawn else (5, 3), elements=ODD))
    found = score.score(values)
    bottom, top = score.range
    assert found.shape == (5,)
    assert ((found >= bottom) & (found <= top)).all()
    for row in range(5):
        alone = values[..., row : row + 1, :]
        np.testing.assert_array_equal(score.score(alone), found[row : row + 1])


@pytest.mark.parametrize("kind", [*ONE, *DRAWN, *SEVERAL])
def test_what_is_no_number_scores_as_a_null(kind):
    score = kind(classes=3)
    shape = (20, 4, 3) if score.needs == "draws" else (4, 3)
    values = np.full(shape, 1 / 3)
    values[..., 1, 2], values[..., 2, 0] = np.nan, np.inf
    found = score.score(values)
    assert found[1] == found[2] == score.range[0]
    assert found[0] == found[3]


@pytest.mark.parametrize("kind", ONE)
def test_a_row_that_says_nothing_scores_as_a_null(kind):
    assert kind(classes=3).score([[0, 0, 0], [-1, -2, 0]]).tolist() == [0.0, 0.0]


def test_an_empty_piece_has_no_scores():
    assert Entropy(classes=3).score(np.empty((0, 3))).shape == (0,)
    assert VariationRatio(classes=3).score(np.empty((20, 0, 3))).shape == (0,)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Entropy(classes=1), "at least 2"),
        (lambda: Entropy(classes=True), "whole number"),
        (lambda: Entropy(classes=3, clip=1.5), "at most 1"),
        (lambda: LeastConfidence(classes=2, clip=0.6), "at most 0.5"),
        (lambda: Entropy(classes=3, clip=float("nan")), "above 0"),
        (lambda: BALD(classes=3, draws=1), "cannot differ"),
        (lambda: MeanLabelBALD(classes=3, draws=0), "cannot differ"),
        (lambda: Entropy(classes=3).score([[0.5, 0.5]]), "2 numbers a record"),
        (lambda: Entropy(classes=3).score([0.5, 0.5, 0]), "1 axes, not 2"),
        (lambda: BALD(classes=3).score([[0.5, 0.5, 0]]), "2 axes, not 3"),
        (lambda: Entropy(classes=3).score("abc"), "not numbers"),
    ],
)
def test_nonsense_is_refused_in_words(make, says):
    with pytest.raises(BadInput, match=says):
        make()


def test_scores_by_name():
    assert build_scorer("entropy", classes=10, clip=Entropy.usual_clip).range == (0.0, 0.8)
    assert isinstance(build_scorer("bald", classes=3, draws=5), BALD)
    assert isinstance(build_scorer("bald", classes=3, several_labels=True), MeanLabelBALD)
    assert isinstance(build_scorer("entropy", classes=1, several_labels=True), MeanLabelEntropy)
    assert build_scorer("random", classes=3) == RandomScore()
    for name, options, says in (
        ("margin", {"several_labels": True}, "no form for several labels"),
        ("entropie", {}, "no such score"),
        ("entropy", {"draws": 4}, "no such option"),
        ("random", {"clip": 0.5}, "no such option"),
    ):
        with pytest.raises(BadInput, match=says):
            build_scorer(name, classes=3, **options)


def test_a_score_of_ones_own_is_brought_into_its_range():
    own = OwnScore(function=lambda values: values[:, 0] * 10, range=(-1, 2))
    values = np.array([[0.1, 0], [5, 0], [-5, 0], [np.nan, 0], [np.inf, 0]])
    assert own.score(values).tolist() == [1.0, 2.0, -1.0, -1.0, 2.0]
    assert (
        OwnScore(function=lambda each: each.std(axis=(0, 2)), range=(0, 1), needs="draws")
        .score(np.zeros((3, 4, 2)))
        .tolist()
        == [0.0] * 4
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"range": None}, "not a pair"),
        ({"range": (0, 0)}, "bottom below top"),
        ({"range": (0, float("inf"))}, "finite"),
        ({"range": (0, 1), "needs": "rng"}, "no such thing"),
        ({"range": (0, 1), "function": 3}, "cannot be called"),
    ],
)
def test_a_score_of_ones_own_declares_its_range(options, says):
    with pytest.raises(BadInput, match=says):
        OwnScore(**{"function": len, **options})


def test_what_a_function_says_of_a_record_is_not_repeated():
    def quoting(values):
        raise ValueError(f"record {values[0, 0]} is odd")

    with pytest.raises(BadInput) as caught:
        OwnScore(function=quoting, range=(0, 1)).score([[0.123456, 1]])
    assert "0.123456" not in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(BadInput, match="one number a record"):
        OwnScore(function=lambda values: values.mean(), range=(0, 1)).score([[0.1, 1]])
