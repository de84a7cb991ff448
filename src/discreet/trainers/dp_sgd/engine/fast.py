"""The sum of clipped gradients in one forward and one backward pass (book-keeping, Bu et al. 2023).

Guarantee: as `RecordGradients.clipped_sum`, to rounding; what rounding may do is in `reach` (docs/proofs).

A unit whose gradient is not finite here is left out of the sums and computed alone, by the reference.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from discreet.trainers.dp_sgd.engine.layers import LAYERS
from discreet.trainers.dp_sgd.engine.native import kernels
from discreet.trainers.dp_sgd.engine.parts import margin, single_precision
from discreet.trainers.dp_sgd.engine.recording import ModelRecording, Unknown
from discreet.trainers.dp_sgd.gradients import RecordGradients, blanked
from discreet.trainers.dp_sgd.optimization import Loss, cross_entropy
from discreet.trainers.tensors import each_part

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
        self.trained, self.size, self.zero = self.reference.trained, self.reference.size, self.reference.zero
        self._names = {id(weights): name for name, weights in self.trained.items()}

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

    @single_precision()
    def sum_of(
        self, views: Any, targets: Tensor, *, clip: float, usable: Tensor | None = None, together: int = 1
    ) -> Tensor:
        """As `clipped_sum`, where no row makes the model fail."""
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
                counted = None if usable is None else usable[rows]
                total += self.reference.clipped_sum(
                    taken(views, rows), targets[rows], clip=clip, usable=counted, together=together
                )
        return total

    def _recorded(self, views: Any, targets: Tensor, usable: Tensor | None, together: int) -> ModelRecording:
        """One forward and one backward pass, and what they leave."""
        count = int((next(iter(views.values())) if isinstance(views, dict) else views).shape[1])
        rows = len(targets) * count
        anchor = torch.zeros((), device=targets.device, requires_grad=True)
        units = len(targets) // together
        recording = ModelRecording(self._names, LAYERS, rows=rows, units=units, anchor=anchor, kernels=self._kernels)
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
        rows = each_part(lambda part: part.flatten(0, 1), views)
        images = self._last and isinstance(rows, Tensor) and rows.dim() == IMAGES
        return rows.contiguous(memory_format=torch.channels_last) if images else rows

    def _slopes(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """(B, K, C): the gradient of every record's loss by its outputs."""
        if self._loss is cross_entropy:
            views = outputs.shape[1]
            each = outputs.flatten(0, 1).t().contiguous().softmax(dim=0)  # three times as fast as along short rows
            places = targets if views == 1 else targets.repeat_interleave(views)
            each.scatter_add_(0, places[None], each.new_full((1, len(places)), -1.0))
            return (each if views == 1 else each.div_(views)).t().reshape(outputs.shape)
        slopes: Tensor = vmap(grad(lambda part, target: self._loss(part, target).mean()), randomness="different")(
            outputs, targets
        )
        return slopes


def taken(views: Any, rows: Tensor) -> Any:
    """The views of some records."""
    return each_part(lambda part: part[rows], views)


def _shares(counts: Tensor, together: int) -> Tensor:
    """1 / (rows of the unit that count) for every row."""
    each = counts.reshape(-1, together).sum(dim=1).clamp_min(1)
    return (1.0 / each).repeat_interleave(together)


# Which engine computes a model's gradients: found out on made-up records, before anything is charged.
#
# The fast engine is trusted with a model when, on made-up records in batches of two sizes, its sums are the
# reference's. What it does not know, or gets wrong, is computed by the reference; the log says so once. The choice
# depends on model, loss, settings and the shape of records: all public.

_LOG = logging.getLogger("discreet.trainers.dp_sgd")
_SAID: set[tuple[str, str]] = set()
_LONG, _SHORT = 1e9, 1e-9
_SAME, _LEAST = 1e-3, 1e-5
"""Rounding stays far below this; a gradient that is missing, doubled or another record's is far above."""


@dataclass(frozen=True)
class GradientEngine:
    """How gradients are computed."""

    fast: bool
    channels_last: bool = False
    compiled: bool = False

    def margin(self, units: int) -> float:
        """What single precision may add to C, as a share of it, in micro-batches of ``units``: noise covers it."""
        return margin(units) if self.fast else 0.0

    def gradients(self, module: nn.Module, loss: Loss) -> FastGradients | RecordGradients:
        """For ``module``, which is laid out in memory as this engine wants it."""
        return (
            FastGradients(module, loss, channels_last=self.channels_last, compiled=self.compiled)
            if self.fast
            else RecordGradients(module, loss)
        )


REFERENCE = GradientEngine(fast=False)


def choose_engine(
    module: nn.Module, loss: Loss, samples: Sequence[tuple[Any, torch.Tensor]], *, compiled: bool = False
) -> GradientEngine:
    """The fastest engine that is right on all ``samples``: views and targets of made-up records."""
    engines = [GradientEngine(fast=True, channels_last=True)] if _has_images(module, samples) else []
    if compiled and any(weights.dim() in (IMAGES - 1, IMAGES) for weights in module.parameters()):
        engines = [GradientEngine(fast=True, channels_last=bool(engines), compiled=True), *engines]
    why, devices = "", sorted({str(targets.device) for _, targets in samples if targets.is_cuda})
    for engine in (*engines, GradientEngine(fast=True)):
        try:
            with torch.random.fork_rng(devices=devices):
                if all(_right(module, loss, engine, views, targets) for views, targets in samples):
                    return engine
            why = "its gradients came out otherwise than by torch.func"
        except Unknown as unknown:
            why = f"no fast gradient is known for {unknown}"
        except Exception as failed:  # noqa: BLE001 - the model is run in another way than it was made for
            why = f"it ended with {type(failed).__name__}"
    model = type(module).__name__
    if (model, why) not in _SAID:
        _SAID.add((model, why))
        _LOG.warning("%s is trained by torch.func, which is slower: %s", model, why)
    return REFERENCE


def _has_images(module: nn.Module, samples: Sequence[tuple[Any, torch.Tensor]]) -> bool:
    pictures = all(isinstance(views, torch.Tensor) and views.dim() == IMAGES + 1 for views, _ in samples)
    return pictures and any(weights.dim() == IMAGES for weights in module.parameters())


def _right(module: nn.Module, loss: Loss, engine: GradientEngine, views: Any, targets: torch.Tensor) -> bool:
    """Whether ``engine`` gives the reference's sums: of gradients as they are, and of gradients of equal length, so
    that one that is another record's is found; in batches of two sizes, so that the axis of records is found.
    """
    slow, quick = (_without_dropout(_stirred(module), views) for _ in range(2))
    reference, tried = RecordGradients(slow, loss), engine.gradients(quick, loss)
    assert isinstance(tried, FastGradients)
    for places in (list(range(len(targets))), list(range(len(targets) - 1, 0, -1))):
        rows = torch.tensor(places, device=targets.device)
        some, wanted = taken(views, rows), targets[rows]
        for clip in (_LONG, _SHORT):
            expected, computed = reference.clipped_sum(some, wanted, clip=clip), tried.sum_of(some, wanted, clip=clip)
            if not _same(computed, expected, [weights.numel() for weights in reference.trained.values()]):
                return False
    return True


def _same(computed: torch.Tensor, expected: torch.Tensor, sizes: list[int]) -> bool:
    """Parameter by parameter: one with a short gradient may be as wrong as any."""
    least = _LEAST * expected.norm()
    return all(
        bool((part - other).norm() <= _SAME * other.norm() + least)
        for part, other in zip(torch.split(computed, sizes), torch.split(expected, sizes), strict=True)
    )


def _stirred(module: nn.Module) -> nn.Module:
    """A copy with other weights: where some begin at 0, as gates do, what is behind them has no gradient yet, and a
    mistake there would not be seen.
    """
    stirred = copy.deepcopy(module)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in stirred.parameters():
            if weights.requires_grad:
                change = torch.randn(weights.shape, generator=generator).to(weights)
                weights.add_(change * (0.1 + weights.abs().mean()) / 4)
    return stirred


def _without_dropout(module: nn.Module, views: Any) -> nn.Module:
    """``module`` in training mode, dropout off; in evaluation mode if it still draws at random."""
    for layer in module.train().modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd):
            layer.eval()
    rows = each_part(lambda part: part.flatten(0, 1), views)
    with torch.no_grad():
        if torch.equal(module(rows), module(rows)):
            return module
        seeded = []
        for _ in range(2):
            torch.manual_seed(0)
            seeded.append(module(rows))
    if not torch.equal(*seeded):  # whether records mix cannot be tried
        raise Unknown("a model whose random draws no seed repeats")
    return module.eval()
