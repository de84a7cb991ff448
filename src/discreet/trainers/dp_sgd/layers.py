"""What a model must not have: layers in which one record touches another, and buffers that data moves.

Batch normalisation divides each record by statistics of all: there is no gradient of one record to clip, and its
running averages are never noised. It is refused by name, with what to use instead (`replace_batch_norm`). Layers
nobody has a name for are found by trying: the model is run on made-up records together and one by one.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import nn

from discreet.errors import BadInput

_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm, nn.modules.batchnorm._LazyNormBase)
_GROUPS = 32
_SAME = 1e-3
"""Rounding of a batch against single records stays far below this; mixing is far above."""


def check_layers(module: nn.Module) -> None:
    """Refuse layers that mix records or keep statistics of them; the error names layer and replacement."""
    for name, layer in module.named_modules():
        where = f"layer {name or 'of this model'} ({type(layer).__name__})"
        if isinstance(layer, nn.modules.instancenorm._InstanceNorm):
            if layer.track_running_stats:
                raise BadInput(
                    where, "it keeps statistics of records that nobody adds noise to", "Set track_running_stats=False"
                )
        elif isinstance(layer, _BATCH_NORMS):
            raise BadInput(
                where,
                "it mixes the records of a batch, so no single one's gradient exists",
                "Use GroupNorm instead: discreet.trainers.dp_sgd.replace_batch_norm(model) puts it there",
            )
    if not any(weights.requires_grad for weights in module.parameters()):
        raise BadInput("training this model", "none of its parameters is to be trained", "Set requires_grad")


def check_sized(module: nn.Module) -> None:
    """Refuse a model whose lazy layers do not know their size yet."""
    if any(nn.parameter.is_lazy(value) for value in (*module.parameters(), *module.buffers())):
        raise BadInput("this model", "a lazy layer does not know its size yet", "Run the model once on made-up records")


def replace_batch_norm(module: nn.Module, *, groups: int = _GROUPS) -> nn.Module:
    """A copy of ``module`` with GroupNorm in place of every batch normalisation; affine weights are kept."""
    check_sized(module)
    module = copy.deepcopy(module)
    if isinstance(module, _BATCH_NORMS):
        return _group_norm(module, groups)
    for name, layer in list(module.named_modules()):
        if isinstance(layer, _BATCH_NORMS) and not isinstance(layer, nn.modules.instancenorm._InstanceNorm):
            parent = module.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], _group_norm(layer, groups))
    return module


def _group_norm(layer: Any, groups: int) -> nn.GroupNorm:
    channels = int(layer.num_features)
    made = nn.GroupNorm(math.gcd(groups, channels), channels, eps=layer.eps, affine=bool(layer.affine))
    if layer.affine:
        with torch.no_grad():
            made.weight.copy_(layer.weight)
            made.bias.copy_(layer.bias)
    return made.to(layer.weight.device) if layer.affine else made


def check_by_trying(module: nn.Module, made_up: Any, classes: int) -> None:
    """Run ``module`` on three made-up records together and apart; refuse it if that differs or moves a buffer.

    ``made_up`` holds no private data, so what goes wrong here may be said in full.
    """
    probe = copy.deepcopy(module).train()
    for layer in probe.modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd):
            layer.eval()
    before = {name: value.clone() for name, value in probe.named_buffers()}
    with torch.no_grad(), torch.random.fork_rng(devices=_cuda_devices(module)):
        torch.manual_seed(0)
        together = _outputs(probe, made_up)
        if together.shape != (3, classes):
            raise BadInput(
                "this model", f"for 3 records it gives {tuple(together.shape)}", f"Return a row of {classes} a record"
            )
        if not torch.equal(together, _outputs(probe, made_up)):
            return  # it draws at random by itself: nothing can be compared
        apart = torch.cat([_outputs(probe, _row(made_up, row)) for row in range(len(together))])
    for name, value in probe.named_buffers():
        if not torch.equal(value, before[name]):
            raise BadInput(f"buffer {name} of this model", "records change it, and no noise is added", "Remove it")
    scale = together.abs().max().clamp_min(1e-6)
    if together.shape != apart.shape or not bool(((together - apart).abs() <= _SAME * scale).all()):
        raise BadInput(
            "training this model",
            "a record's output changes with the records beside it",
            "Remove what reads the batch axis: normalisation over it, sorting, attention between records",
        )


def _outputs(module: nn.Module, rows: Any) -> torch.Tensor:
    out = module(rows)
    if not isinstance(out, torch.Tensor) or out.dim() != 2:
        raise BadInput("this model", "its output is not a table of one row a record", "Return (records, classes)")
    return out


def _row(rows: Any, row: int) -> Any:
    if isinstance(rows, dict):
        return {name: part[row : row + 1] for name, part in rows.items()}
    return rows[row : row + 1]


def _cuda_devices(module: nn.Module) -> list[torch.device]:
    return sorted({weights.device for weights in module.parameters() if weights.is_cuda}, key=str)
