"""The seam of every model: a trunk that embeds one record at a time, and a head that classifies the embedding.

Guarantee: row i of the output depends on record i and the weights alone, and the trunk is deterministic in training
mode too. So ``features`` may be computed once and the head drawn from J times (Monte Carlo dropout, Gal and Ghahramani
2016): J passes of one small layer instead of J passes of the network.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Head(nn.Module):
    """Dropout, then one affine layer: (n, d) to (n, classes)."""

    def __init__(self, *, width: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, classes)

    def forward(self, features: Tensor) -> Tensor:
        """Logits of embeddings."""
        logits: Tensor = self.linear(self.dropout(features))
        return logits


class Split(nn.Module):
    """A classifier with a seam. Subclasses set ``head`` and define ``features``; ``forward`` is the two in a row."""

    head: nn.Module

    def features(self, x: Any) -> Tensor:
        """The embedding, (n, d). No randomness, nothing shared between records."""
        raise NotImplementedError

    def forward(self, x: Any) -> Tensor:
        """Logits, (n, classes)."""
        logits: Tensor = self.head(self.features(x))
        return logits

    def sample(self, x: Any, draws: int) -> Tensor:
        """``draws`` logits of each record with dropout on, (draws, n, classes), for one pass of the trunk."""
        features, training = self.features(x), self.head.training
        self.head.train()
        try:
            return torch.stack([self.head(features) for _ in range(draws)])
        finally:
            self.head.train(training)


def has_seam(module: nn.Module) -> bool:
    """Whether a module, a user's too, splits into callable ``features`` and ``head``."""
    return callable(getattr(module, "features", None)) and callable(getattr(module, "head", None))
