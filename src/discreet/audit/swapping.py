"""Putting a mistake into running code, and taking it out again.

What is put there must look at the receipt: a mistake is made where noise is a simulation's, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from discreet.errors import BadInput


@contextmanager
def swapped(place: Any, name: str, value: Any) -> Iterator[None]:
    """``value`` instead of an attribute, for as long as the context lasts."""
    before = vars(place)[name]
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


def check_known(plant: str | None, known: tuple[str, ...]) -> None:
    """Refuse a mistake that nobody can make."""
    if plant is not None and plant not in known:
        raise BadInput(f"planting {plant}", "there is no such mistake", f"Choose one of {', '.join(known)}")
