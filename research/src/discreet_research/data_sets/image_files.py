"""Published files of pictures, as they are given out: CIFAR-10, MedMNIST, QMNIST and SVHN.

CIFAR-10, binary version (Krizhevsky 2009): 32 x 32 pictures in colour, ten classes. data_batch_1.bin to
data_batch_5.bin and test_batch.bin, 10,000 rows each. A row is 3,073 bytes: the class, 0 to 9, then 1,024 bytes of red,
of green and of blue, row by row. (CIFAR-100 has rows of 3,074 bytes, and is another set.)

MedMNIST, two-dimensional sets (Yang et al. 2023): one npz file a set. Six arrays: train_images, train_labels,
val_images, val_labels, test_images, test_labels. Images are bytes, (n, side, side) grey or (n, side, side, 3) in
colour. Labels are whole numbers, (n, 1) of a class, or (n, 14) of ChestMNIST: a column of 0 and 1 a label. The 3D sets,
(n, side, side, side), are refused: no model here reads volumes.

QMNIST: MNIST with the 50,000 test digits that were lost, and who wrote each (Yadav and Bottou 2019). Pictures are IDX
files of bytes (qmnist-test-images-idx3-ubyte.gz). Labels are IDX files of whole numbers, (n, 8)
(qmnist-test-labels-idx2-int.gz): class, NIST series, writer, number of the digit, NIST class, global number, and two
that are unused. Of the 60,000 test digits the first 10,000 are MNIST's, in its order; the others are the lost ones.

SVHN, Street View House Numbers, format 2 (Netzer et al. 2011): cropped digits in MATLAB files. train_32x32.mat
(73,257), test_32x32.mat (26,032), extra_32x32.mat (531,131 somewhat easier ones). Each holds X, bytes of shape
(32, 32, 3, n), and y, (n, 1) with classes 1 to 10, where 10 is the digit 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.array_files import read_idx
from discreet.pools.checks import existing_file, reading

CLASSES, SIDE = 10, 32
ROW = 1 + 3 * SIDE * SIDE
TRAINING_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_FILE = "test_batch.bin"


def read_cifar10(paths: Path | str | Sequence[Path | str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pictures (n, 3, 32, 32) and their classes, of one file or of several in their order."""
    several = [paths] if isinstance(paths, str | Path) else list(paths)
    if not several:
        raise BadInput("reading CIFAR-10", "no file is named", f"Name {TRAINING_FILES[0]} and its kin")
    rows = np.concatenate([_rows(Path(path)) for path in several])
    return np.ascontiguousarray(rows[:, 1:]).reshape(-1, 3, SIDE, SIDE), rows[:, 0].astype(np.int64)


def _rows(path: Path) -> NDArray[np.uint8]:
    existing_file(path)
    with reading(path):
        content = np.fromfile(path, dtype=np.uint8)
    if content.size == 0 or content.size % ROW:
        raise _broken(path, f"it is not a whole number of rows of {ROW:,} bytes")
    rows = content.reshape(-1, ROW)
    if rows[:, 0].max() >= CLASSES:
        raise _broken(path, f"a class is not from 0 to {CLASSES - 1}")
    return rows


Part = Literal["train", "val", "test"]
PARTS: tuple[Part, ...] = ("train", "val", "test")
_COLOURS = 3


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class MedicalPictures:
    """``x``: bytes (n, side, side), or (n, 3, side, side) in colour. ``y``: (n,) classes, or (n, L) of 0 and 1."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.y)


def read_medmnist(path: Path | str) -> dict[Part, MedicalPictures]:
    """The parts train, val and test of a file."""
    place = existing_file(Path(path))
    with reading(place, otherwise="it is no npz file of plain arrays, or is cut off"), place.open("rb") as file:
        held: Any = np.load(file, allow_pickle=False)
        names = [f"{part}_{kind}" for part in PARTS for kind in ("images", "labels")]
        missing = [name for name in names if name not in getattr(held, "files", ())]
        if missing:
            raise _broken(place, f"there is no array {', '.join(missing)}")
        arrays = {name: held[name] for name in names}
    parts: dict[Part, MedicalPictures] = {
        part: _pictures(place, part, arrays[f"{part}_images"], arrays[f"{part}_labels"]) for part in PARTS
    }
    if len({(part.x.shape[1:], part.y.shape[1:]) for part in parts.values()}) != 1:
        raise _broken(place, "its parts have pictures or labels of different shapes")
    return parts


def _pictures(path: Path, part: str, x: NDArray[Any], y: NDArray[Any]) -> MedicalPictures:
    if x.ndim == 4 and x.shape[3] != _COLOURS:
        raise BadInput(f"reading {path.name}", "its images are volumes: a 3D set", "Choose a two-dimensional set")
    if x.dtype != np.uint8 or x.ndim not in (3, 4):
        raise _broken(path, f"{part}_images are not bytes of shape (n, side, side) or (n, side, side, 3)")
    if y.ndim != 2 or y.dtype.kind not in "iu" or len(y) != len(x) or y.shape[1] == 0 or not len(y):
        raise _broken(path, f"{part}_labels are not rows of whole numbers, one for each picture")
    classes = y.astype(np.int64)
    if classes.min() < 0 or (classes.shape[1] > 1 and classes.max() > 1):
        raise _broken(path, f"{part}_labels are not classes from 0, or several labels of 0 and 1")
    pictures = x if x.ndim == 3 else np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return MedicalPictures(x=pictures, y=classes[:, 0] if classes.shape[1] == 1 else classes)


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
    file = Path(labels)
    if x.dtype != np.uint8 or x.ndim != 3:
        raise _broken(Path(images), "it is not pictures of bytes")
    if table.ndim != 2 or table.shape[1] != _COLUMNS or table.dtype.kind != "i":
        raise _broken(file, f"it is not rows of {_COLUMNS} whole numbers")
    if len(table) != len(x):
        raise _broken(file, f"it has {len(table)} rows for {len(x)} pictures")
    columns: list[Any] = [table[:, file].astype(np.int64) for file in (_CLASS, _WRITER, _SERIES)]
    if not ((columns[0] >= 0) & (columns[0] <= 9)).all():
        raise _broken(file, "a class is not from 0 to 9")
    return Digits(x=x, y=columns[0], writers=columns[1], series=columns[2])


TEN_IS_ZERO = 10


def read_svhn(path: Path | str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pictures (n, 3, height, width) and the digits in them."""
    file = existing_file(Path(path))
    held = _loaded(file)
    x, y = (np.asarray(held.get(name, np.empty(0))) for name in ("X", "y"))
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[2] != 3 or y.size != x.shape[3] or y.dtype.kind not in "uif":
        raise _broken(file, "X is not bytes of shape (height, width, 3, n), or y not one class each")
    classes = y.ravel().astype(np.int64)
    if not np.array_equal(classes, y.ravel()) or not ((classes >= 0) & (classes <= TEN_IS_ZERO)).all():
        raise _broken(file, "a class is not from 1 to 10")
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), classes % TEN_IS_ZERO


def _loaded(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    try:
        return dict(loadmat(path, variable_names=["X", "y"]))
    except NotImplementedError:  # MATLAB 7.3, which is another format
        raise _broken(path, "it is a MATLAB file of version 7.3") from None
    except Exception:  # noqa: BLE001 - whatever a broken file makes the reader do
        raise _broken(path, "it is no MATLAB file, or is cut off") from None


def _broken(path: Path, fact: str) -> BadInput:
    return BadInput(f"reading {path.name}", fact, "Get the file again, as it was published")
