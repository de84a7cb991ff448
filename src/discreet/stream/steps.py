"""How far an update moves. ``t`` counts updates since the model began, from 1.

ConstantStep     for streams that drift: the model forgets
InverseStep      size / t; with size = 1 / lambda, Pegasos; the paper's
SquareRootStep   size / sqrt(t); the default
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from discreet.errors import BadInput


class Step(ABC):
    """A step size."""

    @abstractmethod
    def at(self, t: int) -> float:
        """eta_t."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """A form that `step_from_json` reads back to an equal value."""


@dataclass(frozen=True)
class ConstantStep(Step):
    """``size``, always."""

    size: float

    def __post_init__(self) -> None:
        _positive(self.size)

    def at(self, t: int) -> float:
        """The same."""
        return self.size

    def to_json(self) -> dict[str, Any]:
        """Its size."""
        return {"step": "constant", "size": self.size}


@dataclass(frozen=True)
class InverseStep(Step):
    """``size`` / t."""

    size: float

    def __post_init__(self) -> None:
        _positive(self.size)

    def at(self, t: int) -> float:
        """Falls as 1/t."""
        return self.size / t

    def to_json(self) -> dict[str, Any]:
        """Its size."""
        return {"step": "inverse", "size": self.size}


@dataclass(frozen=True)
class SquareRootStep(Step):
    """``size`` / sqrt(t)."""

    size: float

    def __post_init__(self) -> None:
        _positive(self.size)

    def at(self, t: int) -> float:
        """Falls as 1/sqrt(t)."""
        return self.size / math.sqrt(t)

    def to_json(self) -> dict[str, Any]:
        """Its size."""
        return {"step": "square-root", "size": self.size}


def step_from_json(form: dict[str, Any]) -> Step:
    """The inverse of `Step.to_json`."""
    made = dict(form)
    kinds: dict[Any, type[Any]] = {"constant": ConstantStep, "inverse": InverseStep, "square-root": SquareRootStep}
    try:
        found: Step = kinds[made.pop("step", None)](**made)
    except (KeyError, TypeError):
        raise BadInput("a stored step size", "it is not one of ours", "Restore the file") from None
    return found


def _positive(size: Any) -> None:
    if isinstance(size, bool) or not isinstance(size, (int, float)) or not 0 < size < math.inf:
        raise BadInput("a step size", "it is not a positive number", "Give one above 0")
