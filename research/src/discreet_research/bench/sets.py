"""Public, fully labelled sets as their files hold them: pictures, or texts; records, classes, and a test set.

`digits` comes with scikit-learn. The others are read from a directory that the user names; nothing is fetched:

    fashion-mnist/, mnist/     IDX files, gzip
    qmnist/                    IDX files, gzip; the lost digits join the pool, the test is MNIST's
    svhn/                      train_32x32.mat and test_32x32.mat, format 2
    NAME-mnist/                NAMEmnist.npz of MedMNIST, as published; the test part is the test
    cifar10/                   cifar10.npz, as benchmarks/prepare_cifar10.py makes it; or the published binary version
    clinc150/                  data_full.json.gz
    banking77/                 train.csv and test.csv, with a column of texts and one of intents
    kddcup99/                  kddcup.data_10_percent.gz
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.array_files import read_idx
from discreet_research.bench.kdd99 import FILE as KDD_FILE
from discreet_research.bench.kdd99 import read_connections
from discreet_research.data_sets.image_files import (
    MNIST_TEST,
    TEST_FILE,
    TRAINING_FILES,
    MedicalPictures,
    read_cifar10,
    read_medmnist,
    read_qmnist,
    read_svhn,
)

Data = Literal[
    "digits",
    "fashion-mnist",
    "mnist",
    "qmnist",
    "svhn",
    "pneumonia-mnist",
    "path-mnist",
    "derma-mnist",
    "oct-mnist",
    "retina-mnist",
    "breast-mnist",
    "blood-mnist",
    "tissue-mnist",
    "organa-mnist",
    "organc-mnist",
    "organs-mnist",
    "cifar10",
    "clinc150",
    "banking77",
    "kddcup99",
]
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, repr=False)
class Raw:
    """Records and classes, for the pool and for the test: pictures (n, ...) of bytes, texts, or rows by columns."""

    x: Any
    y: Integers
    test_x: Any
    test_y: Integers


@dataclass(frozen=True, kw_only=True)
class Source:
    """``files`` of a set, below its own directory, and how many classes it has. ``instead``: other files that will do,
    where the first ones are not there.
    """

    classes: int
    files: tuple[str, ...]
    read: Callable[[Sequence[Path]], Raw]
    instead: tuple[str, ...] = ()


def read_set(name: Data, data: Path | None) -> Raw:
    """The set called ``name``; ``place`` has a directory for each."""
    source = SOURCES[name]
    paths = paths_of(name, data)
    try:
        raw = source.read(paths)
    except (OSError, ValueError, KeyError, EOFError, TypeError) as problem:
        if isinstance(problem, BadInput):
            raise
        raise BadInput(f"the data {name}", "its files are not what they should be", "Get them again") from None
    for classes in (raw.y, raw.test_y):
        if classes.size == 0 or not (classes.min() >= 0 and classes.max() < source.classes):
            raise BadInput(f"the data {name}", f"its classes are not {source.classes}", "Get its files again")
    return raw


def paths_of(name: Data, data: Path | None) -> list[Path]:
    """Its files, all of which are there."""
    source = SOURCES[name]
    if source.files and data is None:
        raise BadInput(f"the data {name}", "nothing says where they are", "Give --data DIRECTORY")
    folder = Path(data or ".") / name
    paths, others = ([folder / file for file in files] for files in (source.files, source.instead))
    if others and all(path.is_file() for path in others) and not all(path.is_file() for path in paths):
        return others
    for path in paths:
        if not path.is_file():
            raise BadInput(
                f"the data {name}", f"{path.name} is not in its directory {name}", "See docs/howto/run-the-bench.md"
            )
    return paths


def digest_of(paths: Sequence[Path]) -> str:
    """Names the content of files, in their order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _digits(_: Sequence[Path]) -> Raw:
    """The 1,797 digits of scikit-learn; every fourth is kept for the test."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    test = np.arange(len(y)) % 4 == 0
    pictures, classes = np.asarray(x, dtype=np.float32).reshape(-1, 8, 8), np.asarray(y, dtype=np.int64)
    return Raw(x=pictures[~test], y=classes[~test], test_x=pictures[test], test_y=classes[test])


def _idx(paths: Sequence[Path]) -> Raw:
    x, y, test_x, test_y = (read_idx(path) for path in paths)
    return Raw(x=x, y=y.astype(np.int64), test_x=test_x, test_y=test_y.astype(np.int64))


def _qmnist(paths: Sequence[Path]) -> Raw:
    train, test = read_qmnist(*paths[:2]), read_qmnist(*paths[2:])
    known, lost = test.part(0, MNIST_TEST), test.part(MNIST_TEST)
    return Raw(x=np.concatenate([train.x, lost.x]), y=np.concatenate([train.y, lost.y]), test_x=known.x, test_y=known.y)


def _svhn(paths: Sequence[Path]) -> Raw:
    """Channels last, as other pictures in colour are here."""
    (x, y), (test_x, test_y) = (read_svhn(path) for path in paths)
    return Raw(x=x.transpose(0, 2, 3, 1), y=y, test_x=test_x.transpose(0, 2, 3, 1), test_y=test_y)


def _npz(paths: Sequence[Path]) -> Raw:
    with np.load(paths[0], allow_pickle=False) as held:
        parts = [held[f"{part}_{kind}"] for part in ("train", "test") for kind in ("images", "labels")]
    x, y, test_x, test_y = parts
    return Raw(x=x, y=y.ravel().astype(np.int64), test_x=test_x, test_y=test_y.ravel().astype(np.int64))


def _cifar10(paths: Sequence[Path]) -> Raw:
    """Channels last; of the npz file or of the six binary ones."""
    if paths[0].suffix == ".npz":
        return _npz(paths)
    (x, y), (test_x, test_y) = read_cifar10(paths[:-1]), read_cifar10(paths[-1])
    return Raw(x=x.transpose(0, 2, 3, 1), y=y, test_x=test_x.transpose(0, 2, 3, 1), test_y=test_y)


def _medmnist(paths: Sequence[Path]) -> Raw:
    """Channels last."""
    held = read_medmnist(paths[0])

    def pictures(part: MedicalPictures) -> Any:
        return part.x if part.x.ndim == 3 else part.x.transpose(0, 2, 3, 1)

    train, test = held["train"], held["test"]
    return Raw(x=pictures(train), y=train.y, test_x=pictures(test), test_y=test.y)


def _clinc(paths: Sequence[Path]) -> Raw:
    """Without the queries that are of no intent."""
    held = json.loads(gzip.decompress(paths[0].read_bytes()))
    return _texts(held["train"], held["test"])


def _banking(paths: Sequence[Path]) -> Raw:
    parts = []
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            parts.append([(row["text"], row["category"]) for row in csv.DictReader(file)])
    return _texts(*parts)


def _kdd99(paths: Sequence[Path]) -> Raw:
    x, y, test_x, test_y = read_connections(paths)
    return Raw(x=x, y=y, test_x=test_x, test_y=test_y)


def _texts(train: Any, test: Any) -> Raw:
    names = sorted({intent for _, intent in train})
    number = {name: index for index, name in enumerate(names)}
    (x, y), (test_x, test_y) = (
        ([text for text, _ in part], np.array([number[intent] for _, intent in part], dtype=np.int64))
        for part in (train, test)
    )
    return Raw(x=x, y=y, test_x=test_x, test_y=test_y)


_IDX_FILES = tuple(
    f"{name}.gz"
    for name in (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    )
)
_QMNIST_FILES = tuple(
    f"qmnist-{part}-{kind}.gz" for part in ("train", "test") for kind in ("images-idx3-ubyte", "labels-idx2-int")
)
_MEDMNIST: dict[Data, int] = {
    "pneumonia-mnist": 2,
    "path-mnist": 9,
    "derma-mnist": 7,
    "oct-mnist": 4,
    "retina-mnist": 5,
    "breast-mnist": 2,
    "blood-mnist": 8,
    "tissue-mnist": 8,
    "organa-mnist": 11,
    "organc-mnist": 11,
    "organs-mnist": 11,
}
"""The 2D sets of one class a picture, and how many classes; ChestMNIST has several labels a picture."""
SOURCES: dict[Data, Source] = {
    "digits": Source(classes=10, files=(), read=_digits),
    "fashion-mnist": Source(classes=10, files=_IDX_FILES, read=_idx),
    "mnist": Source(classes=10, files=_IDX_FILES, read=_idx),
    "qmnist": Source(classes=10, files=_QMNIST_FILES, read=_qmnist),
    "svhn": Source(classes=10, files=("train_32x32.mat", "test_32x32.mat"), read=_svhn),
    "cifar10": Source(classes=10, files=("cifar10.npz",), read=_cifar10, instead=(*TRAINING_FILES, TEST_FILE)),
    "clinc150": Source(classes=150, files=("data_full.json.gz",), read=_clinc),
    "banking77": Source(classes=77, files=("train.csv", "test.csv"), read=_banking),
    "kddcup99": Source(classes=2, files=(KDD_FILE,), read=_kdd99),
}
SOURCES |= {
    name: Source(classes=classes, files=(f"{name.replace('-', '')}.npz",), read=_medmnist)
    for name, classes in _MEDMNIST.items()
}
