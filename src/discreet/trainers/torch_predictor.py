"""A torch module as a `Predictor`: probabilities, draws by dropout, features; stored as safetensors and JSON.

Nothing here reads private data by itself. What it says of public records is post-processing of a private model; what it
says of private records is private, and whoever releases it pays.
"""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from discreet.errors import BadInput, InvalidCheckpoint
from discreet.models.layers import has_seam, head_draws
from discreet.privacy.files import write_whole
from discreet.trainers.scoring import Run, Scoring

Task = Literal["multiclass", "multilabel"]
FORMAT = "discreet.predictor/1"
VECTOR = 16  # torch's softmax of fewer numbers than a vector unit holds is six times slower than of so many


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
    """A trained module. ``module`` is its own; copies are made for training on.

    ``rows`` of a pool are computed at once; None chooses them by what the layers put out. ``compile`` is for deep
    networks on large pools: it takes tens of seconds once, and a C++ compiler; without one the module runs as it is.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        task: Task = "multiclass",
        device: str = "auto",
        rows: int | None = None,
        compile: bool = False,  # noqa: A002 - torch's word for it
    ) -> None:
        if task not in get_args(Task):
            raise BadInput(f"task={task}", "it is no task of a predictor", f"Choose one of {', '.join(get_args(Task))}")
        self._device, self.task = device_named(device), task
        self._scoring = Scoring(device=self._device, rows=rows, compiling=compile)
        self.module = module.to(self._device).eval()

    def predict_proba(self, x: Any) -> NDArray[np.float32]:
        """(n, C): softmax over classes, or a sigmoid for every label."""
        return self._scoring.collect(self.module, _outputs, x, lambda run, part: self._probabilities(run(part)))

    def predict(self, x: Any) -> NDArray[Any]:
        """The likeliest class, (n,); or every label's yes or no, (n, L)."""
        chances = self.predict_proba(x)
        return chances.argmax(axis=1) if self.task == "multiclass" else chances > 0.5

    def sample_proba(self, x: Any, draws: int, *, seed: int = 0) -> NDArray[np.float32]:
        """(J, n, C): dropout stays on. Where only the head has dropout the rest is computed once.

        ``seed`` is public: the draws hide nothing.
        """
        if type(draws) is not int or draws < 1:
            raise BadInput(f"{draws} draws", "it must be a whole number from 1", "Try 20")
        module: Any = copy.deepcopy(self.module)
        dropouts = [layer for layer in module.modules() if isinstance(layer, nn.modules.dropout._DropoutNd)]
        if not any(layer.p for layer in dropouts):
            raise BadInput(
                "drawing models", "this one has no dropout, so all draws are the same", "Build it with dropout=0.25"
            )
        for layer in dropouts:
            layer.train()
        seam = has_seam(module) and not _drops_outside_its_head(module)

        def drawn(run: Run, part: Any) -> torch.Tensor:
            if seam:
                return self._probabilities(head_draws(module.head, run(part), draws))
            return torch.stack([self._probabilities(run(part)) for _ in range(draws)])

        with torch.random.fork_rng(devices=[self._device] if self._device.type == "cuda" else []):
            torch.manual_seed(seed)
            return self._scoring.collect(module, _features if seam else _outputs, x, drawn, axis=1, compilable=seam)

    def embed(self, x: Any) -> NDArray[np.float32]:
        """(n, d): the model's ``features``, or what enters its last linear layer."""
        seam = has_seam(self.module)
        if not seam and not any(isinstance(layer, nn.Linear) for layer in self.module.modules()):
            raise BadInput("embedding records", "the model has no features() and no linear layer", "Give it features()")
        probe = _features if seam else _entering_the_last
        return self._scoring.collect(self.module, probe, x, lambda run, part: run(part).flatten(1), compilable=seam)

    def weights(self) -> bytes:
        """As safetensors: what `save` stores."""
        from safetensors.torch import save

        return save(
            {name: tensor.detach().cpu().contiguous().clone() for name, tensor in self.module.state_dict().items()}
        )

    def save(self, directory: Path | str) -> Path:
        """Store the weights and what they are, in a directory of their own."""
        folder, content = Path(directory), self.weights()
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "weights.safetensors", content)
        form = {"format": FORMAT, "task": self.task, "sha256": hashlib.sha256(content).hexdigest()}
        write_whole(folder / "model.json", json.dumps(form, indent=1) + "\n")
        return folder

    @classmethod
    def load(cls, directory: Path | str, module: nn.Module, *, device: str = "auto") -> Self:
        """What `save` stored, in ``module`` (of the same kind; it is copied)."""
        from safetensors.torch import load

        folder = Path(directory)
        try:
            form = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            content = (folder / "weights.safetensors").read_bytes()
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

    def _probabilities(self, outputs: torch.Tensor) -> torch.Tensor:
        if self.task == "multilabel":
            return outputs.sigmoid()
        classes = outputs.shape[-1]
        if classes >= VECTOR:
            return outputs.softmax(dim=-1)
        filled = functional.pad(outputs, (0, VECTOR - classes), value=-torch.inf)
        return filled.softmax(dim=-1)[..., :classes]


# What is asked of a module. Functions of the file, so that a way that was found is found again.


def _outputs(module: nn.Module, rows: Any) -> torch.Tensor:
    outputs: torch.Tensor = module(rows)
    return outputs


def _features(module: Any, rows: Any) -> torch.Tensor:
    features: torch.Tensor = module.features(rows)
    return features


def _entering_the_last(module: nn.Module, rows: Any) -> torch.Tensor:
    """What enters the last linear layer."""
    seen: list[torch.Tensor] = []
    last = [layer for layer in module.modules() if isinstance(layer, nn.Linear)][-1]
    hook = last.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].flatten(1)))
    try:
        module(rows)
    finally:
        hook.remove()
    return seen[-1]


def _drops_outside_its_head(module: Any) -> bool:
    head = {id(layer) for layer in module.head.modules()} if isinstance(module.head, nn.Module) else set()
    layers = (layer for layer in module.modules() if isinstance(layer, nn.modules.dropout._DropoutNd))
    return any(layer.p > 0 and id(layer) not in head for layer in layers)
