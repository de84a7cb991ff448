"""The sum of clipped gradients of single units, by `torch.func`: slow, simple, and the reference for anything faster.

Guarantee: every unit adds a vector of length at most C that depends on nothing but its own records, the weights and
the step's randomness; a record whose gradient is not finite adds 0, and nobody outside learns of it. Sums are kept in
double precision; `reach` bounds by how much rounding may let two neighbours' sums differ, and noise is scaled to that.

Symbols: C ``clip``; B rows of a micro-batch, K views of each, P trained parameters.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from discreet.pools.rows import or_none
from discreet.trainers.dp_sgd.checks import in_full
from discreet.trainers.dp_sgd.optimization import Loss
from discreet.trainers.tensors import each_part

_UNIT = 2.0**-53
_BLOCK = 32


def reach(clip: float, *, slots: int, parameters: int, at_once: int) -> float:
    """C, widened by what double precision may round away, for either neighbour: of a sum d u (N C), where d is how many
    additions a term goes through (blocks of rows, blocks of a micro-batch, micro-batches); of a length P u.

    ``slots`` N is the public number of rows, ``at_once`` those of a micro-batch, ``parameters`` P.
    """
    depth = 2 * _BLOCK + at_once / _BLOCK + slots / at_once + 16
    return clip * (1 + 4 * _UNIT * (float(slots) * depth + parameters + 16))


class RecordGradients:
    """Clipped sums for one module and loss."""

    def __init__(self, module: nn.Module, loss: Loss) -> None:
        self.trained = {name: weights for name, weights in module.named_parameters() if weights.requires_grad}
        frozen = {name: weights.detach() for name, weights in module.named_parameters() if not weights.requires_grad}
        frozen |= dict(module.named_buffers())

        def loss_of(trained: dict[str, torch.Tensor], views: Any, target: torch.Tensor) -> torch.Tensor:
            mean: torch.Tensor = loss(functional_call(module, trained | frozen, (views,)), target).mean()
            return mean

        self._each = vmap(grad(loss_of), in_dims=(None, 0, 0), randomness="different")

    @property
    def size(self) -> int:
        """P."""
        return sum(weights.numel() for weights in self.trained.values())

    def zero(self) -> torch.Tensor:
        """The sum of no gradients."""
        device = next(iter(self.trained.values())).device
        return torch.zeros(self.size, dtype=torch.float64, device=device)

    def clipped_sum(
        self,
        views: Any,
        targets: torch.Tensor,
        *,
        clip: float,
        usable: torch.Tensor | None = None,
        together: int = 1,
    ) -> torch.Tensor:
        """sum over units of their gradients clipped to ``clip``. A unit is ``together`` rows in a row, and its gradient
        their mean. Rows that are not ``usable`` or not finite count 0.
        """
        each = [part.reshape(len(part), -1) for part in self._gradients(views, targets).values()]
        rows = len(targets)
        counts = torch.ones(rows, dtype=torch.bool, device=targets.device) if usable is None else usable
        total, block = self.zero(), together * max(1, _BLOCK // together)
        for start in range(0, rows, block):  # blocks that stay in the cache: doubles of all rows would not
            piece = slice(start, start + block)
            doubles = [part[piece].double() for part in each]
            total += _clipped(doubles, counts[piece], clip, together)
        return total

    def try_out(self, views: Any, targets: torch.Tensor) -> None:
        """Compute gradients of made-up records: what goes wrong here is nobody's secret, and is said in full."""
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), in_full("the model or its loss"):
            warnings.filterwarnings("ignore", message="There is a performance drop")  # slow, and right
            self._each(self._weights(), views, targets)
            null = torch.arange(len(targets), device=targets.device) > 0
            self._each(self._weights(), blanked(views, null), blanked(targets, null))
            for row in range(len(targets)):  # as they are tried if one of them makes the model fail
                self._each(self._weights(), *self._twice(views, targets, row))

    def _gradients(self, views: Any, targets: torch.Tensor) -> dict[str, torch.Tensor]:
        """Every row's gradient. Where the model fails on a row, that row's is not a number, and counts 0 like any other
        that is not: an error would tell that it was there. The others are computed as they are beside a null.
        """
        try:
            return self._quiet(views, targets)
        except Exception:  # noqa: BLE001 - too large for memory, or one row is not what the model takes
            pass  # what follows is not in its context, which may quote a record
        alone = self._each_alone(views, targets)
        good = torch.tensor([row is not None for row in alone], device=targets.device)
        try:
            each = self._quiet(blanked(views, good), blanked(targets, good))
        except Exception:  # noqa: BLE001 - all rows at once are too many
            nothing = {name: torch.zeros_like(weights)[None] for name, weights in self._weights().items()}
            each = {name: torch.cat([(row or nothing)[name] for row in alone]) for name in self.trained}
        return {name: part.masked_fill(_along(~good, part), torch.nan) for name, part in each.items()}

    def works_on(self, views: Any, targets: torch.Tensor) -> torch.Tensor:
        """Which rows the model does not fail on. Secret."""
        works = [row is not None for row in self._each_alone(views, targets)]
        return torch.tensor(works, dtype=torch.bool, device=targets.device)

    def _each_alone(self, views: Any, targets: torch.Tensor) -> list[dict[str, torch.Tensor] | None]:
        alone = (or_none(self._quiet, *self._twice(views, targets, row)) for row in range(len(targets)))
        return [None if row is None else {name: part[:1] for name, part in row.items()} for row in alone]

    @staticmethod
    def _twice(views: Any, targets: torch.Tensor, row: int) -> tuple[Any, torch.Tensor]:
        """A row beside itself: some of torch's functions fail on batches of one."""
        return each_part(lambda part: part[[row, row]], views), targets[[row, row]]

    def _quiet(self, views: Any, targets: torch.Tensor) -> dict[str, torch.Tensor]:
        devices = [targets.device] if targets.is_cuda else []
        with (
            torch.random.fork_rng(devices=devices),  # a second try draws what the first one did
            warnings.catch_warnings(),
            torch.autograd.set_detect_anomaly(False),
        ):
            warnings.simplefilter("ignore")  # a warning, too, may quote a record
            each: dict[str, torch.Tensor] = self._each(self._weights(), views, targets)
        return each

    def _weights(self) -> dict[str, torch.Tensor]:
        return {name: weights.detach() for name, weights in self.trained.items()}


def blanked(rows: Any, good: torch.Tensor) -> Any:
    """``rows`` with zeros for those that are not good, as for a null."""
    return each_part(lambda part: torch.where(_along(good, part), part, torch.zeros_like(part)), rows)


def _along(rows: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    return rows.reshape(-1, *[1] * (part.dim() - 1))


def _clipped(parts: list[torch.Tensor], counts: torch.Tensor, clip: float, together: int) -> torch.Tensor:
    """The sum of clipped units of a block, one flat vector; ``parts`` are overwritten."""
    counts = counts & torch.isfinite(_lengths(parts))
    for part in parts:
        part.masked_fill_(~counts[:, None], 0.0)
    if together > 1:
        rows = counts.reshape(-1, together).sum(dim=1).clamp_min(1)[:, None]
        parts = [part.reshape(-1, together, part.shape[1]).sum(dim=1) / rows for part in parts]
    length = _lengths(parts)
    if together > 1:  # finite rows may have a mean that is not
        for part in parts:
            part.masked_fill_(~torch.isfinite(length)[:, None], 0.0)
    factor = torch.where(torch.isfinite(length), clip / length.clamp_min(clip), 0.0)
    return torch.cat([factor @ part for part in parts])


def _lengths(parts: list[torch.Tensor]) -> torch.Tensor:
    """The length of every row over all parts."""
    each = torch.stack([torch.linalg.vector_norm(part, dim=1) for part in parts])
    lengths: torch.Tensor = torch.linalg.vector_norm(each, dim=0)
    return lengths
