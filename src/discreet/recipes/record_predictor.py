"""A model on features as a predictor of records: it computes their features first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from discreet.recipes.feature_cache import Reader
from discreet.recipes.feature_rows import rows_read
from discreet.trainers.torch_predictor import Task, TorchPredictor


class RecordPredictor(TorchPredictor):
    """Takes scaled numbers, rows of a table as its schema encodes them, or a list of texts. A null is one by zeros of
    features: a text that is None, or a row that holds a number that is not finite.

    ``on_features``: the same model, which takes the rows that ``reader`` makes.
    """

    def __init__(self, module: nn.Module, *, reader: Reader, task: Task, device: str) -> None:
        super().__init__(module, task=task, device=device)
        self.on_features = TorchPredictor(module, task=task, device=device)
        self._reader = reader

    def predict_proba(self, x: Any) -> NDArray[np.float32]:
        """(n, C)."""
        return super().predict_proba(rows_read(self._reader, x))

    def sample_proba(self, x: Any, draws: int, *, seed: int = 0) -> NDArray[np.float32]:
        """(J, n, C)."""
        return super().sample_proba(rows_read(self._reader, x), draws, seed=seed)

    def embed(self, x: Any) -> NDArray[np.float32]:
        """(n, d)."""
        return super().embed(rows_read(self._reader, x))
