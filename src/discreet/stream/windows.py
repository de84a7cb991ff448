"""When the model is updated. It depends on arrivals and ask bits, never on labels.

SlidingWindow   FLSW: after every N arrivals, with as many records as were asked among them
MiniBatch       FLMB: after L were asked
Immediate       after each record that is asked

A window closes with a record; its update is made before the next one is looked at, so that labels which come at once
are in time. A window in which nobody was asked changes nothing: no noise is drawn, and t does not count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from discreet.errors import BadInput

ENDLESS = 1 << 62
"""More than any stream has."""


class Window(ABC):
    """When a window closes."""

    @abstractmethod
    def room(self, arrived: int, asked: int) -> tuple[int, int]:
        """How many arrivals, and how many asked ones, are left before it closes; `ENDLESS` where it does not matter."""

    def closed(self, arrived: int, asked: int) -> bool:
        """Whether a window with so many arrivals, so many of them asked, is over."""
        return min(self.room(arrived, asked)) <= 0

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """A form that `window_from_json` reads back to an equal value."""


@dataclass(frozen=True)
class SlidingWindow(Window):
    """An update every ``arrivals`` records (FLSW)."""

    arrivals: int

    def __post_init__(self) -> None:
        _whole(self.arrivals, "the arrivals of a window")

    def room(self, arrived: int, asked: int) -> tuple[int, int]:
        """Arrivals count."""
        return self.arrivals - arrived, ENDLESS

    def to_json(self) -> dict[str, Any]:
        """Its number."""
        return {"window": "sliding", "arrivals": self.arrivals}


@dataclass(frozen=True)
class MiniBatch(Window):
    """An update after ``asked`` records were asked (FLMB)."""

    asked: int

    def __post_init__(self) -> None:
        _whole(self.asked, "the size of a mini-batch")

    def room(self, arrived: int, asked: int) -> tuple[int, int]:
        """Asked ones count."""
        return ENDLESS, self.asked - asked

    def to_json(self) -> dict[str, Any]:
        """Its number."""
        return {"window": "mini-batch", "asked": self.asked}


@dataclass(frozen=True)
class Immediate(Window):
    """An update after each record that is asked."""

    def room(self, arrived: int, asked: int) -> tuple[int, int]:
        """One asked record."""
        return ENDLESS, 1 - asked

    def to_json(self) -> dict[str, Any]:
        """Its name."""
        return {"window": "immediate"}


def window_from_json(form: dict[str, Any]) -> Window:
    """The inverse of `Window.to_json`."""
    made = dict(form)
    kinds: dict[Any, type[Any]] = {"sliding": SlidingWindow, "mini-batch": MiniBatch, "immediate": Immediate}
    try:
        found: Window = kinds[made.pop("window", None)](**made)
    except (KeyError, TypeError):
        raise BadInput("a stored window", "it is not one of ours", "Restore the file") from None
    return found


def _whole(value: Any, what: str) -> None:
    if type(value) is not int or not 1 <= value < 1 << 31:
        raise BadInput(what, "it is not a whole number of at least 1", "Give one such as 5")
