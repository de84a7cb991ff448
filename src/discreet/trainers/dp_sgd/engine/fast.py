"""The sum of clipped gradients in one forward and one backward pass (book-keeping, Bu et al. 2023).

Guarantee: as `RecordGradients.clipped_sum`, to rounding; what rounding may do is in `reach` (docs/proofs).

A unit whose gradient is not finite here is left out of the sums and computed alone, by the reference.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from discreet.trainers.dp_sgd.engine.layers import LAYERS
from discreet.trainers.dp_sgd.engine.native import kernels
from discreet.trainers.dp_sgd.engine.recording import Recording
from discreet.trainers.dp_sgd.engine.rounding import single_precision
from discreet.trainers.dp_sgd.gradients import RecordGradients, blanked
from discreet.trainers.dp_sgd.losses import Loss, cross_entropy

_FAR = 2.0**100
IMAGES = 4
"""Axes of a batch of images."""


class FastGradients:
    """Clipped sums for one module and loss."""

    def __init__(self, module: nn.Module, loss: Loss, *, channels_last: bool = False, compiled: bool = False) -> None:
        """``channels_last``: the layout in memory of the module's convolutions and of what goes into it.
        ``compiled``: with kernels that the machine's compiler makes, where there is one.
        """
        self._kernels = kernels() if compiled else None
        if channels_last:
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.reference = RecordGradients(module, loss)
        self._module, self._loss, self._last = module, loss, channels_last
        self.trained = self.reference.trained
        self._names = {id(weights): name for name, weights in self.trained.items()}

    @property
    def size(self) -> int:
        """P."""
        return self.reference.size

    def zero(self) -> Tensor:
        """The sum of no gradients."""
        return self.reference.zero()

    def clipped_sum(
        self, views: Any, targets: Tensor, *, clip: float, usable: Tensor | None = None, together: int = 1
    ) -> Tensor:
        """As `RecordGradients.clipped_sum`. A row on which the model fails counts 0: an error would tell of it."""
        if not len(targets):
            return self.zero()
        try:
            return self.sum_of(views, targets, clip=clip, usable=usable, together=together)
        except Exception:  # noqa: BLE001 - too large for memory, or one row is not what the model takes
            pass  # what follows is not in its context, which may quote a record
        good = self.reference.works_on(views, targets)
        good = good if usable is None else good & usable
        views, targets = blanked(views, good), blanked(targets, good)
        try:
            return self.sum_of(views, targets, clip=clip, usable=good, together=together)
        except Exception:  # noqa: BLE001 - all rows at once are too many
            pass
        return self.reference.clipped_sum(views, targets, clip=clip, usable=good, together=together)

    def sum_of(
        self, views: Any, targets: Tensor, *, clip: float, usable: Tensor | None = None, together: int = 1
    ) -> Tensor:
        """As `clipped_sum`, where no row makes the model fail."""
        with single_precision():
            return self._sum(views, targets, clip, usable, together)

    def _sum(self, views: Any, targets: Tensor, clip: float, usable: Tensor | None, together: int) -> Tensor:
        recording = self._recorded(views, targets, usable, together)
        lengths = recording.tally.lengths()
        finite = lengths <= clip * _FAR  # and NaN is not; beyond it factors lose digits
        factors = torch.where(finite, clip / lengths.clamp_min(clip), 0.0)
        without = None if bool(finite.all()) else ~finite
        total, stop = torch.empty(self.size, dtype=torch.float64, device=factors.device), self.size
        factors = factors.to(next(iter(self.trained.values())).dtype)
        for name, weights in reversed(self.trained.items()):  # the first layers' sums take the most memory
            recording.tally.put(name, factors, total[stop - weights.numel() : stop], without=without)
            stop -= weights.numel()
        if without is not None:
            for unit in without.nonzero().flatten().tolist():
                rows = torch.arange(unit * together, (unit + 1) * together, device=targets.device)
                own = None if usable is None else usable[rows]
                total += self.reference.clipped_sum(
                    taken(views, rows), targets[rows], clip=clip, usable=own, together=together
                )
        return total

    def _recorded(self, views: Any, targets: Tensor, usable: Tensor | None, together: int) -> Recording:
        """One forward and one backward pass, and what they leave."""
        count = _views_each(views)
        rows = len(targets) * count
        anchor = torch.zeros((), device=targets.device, requires_grad=True)
        units = len(targets) // together
        recording = Recording(self._names, LAYERS, rows=rows, units=units, anchor=anchor, kernels=self._kernels)
        with (
            torch.enable_grad(),
            torch.random.fork_rng(devices=[targets.device] if targets.is_cuda else []),  # a second try draws the same
            warnings.catch_warnings(),
            torch.autograd.set_detect_anomaly(False),
        ):
            warnings.simplefilter("ignore")  # a warning may quote a record
            with recording:
                out = self._module(self._flat(views))
            each = self._slopes(out.detach().reshape(len(targets), count, -1), targets)
            if usable is not None:
                shares = _shares(usable, together).to(each.dtype)
                each = torch.where(usable[:, None, None], each * shares[:, None, None], 0.0)
            elif together > 1:
                each = each / together
            if out.requires_grad:
                torch.autograd.backward(out, each.flatten(0, 1), inputs=[anchor])
        return recording

    def _flat(self, views: Any) -> Any:
        """(B, K, ...) to (B x K, ...)."""
        if isinstance(views, dict):
            return {name: self._flat(part) for name, part in views.items()}
        rows = views.flatten(0, 1)
        return rows.contiguous(memory_format=torch.channels_last) if self._last and rows.dim() == IMAGES else rows

    def _slopes(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """(B, K, C): the gradient of every record's loss by its outputs."""
        if self._loss is cross_entropy:
            views = outputs.shape[1]
            each = outputs.flatten(0, 1).t().contiguous().softmax(dim=0)  # three times as fast as along short rows
            places = targets if views == 1 else targets.repeat_interleave(views)
            each.scatter_add_(0, places[None], each.new_full((1, len(places)), -1.0))
            return (each if views == 1 else each.div_(views)).t().reshape(outputs.shape)
        found: Tensor = vmap(grad(lambda part, target: self._loss(part, target).mean()), randomness="different")(
            outputs, targets
        )
        return found


def _views_each(views: Any) -> int:
    first = next(iter(views.values())) if isinstance(views, dict) else views
    return int(first.shape[1])


def taken(views: Any, rows: Tensor) -> Any:
    """The views of some records."""
    return {name: part[rows] for name, part in views.items()} if isinstance(views, dict) else views[rows]


def _shares(counts: Tensor, together: int) -> Tensor:
    """1 / (rows of the unit that count) for every row."""
    each = counts.reshape(-1, together).sum(dim=1).clamp_min(1)
    return (1.0 / each).repeat_interleave(together)
