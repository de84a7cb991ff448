"""Layers shared by the models: head and trunk, activations, pooling, normalisation that mixes no records.

In-place activations overwrite what a per-record gradient engine saved for the backward pass; batch statistics make one
record's gradient depend on the others, which breaks the sensitivity that clipping gives. Neither occurs here.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from discreet.errors import BadInput
from discreet.models.checks import among

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "mish": nn.Mish, "gelu": nn.GELU}
RISING = {"relu", "tanh"}  # never fall, so that the largest of a window stays the largest


def activation(name: Any) -> nn.Module:
    """A fresh activation layer, never in place."""
    return ACTIVATIONS[among(name, "activation", sorted(ACTIVATIONS))]()


class MaxPool(nn.MaxPool2d):
    """Max pooling of square windows without padding; without gradients it is taken as the largest of shifted slices.

    The values are those of ``nn.MaxPool2d``, NaN included. On CPUs the slices are vectorised where torch's own forward
    pass is not: 3 times faster on channels-last maps, 13 times on contiguous ones. With gradients torch's own layer
    runs: its backward pass is the faster one, and the whole gradient of a tie goes to one place.
    """

    def __init__(self, window: int, *, stride: int | None = None) -> None:
        super().__init__(window, stride=stride)
        self._window, self._stride = window, stride or window

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """The maps, smaller."""
        sliceable = input.is_cpu and not input.is_mkldnn and min(input.shape[-2:]) >= self._window
        if torch.is_grad_enabled() or not sliceable:
            pooled: Tensor = super().forward(input)
            return pooled
        return self._along(self._along(input, -2), -1)

    def _along(self, maps: Tensor, axis: int) -> Tensor:
        places = (maps.shape[axis] - self._window) // self._stride + 1
        reach = (places - 1) * self._stride + 1
        shifts = [slice(first, first + reach, self._stride) for first in range(self._window)]
        return reduce(torch.maximum, [maps[..., shift, :] if axis == -2 else maps[..., shift] for shift in shifts])


def activated_and_pooled(name: Any, pool: nn.Module) -> list[nn.Module]:
    """Activation, then pooling, in the cheaper order: what only rises commutes with the maximum, gradients included."""
    layer = activation(name)
    return [pool, layer] if name in RISING else [layer, pool]


def group_norm(channels: int, *, groups: int) -> nn.GroupNorm:
    """Group normalisation with the most groups that divide both ``channels`` and ``groups``: 32 of 48 gives 16."""
    return nn.GroupNorm(math.gcd(channels, groups), channels)


# The seam of every model: a trunk that embeds one record at a time, and a head that classifies the embedding.
#
# Guarantee: row i of the output depends on record i and the weights alone, and the trunk is deterministic in training
# mode too. So ``features`` may be computed once and the head drawn from J times (Monte Carlo dropout, Gal and
# Ghahramani 2016): J passes of one small layer instead of J passes of the network, and those as one batch of J rows a
# record.

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
    at_once = max(DRAWN_BYTES // max(features.numel() * features.element_size(), 1), 1)
    counts = [min(at_once, draws - done) for done in range(0, draws, at_once)]
    layers = _dropout_and_affine(head)
    if layers is None:
        outputs = [head(features.expand(count, *features.shape).flatten(0, 1)) for count in counts]
    else:
        dropped, parts = _as_fraction(layers[0].p)
        scaled = features * (parts / (parts - dropped))
        outputs = [layers[1](_kept(count, features, dropped, parts).mul_(scaled).flatten(0, 1)) for count in counts]
    return torch.cat(outputs).reshape(draws, len(features), *outputs[0].shape[1:])


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


# Layers that mix records, and what to put in their place.
#
# Under batch normalisation a record's gradient depends on its neighbours in the batch. Clipping then bounds nothing,
# and running averages of activations leave the training set in the saved weights unpaid for. Such layers are refused,
# never silently replaced: pretrained weights may not fit the replacement, so it is the owner who calls
# `replace_batch_norm`.

_INSTANCE_NORM = nn.modules.instancenorm._InstanceNorm
_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm, nn.modules.batchnorm._LazyNormBase)
_GROUPS, _LEAST_CHANNELS = 32, 4


def mixing_layers(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers that mix records, or keep running statistics of them, by name."""
    return [(name or "itself", layer) for name, layer in module.named_modules() if _mixes(layer)]


def _mixes(layer: nn.Module) -> bool:
    if isinstance(layer, _INSTANCE_NORM):
        return bool(layer.track_running_stats)
    return isinstance(layer, _BATCH_NORMS)


def refuse_mixing(module: nn.Module, asked: str) -> None:
    """Refuse a module with batch normalisation, or with running statistics; the error names layer and replacement."""
    mixing = mixing_layers(module)
    if not mixing:
        return
    name, layer = mixing[0]
    more = f", and {len(mixing) - 1} more" if len(mixing) > 1 else ""
    where = f"its layer {name} ({type(layer).__name__}){more}"
    if isinstance(layer, _INSTANCE_NORM):
        raise BadInput(
            asked, f"{where} keeps statistics of records that nobody adds noise to", "Set track_running_stats=False"
        )
    raise BadInput(
        asked,
        f"{where} mixes the records of a batch, so no single one's gradient exists",
        "Use nn.GroupNorm there: discreet.models.replace_batch_norm(model) puts it in",
    )


def check_sized(module: nn.Module) -> None:
    """Refuse a model whose lazy layers do not know their size yet."""
    if any(nn.parameter.is_lazy(value) for value in (*module.parameters(), *module.buffers())):
        raise BadInput("this model", "a lazy layer does not know its size yet", "Run the model once on made-up records")


def replace_batch_norm(module: nn.Module, *, groups: int = _GROUPS) -> nn.Module:
    """A copy of ``module`` with GroupNorm in place of every batch normalisation; affine weights are kept.

    At most ``groups`` groups, of at least four channels each; one group for vectors, which normalisation of single
    numbers would turn to 0.
    """
    check_sized(module)
    module = copy.deepcopy(module)
    for name, layer in mixing_layers(module):
        if isinstance(layer, _INSTANCE_NORM):
            continue
        if layer is module:
            return _group_norm(layer, groups)
        parent, _, attribute = name.rpartition(".")
        setattr(module.get_submodule(parent), attribute, _group_norm(layer, groups))
    return module


def _group_norm(layer: Any, groups: int) -> nn.GroupNorm:
    channels = int(layer.num_features)
    most_groups = 1 if isinstance(layer, nn.BatchNorm1d) else min(groups, max(1, channels // _LEAST_CHANNELS))
    share = max(count for count in range(1, most_groups + 1) if channels % count == 0)
    norm = nn.GroupNorm(share, channels, eps=layer.eps, affine=bool(layer.affine))
    if layer.affine:
        norm = norm.to(layer.weight.device)
        with torch.no_grad():
            norm.weight.copy_(layer.weight)
            norm.bias.copy_(layer.bias)
    return norm
