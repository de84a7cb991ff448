"""Where a phase stands, on disk: tensors in safetensors, the rest in JSON, no pickle.

A checkpoint holds weights, optimizer state and the moving average after a number of whole steps. All of it is computed
from noisy sums, so it is as public as the model. The JSON file names its tensor file by hash and is replaced in one
step: a crash leaves the former checkpoint or the next. Noise and masks are not in it: the receipts repeat them.

It is bound to the very entries that pay for the phase, to the settings, and, by a keyed digest, to records and labels:
going on with others and the same noise would show their difference.
"""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from discreet.errors import InvalidCheckpoint
from discreet.privacy.files import write_whole
from discreet.trainers.dp_sgd.optimization import average_into, build_optimizer, clip_adaptively, factor_at
from discreet.trainers.dp_sgd.settings import Settings

FORMAT = "discreet.checkpoint/1"
_KEYS = {"format", "simulation", "made_for", "done", "tensors", "sha256", "optimizer"}


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """``done`` steps of the phase, and the state after them."""

    done: int
    tensors: dict[str, torch.Tensor]
    optimizer: dict[str, Any]


class Checkpoints:
    """The checkpoint of one phase in a directory. ``made_for`` names the run it belongs to."""

    def __init__(self, directory: Path, *, phase: int, made_for: str, simulation: bool) -> None:
        self._directory, self._made_for, self._simulation = directory, made_for, simulation
        self._name = f"phase-{phase}"

    @property
    def path(self) -> Path:
        """The JSON file."""
        return self._directory / f"{self._name}.json"

    def write(self, progress: TrainingProgress) -> None:
        """Replace the checkpoint by ``progress``, whole or not at all."""
        from safetensors.torch import save

        plain = {name: value.detach().cpu().contiguous() for name, value in progress.tensors.items()}
        content = save(plain)
        tensors = self._directory / f"{self._name}-{progress.done}.safetensors"
        write_whole(tensors, content)
        form = {
            "format": FORMAT,
            "simulation": self._simulation,
            "made_for": self._made_for,
            "done": progress.done,
            "tensors": tensors.name,
            "sha256": hashlib.sha256(content).hexdigest(),
            "optimizer": progress.optimizer,
        }
        write_whole(self.path, json.dumps(form, indent=1) + "\n")
        for old in self._directory.glob(f"{self._name}-*.safetensors"):
            if old != tensors:
                old.unlink(missing_ok=True)

    def read(self) -> TrainingProgress | None:
        """What `write` stored last, or None where there is nothing yet."""
        if not self.path.exists():
            return None
        form = self._form()
        if form["made_for"] != self._made_for:
            raise self._broken(
                "it belongs to other charges, settings, model, records or labels",
                "Go on with what it was made with, or remove it to begin the phase again",
            )
        from safetensors.torch import load

        try:
            content = (self._directory / Path(form["tensors"]).name).read_bytes()
            if hashlib.sha256(content).hexdigest() != form["sha256"]:
                raise self._broken("its tensors are not the ones it names")
            return TrainingProgress(done=form["done"], tensors=load(content), optimizer=form["optimizer"])
        except InvalidCheckpoint:
            raise
        except Exception:  # noqa: BLE001 - whatever is wrong with the file, it is not a checkpoint
            raise self._broken("its tensors cannot be read") from None

    def _form(self) -> dict[str, Any]:
        try:
            form = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            raise self._broken("it is not JSON") from None
        if not isinstance(form, dict) or set(form) != _KEYS or form["format"] != FORMAT:
            raise self._broken("it is not a checkpoint of this format")
        texts = all(isinstance(form[name], str) for name in ("made_for", "tensors", "sha256"))
        if not texts or type(form["done"]) is not int or form["done"] < 0 or not isinstance(form["optimizer"], dict):
            raise self._broken("a part of it is of the wrong type")
        return form

    def _broken(
        self, fact: str, remedy: str = "Remove it to begin the phase again from its start"
    ) -> InvalidCheckpoint:
        return InvalidCheckpoint(f"reading the checkpoint {self.path.name}", fact, remedy)


def optimizer_form(optimizer: torch.optim.Optimizer) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """An optimizer's state as tensors by name, and everything else as JSON."""
    stored = optimizer.state_dict()
    tensors: dict[str, torch.Tensor] = {}
    plain: dict[str, Any] = {}
    for number, state in stored["state"].items():
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                tensors[f"optimizer.{number}.{name}"] = value
            else:
                plain[f"{number}.{name}"] = value
    groups = [{name: value for name, value in group.items() if name != "params"} for group in stored["param_groups"]]
    return tensors, {"state": plain, "groups": groups}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor], form: dict[str, Any]) -> None:
    """The inverse of `optimizer_form`, into a new optimizer of the same parameters."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in [*form["state"].items(), *((k.removeprefix("optimizer."), v) for k, v in tensors.items())]:
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    fresh = optimizer.state_dict()["param_groups"]
    groups = [{**defaults, **stored} for defaults, stored in zip(fresh, form["groups"], strict=True)]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    everyone = [weights for group in optimizer.param_groups for weights in group["params"]]
    for number, values in state.items():  # load_state_dict casts some of them; bits must stay
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                held = optimizer.state[everyone[number]][name]
                optimizer.state[everyone[number]][name] = value.clone().to(held.device)


# What changes while a phase is trained: weights, optimizer, moving average, and the number of steps done.


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

    def progress(self) -> TrainingProgress:
        """Everything needed to go on from here."""
        tensors, form = optimizer_form(self._optimizer)
        tensors |= {f"weights.{name}": weights for name, weights in self._trained.items()}
        if self._settings.ema is not None:
            tensors |= {f"average.{name}": value for name, value in self._averages.items()}
        return TrainingProgress(done=self.done, tensors=tensors, optimizer=form)

    def restore(self, progress: TrainingProgress) -> None:
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
        trained = self._averages if averaged else self._trained
        with torch.no_grad():
            for name, weights in self._untouched.named_parameters():
                if name in trained:
                    weights.copy_(trained[name])
        return self._untouched.eval()
