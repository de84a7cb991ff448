"""How a stream changes with time: update windows, slab widths, and the paid check for drift.

When the model is updated. It depends on arrivals and ask bits, never on labels.

SlidingWindow   FLSW: after every N arrivals, with as many records as were asked among them
MiniBatch       FLMB: after L were asked
Immediate       after each record that is asked

A window closes with a record; its update is made before the next one is looked at, so that labels which come at once
are in time. A window in which nobody was asked changes nothing: no noise is drawn, and t does not count.

How near to the boundary a record must be to be asked with the high chance.

A slab is public: it depends on declared numbers and on how often the model was updated. ``t`` counts updates, from 1
before the first of them, never records.

FixedSlab       the same width for ever
ShrinkingSlab   width / t^power; the paper's is 1/t
BalancedSlab    wider on the side of rare classes: of records near the boundary most are of the common class

A reset that is paid for: the model is thrown away when it is wrong too often.

Of every ``window`` records that are asked, those whose label the model got wrong when it came are counted, noisily. A
record is counted once, by 0 or 1, and its null by 0: the count has sensitivity 1, costs ``epsilon`` once, and only
those who are asked pay it. Where persons are protected, of whom so many records may be counted, its noise is for as
many. Its window closes by ask bits alone; labels that do not come are no mistakes.

A reset decided by things that were released already costs nothing: call `StreamLearner.reset`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from discreet.errors import BadInput
from discreet.privacy.budget import Number, exact_decimal
from discreet.privacy.events import DiscreteLaplace
from discreet.stream.parts import StreamPart, part_from_json, positive, set_fields

ENDLESS = 1 << 62
"""More than any stream has."""


class Window(StreamPart):
    """When a window closes."""

    group = "window"

    @abstractmethod
    def room(self, arrived: int, asked: int) -> tuple[int, int]:
        """How many arrivals, and how many asked ones, are left before it closes; `ENDLESS` where it does not matter."""


@dataclass(frozen=True)
class SlidingWindow(Window):
    """An update every ``arrivals`` records (FLSW)."""

    name = "sliding"

    arrivals: int

    def __post_init__(self) -> None:
        _whole(self.arrivals, "the arrivals of a window")

    def room(self, arrived: int, asked: int) -> tuple[int, int]:
        """Arrivals count."""
        return self.arrivals - arrived, ENDLESS


@dataclass(frozen=True)
class MiniBatch(Window):
    """An update after ``asked`` records were asked (FLMB)."""

    name = "mini-batch"

    asked: int

    def __post_init__(self) -> None:
        _whole(self.asked, "the size of a mini-batch")

    def room(self, arrived: int, asked: int) -> tuple[int, int]:
        """Asked ones count."""
        return ENDLESS, self.asked - asked


@dataclass(frozen=True)
class Immediate(Window):
    """An update after each record that is asked."""

    name = "immediate"

    def room(self, arrived: int, asked: int) -> tuple[int, int]:
        """One asked record."""
        return ENDLESS, 1 - asked


def window_from_json(form: Mapping[str, Any]) -> Window:
    """The inverse of `Window.to_json`."""
    return part_from_json(form, SlidingWindow, MiniBatch, Immediate, what="window")


def _whole(value: Any, what: str) -> None:
    if type(value) is not int or not 1 <= value < 1 << 31:
        raise BadInput(what, "it is not a whole number of at least 1", "Give one such as 5")


class Slab(StreamPart):
    """Widths around the boundary, by the class that a record is predicted as."""

    group = "slab"

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


@dataclass(frozen=True)
class FixedSlab(Slab):
    """Distances up to ``width`` are inside."""

    name = "fixed"

    width: float

    def __post_init__(self) -> None:
        positive(self.width, "the width of a slab")

    def widths(self, updates: int, classes: int) -> tuple[float, ...]:
        """The same for all."""
        return (self.width,) * classes


@dataclass(frozen=True)
class ShrinkingSlab(Slab):
    """``width`` / t^``power``, not below ``least``; t counts updates."""

    name = "shrinking"

    width: float = 1.0
    power: float = 1.0
    least: float = 0.0

    def __post_init__(self) -> None:
        positive(self.width, "the width of a slab")
        positive(self.power, "the power by which a slab shrinks")
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


@dataclass(frozen=True)
class BalancedSlab(Slab):
    """``width`` times (common share / own share)^``strength`` / (the same of all, in the geometric mean).

    ``shares`` of the classes are declared, or were released and paid for; never counted in private labels.
    """

    name = "balanced"

    width: float
    shares: tuple[float, ...]
    strength: float = 0.5

    def __init__(self, width: float, shares: Sequence[float], strength: float = 0.5) -> None:
        numbers = tuple(positive(share, "the share of a class") for share in shares)
        set_fields(self, width=positive(width, "the width of a slab"), shares=numbers, strength=float(strength))
        if not 0 <= self.strength <= 1 or len(self.shares) < 2:
            raise BadInput("a balanced slab", "it needs a share for each class and a strength from 0 to 1", "Give them")

    def widths(self, updates: int, classes: int) -> tuple[float, ...]:
        """Wider for rare classes."""
        if len(self.shares) != classes:
            raise BadInput(
                f"a balanced slab for {classes} classes", f"it has {len(self.shares)} shares", "Give one a class"
            )
        raised = [share**-self.strength for share in self.shares]
        mean = math.prod(factor ** (1 / classes) for factor in raised)
        return tuple(self.width * factor / mean for factor in raised)


def slab_from_json(form: Mapping[str, Any]) -> Slab:
    """The inverse of `Slab.to_json`."""
    return part_from_json(form, FixedSlab, ShrinkingSlab, BalancedSlab, what="slab")


@dataclass(frozen=True, kw_only=True)
class DriftWatch:
    """Reset when more than ``most`` of ``window`` asked records were mistakes, by a noisy count at ``epsilon``."""

    epsilon: Decimal
    window: int
    most: float

    def __init__(self, *, epsilon: Number, window: int, most: float) -> None:
        number = exact_decimal(epsilon, "epsilon")
        if number <= 0 or type(window) is not int or window < 1 or not 0 < most < 1:
            raise BadInput(
                "a watch for drift", "its epsilon, window or share is out of range", "Try 0.1, 200 asked and 0.4"
            )
        set_fields(self, epsilon=number, window=window, most=float(most))

    def event(self, records: int = 1) -> DiscreteLaplace:
        """What it costs a record that is asked, or a person of so many ``records``."""
        return DiscreteLaplace(epsilon=self.epsilon, sensitivity=records)

    def drifted(self, count: int) -> bool:
        """Whether a noisy count is too many."""
        return count > self.most * self.window

    def to_json(self) -> dict[str, Any]:
        """Its numbers."""
        return {"epsilon": str(self.epsilon), "window": self.window, "most": self.most}
