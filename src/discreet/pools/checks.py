"""Checks that all readers share: on ids and names, on sizes, and on files that cannot be read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import BadInput, DiscreetError

POSITION = "position"
"""Declared as ``id``: a record's name is its place in the file."""


def positions(count: int, first: int = 0) -> list[str]:
    """Ids "0", "1", ...: the place is the name. Whoever moves a row renames it."""
    return [str(row) for row in range(first, first + count)]


def ids_of(values: Any, what: str) -> list[str]:
    """All ids as text, each once. ``what``: where they stand, for errors: a parameter."""
    ids = names_of(values, what)
    repeated = len(ids) - len(set(ids))
    if repeated:
        raise BadInput(
            f"the ids in {what}", f"{repeated} repeat an id that was there already", "Give every record its own id"
        )
    return ids


def names_of(column: Any, what: str) -> list[str]:
    """Names as text; whole numbers become text. What cannot name one thing surely is refused."""
    values = _listed(column, what)
    kinds = {type(value) for value in values}
    if type(None) in kinds:
        raise _refused(what, sum(value is None for value in values), "missing", "Fill the gaps")
    if kinds <= {int}:
        return [str(value) for value in values]
    if kinds != {str}:
        wrong = sum(not isinstance(value, str) for value in values)
        raise _refused(what, wrong, "neither all text nor all whole numbers", "Write them as text")
    if "" in values:
        raise _refused(what, values.count(""), "empty", "Fill the gaps")
    odd = sum(not encodable(value) for value in values)
    if odd:
        raise _refused(what, odd, "not writable as UTF-8", "Rename them")
    return values


def _listed(values: Any, what: str) -> list[Any]:
    """As Python values, each of its own type; numpy would make one type of all."""
    if hasattr(values, "iloc"):
        values = values.to_numpy()
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise BadInput(f"the names in {what}", "they are not a plain list", "Give one name a record")
        return list(values.tolist())
    if hasattr(values, "to_pylist"):
        return list(values.to_pylist())
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise BadInput(f"the names in {what}", "they are not a list", "Give one name a record")
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def encodable(name: str) -> bool:
    """Halves of pairs cannot be encoded; what numpy takes from a damaged file cannot be decoded again."""
    try:
        return name.isascii() or name.encode().decode() == name
    except UnicodeError:
        return False


def _refused(what: str, count: int, wrong: str, remedy: str) -> BadInput:
    return BadInput(f"the names in {what}", f"{count} are {wrong}", remedy)


def check_size(asked: str, size: int, declared: int | None) -> None:
    """A pool has at least one record, and as many as were declared."""
    if size == 0:
        raise BadInput(
            asked, "there is no record in it", "Check the path and the kind; below a header there are records"
        )
    if declared is not None and size != declared:
        raise BadInput(
            asked, f"size = {declared} is declared, and it has {size} records", "Correct the size, or the file"
        )


# What can go wrong with a file, in three parts, and never in the words of a library: those quote values.
#
# Guarantee: an error names what the owner declared (a path, a column) and counts, nothing that a file holds. Names that
# stand in a file are not listed either: a CSV file without a header has its first record there.


def existing_file(path: Path) -> Path:
    """The path, if a file is there."""
    with reading(path):
        if path.is_dir():
            raise BadInput(f"opening {path.name}", "it is a folder, and this kind is one file", "Name the file itself")
        path.stat()
    return path


def existing_folder(path: Path) -> Path:
    """The path, if a folder is there."""
    with reading(path):
        path.stat()
        if not path.is_dir():
            raise BadInput(f"opening {path.name}", "it is a file, and this kind is a folder", "Name the folder")
    return path


@contextmanager
def reading(path: Path, *, otherwise: str = "it cannot be read as what it is said to be") -> Iterator[None]:
    """Whatever a library says while ``path`` is read is said again without its values."""
    asked = f"reading {path.name}"
    try:
        yield
    except DiscreetError:
        raise
    except FileNotFoundError:
        raise BadInput(asked, "it is not there", "Check the path, or put it back where it was") from None
    except PermissionError:
        raise BadInput(asked, "this user may not read it", "Give the user the right to read it") from None
    except Exception as failed:  # noqa: BLE001 - pyarrow, Pillow and numpy quote what they could not read
        raise BadInput(asked, f"{otherwise} ({type(failed).__name__})", "Check its kind, or write it again") from None


@dataclass(frozen=True)
class Unchanged:
    """A file as it was when it was opened. What is memory-mapped must not change: a shorter file ends the process."""

    path: Path
    seen: tuple[int, int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seen", self._look())

    def check(self) -> None:
        """Refuse to go on with a file that was moved, removed, replaced or written to."""
        if self._look() != self.seen:
            raise BadInput(
                f"reading {self.path.name}", "it was changed since it was opened", "Restore it, or open the pool again"
            )

    def _look(self) -> tuple[int, int, int]:
        with reading(self.path):
            status = os.stat(self.path)  # noqa: PTH116 - twice as fast as Path.stat, and it is asked for every piece
        return status.st_ino, status.st_size, status.st_mtime_ns
