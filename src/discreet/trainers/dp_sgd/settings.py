"""How a model is trained: public choices, fixed before data is touched."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, Literal, get_args

import numpy as np

from discreet.errors import BadInput, alternatives
from discreet.trainers.dp_sgd.augmentation import Augmentation
from discreet.trainers.dp_sgd.optimization import SCHEDULES, Loss, Schedule

PersonClip = Literal["each", "joint"]
Engine = Literal["auto", "compiled", "reference"]
LEAST, MOST, MOST_ROWS = 1e-9, 1e9, 10**6


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Choices of `DPSGD`. None of them may be tuned on the private data, unless that is paid for.

    clip                C: the length to which one unit's gradient is clipped
    optimizer           ``sgd``, ``adam``, ``nadam``, ``adamw``, ``rmsprop``, any other of torch.optim, or a function
                        from parameters to an optimizer; it sees noisy gradients only
    learning_rate       of the optimizer, times the schedule
    optimizer_options   further keyword arguments of the optimizer, such as momentum
    schedule            ``constant``, ``linear``, ``cosine``, ``warmup-cosine``, or a function of the share done, from 0
    adaptive_clip       lambda of adaptive gradient clipping (Brock et al. 2021) of the noisy gradient; None: none
    ema                 decay of an exponential moving average of the weights, which is then the model; None: none
    micro_batch         records (times views) whose gradients are held in memory at once; a phase keeps its first one
    augment, views      what views are made by, and how many of each record are averaged before clipping
    records_per_person  m: the most records of a person in a step, chosen anew each time
    person_clip         ``each``: every record to C/m; ``joint``: the mean of a person's gradients to C
    loss                ``cross-entropy``, ``multilabel-bce``, or a function of one record
    device              ``auto``: a GPU if there is one
    engine              ``auto``: the fast engine where it is right for the model (tried on made-up records), else
                        ``reference``: torch.func, slower, and with 0.2 to 0.7% less noise; ``compiled``: as auto, and
                        convolutions by a kernel that the machine's C compiler makes when training begins
    checkpoint_every    steps between checkpoints
    """

    clip: float = 1.0
    optimizer: str | Callable[[Any], Any] = "sgd"
    learning_rate: float = 0.5
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    schedule: str | Schedule = "constant"
    adaptive_clip: float | None = None
    ema: float | None = None
    micro_batch: int = 256
    augment: Augmentation | Sequence[Augmentation] = ()
    views: int = 1
    records_per_person: int = 1
    person_clip: PersonClip = "each"
    loss: str | Loss = "cross-entropy"
    device: str = "auto"
    engine: Engine = "auto"
    checkpoint_every: int = 50

    def __post_init__(self) -> None:
        if not isinstance(self.augment, tuple):
            parts = tuple(self.augment) if isinstance(self.augment, Sequence) else (self.augment,)
            object.__setattr__(self, "augment", parts)
        for name in ("clip", "learning_rate", "adaptive_clip"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and LEAST <= value <= MOST):
                raise BadInput(f"{name}={value}", f"it must be a number from {LEAST} to {MOST:g}", "Try 1.0")
        self._check_functions()
        if self.ema is not None and not (_is_number(self.ema) and 0 < self.ema < 1):
            raise BadInput(f"ema={self.ema}", "a decay is between 0 and 1", "Try 0.99")
        for name in ("micro_batch", "views", "records_per_person", "checkpoint_every"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= MOST_ROWS:
                raise BadInput(f"{name}={value}", f"it must be a whole number from 1 to {MOST_ROWS}", "Count again")
        if self.views > 1 and not self.augment:
            raise BadInput(f"views={self.views}", "nothing makes the views differ", "Give augment, or one view")
        if self.engine not in get_args(Engine):
            raise BadInput(f"engine={self.engine}", "there is no such engine", "Choose auto, compiled or reference")
        if self.person_clip not in get_args(PersonClip):
            raise BadInput(f"person_clip={self.person_clip}", "it is neither each nor joint", "Choose one of the two")
        if isinstance(self.schedule, str) and self.schedule not in SCHEDULES.by_name:
            raise BadInput(
                f"schedule={self.schedule}", "there is no such schedule", alternatives(self.schedule, SCHEDULES.by_name)
            )

    def _check_functions(self) -> None:
        for name in ("optimizer", "schedule", "loss"):
            if not (isinstance(getattr(self, name), str) or callable(getattr(self, name))):
                raise BadInput(name, "it is neither a name nor a function", "See the help of Settings")
        if not all(callable(part) for part in self.augmentations):
            raise BadInput("augment", "a part of it is not a function", "Give RandomShift(2), or a function")
        if not isinstance(self.optimizer_options, Mapping):
            raise BadInput("optimizer_options", "it is not a dict", "Give names and values")

    @property
    def augmentations(self) -> tuple[Augmentation, ...]:
        """``augment`` as a tuple."""
        assert isinstance(self.augment, tuple)  # __post_init__
        return self.augment

    def digest(self) -> str:
        """Names these choices: a checkpoint is only gone on with under the ones it was made under."""
        values = {part.name: _named(getattr(self, part.name)) for part in fields(self) if part.name not in _FREE}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


_FREE = ("checkpoint_every",)
"""May differ between a run and its continuation: it does not change a bit of the result."""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _named(value: Any, depth: int = 0) -> Any:
    """``value`` in words that are the same in every process: a function by its code and what it closes over."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if depth > _DEEP:
        return type(value).__qualname__
    if isinstance(value, (list, tuple)):
        return [_named(part, depth + 1) for part in value]
    if isinstance(value, Mapping):
        return {str(name): _named(part, depth + 1) for name, part in value.items()}
    if isinstance(value, FunctionType):
        closure = [value.__defaults__, value.__kwdefaults__, [_content(cell) for cell in value.__closure__ or ()]]
        return [value.__qualname__, _code(value.__code__), _named(closure, depth + 1)]
    if isinstance(value, MethodType):
        return [_named(value.__func__, depth + 1), _named(value.__self__, depth + 1)]
    if hasattr(value, "__array__"):
        plain = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        return [str(plain.dtype), list(plain.shape), hashlib.sha256(np.ascontiguousarray(plain).tobytes()).hexdigest()]
    if isinstance(value, (set, frozenset)):
        return sorted(repr(_named(part, depth + 1)) for part in value)
    if isinstance(value, partial):
        return [_named(part, depth + 1) for part in (value.func, value.args, value.keywords)]
    if isinstance(value, type):
        return value.__qualname__
    called = vars(type(value)).get("__call__")
    code = _code(called.__code__) if isinstance(called, FunctionType) else ""
    return [type(value).__qualname__, code, _named(getattr(value, "__dict__", None), depth + 1)]


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


_DEEP = 6


def _code(code: CodeType) -> str:
    """A digest of what a function does, without where its file lies."""
    inner = [_code(part) if isinstance(part, CodeType) else _constant(part) for part in code.co_consts]
    content = repr((code.co_code.hex(), inner, code.co_names))
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _constant(value: Any) -> str:
    """A constant in words that do not depend on the order of a set."""
    if isinstance(value, frozenset):
        return repr(sorted(map(_constant, value)))
    if isinstance(value, tuple):
        return repr([_constant(part) for part in value])
    return repr(value)
