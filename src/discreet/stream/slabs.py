"""How near to the boundary a record must be to be asked with the high chance.

A slab is public: it depends on declared numbers and on how often the model was updated. ``t`` counts updates, from 1
before the first of them, never records.

FixedSlab       the same width for ever
ShrinkingSlab   width / t^power; the paper's is 1/t
BalancedSlab    wider on the side of rare classes: of records near the boundary most are of the common class
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet.errors import BadInput


class Slab(ABC):
    """Widths around the boundary, by the class that a record is predicted as."""

    @abstractmethod
    def widths(self, updates: int, classes: int) -> tuple[float, ...]:
        """A width for each predicted class, after so many updates."""

    def narrowest(self, classes: int) -> float:
        """The least width it will ever have."""
        return min(self.widths(0, classes))

    @property
    def moves(self) -> bool:
        """Whether its widths change with the updates."""
        return False

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """A form that `slab_from_json` reads back to an equal value."""


@dataclass(frozen=True)
class FixedSlab(Slab):
    """Distances up to ``width`` are inside."""

    width: float

    def __post_init__(self) -> None:
        _positive(self.width, "the width of a slab")

    def widths(self, updates: int, classes: int) -> tuple[float, ...]:
        """The same for all."""
        return (self.width,) * classes

    def to_json(self) -> dict[str, Any]:
        """Its width."""
        return {"slab": "fixed", "width": self.width}


@dataclass(frozen=True)
class ShrinkingSlab(Slab):
    """``width`` / t^``power``, not below ``least``; t counts updates."""

    width: float = 1.0
    power: float = 1.0
    least: float = 0.0

    def __post_init__(self) -> None:
        _positive(self.width, "the width of a slab")
        _positive(self.power, "the power by which a slab shrinks")
        if not 0 <= self.least <= self.width:
            raise BadInput("the least width of a slab", "it is not between 0 and its width", "Give a smaller one")

    def widths(self, updates: int, classes: int) -> tuple[float, ...]:
        """The same on all sides."""
        return (max(self.least, self.width / (updates + 1) ** self.power),) * classes

    def narrowest(self, classes: int) -> float:
        """What it shrinks to."""
        return self.least

    @property
    def moves(self) -> bool:
        """It shrinks."""
        return True

    def to_json(self) -> dict[str, Any]:
        """Its numbers."""
        return {"slab": "shrinking", "width": self.width, "power": self.power, "least": self.least}


@dataclass(frozen=True)
class BalancedSlab(Slab):
    """``width`` times (common share / own share)^``strength`` / (the same of all, in the geometric mean).

    ``shares`` of the classes are declared, or were released and paid for; never counted in private labels.
    """

    width: float
    shares: tuple[float, ...]
    strength: float = 0.5

    def __init__(self, width: float, shares: Sequence[float], strength: float = 0.5) -> None:
        object.__setattr__(self, "width", _positive(width, "the width of a slab"))
        object.__setattr__(self, "shares", tuple(_positive(share, "the share of a class") for share in shares))
        object.__setattr__(self, "strength", float(strength))
        if not 0 <= self.strength <= 1 or len(self.shares) < 2:
            raise BadInput("a balanced slab", "it needs a share for each class and a strength from 0 to 1", "Give them")

    def widths(self, updates: int, classes: int) -> tuple[float, ...]:
        """Wider for rare classes."""
        if len(self.shares) != classes:
            raise BadInput(
                f"a balanced slab for {classes} classes", f"it has {len(self.shares)} shares", "Give one a class"
            )
        raised = [share**-self.strength for share in self.shares]
        product = 1.0
        for one in raised:
            product *= one ** (1 / classes)
        return tuple(self.width * one / product for one in raised)

    def to_json(self) -> dict[str, Any]:
        """Its numbers."""
        return {"slab": "balanced", "width": self.width, "shares": list(self.shares), "strength": self.strength}


def slab_from_json(form: dict[str, Any]) -> Slab:
    """The inverse of `Slab.to_json`."""
    made = dict(form)
    kinds: dict[Any, type[Any]] = {"fixed": FixedSlab, "shrinking": ShrinkingSlab, "balanced": BalancedSlab}
    try:
        found: Slab = kinds[made.pop("slab", None)](**made)
    except (KeyError, TypeError):
        raise BadInput("a stored slab", "it is not one of ours", "Restore the file") from None
    return found


def _positive(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise BadInput(what, "it is not a positive number", "Give one above 0")
    return float(value)
