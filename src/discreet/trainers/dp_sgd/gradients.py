"""The sum of clipped gradients of single units, by `torch.func`: slow, simple, and the reference for anything faster.

Guarantee: every unit adds a vector of length at most C that depends on nothing but its own records, the weights and
public randomness; a record whose gradient is not finite adds 0, and nobody outside learns of it. Sums are kept in
double precision; `reach` bounds by how much rounding may let two neighbours' sums differ, and noise is scaled to that.

Symbols: C ``clip``; B rows of a micro-batch, K views of each, P trained parameters.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from discreet.errors import BadInput, DiscreetError
from discreet.trainers.dp_sgd.losses import Loss

_UNIT = 2.0**-53


def reach(clip: float, *, slots: int, parameters: int) -> float:
    """C, widened by what double precision may round away: at most N (N C) u a sum, P u a length, for either neighbour.

    ``slots`` N is the public number of units, ``parameters`` P.
    """
    return clip * (1 + 4 * _UNIT * (float(slots) ** 2 + parameters + 16))


class RecordGradients:
    """Clipped sums for one module and loss."""

    def __init__(self, module: nn.Module, loss: Loss) -> None:
        self.trained = {name: weights for name, weights in module.named_parameters() if weights.requires_grad}
        frozen = {name: weights.detach() for name, weights in module.named_parameters() if not weights.requires_grad}
        frozen |= {name: value.clone() for name, value in module.named_buffers()}

        def loss_of(trained: dict[str, torch.Tensor], views: Any, target: torch.Tensor) -> torch.Tensor:
            value: torch.Tensor = loss(functional_call(module, trained | frozen, (views,)), target).mean()
            return value

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
        owners: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """sum over rows of their gradients clipped to ``clip``; with ``owners`` (row -> unit 0, 1, ...), over units of
        the mean of their rows' gradients, clipped as one. Rows that are not ``usable`` or not finite count 0.
        """
        each = self._gradients(views, targets)
        counts = torch.isfinite(_squares(each))
        if usable is not None:
            counts &= usable
        each = {name: part.masked_fill(_like(~counts, part), 0.0) for name, part in each.items()}
        if owners is not None:
            each = _means(each, owners, counts)
        length = _squares(each).sqrt()
        factor = clip / length.clamp_min(clip)
        # for each parameter apart: the double-precision copy of all of them would not fit where the floats do
        return torch.cat([factor @ part.reshape(len(part), -1).double() for part in each.values()])

    def try_out(self, views: Any, targets: torch.Tensor) -> None:
        """Compute gradients of made-up records: what goes wrong here is nobody's secret, and is said in full."""
        try:
            with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="There is a performance drop")  # slow, and right
                self._each(self._weights(), views, targets)
        except DiscreetError:
            raise
        except Exception as failed:
            raise BadInput(
                "gradients of single records",
                f"on made-up records the model or its loss ended with {type(failed).__name__}: {failed}",
                "Both must work for one record under torch.func.vmap",
            ) from failed

    def _gradients(self, views: Any, targets: torch.Tensor) -> dict[str, torch.Tensor]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a warning, too, may quote a record
                made: dict[str, torch.Tensor] = self._each(self._weights(), views, targets)
        except DiscreetError:
            raise
        except Exception as failed:  # noqa: BLE001 - what torch says may quote a record
            raise BadInput(
                "a training step",
                f"the model or its loss ended with {type(failed).__name__}",
                "Try both on made-up records that look like yours",
            ) from None
        return made

    def _weights(self) -> dict[str, torch.Tensor]:
        return {name: weights.detach() for name, weights in self.trained.items()}


def _squares(each: dict[str, torch.Tensor]) -> torch.Tensor:
    """The squared length of every row's gradient over all parameters."""
    return torch.stack([part.reshape(len(part), -1).double().square().sum(dim=1) for part in each.values()]).sum(dim=0)


def _like(rows: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    return rows.reshape(-1, *[1] * (part.dim() - 1))


def _means(each: dict[str, torch.Tensor], owners: torch.Tensor, counts: torch.Tensor) -> dict[str, torch.Tensor]:
    """The mean over each owner's rows that count, in double precision."""
    size = int(owners[-1]) + 1
    rows = torch.zeros(size, dtype=torch.float64, device=owners.device).index_add(0, owners, counts.double())
    return {
        name: torch.zeros(size, *part.shape[1:], dtype=torch.float64, device=part.device).index_add(
            0, owners, part.double()
        )
        / _like(rows.clamp_min(1), part)
        for name, part in each.items()
    }
