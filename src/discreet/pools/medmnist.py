"""MedMNIST, two-dimensional sets, as they are published (Yang et al. 2023): one npz file a set.

Six arrays: train_images, train_labels, val_images, val_labels, test_images, test_labels. Images are bytes,
(n, side, side) grey or (n, side, side, 3) in colour, side 28 (64, 128, 224 in MedMNIST+). Labels are whole numbers,
(n, 1) of a class, or (n, 14) of ChestMNIST: a column of 0 and 1 a label. The 3D sets, (n, side, side, side), are
refused: no model here reads volumes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.refusals import existing_file, reading

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

    @property
    def several_labels(self) -> bool:
        """Whether a picture may have several labels at once."""
        return self.y.ndim == 2


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
    found: dict[Part, MedicalPictures] = {
        part: _pictures(place, part, arrays[f"{part}_images"], arrays[f"{part}_labels"]) for part in PARTS
    }
    if len({(part.x.shape[1:], part.y.shape[1:]) for part in found.values()}) != 1:
        raise _broken(place, "its parts have pictures or labels of different shapes")
    return found


def _pictures(place: Path, part: str, x: NDArray[Any], y: NDArray[Any]) -> MedicalPictures:
    if x.ndim == 4 and x.shape[3] != _COLOURS:
        raise BadInput(f"reading {place.name}", "its images are volumes: a 3D set", "Choose a two-dimensional set")
    if x.dtype != np.uint8 or x.ndim not in (3, 4):
        raise _broken(place, f"{part}_images are not bytes of shape (n, side, side) or (n, side, side, 3)")
    if y.ndim != 2 or y.dtype.kind not in "iu" or len(y) != len(x) or y.shape[1] == 0 or not len(y):
        raise _broken(place, f"{part}_labels are not rows of whole numbers, one for each picture")
    classes = y.astype(np.int64)
    if classes.min() < 0 or (classes.shape[1] > 1 and classes.max() > 1):
        raise _broken(place, f"{part}_labels are not classes from 0, or several labels of 0 and 1")
    pictures = x if x.ndim == 3 else np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return MedicalPictures(x=pictures, y=classes[:, 0] if classes.shape[1] == 1 else classes)


def _broken(place: Path, fact: str) -> BadInput:
    return BadInput(f"reading {place.name}", fact, "Get the file again: a 2D set of MedMNIST")
