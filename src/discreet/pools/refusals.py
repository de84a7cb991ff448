"""What can go wrong with a file, in three parts, and never in the words of a library: those quote values.

Guarantee: an error names what the owner declared (a path, a column) and counts, nothing that a file holds. Names that
stand in a file are not listed either: a CSV file without a header has its first record there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from discreet.errors import BadInput, DiscreetError


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
            raise BadInput(f"opening {path.name}", "it is a file, and pictures are in a folder", "Name the folder")
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
            found = os.stat(self.path)  # noqa: PTH116 - twice as fast as Path.stat, and it is asked for every piece
        return found.st_ino, found.st_size, found.st_mtime_ns
