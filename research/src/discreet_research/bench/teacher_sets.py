"""Public sets that play both kinds of data for teachers: 80% private with labels, 20% public without, and a test.

    adult   the census files adult.data.gz and adult.test.gz: numbers standardised, words as one column each
    mnist   IDX files: 50 principal components of the public pictures
    normal  made up: ten normal columns, a linear rule, 2% of the labels turned; as many private records as one likes

Everything that prepares records (means, components, the list of words) is of the public 20% alone.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet_research.bench.sets import digest_of, paths_of, read_set

TeacherData = Literal["adult", "mnist", "normal"]
Floats = NDArray[np.float64]
PUBLIC_SHARE = 0.2
_SPLIT_SEED = 50_000
_ADULT_FILES = ("adult.data.gz", "adult.test.gz")
_NUMBERS = (0, 2, 4, 10, 11, 12)
"""Columns of adult that are numbers; the last of all is the class."""
_COMPONENTS = 50


@dataclass(frozen=True, kw_only=True, repr=False)
class TeacherSet:
    """Rows and class numbers. ``public_y`` is known to the bench, to say how right answers are, and to nobody else."""

    classes: tuple[str, ...]
    x: Floats
    y: NDArray[np.int64]
    units: tuple[str, ...]
    public_x: Floats
    public_y: NDArray[np.int64]
    public_ids: tuple[str, ...]
    test_x: Floats
    test_y: NDArray[np.int64]
    made_of: str


@lru_cache(maxsize=2)
def teacher_set(name: TeacherData, data: Path | None, seed: int) -> TeacherSet:
    """The set with the split of ``seed``."""
    if name == "normal":
        return _normal(seed)
    raw, test, y, test_y, classes, made_of = _adult(data) if name == "adult" else _mnist(data)
    order = np.random.default_rng([seed, _SPLIT_SEED]).permutation(len(y))
    public = order[: round(PUBLIC_SHARE * len(order))]
    private = order[len(public) :]
    prepare = _census if name == "adult" else _pictures
    rows, shown, tested = prepare(raw, private, public, test)
    return TeacherSet(
        classes=classes,
        x=rows,
        y=y[private],
        units=tuple(f"record {data}" for data in private.tolist()),
        public_x=shown,
        public_y=y[public],
        public_ids=tuple(f"record {data}" for data in public.tolist()),
        test_x=tested,
        test_y=test_y,
        made_of=made_of,
    )


_NORMAL = {"private": 180_000, "public": 2_000, "test": 10_000}
_TURNED = 0.02


def _normal(seed: int) -> TeacherSet:
    rng = np.random.default_rng([seed, _SPLIT_SEED, 1])
    rule = rng.normal(size=10)
    drawn = {}
    for part, size in _NORMAL.items():
        x = rng.normal(size=(size, 10))
        turned = rng.random(size) < (_TURNED if part == "private" else 0.0)
        drawn[part] = x, ((x @ rule > 0) ^ turned).astype(np.int64)
    return TeacherSet(
        classes=("below", "above"),
        x=drawn["private"][0],
        y=drawn["private"][1],
        units=tuple(f"private {index}" for index in range(_NORMAL["private"])),
        public_x=drawn["public"][0],
        public_y=drawn["public"][1],
        public_ids=tuple(f"public {index}" for index in range(_NORMAL["public"])),
        test_x=drawn["test"][0],
        test_y=drawn["test"][1],
        made_of="made up",
    )


@lru_cache(maxsize=1)
def _adult(data: Path | None) -> tuple[Any, Any, Any, Any, tuple[str, ...], str]:
    paths = [Path(data or ".") / "adult" / file for file in _ADULT_FILES]
    if not all(path.is_file() for path in paths):
        raise BadInput(
            "the data adult", "its files are not there", "Give --data with adult/adult.data.gz, adult.test.gz"
        )
    parts = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == 15]
        parts.append((rows, np.array([row[-1].startswith(">") for row in rows], dtype=np.int64)))
    (train, y), (test, test_y) = parts
    return train, test, y, test_y, ("at most 50K", "above 50K"), digest_of(paths)[:16]


def _census(raw: Any, private: Any, public: Any, test: Any) -> tuple[Floats, Floats, Floats]:
    shown = [raw[index] for index in public]
    words = [column for column in range(14) if column not in _NUMBERS]
    known = {(column, word) for row in shown for column in words for word in [row[column]]}
    place_of = {pair: index for index, pair in enumerate(sorted(known))}

    def matrix(rows: Any) -> Floats:
        numbers = np.array([[float(row[column]) for column in _NUMBERS] for row in rows])
        numbers[:, 3:5] = np.log1p(numbers[:, 3:5])  # gains and losses
        flags = np.zeros((len(rows), len(place_of)))
        for line, row in enumerate(rows):
            for column in words:
                flag = place_of.get((column, row[column]))
                if flag is not None:
                    flags[line, flag] = 1.0
        return np.concatenate([numbers, flags], axis=1)

    base = matrix(shown)
    middle, spread = base[:, : len(_NUMBERS)].mean(axis=0), np.maximum(base[:, : len(_NUMBERS)].std(axis=0), 1e-9)

    def prepared(rows: Floats) -> Floats:
        rows[:, : len(_NUMBERS)] = np.clip((rows[:, : len(_NUMBERS)] - middle) / spread, -3, 3)
        return rows

    return prepared(matrix([raw[index] for index in private])), prepared(base), prepared(matrix(test))


@lru_cache(maxsize=1)
def _mnist(data: Path | None) -> tuple[Any, Any, Any, Any, tuple[str, ...], str]:
    held = read_set("mnist", data)
    digits = tuple(str(digit) for digit in range(10))
    return held.x, held.test_x, held.y, held.test_y, digits, digest_of(paths_of("mnist", data))[:16]


def _pictures(raw: Any, private: Any, public: Any, test: Any) -> tuple[Floats, Floats, Floats]:
    shown = raw[public].reshape(len(public), -1) / 255.0
    middle = shown.mean(axis=0)
    _, _, turned = np.linalg.svd(shown - middle, full_matrices=False)
    axes = turned[:_COMPONENTS].T
    return _turned(raw[private], middle, axes), _turned(raw[public], middle, axes), _turned(test, middle, axes)


def _turned(pictures: Any, middle: Floats, axes: Floats) -> Floats:
    return np.asarray((pictures.reshape(len(pictures), -1) / 255.0 - middle) @ axes)
