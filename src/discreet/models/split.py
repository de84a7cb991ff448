"""The seam of every model: a trunk that embeds one record at a time, and a head that classifies the embedding.

Guarantee: row i of the output depends on record i and the weights alone, and the trunk is deterministic in training
mode too. So ``features`` may be computed once and the head drawn from J times (Monte Carlo dropout, Gal and Ghahramani
2016): J passes of one small layer instead of J passes of the network, and those as one batch of J rows a record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

DRAWN_BYTES = 4 << 20  # of embeddings that are drawn from at once: memory does not grow with the draws
LANES = {2**7: (torch.int8, 8), 2**15: (torch.int16, 4)}  # parts of a rate: the lanes of a random word that tell them
FINEST = max(LANES)


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
            return head_draws(self.head, features, draws)
        finally:
            self.head.train(training)


def head_draws(head: Callable[[Tensor], Tensor], features: Tensor, draws: int) -> Tensor:
    """``draws`` outputs of a head in training mode for each embedding, (draws, n, classes).

    Dropout draws for every row of the batch, so draws and records are independent of one another. Where the head is
    dropout and an affine layer, the masks are drawn here: three to five times faster than torch's Bernoulli numbers.
    """
    most = max(DRAWN_BYTES // max(features.numel() * features.element_size(), 1), 1)
    counts = [min(most, draws - done) for done in range(0, draws, most)]
    layers = _dropout_and_affine(head)
    if layers is None:
        found = [head(features.expand(count, *features.shape).flatten(0, 1)) for count in counts]
    else:
        dropped, parts = _as_fraction(layers[0].p)
        scaled = features * (parts / (parts - dropped))
        found = [layers[1](_kept(count, features, dropped, parts).mul_(scaled).flatten(0, 1)) for count in counts]
    return torch.cat(found).reshape(draws, len(features), *found[0].shape[1:])


def _dropout_and_affine(head: Any) -> tuple[nn.Dropout, nn.Linear] | None:
    """The two layers, if a head is nothing else."""
    layers: list[Any] = []
    if type(head) is Head or type(head) is nn.Sequential:
        layers = list(head.children())
    if [type(layer) for layer in layers] != [nn.Dropout, nn.Linear]:
        return None
    dropout, affine = layers
    return (dropout, affine) if dropout.training and 1 / FINEST <= dropout.p < 1 - 1 / FINEST else None


def _as_fraction(rate: float) -> tuple[int, int]:
    """A dropout rate in the fewest parts that hold it; in the most there are it moves by less than 2e-5."""
    parts = next((count for count in LANES if rate * count == round(rate * count)), FINEST)
    return max(round(rate * parts), 1), parts


def _kept(count: int, like: Tensor, dropped: int, parts: int) -> Tensor:
    """Ones, and zeros with probability ``dropped`` / ``parts``, (count, *like.shape): 4 or 8 from each random word."""
    lane, each = LANES[parts]
    places = count * like.numel()
    words = torch.empty(-(-places // each), dtype=torch.int64, device=like.device).random_()  # all bits but the sign
    lanes = words.view(lane).bitwise_and_(parts - 1)[:places].view(count, *like.shape)
    return (lanes >= dropped).to(like.dtype)


def has_seam(module: nn.Module) -> bool:
    """Whether a module, a user's too, splits into callable ``features`` and ``head``."""
    return callable(getattr(module, "features", None)) and callable(getattr(module, "head", None))
