"""Parts of a stream: each has a name, public numbers, and a stored form that reads back to an equal value.

A part is a frozen dataclass. Its stored form has its name under the key of its group (``"window": "sliding"``) and its
fields: exact numbers as text, tuples as lists.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any, ClassVar, TypeVar

from discreet.errors import BadInput


class StreamPart(ABC):
    """A rule of asking, a window, a slab, a step size or a noise."""

    group: ClassVar[str]
    name: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Its name and its fields."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {self.group: self.name} | {name: _plain(value) for name, value in values.items()}


Part = TypeVar("Part", bound=StreamPart)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Decimal) else value


def part_from_json(form: Mapping[str, Any], *kinds: type[Part], what: str) -> Part:
    """The inverse of `StreamPart.to_json`, of one of these ``kinds``."""
    values, by_name = dict(form), {kind.name: kind for kind in kinds}
    try:
        return by_name[values.pop(kinds[0].group, "")](**values)
    except (KeyError, TypeError):
        raise BadInput(f"a stored {what}", "it is not one of ours", "Restore the file") from None


def positive(value: Any, what: str) -> float:
    """A number above 0; anything else is refused."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise BadInput(what, "it is not a positive number", "Give one above 0")
    return float(value)


def set_fields(part: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass while it is made."""
    for name, value in values.items():
        object.__setattr__(part, name, value)
