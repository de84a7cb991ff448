"""What the owner declares of a pool. Everything here is public; nothing of it is found out by looking at records.

Fitted scalers are not offered: a mean is a number of the records, and would have to be paid for. Declare constants that
are known beforehand (255 for pictures of bytes, the range of an instrument).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from discreet.errors import BadInput
from discreet.parts import Part
from discreet.pools.schema import Schema

Numbers = float | tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class PoolDeclaration:
    """The checked declaration of one pool. ``kind``: the name of its reader; "arrays" for a pool that is in memory."""

    kind: str
    id: str | None = None
    columns: tuple[str, ...] | None = None
    text: str | None = None
    person: str | None = None
    array: str | None = None
    shape: tuple[int, ...] | None = None
    center: Numbers = 0.0
    scale: Numbers = 1.0
    size: int | None = None
    schema: Schema | None = None

    def public(self) -> dict[str, Any]:
        """What was declared, in a form that JSON takes; nothing for what was not."""
        stated = {
            option.name: getattr(self, option.name)
            for option in fields(self)
            if getattr(self, option.name) != option.default
        }
        if self.schema is not None:
            stated |= {"schema": self.schema.to_json(), "text": None}
        known = {name: value for name, value in stated.items() if value is not None}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in known.items()}


def declare(path: Path, reader: Part, **options: Any) -> PoolDeclaration:
    """A checked declaration; refuses an option that the reader has no use for, instead of passing over it."""
    asked = f"opening {path.name}"
    for name in ("id", "columns", "text", "person", "array", "shape", "schema"):
        if options[name] is not None and reader.option(name) is None:
            raise BadInput(asked, f"{name} means nothing for {reader.name}", f"Leave {name} out")
    for name in ("id", "text", "person", "array"):
        if options[name] is not None and (not isinstance(options[name], str) or not options[name]):
            raise BadInput(asked, f"{name} is not a name", f'Write {name} = "..."')
    schema = None if options["schema"] is None else Schema.of(options["schema"])
    numeric = [options[name] is not None for name in ("columns", "text", "shape")]
    if schema is not None and (any(numeric) or (options["center"], options["scale"]) != (0, 1)):
        fact = "a schema declares columns, texts and bounds"
        raise BadInput(asked, fact, "Leave columns, text, shape, center and scale out")
    size = options["size"]
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise BadInput(asked, "size is not a whole number above 0", "Declare the number of records, or leave it out")
    declaration = PoolDeclaration(
        kind=reader.name,
        id=options["id"],
        columns=_columns(asked, options["columns"]),
        text=options["text"] if schema is None else schema.text,
        person=options["person"],
        array=options["array"],
        shape=_shape(asked, options["shape"]),
        center=_numbers(asked, "center", options["center"]),
        scale=_numbers(asked, "scale", options["scale"], positive=True),
        size=size,
        schema=schema,
    )
    if (
        declaration.columns is None
        and declaration.text is not None
        and (declaration.center, declaration.scale, declaration.shape) != (0, 1, None)
    ):
        raise BadInput(asked, "shape, center and scale are of numbers, and only text is declared", "Declare columns")
    return declaration


def _columns(asked: str, columns: Any) -> tuple[str, ...] | None:
    if columns is None:
        return None
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names or any(not isinstance(name, str) or not name for name in names) or len(set(names)) != len(names):
        raise BadInput(asked, "columns is not a list of different names", 'Write columns = ["...", "..."]')
    return names


def _shape(asked: str, shape: Any) -> tuple[int, ...] | None:
    if shape is None:
        return None
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not sizes or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in sizes):
        raise BadInput(asked, "shape is not a list of whole numbers above 0", "Write the shape of one record")
    return sizes


def _numbers(asked: str, name: str, value: Any, *, positive: bool = False) -> Numbers:
    several = isinstance(value, list | tuple)
    numbers = tuple(value) if several else (value,)
    for number in numbers:
        real = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
        if not real or (positive and number <= 0):
            kind = "a finite number above 0" if positive else "a finite number"
            raise BadInput(
                asked,
                f"{name} is not {kind}, or a list of such",
                f"Declare {name} from what is publicly known; it is never fitted to records",
            )
    if not numbers:
        raise BadInput(asked, f"{name} is empty", "Leave it out")
    return tuple(float(number) for number in numbers) if several else float(numbers[0])
