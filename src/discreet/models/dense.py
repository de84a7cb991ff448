"""Models of flat records: ``linear``, ``mlp`` and ``embedding_head``.

For a softmax loss on an affine layer, a record's gradient is (p - y) outer (x, 1), of norm at most sqrt(2) |(x, 1)|.
`EmbeddingHead` fixes |x| to ``scale``, so that norm is at most sqrt(2 (scale^2 + 1)) for every record: one clip norm
fits all, and no record is clipped more than another because its embedding happens to be long.

Tanh is the default of ``mlp``: bounded activations keep per-record gradients short, so less is clipped away (Papernot
et al. 2021, Tempered sigmoid activations for deep learning with differential privacy).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from discreet.errors import BadInput
from discreet.models.checks import vector_width, wholes
from discreet.models.parts import activation as activation_layer
from discreet.models.split import Head, Split


class LinearClassifier(Split):
    """One affine layer on the flattened record; the embedding is the flattened record."""

    def __init__(self, *, inputs: tuple[int, ...], classes: int, dropout: float) -> None:
        super().__init__()
        self.head = Head(width=math.prod(inputs), classes=classes, dropout=dropout)

    def features(self, x: Tensor) -> Tensor:
        """The record, flat."""
        return x.flatten(1)


class MLP(Split):
    """Hidden layers on the flattened record; the embedding is the last hidden layer."""

    def __init__(
        self,
        *,
        inputs: tuple[int, ...],
        classes: int,
        dropout: float,
        hidden: Any = (256,),
        activation: str = "tanh",
    ) -> None:
        super().__init__()
        widths = (math.prod(inputs), *wholes(hidden, "hidden"))
        if len(widths) == 1:
            raise BadInput("hidden=()", "an mlp has at least one hidden layer", "Give hidden=(256,), or use 'linear'")
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), activation_layer(activation)]
        self.trunk = nn.Sequential(*layers)
        self.head = Head(width=widths[-1], classes=classes, dropout=dropout)

    def features(self, x: Tensor) -> Tensor:
        """The last hidden layer."""
        hidden: Tensor = self.trunk(x.flatten(1))
        return hidden


class EmbeddingHead(Split):
    """One affine layer on an embedding brought to length ``scale``, each record by its own norm."""

    def __init__(self, *, inputs: tuple[int, ...], classes: int, dropout: float, scale: float = 1.0) -> None:
        super().__init__()
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < math.inf:
            raise BadInput(f"scale={scale!r}", "the length of an embedding is positive and finite", "Give scale > 0")
        self.scale = float(scale)
        self.head = Head(width=vector_width(inputs, model="embedding_head"), classes=classes, dropout=dropout)

    def features(self, x: Tensor) -> Tensor:
        """The embedding at length ``scale``; a zero embedding stays zero."""
        norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        unit: Tensor = x * (self.scale / norm.clamp(min=1e-12))
        return unit
