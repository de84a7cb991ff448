"""What the owner declares of a pool. Everything here is public; nothing of it is found out by looking at records.

Fitted scalers are not offered: a mean is a number of the records, and would have to be paid for. Declare constants that
are known beforehand (255 for pictures of bytes, the range of an instrument).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from discreet.errors import BadInput

Kind = Literal["images", "parquet", "npz", "npy", "csv", "arrow"]
KINDS: tuple[str, ...] = get_args(Kind)
_SUFFIXES = {
    ".npy": "npy",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
}
_TABLE = {"id", "columns", "text", "person", "shape"}
_TAKEN: dict[str, set[str]] = {
    "images": {"id", "person", "shape"},
    "npy": {"id", "shape"},
    "npz": {"id", "person", "array", "shape"},
    "parquet": _TABLE,
    "arrow": _TABLE,
    "csv": _TABLE,
}
Numbers = float | tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """The declaration of one pool, checked. ``kind`` is one of `KINDS`, or "arrays" for a pool that is in memory."""

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

    def public(self) -> dict[str, Any]:
        """What was declared, in a form that JSON takes; nothing for what was not."""
        stated = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in stated.items()}


def declare(path: Path, kind: str | None, **options: Any) -> Declared:
    """A checked declaration; refuses an option that the kind has no use for, instead of passing over it."""
    chosen = kind_of(path, kind)
    asked = f"opening {path.name}"
    for name in ("id", "columns", "text", "person", "array", "shape"):
        if options[name] is not None and name not in _TAKEN[chosen]:
            raise BadInput(asked, f"{name} means nothing for {chosen}", f"Leave {name} out")
    for name in ("id", "text", "person", "array"):
        if options[name] is not None and (not isinstance(options[name], str) or not options[name]):
            raise BadInput(asked, f"{name} is not a name", f'Write {name} = "..."')
    found = Declared(
        kind=chosen,
        id=options["id"],
        columns=_columns(asked, options["columns"]),
        text=options["text"],
        person=options["person"],
        array=options["array"],
        shape=_shape(asked, options["shape"]),
        center=_numbers(asked, "center", options["center"]),
        scale=_numbers(asked, "scale", options["scale"], positive=True),
        size=_whole(asked, options["size"]),
    )
    if found.columns is None and found.text is not None and (found.center, found.scale, found.shape) != (0, 1, None):
        raise BadInput(asked, "shape, center and scale are of numbers, and only text is declared", "Declare columns")
    return found


def kind_of(path: Path, kind: str | None) -> str:
    """The kind that was declared, or the one that the name says."""
    if kind is not None:
        if kind not in KINDS:
            raise BadInput(f"kind={kind!r}", "there is no such kind of pool", f"Choose one of {', '.join(KINDS)}")
        return kind
    found = _SUFFIXES.get(path.suffix.lower())
    if found is not None:
        return found
    if path.is_dir():
        return "images"
    if not path.exists():
        raise BadInput(f"opening {path.name}", "it is not there", "Check the path")
    raise BadInput(f"opening {path.name}", "its name does not say its kind", f"Declare kind, of {', '.join(KINDS)}")


def _columns(asked: str, columns: Any) -> tuple[str, ...] | None:
    if columns is None:
        return None
    found = (columns,) if isinstance(columns, str) else tuple(columns)
    if not found or any(not isinstance(name, str) or not name for name in found) or len(set(found)) != len(found):
        raise BadInput(asked, "columns is not a list of different names", 'Write columns = ["...", "..."]')
    return found


def _shape(asked: str, shape: Any) -> tuple[int, ...] | None:
    if shape is None:
        return None
    found = (shape,) if isinstance(shape, int) else tuple(shape)
    if not found or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in found):
        raise BadInput(asked, "shape is not a list of whole numbers above 0", "Write the shape of one record")
    return found


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


def _whole(asked: str, size: int | None) -> int | None:
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise BadInput(asked, "size is not a whole number above 0", "Declare the number of records, or leave it out")
    return size
