"""QMNIST: MNIST with the 50,000 test digits that were lost, and who wrote each (Yadav and Bottou 2019).

Pictures are IDX files of bytes (qmnist-test-images-idx3-ubyte.gz). Labels are IDX files of whole numbers, (n, 8)
(qmnist-test-labels-idx2-int.gz): class, NIST series, writer, number of the digit, NIST class, global number, and two
that are unused. Of the 60,000 test digits the first 10,000 are MNIST's, in its order; the others are the lost ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.idx import read_idx

MNIST_TEST = 10_000
_COLUMNS, _CLASS, _SERIES, _WRITER = 8, 0, 1, 2


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Digits:
    """``x``: bytes (n, 28, 28). ``writers``: who wrote each; ``series``: of the NIST collection."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]
    writers: NDArray[np.int64]
    series: NDArray[np.int64]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.y)

    def part(self, first: int, last: int | None = None) -> Digits:
        """Those at places ``first`` to ``last``."""
        cut = slice(first, last)
        return Digits(x=self.x[cut], y=self.y[cut], writers=self.writers[cut], series=self.series[cut])


def read_qmnist(images: Path | str, labels: Path | str) -> Digits:
    """Digits with their labels, from a pair of files."""
    x, table = read_idx(images), read_idx(labels)
    place = Path(labels)
    if x.dtype != np.uint8 or x.ndim != 3:
        raise _broken(Path(images), "it is not pictures of bytes")
    if table.ndim != 2 or table.shape[1] != _COLUMNS or table.dtype.kind != "i":
        raise _broken(place, f"it is not rows of {_COLUMNS} whole numbers")
    if len(table) != len(x):
        raise _broken(place, f"it has {len(table)} rows for {len(x)} pictures")
    columns: list[Any] = [table[:, place].astype(np.int64) for place in (_CLASS, _WRITER, _SERIES)]
    if not ((columns[0] >= 0) & (columns[0] <= 9)).all():
        raise _broken(place, "a class is not from 0 to 9")
    return Digits(x=x, y=columns[0], writers=columns[1], series=columns[2])


def lost_digits(images: Path | str, labels: Path | str) -> Digits:
    """Of the test files, the 50,000 that MNIST does not have."""
    return read_qmnist(images, labels).part(MNIST_TEST)


def _broken(place: Path, fact: str) -> BadInput:
    return BadInput(f"reading {place.name}", fact, "Get the file again")
