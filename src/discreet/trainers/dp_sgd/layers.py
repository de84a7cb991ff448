"""What a model must not have: layers in which one record touches another, and buffers that data moves.

Known layers are refused by name (`discreet.models.mixing`). Layers nobody has a name for are found by trying: the model
is run on made-up records together and one by one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from discreet.errors import BadInput
from discreet.models.mixing import check_sized, refuse_mixing
from discreet.trainers.dp_sgd.guards import in_full
from discreet.trainers.tensors import row_of

_SAME, _SEEDS = 1e-3, 8
"""Rounding of a batch against single records stays far below this; mixing is far above."""


def check_layers(module: nn.Module) -> None:
    """Refuse layers that mix records or keep statistics of them; the error names layer and replacement."""
    refuse_mixing(module, "training this model")
    check_sized(module)
    if not any(weights.requires_grad for weights in module.parameters()):
        raise BadInput("training this model", "none of its parameters is to be trained", "Set requires_grad")
    if any(weights.is_complex() for weights in module.parameters()):
        raise BadInput("training this model", "it has complex weights", "Use real ones")


def check_by_trying(module: nn.Module, made_up: Any, classes: int) -> None:
    """Run ``module``, a copy, on three made-up records together and apart; refuse it if that differs or moves a buffer.

    ``made_up`` holds no private data, so what goes wrong here may be said in full.
    """
    probe = module.train()
    for layer in probe.modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd):
            layer.eval()
    before = {name: value.clone() for name, value in probe.named_buffers()}
    with torch.no_grad(), torch.random.fork_rng(devices=_cuda_devices(module)):
        torch.manual_seed(0)
        together = _outputs(probe, made_up)
        for name, value in probe.named_buffers():
            if not torch.equal(value, before[name]):
                raise BadInput(
                    f"buffer {name} of this model", "a forward pass changes it, and no noise is added", "Remove it"
                )
        if together.shape != (3, classes):
            raise BadInput(
                "this model", f"for 3 records it gives {tuple(together.shape)}", f"Return a row of {classes} a record"
            )
        _check_company(probe, made_up)
        if not torch.equal(together, _outputs(probe, made_up)):
            return  # it draws at random by itself: batches of other sizes cannot be compared
        apart = torch.cat([_outputs(probe, row_of(made_up, row)) for row in range(len(together))])
    scale = together.abs().max().clamp_min(1e-6)
    if together.shape != apart.shape or not bool(((together - apart).abs() <= _SAME * scale).all()):
        _refuse()


def _refuse() -> None:
    raise BadInput(
        "training this model",
        "a record's output changes with the records beside it",
        "Remove what reads the batch axis: normalisation over it, sorting, attention between records",
    )


def _check_company(probe: nn.Module, made_up: Any) -> None:
    """Refuse a model if, with the same luck, one record that changes changes what it says of another."""
    for seed in range(_SEEDS):
        before, again = (_with_seed(probe, made_up, seed) for _ in range(2))
        if not torch.equal(before, again):
            return  # it has luck of its own, which no seed repeats; `trial` leaves it to the reference
        for row, factor in enumerate((0, 1000, 0)):
            after = _with_seed(probe, _with_row(made_up, row, factor), seed)
            others = torch.arange(len(before), device=before.device) != row
            gap = (after - before)[others].abs()
            if not bool((gap <= _SAME * before.abs().max().clamp_min(1e-6)).all()):
                _refuse()


def _with_seed(probe: nn.Module, rows: Any, seed: int) -> torch.Tensor:
    torch.default_generator.manual_seed(seed)  # torch.manual_seed writes down the stack for devices that are not there
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
    return _outputs(probe, rows)


def _with_row(rows: Any, row: int, factor: int) -> Any:
    if isinstance(rows, dict):
        return {name: _with_row(part, row, factor) for name, part in rows.items()}
    made = rows.clone()
    made[row] *= factor if rows.is_floating_point() else 0
    return made


def _outputs(module: nn.Module, rows: Any) -> torch.Tensor:
    with in_full("the model", "Give records as the model takes them"):
        out = module(rows)
    if not isinstance(out, torch.Tensor) or out.dim() != 2:
        raise BadInput("this model", "its output is not a table of one row a record", "Return (records, classes)")
    return out


def _cuda_devices(module: nn.Module) -> list[torch.device]:
    return sorted({weights.device for weights in module.parameters() if weights.is_cuda}, key=str)
