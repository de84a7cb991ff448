"""A torch module as a teacher or a student: scikit-learn's fit and predict around a plain training loop.

Not private: a teacher sees its own records as they are. What leaves are votes, through an aggregator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin


class TorchClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """``module(classes)`` makes the module, whose output is a score a class. Adam, cross-entropy, minibatches."""

    def __init__(
        self,
        module: Callable[[int], Any],
        *,
        epochs: int = 20,
        batch: int = 32,
        learning_rate: float = 1e-3,
        random_state: int | None = None,
    ) -> None:
        self.module, self.epochs, self.batch = module, epochs, batch
        self.learning_rate, self.random_state = learning_rate, random_state

    def fit(self, x: Any, y: Any, sample_weight: Any | None = None) -> Self:
        """Train on all of ``x``; ``sample_weight``: how much a row counts."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        weights = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight)
        rows, targets, counts = (
            torch.as_tensor(np.asarray(part, dtype=kind))
            for part, kind in ((x, np.float32), (codes, np.int64), (weights, np.float32))
        )
        with torch.random.fork_rng(devices=[]):  # the caller's generator stays where it is
            torch.manual_seed(0 if self.random_state is None else self.random_state)
            self.module_ = self.module(len(self.classes_))
            steps = torch.optim.Adam(self.module_.parameters(), lr=self.learning_rate)
            for _ in range(self.epochs):
                for places in torch.split(torch.randperm(len(rows)), self.batch):
                    loss = torch.nn.functional.cross_entropy(
                        self.module_(rows[places]), targets[places], reduction="none"
                    )
                    steps.zero_grad()
                    torch.autograd.backward((loss * counts[places]).mean())
                    steps.step()
        return self

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        """Class probabilities."""
        self.module_.eval()
        with torch.no_grad():
            scores = self.module_(torch.as_tensor(np.asarray(x, dtype=np.float32)))
        return np.asarray(scores.softmax(dim=1).numpy(), dtype=np.float64)

    def predict(self, x: Any) -> NDArray[Any]:
        """The most probable class."""
        return np.asarray(self.classes_[self.predict_proba(x).argmax(axis=1)])
