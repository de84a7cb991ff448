"""Normalisation: the gradients of scale and shift, unit by unit, from what torch's own kernels leave."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from discreet.trainers.dp_sgd.engine.native import Kernels, takes
from discreet.trainers.dp_sgd.engine.parts import pieces

_CACHED = 1 << 18


def native_group_norm(
    x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Output, the input as it was used, and for every row and group its mean and 1 / deviation."""
    last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    kept = x if last else x.contiguous()
    rows, channels = x.shape[:2]
    out, mean, scale = torch.native_group_norm(kept, weight, bias, rows, channels, math.prod(x.shape[2:]), groups, eps)
    return out, kept, mean, scale


def group_gradients(
    x: Tensor, gradients: Tensor, mean: Tensor, scale: Tensor, *, units: int, kernels: Kernels | None = None
) -> tuple[Tensor, Tensor]:
    """(U, channels) each: sum b (x - mean) / deviation, and sum b, over the places of a unit."""
    rows, channels = x.shape[:2]
    spread = channels // mean.reshape(rows, -1).shape[1]
    if kernels is not None and x.dim() > 2 and takes(x, gradients):
        slopes, shifts = kernels.normalized(x, gradients)
    else:
        slopes, shifts = _sums(x, gradients)
    each, scales = (part.reshape(rows, -1).repeat_interleave(spread, dim=1) for part in (mean, scale))
    slopes = (slopes - each * shifts) * scales
    return _by_unit(slopes, units), _by_unit(shifts, units)


def _sums(x: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
    """(rows, channels) each: sums of products, and of gradients, over places."""
    rows, channels = x.shape[:2]
    slopes, shifts = x.new_empty(rows, channels), x.new_empty(rows, channels)
    for piece in pieces(rows, max(1, _CACHED // max(1, x[0].numel()))):
        b = gradients[piece].flatten(2) if x.dim() > 2 else gradients[piece][:, :, None]
        inputs = x[piece].flatten(2) if x.dim() > 2 else x[piece][:, :, None]
        shifts[piece] = b.sum(dim=2)
        slopes[piece] = (b * inputs).sum(dim=2)
    return slopes, shifts


def layer_gradients(x: Tensor, gradients: Tensor, mean: Tensor, scale: Tensor, *, units: int) -> tuple[Tensor, Tensor]:
    """(U, normalised numbers) each: sum b (x - mean) / deviation, and sum b, over the places of a unit."""
    slopes, shifts = [], []
    rows = len(x) // units
    for piece in pieces(units, max(1, _CACHED // max(1, rows * x[0].numel()))):
        part = slice(piece.start * rows, piece.stop * rows)
        whole = (x[part] - mean[part]).mul_(scale[part]).mul_(gradients[part])
        places = (piece.stop - piece.start, -1, x.numel() // mean.numel())
        slopes.append(whole.reshape(places).sum(dim=1))
        shifts.append(gradients[part].reshape(places).sum(dim=1))
    return torch.cat(slopes), torch.cat(shifts)


def _by_unit(part: Tensor, units: int) -> Tensor:
    return part.reshape(units, -1, part.shape[1]).sum(dim=1)
