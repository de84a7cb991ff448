"""Where a phase stands, on disk: tensors in safetensors, the rest in JSON, no pickle.

A checkpoint holds weights, optimizer state and the moving average after a number of whole steps. All of it is computed
from noisy sums, so it is as public as the model. The JSON file names its tensor file by hash and is replaced in one
step: a crash leaves the former checkpoint or the next. Noise and masks are not in it: the receipts repeat them.

It is bound to the very entries that pay for the phase, to the settings, and, by a keyed digest, to records and labels:
going on with others and the same noise would show their difference.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from discreet.errors import InvalidCheckpoint
from discreet.privacy.files import write_whole

FORMAT = "discreet.checkpoint/1"
_KEYS = {"format", "simulation", "made_for", "done", "tensors", "sha256", "optimizer"}


@dataclass(frozen=True, kw_only=True)
class Progress:
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

    def write(self, progress: Progress) -> None:
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

    def read(self) -> Progress | None:
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
            return Progress(done=form["done"], tensors=load(content), optimizer=form["optimizer"])
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
    for place, value in [*form["state"].items(), *((k.removeprefix("optimizer."), v) for k, v in tensors.items())]:
        number, _, name = place.partition(".")
        state.setdefault(int(number), {})[name] = value
    fresh = optimizer.state_dict()["param_groups"]
    groups = [{**kept, **stored} for kept, stored in zip(fresh, form["groups"], strict=True)]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    everyone = [weights for group in optimizer.param_groups for weights in group["params"]]
    for number, values in state.items():  # load_state_dict casts some of them; bits must stay
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                held = optimizer.state[everyone[number]][name]
                optimizer.state[everyone[number]][name] = value.clone().to(held.device)
