"""CIFAR-10, binary version, as it is published (Krizhevsky 2009): 32 x 32 pictures in colour, ten classes.

data_batch_1.bin to data_batch_5.bin and test_batch.bin, 10,000 rows each. A row is 3,073 bytes: the class, 0 to 9, then
1,024 bytes of red, of green and of blue, row by row. Nothing stands between rows. batches.meta.txt has the ten names,
one a line. (CIFAR-100 has rows of 3,074 bytes, and is another set.)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.refusals import existing_file, reading

CLASSES, SIDE = 10, 32
ROW = 1 + 3 * SIDE * SIDE
TRAINING_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_FILE, NAMES_FILE = "test_batch.bin", "batches.meta.txt"


def read_cifar10(paths: Path | str | Sequence[Path | str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pictures (n, 3, 32, 32) and their classes, of one file or of several in their order."""
    several = [paths] if isinstance(paths, str | Path) else list(paths)
    if not several:
        raise BadInput("reading CIFAR-10", "no file is named", f"Name {TRAINING_FILES[0]} and its kin")
    rows = np.concatenate([_rows(Path(path)) for path in several])
    return np.ascontiguousarray(rows[:, 1:]).reshape(-1, 3, SIDE, SIDE), rows[:, 0].astype(np.int64)


def read_cifar10_names(path: Path | str) -> tuple[str, ...]:
    """The ten names of batches.meta.txt, in the order of the classes."""
    place = existing_file(Path(path))
    with reading(place):
        names = tuple(line.strip() for line in place.read_text(encoding="ascii").splitlines() if line.strip())
    if len(names) != CLASSES or len(set(names)) != CLASSES:
        raise _broken(place, f"it has not {CLASSES} different names")
    return names


def _rows(place: Path) -> NDArray[np.uint8]:
    existing_file(place)
    with reading(place):
        content = np.fromfile(place, dtype=np.uint8)
    if content.size == 0 or content.size % ROW:
        raise _broken(place, f"it is not a whole number of rows of {ROW:,} bytes")
    rows = content.reshape(-1, ROW)
    if rows[:, 0].max() >= CLASSES:
        raise _broken(place, f"a class is not from 0 to {CLASSES - 1}")
    return rows


def _broken(place: Path, fact: str) -> BadInput:
    return BadInput(f"reading {place.name}", fact, "Get the file again: the binary version of CIFAR-10")
