"""From a noisy gradient to new weights: the optimizer, adaptive clipping, the moving average. All post-processing.

Everything here reads noisy gradients and weights only, so nothing of it costs privacy, and any torch optimizer will
do. Adaptive gradient clipping (Brock et al. 2021) limits each output unit's gradient to lambda times that unit's
weights. The moving average starts slowly (decay min(d, (1 + t) / (10 + t))), or the first weights would stay in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from discreet.errors import BadInput, alternatives

LEAST_WEIGHT = 1e-3
"""A unit with smaller weights than this is treated as having this length."""
_SHORT = {
    "sgd": "SGD",
    "adam": "Adam",
    "nadam": "NAdam",
    "adamw": "AdamW",
    "radam": "RAdam",
    "rmsprop": "RMSprop",
    "adagrad": "Adagrad",
}


def optimizer_named(wanted: Any) -> type[torch.optim.Optimizer]:
    """A class of torch.optim by its name or its short one, or the class itself."""
    kind = getattr(torch.optim, _SHORT.get(wanted, wanted), None) if isinstance(wanted, str) else wanted
    if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)) or kind is torch.optim.Optimizer:
        raise BadInput(f"optimizer={wanted}", "torch.optim has no such optimizer", alternatives(wanted, _SHORT))
    return kind


def build_optimizer(
    wanted: str | Callable[[Any], Any],
    parameters: Iterable[torch.nn.Parameter],
    learning_rate: float,
    options: Mapping[str, Any],
) -> torch.optim.Optimizer:
    """An optimizer of torch by name, or what the user's function makes."""
    if callable(wanted) and not isinstance(wanted, type):
        made = wanted(list(parameters))
    else:
        kind = optimizer_named(wanted)
        try:
            made = kind(list(parameters), lr=learning_rate, **options)  # type: ignore[call-arg]
        except (TypeError, ValueError, RuntimeError):
            raise BadInput(
                f"optimizer={kind.__name__} with {', '.join(options) or 'its defaults'}",
                "torch does not take these options",
                "Check optimizer_options",
            ) from None
    if not isinstance(made, torch.optim.Optimizer):
        raise BadInput("the optimizer", "it is not a torch optimizer", "Return one of torch.optim")
    if isinstance(made, torch.optim.LBFGS):
        raise BadInput("optimizer=LBFGS", "it evaluates a step several times, each a charge", "Use a first-order one")
    return made


def clip_adaptively(parameters: Iterable[torch.nn.Parameter], share: float) -> None:
    """Limit every unit's noisy gradient to ``share`` of the length of its weights."""
    for weights in parameters:
        if weights.grad is None:
            continue
        most = share * _unit_length(weights.detach()).clamp_min(LEAST_WEIGHT)
        length = _unit_length(weights.grad).clamp_min(1e-12)
        weights.grad.mul_((most / length).clamp_max(1.0))


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
    kept = min(decay, (1 + step) / (10 + step))
    for name, value in weights.items():
        averages[name].mul_(kept).add_(value.detach(), alpha=1 - kept)
