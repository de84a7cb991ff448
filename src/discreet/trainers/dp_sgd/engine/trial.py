"""Which way a model's gradients are computed: found out on made-up records, before anything is charged.

The fast engine is trusted with a model when, on made-up records in batches of two sizes, its sums are the reference's.
What it does not know, or gets wrong, is computed by the reference; the log says so once. The choice depends on model,
loss, settings and the shape of records: all public.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from discreet.trainers.dp_sgd.engine.fast import IMAGES, FastGradients, taken
from discreet.trainers.dp_sgd.engine.recording import Unknown
from discreet.trainers.dp_sgd.engine.rounding import margin
from discreet.trainers.dp_sgd.gradients import RecordGradients
from discreet.trainers.dp_sgd.losses import Loss

_LOG = logging.getLogger("discreet.trainers.dp_sgd")
_SAID: set[tuple[str, str]] = set()
_LONG, _SHORT = 1e9, 1e-9
_SAME, _LEAST = 1e-3, 1e-5
"""Rounding stays far below this; a gradient that is missing, doubled or another record's is far above."""


@dataclass(frozen=True)
class Way:
    """How gradients are computed."""

    fast: bool
    channels_last: bool = False
    compiled: bool = False

    def margin(self, units: int) -> float:
        """What single precision may add to C, as a share of it, in micro-batches of ``units``: noise covers it."""
        return margin(units) if self.fast else 0.0

    def gradients(self, module: nn.Module, loss: Loss) -> FastGradients | RecordGradients:
        """For ``module``, which is laid out in memory as this way wants it."""
        return (
            FastGradients(module, loss, channels_last=self.channels_last, compiled=self.compiled)
            if self.fast
            else RecordGradients(module, loss)
        )


REFERENCE = Way(fast=False)


def way_for(
    module: nn.Module, loss: Loss, samples: Sequence[tuple[Any, torch.Tensor]], *, compiled: bool = False
) -> Way:
    """The fastest way that is right on all ``samples``: views and targets of made-up records."""
    ways = [Way(fast=True, channels_last=True)] if _has_images(module, samples) else []
    if compiled and any(weights.dim() in (IMAGES - 1, IMAGES) for weights in module.parameters()):
        ways = [Way(fast=True, channels_last=bool(ways), compiled=True), *ways]
    why, devices = "", sorted({str(targets.device) for _, targets in samples if targets.is_cuda})
    for way in (*ways, Way(fast=True)):
        try:
            with torch.random.fork_rng(devices=devices):
                if all(_right(module, loss, way, views, targets) for views, targets in samples):
                    return way
            why = "its gradients came out otherwise than by torch.func"
        except Unknown as unknown:
            why = f"no fast gradient is known for {unknown}"
        except Exception as failed:  # noqa: BLE001 - the model is run in another way than it was made for
            why = f"it ended with {type(failed).__name__}"
    _say(type(module).__name__, why)
    return REFERENCE


def _say(model: str, why: str) -> None:
    if (model, why) not in _SAID:
        _SAID.add((model, why))
        _LOG.warning("%s is trained by torch.func, which is slower: %s", model, why)


def _has_images(module: nn.Module, samples: Sequence[tuple[Any, torch.Tensor]]) -> bool:
    pictures = all(isinstance(views, torch.Tensor) and views.dim() == IMAGES + 1 for views, _ in samples)
    return pictures and any(weights.dim() == IMAGES for weights in module.parameters())


def _right(module: nn.Module, loss: Loss, way: Way, views: Any, targets: torch.Tensor) -> bool:
    """Whether ``way`` gives the reference's sums: of gradients as they are, and of gradients of equal length, so that
    one that is another record's is found; in batches of two sizes, so that the axis of records is found.
    """
    slow, quick = (_without_luck(_stirred(module), views) for _ in range(2))
    reference, tried = RecordGradients(slow, loss), way.gradients(quick, loss)
    assert isinstance(tried, FastGradients)
    for places in (list(range(len(targets))), list(range(len(targets) - 1, 0, -1))):
        rows = torch.tensor(places, device=targets.device)
        some, wanted = taken(views, rows), targets[rows]
        for clip in (_LONG, _SHORT):
            expected, found = reference.clipped_sum(some, wanted, clip=clip), tried.sum_of(some, wanted, clip=clip)
            if not _same(found, expected, [weights.numel() for weights in reference.trained.values()]):
                return False
    return True


def _same(found: torch.Tensor, expected: torch.Tensor, sizes: list[int]) -> bool:
    """Parameter by parameter: one with a short gradient may be as wrong as any."""
    least = _LEAST * expected.norm()
    return all(
        bool((one - other).norm() <= _SAME * other.norm() + least)
        for one, other in zip(torch.split(found, sizes), torch.split(expected, sizes), strict=True)
    )


def _stirred(module: nn.Module) -> nn.Module:
    """A copy with other weights: where some begin at 0, as gates do, what is behind them has no gradient yet, and a
    mistake there would not be seen.
    """
    made = copy.deepcopy(module)
    luck = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in made.parameters():
            if weights.requires_grad:
                change = torch.randn(weights.shape, generator=luck).to(weights)
                weights.add_(change * (0.1 + weights.abs().mean()) / 4)
    return made


def _without_luck(module: nn.Module, views: Any) -> nn.Module:
    """``module`` in training mode, dropout off; in evaluation mode if it still draws at random."""
    for layer in module.train().modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd):
            layer.eval()
    rows = (
        {name: part.flatten(0, 1) for name, part in views.items()} if isinstance(views, dict) else views.flatten(0, 1)
    )
    with torch.no_grad():
        if torch.equal(module(rows), module(rows)):
            return module
        seeded = []
        for _ in range(2):
            torch.manual_seed(0)
            seeded.append(module(rows))
    if not torch.equal(*seeded):  # whether records mix cannot be tried
        raise Unknown("a model whose luck no seed repeats")
    return module.eval()
