"""A torch module as a `Predictor`: probabilities, draws by dropout, features; stored as safetensors and JSON.

Nothing here reads private data by itself. What it says of public records is post-processing of a private model; what it
says of private records is private, and whoever releases it pays.

Scoring
-------
A function of a module over a whole pool, quickly: pieces that fit the cache, fast layouts, compiled if asked.

Guarantee: values are those of the module called plainly, up to rounding; row i is computed from record i and the
weights alone, if the module treats records by themselves. How it is computed follows from the module, the shape of a
record and their number, never from what is in one: a way is tried once on made-up numbers and kept only if it gives the
same there. The module itself is not touched; a copy that shares its weights runs.

- *Pieces.* The largest thing a layer puts out is kept near `PIECE_BYTES`: less is all overhead, more leaves the cache,
  and memory stays bounded for any pool.
- *Layouts*, on CPUs. ``channels_last``: convolutions and pooling are faster if a place's channels lie side by side.
  ``.view()`` on such maps fails, and code may assume an order: then the module keeps its own. ``blocked``: oneDNN's
  own, for a model that offers ``blocked_features`` (`SmallCNN`).
- *Compiled.* Worth it for deep networks and large pools alone (tens of seconds, a C++ compiler), so it is asked for.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from discreet.errors import BadInput, InvalidCheckpoint
from discreet.models.layers import has_seam, head_draws
from discreet.privacy.files import write_whole
from discreet.trainers.tensors import tensor_of

PIECE_BYTES = 16 << 20
FEWEST_ROWS, MOST_ROWS = 16, 2048
UNKNOWN_ROWS = 256  # where made-up records cannot tell
_TRIED = 2
_LOG = logging.getLogger(__name__)

Layout = Literal["plain", "channels_last", "blocked"]
Run = Callable[[Any], torch.Tensor]
Probe = Callable[[nn.Module, Any], torch.Tensor]  # what is asked of the module; deterministic in eval mode
Compute = Callable[[Run, Any], torch.Tensor]  # what is made of it for a piece


@dataclass(frozen=True, kw_only=True)
class ExecutionStrategy:
    """How pieces are computed: rows of one, the layout, and a compiled module with its probe, if there is one."""

    rows: int
    layout: Layout = "plain"
    compiled: tuple[nn.Module, Run] | None = None


class Scoring:
    """Computes a pool in pieces, each kind of record in the way that was found for it."""

    def __init__(self, *, device: torch.device, rows: int | None = None, compiling: bool = False) -> None:
        self._device, self._rows, self._compiling = device, rows, compiling
        self._strategies: dict[Any, ExecutionStrategy] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without the ways: a copy finds its own, for a compiled module cannot be copied."""
        return {**self.__dict__, "_strategies": {}}

    def collect(
        self, module: nn.Module, probe: Probe, x: Any, compute: Compute, *, axis: int = 0, compilable: bool = True
    ) -> NDArray[np.float32]:
        """``compute(run, piece)`` of all pieces, joined along ``axis``; ``run`` is ``probe`` of the module."""
        size = len(next(iter(x.values())) if isinstance(x, Mapping) else x)
        collected: NDArray[np.float32] | None = None
        keep_freed_memory()
        with torch.no_grad():
            few = size < FEWEST_ROWS  # another layout would cost more than it gains
            strategy = (
                ExecutionStrategy(rows=self._rows or FEWEST_ROWS)
                if few
                else self.strategy(module, probe, x, compilable=compilable)
            )
            plain, quick = _runs_of(module, probe, strategy)
            for start in range(0, max(size, 1), strategy.rows):
                stop = min(start + strategy.rows, size)
                copied = strategy.layout != "blocked"  # which never writes into its input
                piece = arranged(_piece(x, start, stop, self._device, copied=copied), strategy.layout)
                values = compute(quick if stop - start == strategy.rows else plain, piece).float().cpu().numpy()
                if values.shape[axis : axis + 1] != (stop - start,):
                    raise BadInput("scoring a pool", "the model does not give a row a record", "Give it a batch axis")
                if collected is None:
                    collected = np.empty((*values.shape[:axis], size, *values.shape[axis + 1 :]), np.float32)
                collected[(slice(None),) * axis + (slice(start, stop),)] = values
        assert collected is not None
        return collected

    def strategy(self, module: nn.Module, probe: Probe, x: Any, *, compilable: bool = True) -> ExecutionStrategy:
        """How records of this shape are computed, found on made-up ones when it is asked for the first time."""
        piece = _piece(x, 0, 1, self._device)
        key = (probe, compilable, tuple((tuple(part.shape[1:]), part.dtype) for part in tree_leaves(piece)))
        if key not in self._strategies:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                self._strategies[key] = self._fastest(module, probe, piece, compiling=self._compiling and compilable)
        return self._strategies[key]

    def _fastest(self, module: nn.Module, probe: Probe, piece: Any, *, compiling: bool) -> ExecutionStrategy:
        tried = _made_up(piece, _TRIED)
        expected, largest = _watched(module, probe, tried)
        rows = self._rows or (UNKNOWN_ROWS if largest is None else rows_for(largest))
        if expected is None:
            return ExecutionStrategy(rows=rows)
        layout: Layout = "plain"
        for tried_layout in self._layouts(module, tried, compiling=compiling):
            layout = tried_layout if _agrees(module, probe, tried, expected, tried_layout) else layout
        compiled = _compiled(module, probe, arranged(_made_up(piece, rows), layout), layout) if compiling else None
        return ExecutionStrategy(rows=rows, layout=layout, compiled=compiled)

    def _layouts(self, module: nn.Module, tried: Any, *, compiling: bool) -> list[Layout]:
        """The ones worth trying, the fastest last."""
        maps = (
            isinstance(tried, torch.Tensor)
            and tried.ndim == 4
            and any(parameter.ndim == 4 for parameter in module.parameters())
        )
        if self._device.type != "cpu" or not maps:
            return []
        blocked = _offers_blocked(module) and torch._C._has_mkldnn and not compiling
        return ["channels_last", "blocked"] if blocked else ["channels_last"]


def _offers_blocked(module: nn.Module) -> bool:
    """Whether ``blocked_features`` belongs to the ``features`` that the module has: a subclass may have its own."""
    kinds = (vars(kind) for kind in type(module).__mro__)
    owner: Mapping[str, Any] = next((kind for kind in kinds if "features" in kind or "blocked_features" in kind), {})
    return "features" in owner and "blocked_features" in owner and "features" not in vars(module)


def keep_freed_memory() -> None:
    """Takes a block of 31 MiB and frees it, untouched, which takes microseconds.

    The C library of Linux hands freed blocks back to the system, and each page of the next piece then costs a fault:
    a pass takes half as long again. A freed block teaches it to keep blocks of that size and less (mallopt(3): the
    threshold moves by itself, up to 32 MiB); some 60 MiB may stay with the process. Elsewhere it does nothing.
    """
    torch.empty(31 << 20, dtype=torch.uint8)


def rows_for(largest: int) -> int:
    """Rows of a piece, whole sixteens, if the largest thing a layer makes of one record has so many bytes."""
    fitting = min(max(PIECE_BYTES // max(largest, 1), FEWEST_ROWS), MOST_ROWS)
    return fitting // FEWEST_ROWS * FEWEST_ROWS


def sharing_copy(module: nn.Module) -> nn.Module:
    """Other modules, the same tensors."""
    return copy.deepcopy(module, {id(tensor): tensor for tensor in _tensors(module)})


def laid_out(module: nn.Module, layout: Layout) -> nn.Module:
    """The module, or a sharing copy that computes in another layout; its weights of four axes may be its own."""
    if layout == "plain":
        return module
    other = sharing_copy(module)
    if layout == "blocked":
        other.features = other.blocked_features
        return other
    for layer in other.modules():
        for name, weight in layer._parameters.items():
            if weight is not None and weight.ndim == 4:
                ordered = weight.detach().to(memory_format=torch.channels_last)
                layer._parameters[name] = nn.Parameter(ordered, requires_grad=False)
    return other


def arranged(piece: Any, layout: Layout) -> Any:
    """Records as the layout takes them."""
    return piece.to(memory_format=torch.channels_last) if layout == "channels_last" else piece


def _runs_of(module: nn.Module, probe: Probe, strategy: ExecutionStrategy) -> tuple[Run, Run]:
    """For a piece of any size, and for a full one."""
    chosen = laid_out(module, strategy.layout)

    def plain(piece: Any) -> torch.Tensor:
        return probe(chosen, piece)

    if strategy.compiled is None:
        return plain, plain
    compiled, run = strategy.compiled
    for copy_of, tensor in zip(_tensors(compiled, tied=True), _tensors(module, tied=True), strict=True):
        copy_of.copy_(tensor)  # weights may have moved since
    return plain, run


def _tensors(module: nn.Module, *, tied: bool = False) -> list[torch.Tensor]:
    """All tensors; ``tied``: as often as they are used, for a layout may make copies of them."""
    named = [module.named_parameters, module.named_buffers]
    return [tensor for each in named for _, tensor in each(remove_duplicate=not tied)]


def _piece(x: Any, start: int, stop: int, device: torch.device, *, copied: bool = True) -> Any:
    """Rows as tensors; a copy, unless the model is known not to write into what it is given."""
    if isinstance(x, Mapping):
        return {name: _piece(part, start, stop, device, copied=copied) for name, part in x.items()}
    rows = x[start:stop]
    if not isinstance(rows, torch.Tensor):
        array = np.asarray(rows)
        if (
            array.dtype != np.float32
            or not array.flags.writeable
            or any(stride < 0 or stride % 4 for stride in array.strides)
        ):
            return tensor_of(array, device)
        rows = torch.from_numpy(array)  # torch copies with all threads, but not from everywhere
    dtype = torch.float32 if rows.is_floating_point() else rows.dtype
    return rows.detach().to(device, dtype, copy=copied, memory_format=torch.contiguous_format)


def _made_up(piece: Any, rows: int) -> Any:
    """Records of the same kind that nobody has: normal numbers, or zeros where whole numbers may be names."""
    if isinstance(piece, dict):
        return {name: _made_up(part, rows) for name, part in piece.items()}
    shape = (rows, *piece.shape[1:])
    if not piece.is_floating_point() and piece.ndim == 4:  # pictures
        return torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(0)).to(piece)
    if not piece.is_floating_point():
        return torch.zeros(shape, dtype=piece.dtype, device=piece.device)
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(piece)


def _watched(module: nn.Module, probe: Probe, tried: Any) -> tuple[torch.Tensor | None, int | None]:
    """What the module makes of made-up records, in eval mode, and the bytes of its largest output for one of them."""
    sizes = [part.numel() * part.element_size() for part in tree_leaves(tried)]

    def note(_: nn.Module, __: Any, output: Any) -> None:
        tensors = (part for part in tree_leaves(output) if isinstance(part, torch.Tensor))
        sizes.extend(part.numel() * part.element_size() for part in tensors)

    try:
        watched = sharing_copy(module).eval()
        for layer in watched.modules():
            layer.register_forward_hook(note)
        return probe(watched, copy.deepcopy(tried)), max(sizes) // _TRIED
    except Exception:  # noqa: BLE001 - a module that made-up records break is computed plainly
        return None, None


def _agrees(module: nn.Module, probe: Probe, tried: Any, expected: torch.Tensor, layout: Layout) -> bool:
    rows = arranged(copy.deepcopy(tried), layout)
    try:
        outputs = probe(laid_out(module, layout).eval(), rows)
        unwritten = layout != "blocked" or torch.equal(rows, tried)
        return unwritten and torch.allclose(outputs, expected, rtol=1e-3, atol=1e-5, equal_nan=True)
    except Exception:  # noqa: BLE001 - view() on maps is one of many ways to need the plain order
        return False


def _compiled(module: nn.Module, probe: Probe, tried: Any, layout: Layout) -> tuple[nn.Module, Run] | None:
    """A copy with tensors of its own, and its compiled probe for full pieces; None, and a line in the log, if not."""
    try:
        copied = laid_out(copy.deepcopy(module).eval(), layout)
        run = torch.compile(lambda piece: probe(copied, piece), dynamic=False)
        run(tried)
    except Exception as problem:  # noqa: BLE001 - no compiler, or a module it does not take
        _LOG.warning("%s cannot be compiled (%s); it runs as it is", type(module).__name__, type(problem).__name__)
        return None
    return copied, run


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
