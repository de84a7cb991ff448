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
from discreet.models.checks import image_shape, vector_width, whole, wholes
from discreet.models.layers import Head, MaxPool, Split, activated_and_pooled
from discreet.models.layers import activation as activation_layer


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
        norm: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        return x * (self.scale / norm.clamp(min=1e-12))


# The convolutional network of the TensorFlow Privacy tutorials: 26,010 parameters on 1 x 28 x 28 with ten classes.
#
#     conv 16, 8 x 8, stride 2, 'same'  - max pool 2, stride 1
#     conv 32, 4 x 4, stride 2, 'valid' - max pool 2, stride 1 - dense 32 - dense classes
#
# 'Same' as TensorFlow has it: an even side is padded by 3 before and 3 after, an odd one by 3 and 4. Where the second
# convolution would not read the last row (column) of the first maps, as on 28 x 28, that row is not computed: the
# padding after is 2 less. Nothing else changes, neither values nor gradients, and a seventh of the first layer's work
# is saved.
#
# The tutorials use ReLU; give ``activation="relu"`` to repeat results obtained with them. The default is tanh, a
# bounded activation: it keeps per-record gradients short, so that less is clipped away, and was found to beat ReLU
# under DP-SGD on MNIST, FashionMNIST and CIFAR-10 (Papernot et al. 2021, Tempered sigmoid activations for deep learning
# with differential privacy).

LEAST_SIDE = 13  # 13 -> 7 -> 6 -> 2 -> 1
ORDINARY = 1e6  # inputs and weights below it overflow nowhere, and bring up no NaN


def _second_side(side: int) -> int:
    """Of the second convolution's maps: from the pooled first ones, by windows of 4 that step by 2."""
    return ((side + 1) // 2 - 1 - 4) // 2 + 1


def _padding_after(side: int) -> int:
    """TensorFlow's, less what nobody reads."""
    pooled = (side + 1) // 2 - 1
    unread = pooled - (2 * (_second_side(side) - 1) + 4)
    return 3 + side % 2 - 2 * unread


class SmallCNN(Split):
    """Two convolutions and a dense layer of 32; the embedding is that layer."""

    def __init__(
        self, *, inputs: tuple[int, ...], classes: int, dropout: float, activation: str = "tanh", hidden: int = 32
    ) -> None:
        super().__init__()
        channels, height, width = image_shape(inputs, model="small_cnn", least=LEAST_SIDE)
        self.first = nn.Sequential(
            nn.ZeroPad2d((3, _padding_after(width), 3, _padding_after(height))),
            nn.Conv2d(channels, 16, 8, stride=2),
            *activated_and_pooled(activation, MaxPool(2, stride=1)),
        )
        self.second = nn.Sequential(
            nn.Conv2d(16, 32, 4, stride=2),
            *activated_and_pooled(activation, MaxPool(2, stride=1)),
        )
        hidden = whole(hidden, "hidden")
        self.dense = nn.Linear(32 * (_second_side(height) - 1) * (_second_side(width) - 1), hidden)
        self.activation = activation_layer(activation)
        self.head = Head(width=hidden, classes=classes, dropout=dropout)

    def features(self, x: Tensor) -> Tensor:
        """The dense layer of 32."""
        hidden: Tensor = self.activation(self.dense(torch.flatten(self.second(self.first(x)), 1)))
        return hidden

    def blocked_features(self, x: Tensor) -> Tensor:
        """`features` without gradients on a CPU, with maps in the memory layout that oneDNN's kernels like best.

        A quarter faster than channels-last. Pooling drops NaN in that layout, so records that could bring one up are
        computed again in the plain way, and the others do not notice.
        """
        padding, *layers = self.first
        maps = padding(x).to_mkldnn()
        for layer in (*layers, *self.second):
            maps = layer(maps)
        hidden: Tensor = self.activation(self.dense(torch.flatten(maps.to_dense(), 1)))
        strange = ~(torch.linalg.vector_norm(x.flatten(1), dim=1) < ORDINARY)  # NaN is not below
        if not all(_ordinary(weight) for layer in (self.first, self.second) for weight in layer.parameters()):
            strange = torch.ones_like(strange)
        if strange.any():
            hidden[strange] = SmallCNN.features(self, x[strange])
        return hidden


def _ordinary(weights: Tensor) -> bool:
    return bool(weights.abs().max() < ORDINARY)
