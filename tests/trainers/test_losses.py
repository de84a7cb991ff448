"""Losses of one record, and CheXpert's uncertain labels."""

import numpy as np
import pytest
import torch
from training_runs import phase_of, trained

from discreet.errors import BadInput
from discreet.trainers.dp_sgd import (
    CohortRecords,
    WeightedCrossEntropy,
    chexpert_targets,
    cross_entropy,
    multilabel_bce,
)

NAMES = ["Atelectasis", "Cardiomegaly", "Edema"]


def test_cross_entropy_of_one_record_averages_its_views():
    outputs = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    by_hand = (np.log(1 + np.exp(-2)) + np.log(1 + np.exp(1))) / 2
    assert float(cross_entropy(outputs, torch.tensor(0))) == pytest.approx(by_hand, rel=1e-6)


def test_multilabel_bce_by_hand_with_smoothing_and_a_missing_label():
    outputs, target = torch.tensor([[1.0, -2.0, 3.0]]), torch.tensor([1.0, 0.0, float("nan")])
    wanted = np.array([0.9, 0.1])
    p = 1 / (1 + np.exp(-np.array([1.0, -2.0])))
    by_hand = -(wanted * np.log(p) + (1 - wanted) * np.log(1 - p)).sum() / 3
    assert float(multilabel_bce(smoothing=0.2)(outputs, target)) == pytest.approx(by_hand, rel=1e-6)
    with pytest.raises(BadInput):
        multilabel_bce(smoothing=1.0)


def test_chexpert_uncertain_becomes_positive_or_negative_by_column_and_smoothed():
    raw = np.array([[-1, -1, -1], [1, 0, np.nan]])
    np.testing.assert_allclose(
        chexpert_targets(raw, NAMES, positive=["Atelectasis", "Edema"]), [[0.9, 0.1, 0.9], [1, 0, 0]]
    )
    ignored = chexpert_targets(raw, NAMES, positive=["Edema"], blank="ignored", smoothing=0)
    np.testing.assert_allclose(ignored, [[0, 0, 1], [1, 0, np.nan]])
    for wrong in ({"positive": ["Fracture"]}, {"blank": "maybe"}, {"smoothing": 2}):
        with pytest.raises(BadInput):
            chexpert_targets(raw, NAMES, **({"positive": ["Edema"]} | wrong))
    with pytest.raises(BadInput):
        chexpert_targets(raw[:, :2], NAMES)


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_class_weights_teach_the_rare_class_although_gradients_are_clipped(engine):
    """Only their ratios matter. A weight above 1 by itself would be clipped away."""
    rng = np.random.default_rng(0)
    y = (rng.random(2000) < 0.07).astype(np.int64)
    x = (rng.normal(size=(2000, 5)) * 0.5 + y[:, None] * np.eye(5)[0]).astype(np.float32)

    model = torch.nn.Linear(5, 2)

    def recalls(loss):
        run = trained(
            model,
            {"a": CohortRecords(x=x, y=y)},
            phase_of({"a": 0.1}, steps=100, sigma=0.5, batch=200),
            classes=2,
            loss=loss,
            learning_rate=1.0,
            engine=engine,
        )
        answers = run.predictor.predict_proba(x).argmax(axis=1)
        return [(answers == number)[y == number].mean() for number in (0, 1)]

    plain, weighted = recalls("cross-entropy"), recalls(WeightedCrossEntropy([1, 8]))
    assert weighted[1] > plain[1] + 0.25
    assert weighted[0] > 0.8
    assert recalls(WeightedCrossEntropy([100, 800])) == weighted
    assert recalls(WeightedCrossEntropy([3, 3])) == pytest.approx(plain, abs=0.01)


def test_weights_that_are_none_are_refused():
    for wrong in ([], [1, 0], [1, -2], [1, np.nan], [1, np.inf]):
        with pytest.raises(BadInput, match="above 0"):
            WeightedCrossEntropy(wrong)


def test_several_labels_are_learnt():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4)).astype(np.float32)
    raw = (x[:, :3] > 0).astype(np.float32)
    raw[rng.random(raw.shape) < 0.1] = -1
    y = chexpert_targets(raw, NAMES, positive=["Edema"])
    run = trained(
        torch.nn.Linear(4, 3),
        {"a": CohortRecords(x=x, y=y)},
        phase_of({"a": 0.5}, steps=60, sigma=0.5, batch=200),
        loss=multilabel_bce(smoothing=0.1),
        task="multilabel",
        learning_rate=2.0,
    )
    found = run.predictor.predict_proba(x)
    assert found.shape == (400, 3)
    assert ((found > 0.5) == (x[:, :3] > 0)).mean() > 0.9
