"""What a step minimises and how it moves the weights: losses, optimizers, schedules, each by its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import optim
from torch.nn import functional

from discreet.checks import number
from discreet.errors import BadInput, alternatives
from discreet.parts import Option, Part, Registry

Loss = Callable[[Any, Any], Any]
CHEXPERT_POSITIVE = ("Atelectasis", "Edema", "Pleural Effusion")
"""Where CheXpert's "uncertain" is better read as positive; elsewhere as negative (Irvin et al. 2019)."""
UNCERTAIN = -1


def cross_entropy(outputs: Any, target: Any) -> Any:
    """Softmax cross-entropy of one class."""
    return functional.cross_entropy(outputs, target.expand(outputs.shape[0]))


class WeightedCrossEntropy:
    """Cross-entropy times the declared weight of a record's class.

    Weights are relative: they are divided by the largest. Gradients are clipped after that, so a weight above 1 would
    be clipped away again, while a smaller one makes a record of a frequent class count less.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        given = tuple(float(weight) for weight in weights)
        if not given or not all(weight > 0 and math.isfinite(weight) for weight in given):
            raise BadInput("class weights", "they are not numbers above 0, one a class", "Give e.g. [1, 5]")
        self.weights = tuple(weight / max(given) for weight in given)

    def __call__(self, outputs: Any, target: Any) -> Any:
        """The loss of one record's views."""
        weights = torch.tensor(self.weights, dtype=outputs.dtype, device=outputs.device)
        own = torch.arange(len(self.weights), device=outputs.device) == target  # indexing does not work under vmap
        return (weights * own).sum() * cross_entropy(outputs, target)


def multilabel_bce(*, smoothing: float = 0.0) -> Loss:
    """Sigmoid cross-entropy of every label, averaged over all of them; a NaN label counts 0.

    ``smoothing`` a moves targets to (1 - a) y + a / 2.
    """
    if not isinstance(smoothing, (int, float)) or not 0 <= smoothing < 1:
        raise BadInput(f"label smoothing {smoothing}", "it is not in [0, 1)", "Try 0.2")

    def loss(outputs: Any, target: Any) -> Any:
        known = ~target.isnan()
        wanted = target.nan_to_num(0.0) * (1 - smoothing) + smoothing / 2
        each = functional.binary_cross_entropy_with_logits(outputs, wanted.expand_as(outputs), reduction="none")
        return (each * known).mean(dim=-1)

    return loss


def chexpert_targets(
    labels: NDArray[Any],
    names: Sequence[str],
    *,
    positive: Sequence[str] = CHEXPERT_POSITIVE,
    smoothing: float = 0.2,
    blank: str = "negative",
) -> NDArray[np.float32]:
    """CheXpert's table (1 present, 0 absent, -1 uncertain, blank not mentioned) as targets.

    An uncertain label becomes positive in the columns ``positive`` and negative elsewhere, smoothed: 1 - a/2 or a/2.
    ``blank``: ``negative``, or ``ignored`` (NaN). Each row depends on itself alone.
    """
    try:
        table = np.asarray(labels, dtype=np.float32)
    except (TypeError, ValueError):
        raise BadInput("CheXpert labels", "a cell is no number", "Give 1, 0, -1 and NaN") from None
    unknown = [name for name in positive if name not in names]
    if (
        table.ndim != 2
        or table.shape[1] != len(names)
        or not 0 <= smoothing < 1
        or blank not in ("negative", "ignored")
    ):
        raise BadInput(
            "CheXpert labels", "columns, smoothing or the reading of blanks are not possible", "See its help"
        )
    if unknown:
        raise BadInput(f"uncertain as positive in {', '.join(unknown)}", "there is no such column", "Name columns")
    toward = np.array([1 - smoothing / 2 if name in positive else smoothing / 2 for name in names], dtype=np.float32)
    targets = np.where(table == UNCERTAIN, toward, table)
    if blank == "negative":
        targets = np.where(np.isnan(targets), np.float32(0), targets)
    return np.asarray(targets, dtype=np.float32)


LOSSES = Registry(
    "loss",
    (
        Part(
            kind="loss",
            name="cross-entropy",
            summary="softmax cross-entropy of one class",
            build=lambda: cross_entropy,
            tasks=("binary", "multiclass"),
        ),
        Part(
            kind="loss",
            name="multilabel-bce",
            summary="sigmoid cross-entropy of every label",
            build=multilabel_bce,
            options=(
                Option(
                    name="smoothing",
                    check=number(0, 1, such_as="0.2"),
                    type="number",
                    default="0",
                    meaning="a moves targets to (1 - a) y + a / 2",
                ),
            ),
            tasks=("multilabel",),
        ),
    ),
)


def loss_named(name: str | Loss) -> Loss:
    """A built-in loss by its name, or the function itself."""
    if callable(name):
        return name
    part = LOSSES.find(name)
    if part is None:
        remedy = f"{alternatives(name, LOSSES.by_name)}, or give a function"
        raise BadInput(f"loss {name}", "there is no such loss", remedy)
    loss: Loss = part.build()
    return loss


# From a noisy gradient to new weights: the optimizer, adaptive clipping, the moving average. All post-processing.
#
# Everything here reads noisy gradients and weights only, so nothing of it costs privacy, and any torch optimizer will
# do. Adaptive gradient clipping (Brock et al. 2021) limits each output unit's gradient to lambda times that unit's
# weights. The moving average starts slowly (decay min(d, (1 + t) / (10 + t))), or the first weights would stay in it.

LEAST_WEIGHT = 1e-3
"""A unit with smaller weights than this is treated as having this length."""
OPTIMIZERS = Registry(
    "optimizer",
    tuple(
        Part(kind="optimizer", name=kind.__name__.lower(), summary=f"torch.optim.{kind.__name__}", build=kind)
        for kind in (optim.SGD, optim.Adam, optim.NAdam, optim.AdamW, optim.RAdam, optim.RMSprop, optim.Adagrad)
    ),
)
"""Their options are torch's own; any other class of torch.optim is taken by its name there."""


def optimizer_named(wanted: Any) -> type[optim.Optimizer]:
    """A class of torch.optim by its name or its short one, or the class itself."""
    part = OPTIMIZERS.by_name.get(wanted) if isinstance(wanted, str) else None
    kind = part.build if part else getattr(optim, wanted, None) if isinstance(wanted, str) else wanted
    if not (isinstance(kind, type) and issubclass(kind, optim.Optimizer)) or kind is optim.Optimizer:
        raise BadInput(
            f"optimizer={wanted}", "torch.optim has no such optimizer", alternatives(wanted, OPTIMIZERS.by_name)
        )
    return kind


def build_optimizer(
    wanted: str | Callable[[Any], Any],
    parameters: Iterable[torch.nn.Parameter],
    learning_rate: float,
    options: Mapping[str, Any],
) -> optim.Optimizer:
    """An optimizer of torch by name, or what the user's function makes."""
    if callable(wanted) and not isinstance(wanted, type):
        optimizer = wanted(list(parameters))
    else:
        kind = optimizer_named(wanted)
        try:
            optimizer = kind(list(parameters), lr=learning_rate, **options)  # type: ignore[call-arg]
        except (TypeError, ValueError, RuntimeError):
            raise BadInput(
                f"optimizer={kind.__name__} with {', '.join(options) or 'its defaults'}",
                "torch does not take these options",
                "Check optimizer_options",
            ) from None
    if not isinstance(optimizer, optim.Optimizer):
        raise BadInput("the optimizer", "it is not a torch optimizer", "Return one of torch.optim")
    if isinstance(optimizer, optim.LBFGS):
        raise BadInput("optimizer=LBFGS", "it evaluates a step several times, each a charge", "Use a first-order one")
    return optimizer


def clip_adaptively(parameters: Iterable[torch.nn.Parameter], share: float) -> None:
    """Limit every unit's noisy gradient to ``share`` of the length of its weights."""
    for weights in parameters:
        if weights.grad is None:
            continue
        longest = share * _unit_length(weights.detach()).clamp_min(LEAST_WEIGHT)
        length = _unit_length(weights.grad).clamp_min(1e-12)
        weights.grad.mul_((longest / length).clamp_max(1.0))


def _unit_length(values: torch.Tensor) -> torch.Tensor:
    """The length of each output unit's part; of the whole, where there is only one axis."""
    axes = tuple(range(1, values.dim())) or None
    length: torch.Tensor = torch.linalg.vector_norm(values, dim=axes, keepdim=values.dim() > 1)
    return length


@torch.no_grad()
def average_into(
    averages: dict[str, torch.Tensor], weights: Mapping[str, torch.Tensor], decay: float, step: int
) -> None:
    """Move ``averages`` towards ``weights`` after step ``step`` (1 is the first)."""
    keep = min(decay, (1 + step) / (10 + step))
    for name, value in weights.items():
        averages[name].mul_(keep).add_(value.detach(), alpha=1 - keep)


# Learning-rate schedules: functions of the share of a phase that is done, and of nothing else.
#
# They hold no state, so a resumed phase is at the right place, and they read no losses: a schedule that waits for a
# plateau would have to pay for looking.


Schedule = Callable[[float], float]
WARM_UP = 0.1


def _cosine(share: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * share))


def _warm_up_then_cosine(share: float) -> float:
    if share < WARM_UP:
        return max(share, 1e-3) / WARM_UP
    return _cosine((share - WARM_UP) / (1 - WARM_UP))


def _schedule(name: str, summary: str, build: Schedule) -> Part:
    return Part(kind="schedule", name=name, summary=summary, build=build)


SCHEDULES = Registry(
    "schedule",
    (
        _schedule("constant", "the learning rate as it is", lambda share: 1.0),
        _schedule("linear", "down to 0 in a straight line", lambda share: 1.0 - share),
        _schedule("cosine", "down to 0 along half a cosine", _cosine),
        _schedule("warmup-cosine", "up for a tenth of the phase, then along half a cosine", _warm_up_then_cosine),
    ),
)


def factor_at(schedule: str | Schedule, step: int, steps: int) -> float:
    """What the learning rate is multiplied by in step ``step`` (0 is the first) of ``steps``."""
    share = step / steps
    try:
        factor = SCHEDULES.by_name[schedule].build(share) if isinstance(schedule, str) else float(schedule(share))
    except Exception as failed:
        raise BadInput(
            "a learning-rate schedule", f"it ended with {type(failed).__name__}: {failed}", "Try it"
        ) from failed
    if not 0 <= factor < math.inf:
        raise BadInput("a learning-rate schedule", "it gave a negative or infinite factor", "Give factors from 0")
    return factor
