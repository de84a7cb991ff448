"""What changes while a phase is trained: weights, optimizer, moving average, and the number of steps done."""

from __future__ import annotations

import copy

import torch
from torch import nn

from discreet.errors import InvalidCheckpoint
from discreet.trainers.dp_sgd.checkpoints import Progress, optimizer_form, restore_optimizer
from discreet.trainers.dp_sgd.optimizing import average_into, build_optimizer, clip_adaptively
from discreet.trainers.dp_sgd.schedules import factor_at
from discreet.trainers.dp_sgd.settings import Settings


class State:
    """A module on its way, after ``done`` steps."""

    def __init__(self, module: nn.Module, settings: Settings) -> None:
        self.module, self.done, self._settings = module, 0, settings
        self._untouched = copy.deepcopy(module)
        self._trained = {name: weights for name, weights in module.named_parameters() if weights.requires_grad}
        self._optimizer = build_optimizer(
            settings.optimizer, self._trained.values(), settings.learning_rate, settings.optimizer_options
        )
        self._rates = [float(group["lr"]) for group in self._optimizer.param_groups]
        self._averages = {name: weights.detach().clone() for name, weights in self._trained.items()}

    def move(self, gradient: torch.Tensor, *, steps: int) -> None:
        """One step along the noisy mean gradient, a flat vector in the order of the parameters."""
        start = 0
        for weights in self._trained.values():
            part = gradient[start : start + weights.numel()]
            weights.grad = part.reshape(weights.shape).to(device=weights.device, dtype=weights.dtype)
            start += weights.numel()
        if self._settings.adaptive_clip is not None:
            clip_adaptively(self._limited(), self._settings.adaptive_clip)
        factor = factor_at(self._settings.schedule, self.done, steps)
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.done += 1
        if self._settings.ema is not None:
            average_into(self._averages, self._trained, self._settings.ema, self.done)

    def _limited(self) -> list[nn.Parameter]:
        """What adaptive clipping limits: everything but the last layer, which it is known to hurt."""
        head = getattr(self.module, "head", None)
        spared = {id(weights) for weights in head.parameters()} if isinstance(head, nn.Module) else set()
        return [weights for weights in self._trained.values() if id(weights) not in spared]

    def progress(self) -> Progress:
        """Everything needed to go on from here."""
        tensors, form = optimizer_form(self._optimizer)
        tensors |= {f"weights.{name}": weights for name, weights in self._trained.items()}
        if self._settings.ema is not None:
            tensors |= {f"average.{name}": value for name, value in self._averages.items()}
        return Progress(done=self.done, tensors=tensors, optimizer=form)

    def restore(self, progress: Progress) -> None:
        """Go on from ``progress``."""
        tensors = dict(progress.tensors)
        try:
            with torch.no_grad():
                for name, weights in self._trained.items():
                    weights.copy_(tensors.pop(f"weights.{name}"))
                    if self._settings.ema is not None:
                        self._averages[name].copy_(tensors.pop(f"average.{name}"))
            restore_optimizer(self._optimizer, tensors, progress.optimizer)
        except (KeyError, ValueError, TypeError, RuntimeError, AttributeError):
            raise InvalidCheckpoint(
                "going on from a checkpoint",
                "its tensors do not fit this model and optimizer",
                "Remove it to begin the phase again from its start",
            ) from None
        self.done = progress.done

    def result(self) -> nn.Module:
        """The trained weights, or their moving average, in a module that never saw a record: whatever a forward pass
        may have left behind in the other one stays there.
        """
        averaged = self._settings.ema is not None and self.done
        found = self._averages if averaged else self._trained
        with torch.no_grad():
            for name, weights in self._untouched.named_parameters():
                if name in found:
                    weights.copy_(found[name])
        return self._untouched.eval()
