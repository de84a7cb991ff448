"""Layers that mix records, and what to put in their place.

Under batch normalisation a record's gradient depends on its neighbours in the batch. Clipping then bounds nothing, and
running averages of activations leave the training set in the saved weights unpaid for. Such layers are refused, never
silently replaced: pretrained weights may not fit the replacement, so it is the owner who calls `replace_batch_norm`.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from discreet.errors import BadInput

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
    found = mixing_layers(module)
    if not found:
        return
    name, layer = found[0]
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
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
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, _group_norm(layer, groups))
    return module


def _group_norm(layer: Any, groups: int) -> nn.GroupNorm:
    channels = int(layer.num_features)
    most = 1 if isinstance(layer, nn.BatchNorm1d) else min(groups, max(1, channels // _LEAST_CHANNELS))
    share = max(count for count in range(1, most + 1) if channels % count == 0)
    made = nn.GroupNorm(share, channels, eps=layer.eps, affine=bool(layer.affine))
    if layer.affine:
        made = made.to(layer.weight.device)
        with torch.no_grad():
            made.weight.copy_(layer.weight)
            made.bias.copy_(layer.bias)
    return made
