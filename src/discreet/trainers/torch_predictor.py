"""A torch module as a `Predictor`: probabilities, draws by dropout, features; stored as safetensors and JSON.

Nothing here reads private data by itself. What it says of public records is post-processing of a private model; what it
says of private records is private, and whoever releases it pays.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from discreet.errors import BadInput, InvalidCheckpoint
from discreet.models.split import has_seam
from discreet.privacy.files import write_whole
from discreet.trainers.tensors import tensor_of

Task = Literal["multiclass", "multilabel"]
FORMAT = "discreet.model/1"
_ROWS = 1024


def device_named(name: str) -> torch.device:
    """``auto``: a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError):
        raise BadInput(f"device={name}", "torch cannot use it here", "Use auto, cpu or cuda") from None
    return device


class TorchPredictor:
    """A trained module. ``module`` is its own; copies are made for training on."""

    def __init__(
        self, module: nn.Module, *, task: Task = "multiclass", device: str = "auto", rows: int = _ROWS
    ) -> None:
        if task not in get_args(Task):
            raise BadInput(f"task={task}", "it is no task of a predictor", f"Choose one of {', '.join(get_args(Task))}")
        self._device, self.task, self._rows = device_named(device), task, rows
        self.module = module.to(self._device).eval()

    def predict_proba(self, x: Any) -> NDArray[np.float32]:
        """(n, C): softmax over classes, or a sigmoid for every label."""
        return self._stacked(self._pieces(x, lambda part: self._probabilities(self.module(part))))

    def predict(self, x: Any) -> NDArray[Any]:
        """The likeliest class, (n,); or every label's yes or no, (n, L)."""
        found = self.predict_proba(x)
        return found.argmax(axis=1) if self.task == "multiclass" else found > 0.5

    def sample_proba(self, x: Any, draws: int, *, seed: int = 0) -> NDArray[np.float32]:
        """(J, n, C): dropout stays on. Where only the head has dropout the rest is computed once.

        ``seed`` is public: the draws hide nothing.
        """
        if type(draws) is not int or draws < 1:
            raise BadInput(f"{draws} draws", "it must be a whole number from 1", "Try 20")
        module = copy.deepcopy(self.module)
        dropouts = [layer for layer in module.modules() if isinstance(layer, nn.modules.dropout._DropoutNd)]
        if not any(layer.p for layer in dropouts):
            raise BadInput(
                "drawing models", "this one has no dropout, so all draws are the same", "Build it with dropout=0.25"
            )
        for layer in dropouts:
            layer.train()
        with torch.random.fork_rng(devices=[self._device] if self._device.type == "cuda" else []):
            torch.manual_seed(seed)
            drawn = list(self._pieces(x, lambda part: self._draws(module, part, draws)))
        return np.concatenate(drawn, axis=1)

    def embed(self, x: Any) -> NDArray[np.float32]:
        """(n, d): the model's ``features``, or what enters its last linear layer."""
        features: Any = getattr(self.module, "features", None)
        if has_seam(self.module):
            return self._stacked(self._pieces(x, lambda part: features(part).flatten(1)))
        last = [layer for layer in self.module.modules() if isinstance(layer, nn.Linear)]
        if not last:
            raise BadInput("embedding records", "the model has no features() and no linear layer", "Give it features()")
        return self._stacked(self._pieces(x, lambda part: self._entering(last[-1], part)))

    def save(self, directory: Path | str) -> Path:
        """Store the weights and what they are, in a directory of their own."""
        from safetensors.torch import save

        place = Path(directory)
        place.mkdir(parents=True, exist_ok=True)
        tensors = {name: value.detach().cpu().contiguous().clone() for name, value in self.module.state_dict().items()}
        content = save(tensors)
        write_whole(place / "weights.safetensors", content)
        form = {"format": FORMAT, "task": self.task, "sha256": hashlib.sha256(content).hexdigest()}
        write_whole(place / "model.json", json.dumps(form, indent=1) + "\n")
        return place

    @classmethod
    def load(cls, directory: Path | str, module: nn.Module, *, device: str = "auto") -> Self:
        """What `save` stored, in ``module`` (of the same kind; it is copied)."""
        from safetensors.torch import load

        place = Path(directory)
        try:
            form = json.loads((place / "model.json").read_text(encoding="utf-8"))
            content = (place / "weights.safetensors").read_bytes()
            if form["format"] != FORMAT or form["sha256"] != hashlib.sha256(content).hexdigest():
                raise ValueError
            filled = copy.deepcopy(module)
            filled.load_state_dict(load(content))
            return cls(filled, task=form["task"], device=device)
        except BadInput:
            raise
        except Exception:  # noqa: BLE001 - whatever is wrong with the files, they are not this model
            raise InvalidCheckpoint(
                "loading a model",
                "its files are missing, changed, or not of this module",
                "Check the directory, and build the same module",
            ) from None

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<TorchPredictor {type(self.module).__name__}: {self.task}>"

    # -- inside

    def _pieces(self, x: Any, compute: Callable[[Any], torch.Tensor]) -> Iterator[NDArray[np.float32]]:
        parts = dict(x) if isinstance(x, Mapping) else {"": x}
        size = len(next(iter(parts.values())))
        with torch.no_grad():
            for start in range(0, max(size, 1), self._rows):
                piece = {name: self._tensor(part[start : start + self._rows]) for name, part in parts.items()}
                yield compute(piece if isinstance(x, Mapping) else piece[""]).float().cpu().numpy()

    def _tensor(self, rows: Any) -> torch.Tensor:
        return tensor_of(rows.numpy(force=True) if isinstance(rows, torch.Tensor) else np.asarray(rows), self._device)

    def _stacked(self, pieces: Iterator[NDArray[np.float32]]) -> NDArray[np.float32]:
        return np.concatenate(list(pieces))

    def _probabilities(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs.softmax(dim=-1) if self.task == "multiclass" else outputs.sigmoid()

    def _draws(self, module: Any, rows: Any, draws: int) -> torch.Tensor:
        if has_seam(module) and not _drops_outside_its_head(module):
            trunk = module.features(rows)
            return torch.stack([self._probabilities(module.head(trunk)) for _ in range(draws)])
        return torch.stack([self._probabilities(module(rows)) for _ in range(draws)])

    def _entering(self, layer: nn.Module, rows: Any) -> torch.Tensor:
        seen: list[torch.Tensor] = []
        hook = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].flatten(1)))
        try:
            self.module(rows)
        finally:
            hook.remove()
        return seen[-1]


def _drops_outside_its_head(module: Any) -> bool:
    head = {id(layer) for layer in module.head.modules()} if isinstance(module.head, nn.Module) else set()
    layers = (layer for layer in module.modules() if isinstance(layer, nn.modules.dropout._DropoutNd))
    return any(layer.p > 0 and id(layer) not in head for layer in layers)
