"""A pool: records that stay with their owner, under their own ids.

Guarantee: nothing here releases anything. Audience of `ids`, `persons`, `x`, `text`, `rows` and `broken`: owner.
`public` and the repr hold what was declared, and the number of records, which is public: a broken one keeps its slot.

What the owner declares of a pool is public; nothing of it is found out by looking at records. Fitted scalers are not
offered: a mean is a number of the records, and would have to be paid for. Declare constants that are known beforehand
(255 for pictures of bytes, the range of an instrument).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.parts import Part
from discreet.pools.checks import ids_of, names_of
from discreet.pools.rows import (
    ListedTexts,
    Mask,
    Places,
    Scaling,
    Span,
    StoredRows,
    length_of,
    or_none,
    places_of,
    span_of,
)
from discreet.pools.schema import Schema


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Pool:
    """Records, their ids, and whose they are.

    ids       the user's own, as text, each once
    x         numbers: has ``shape``, ``dtype``, a length, slices and rows by positions; None if there is text alone
    text      a text a record: a length, slices and rows by positions; None if none was declared
    persons   whose record it is, or None
    declared  the public facts
    """

    ids: list[str]
    x: Any | None = None
    text: Any | None = None
    persons: list[str] | None = None
    declared: PoolDeclaration
    _positions: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.x is None and self.text is None:
            raise BadInput("a pool", "it has neither numbers nor text", "Declare columns, or text")
        parts = {"ids": self.ids, "x": self.x, "text": self.text, "persons": self.persons}
        present = {name: len(part) for name, part in parts.items() if part is not None}
        if len(set(present.values())) > 1:
            raise BadInput("a pool", f"{', '.join(present)} are not equally many", "Give one of each a record")

    def __len__(self) -> int:
        """The number of records, broken ones among them."""
        return len(self.ids)

    def __repr__(self) -> str:
        """Public facts only."""
        shape = "" if self.x is None else f", shape {tuple(self.x.shape[1:])}"
        return f"<{type(self).__name__}: {len(self)} records, {self.declared.kind}{shape}>"

    def rows(self, places: Any) -> Any:
        """The records at ``places``: numbers, or a list of texts where there is text alone. Broken ones are blank."""
        return self.x[places] if self.x is not None else self.text[places]  # type: ignore[index]

    def broken(self, places: Any) -> Mask:
        """Which of the records at ``places`` could not be read, in that order. Audience: owner.

        Such a record is a null: give it no label, and it trains nothing. It is never left out of the pool.
        """
        span = span_of(places, len(self))
        return self._unreadable(self.x, span) | self._unreadable(self.text, span)

    @property
    def withdrawn(self) -> frozenset[str]:
        """Ids of records that were withdrawn: codes, at the places where they were (`discreet.pools.derived`)."""
        return frozenset()

    def withdrew(self, name: str) -> bool:
        """Whether the record of this id was withdrawn."""
        return False

    def places(self, ids: Iterable[str]) -> Places:
        """The positions of ``ids``, in that order."""
        if not self._positions:
            self._positions.update({name: position for position, name in enumerate(self.ids)})
        places = [self._positions.get(name, -1) for name in ids]
        if -1 in places:
            raise BadInput(
                f"{len(places)} ids", f"{places.count(-1)} of them are not in the pool", "Ask for ids that are there"
            )
        return np.array(places, dtype=np.int64)

    def public(self) -> dict[str, Any]:
        """What a config or a status may say: what was declared, and the number and shape of records."""
        shape = None if self.x is None else [int(size) for size in self.x.shape[1:]]
        dtype = None if self.x is None else str(np.dtype(self.x.dtype))
        return {**self.declared.public(), "kind": self.declared.kind, "size": len(self), "shape": shape, "dtype": dtype}

    def _unreadable(self, part: Any, span: Span) -> Mask:
        if hasattr(part, "readable"):
            return ~np.asarray(part.readable(span)[1])
        return np.zeros(length_of(span), dtype=bool)


class ArrayPool(Pool):
    """A pool of what is in memory already, or of anything that has rows by positions.

    ``x``: an array of numbers with a row a record; ``text``: strings, None where there is none; one of them at least.
    """

    def __init__(
        self, *, ids: Any, x: Any | None = None, text: Sequence[str | None] | None = None, persons: Any | None = None
    ) -> None:
        records = None if x is None else as_array(x)
        if records is not None and (len(records.shape) < 2 or np.dtype(records.dtype).kind not in "biuf"):
            raise BadInput(
                "x of a pool", "it is not an array of numbers with a row a record", "Give it two axes or more"
            )
        super().__init__(
            ids=ids_of(ids, "a pool of arrays"),
            x=None if records is None else ArrayRows(records, name="a pool of arrays"),
            text=None if text is None else ListedTexts(_checked(text), name="a pool of arrays"),
            persons=None if persons is None else names_of(persons, "persons"),
            declared=PoolDeclaration(kind="arrays"),
        )


class ArrayRows(StoredRows):
    """StoredRows of an array, in memory or memory-mapped, or of what can be sliced like one."""

    def __init__(
        self, array: Any, *, name: str, shape: tuple[int, ...] | None = None, center: Any = 0.0, scale: Any = 1.0
    ) -> None:
        record_shape = tuple(int(size) for size in array.shape[1:]) if shape is None else shape
        scaling = Scaling(center, scale, record_shape)
        super().__init__(name=name, count=int(array.shape[0]), shape=record_shape, stored=array.dtype, scaling=scaling)
        self._array = array

    def stored(self, span: Span) -> tuple[NDArray[Any], Mask | None]:
        """StoredRows of the array. If its own reader fails on them, they are tried one by one."""
        try:
            return self._read(span), None
        except Exception:  # noqa: BLE001 - what a reader says may name a record
            alone = [or_none(self._read, np.array([position])) for position in places_of(span).tolist()]
        blank = np.zeros((1, *self.shape[1:]), dtype=self._array.dtype)
        rows = np.concatenate([blank if row is None else row for row in alone])
        return rows, np.array([row is not None for row in alone])

    def _read(self, span: Span) -> NDArray[Any]:
        rows = np.asarray(self._array[span])
        if rows.dtype.kind not in "biuf":
            raise ValueError("rows of another kind")
        return rows.reshape(length_of(span), *self.shape[1:])


def as_array(values: Any) -> Any:
    """What has rows by positions as it is; torch tensors, tables of pandas and lists as arrays; else an empty one."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    elif hasattr(values, "iloc"):
        values = values.to_numpy()
    elif not all(hasattr(values, name) for name in ("shape", "dtype", "__getitem__", "__len__")):
        try:
            values = np.asarray(values)
        except (TypeError, ValueError):
            values = np.empty(0, dtype=object)
    return values


def _checked(texts: Any) -> list[str | None]:
    strings = [] if isinstance(texts, str) else list(texts)
    if not strings or any(text is not None and not isinstance(text, str) for text in strings):
        raise BadInput("the texts of a pool", "they are not a list of strings", "Give a string, or None, a record")
    return strings


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
