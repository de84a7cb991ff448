"""The contract of a predictor: probabilities of declared shape, the same each time, of a record's own row.

    def test_my_predictor():
        check_predictor(model, x, classes=3)

``x``: some ten records that the predictor takes, an array or anything with rows by an array of places. Rounding may
depend on how many records are computed at once, so a record alone is compared to ``tolerance``. A predictor that has no
draws or no embeddings leaves the method out, or refuses in words (`DiscreetError`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.errors import DiscreetError

_DRAWS = 3


def check_predictor(
    predictor: Any, x: Any, *, classes: int, several_labels: bool = False, tolerance: float = 1e-4
) -> None:
    """Raise AssertionError with the first thing that a predictor does wrong."""
    count = len(x)
    found = predictor.predict_proba(x)
    _check_probabilities(found, (count, classes), several_labels)
    assert np.array_equal(np.asarray(predictor.predict_proba(x)), found), "it says another thing the second time"
    order = np.random.default_rng(0).permutation(count)
    moved = np.asarray(predictor.predict_proba(x[order]))
    assert np.allclose(moved, np.asarray(found)[order], atol=tolerance), "the order of records changes what it says"
    alone = np.asarray(predictor.predict_proba(x[np.array([count - 1])]))
    assert np.allclose(alone[0], np.asarray(found)[-1], atol=tolerance), "a record alone is predicted otherwise"
    if hasattr(predictor, "sample_proba"):
        _check_draws(predictor, x, (_DRAWS, count, classes), several_labels)
    if hasattr(predictor, "embed"):
        _check_embeddings(predictor, x, count)


def _check_probabilities(found: Any, shape: tuple[int, ...], several_labels: bool) -> None:
    assert isinstance(found, np.ndarray), "it does not give an array"
    assert found.shape == shape, f"it does not give {shape}"
    assert np.isfinite(found).all(), "a probability is no number"
    assert ((found >= 0) & (found <= 1)).all(), "a probability is not between 0 and 1"
    assert several_labels or np.allclose(found.sum(axis=-1), 1, atol=1e-4), "probabilities of a record do not sum to 1"


def _check_draws(predictor: Any, x: Any, shape: tuple[int, ...], several_labels: bool) -> None:
    try:
        found = predictor.sample_proba(x, _DRAWS)
    except DiscreetError:
        return
    _check_probabilities(found, shape, several_labels)


def _check_embeddings(predictor: Any, x: Any, count: int) -> None:
    try:
        found = np.asarray(predictor.embed(x))
    except DiscreetError:
        return
    assert found.ndim == 2, "an embedding is not a row a record"
    assert len(found) == count, "an embedding is not a row a record"
    assert np.isfinite(found).all(), "an embedding is not finite"
