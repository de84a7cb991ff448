"""The contract of trainers passes an honest one in numpy (ours: tests/contracts) and fails each planted mistake."""

import numpy as np
import pytest

from discreet.noise import gaussian, poisson_mask
from discreet.testing import NotPrivate, check_predictor, check_trainer

pytestmark = pytest.mark.thorough

CLASSES, WIDTH = 3, 5


class Linear:
    """A predictor: softmax of a linear map."""

    def __init__(self, weights):
        self.weights = weights

    def predict_proba(self, x):
        said = np.asarray(x, dtype=float) @ self.weights
        raised = np.exp(said - said.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)

    def embed(self, x):
        return np.asarray(x, dtype=float)


class LinearTrainer:
    """DP-SGD of a linear model. ``wrong`` names one mistake."""

    def __init__(self, wrong=""):
        self.wrong = wrong

    def train(self, *, phase, cohorts, start, receipt):
        weights = np.zeros((WIDTH, CLASSES)) if start is None else start.weights.copy()
        receipts = list(receipt)
        if self.wrong != "any receipts":
            assert_paid(phase, receipts)
        for stage, paid in zip(phase.stages, receipts, strict=self.wrong != "any receipts"):
            for step in range(stage.steps):
                weights = weights - 0.5 * self.step(weights, phase, stage, cohorts, paid, step)
        return Linear(weights * (np.inf if self.wrong == "infinite" else 1))

    def step(self, weights, phase, stage, cohorts, paid, step):
        total, sampled = np.zeros_like(weights), 0
        for label in stage.events:
            taken = poisson_mask(len(cohorts[label]), receipt=paid, who=label)
            gradients = self.gradients(weights, cohorts[label])
            total += gradients[taken].sum(axis=0)
            sampled += int((np.abs(gradients[taken]).sum(axis=(1, 2)) > 0).sum())
        if self.wrong == "empty is skipped" and not sampled:
            return 0
        if self.wrong == "mean before the noise":
            total = total / max(sampled, 1) * phase.batch
        noisy = gaussian(total, sensitivity=1.0 if self.wrong != "own scale" else 1.0 + sampled, receipt=paid)
        if self.wrong == "noise is dropped":
            noisy = total
        if self.wrong == "one sum too many" and step == 0:
            noisy = noisy + gaussian(total, sensitivity=1.0, receipt=paid)
        divisor = {"divided by the sampled": max(sampled, 1), "no b": 8}.get(self.wrong, phase.batch)
        return noisy / divisor

    def gradients(self, weights, records):
        """(n, d, C), each of norm at most 1; what is not finite or has no class is 0."""
        x, y = np.asarray(records.x, dtype=float), np.asarray(records.y)
        if self.wrong == "writes":
            records.x[:] = 0
        known = (y >= 0) & (y < CLASSES) & np.isfinite(x).all(axis=1)
        if self.wrong == "missing is a class":
            known = np.isfinite(x).all(axis=1)
        if self.wrong == "poisoned":
            known = (y >= 0) & (y < CLASSES)
        rows = np.where(known[:, None], np.nan_to_num(x, nan=9.0, posinf=9.0, neginf=9.0), 0.0)
        errors = (Linear(weights).predict_proba(rows) - np.eye(CLASSES)[np.where(y < CLASSES, y, 0)]) * known[:, None]
        found = rows[:, :, None] * errors[:, None, :]
        norms = np.sqrt((found**2).sum(axis=(1, 2), keepdims=True))
        return found if self.wrong == "no clipping" else found / np.maximum(norms, 1.0)


def assert_paid(phase, receipts):
    """As `discreet.trainers.dp_sgd.checks.check_receipts`."""
    from discreet.trainers.dp_sgd.checks import check_receipts

    check_receipts(phase, receipts)


def test_an_honest_trainer_passes():
    check_trainer(LinearTrainer, classes=CLASSES, width=WIDTH)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("any receipts", "trains on"),
        ("missing is a class", "teaches something"),
        ("poisoned", "teaches something"),
        ("empty is skipped", "other steps|control-flow"),
        ("mean before the noise", "sensitivity"),
        ("own scale", "other steps|parameter"),
        ("noise is dropped", "another model|output"),
        ("one sum too many", "no mask was drawn"),
        ("divided by the sampled", "another model"),
        ("no b", "divided by something else"),
        ("no clipping", "sensitivity"),
        ("writes", "writes into"),
        ("infinite", "no number"),
    ],
)
def test_a_planted_mistake_is_found(wrong, says):
    from discreet.errors import ReceiptRefused

    with np.errstate(all="ignore"), pytest.raises((AssertionError, NotPrivate, ReceiptRefused), match=says):
        check_trainer(lambda: LinearTrainer(wrong), classes=CLASSES, width=WIDTH)


X = np.random.default_rng(0).normal(size=(10, WIDTH))


class Changed(Linear):
    def __init__(self, change):
        super().__init__(np.eye(WIDTH, CLASSES))
        self.change, self.calls = change, 0

    def predict_proba(self, x):
        self.calls += 1
        return self.change(super().predict_proba(x), self.calls)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda p, calls: p[:, :2], "does not give"),
        (lambda p, calls: p.tolist(), "an array"),
        (lambda p, calls: p * 1.5, "between 0 and 1|sum to 1"),
        (lambda p, calls: p * np.nan, "no number"),
        (lambda p, calls: p if calls == 1 else p[::-1], "second time"),
        (lambda p, calls: p - p.mean(axis=0) / 9 + 1 / 27 if len(p) == 1 else p, "a record alone"),
        (lambda p, calls: np.roll(p, 1, axis=0) if len(p) > 1 else p, "the order|alone"),
    ],
)
def test_a_wrong_predictor_is_found(change, says):
    check_predictor(Linear(np.eye(WIDTH, CLASSES)), X, classes=CLASSES)
    with pytest.raises(AssertionError, match=says):
        check_predictor(Changed(change), X, classes=CLASSES)
