"""What is to be learned: public, fully labelled data made into a private pool, and the terms of a campaign on it.

Everything here is for simulations: the data are public, so that gains can be measured which nobody may measure on a
private pool. `digits` comes with scikit-learn; the others are read from a directory of IDX files.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.idx import read_idx
from discreet.privacy.plan import Accountant

Data = Literal["digits", "fashion-mnist", "mnist"]
Pictures = Literal["cells", "pixels"]
Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
CLASSES = 10
_FEATURE_SEED = 20_000
"""Random features are a public map, the same for every seed."""
_DIRECTIONS, _PIECE = 8, 5_000


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A pool, and a campaign on it.

    rare        every second class has so many times fewer records
    initial     labelled at random before the first query
    queries     how many each query may ask
    epsilon, delta, batch, epochs      of the plan
    score       what is worth asking
    pictures    what the random map reads: `cells` of edges, from which a linear model learns more, or plain pixels
    features    of the random map in front of the linear model
    travel      learning rate times steps, the same for every plan: one that pays for selection has fewer steps, and
                would otherwise only learn less far
    ema         averaging of the weights
    first_only  stop after the first query: for looking at selections alone
    accountant  of the plan; ``rdp`` plans faster and claims more
    """

    name: str
    data: Data
    rare: int = 20
    initial: int
    queries: tuple[int, ...]
    epsilon: str
    delta: str = "1e-5"
    batch: int
    epochs: int
    score: str = "margin"
    pictures: Pictures = "cells"
    features: int = 500
    travel: float = 9000.0
    ema: float = 0.98
    first_only: bool = False
    accountant: Accountant = "pld"

    def settings(self) -> dict[str, Any]:
        """All that distinguishes it from another."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class Pool:
    """Records of a problem as one seed cuts them: features and classes, and a test set with all classes alike."""

    x: Floats
    y: Integers
    test_x: Floats
    test_y: Integers

    @property
    def ids(self) -> list[str]:
        """Names of the records."""
        return [f"r{place}" for place in range(len(self.y))]


def pool_of(problem: Problem, seed: int, data: Path | None) -> Pool:
    """The pool of ``problem`` for a seed."""
    x, y, test_x, test_y = _read(problem.data, problem.pictures, data)
    chance = np.random.default_rng([seed, problem.rare])
    kept = _imbalanced(y, problem.rare, chance)
    wanted = problem.initial + sum(problem.queries)
    if kept.size < wanted:
        raise BadInput(f"{wanted} labels of {problem.name}", f"its pool has {kept.size} records", "Ask fewer")
    map_of = random_features(x.shape[1], problem.features)
    return Pool(x=map_of(x[kept]), y=y[kept], test_x=map_of(test_x), test_y=test_y)


def _imbalanced(y: Integers, rare: int, chance: np.random.Generator) -> Integers:
    """All of the even classes, and one of ``rare`` records of each odd one, mixed."""
    parts = []
    for number in range(CLASSES):
        mine = chance.permutation(np.flatnonzero(y == number))
        parts.append(mine if number % 2 == 0 else mine[: max(1, mine.size // rare)])
    return np.asarray(chance.permutation(np.concatenate(parts)))


class random_features:  # noqa: N801 - a function with its tables
    """A random layer of rectified sums, centred and brought to length 1, record by record: a public map."""

    def __init__(self, inputs: int, outputs: int) -> None:
        chance = np.random.default_rng(_FEATURE_SEED)
        self._weights = chance.normal(size=(inputs, outputs)).astype(np.float32)

    def __call__(self, x: Floats) -> Floats:
        """(n, inputs) to (n, outputs)."""
        made = np.maximum(x @ self._weights, 0)
        made -= made.mean(axis=1, keepdims=True)
        return _to_length_one(made)


def cells(images: NDArray[Any]) -> Floats:
    """(n, 28, 28) pictures of bytes to (n, 441): how strong edges of eight directions are in each of 7 x 7 cells, and
    how bright it is there. Nothing is fitted to data.
    """
    return np.concatenate([_cells(images[start : start + _PIECE]) for start in range(0, len(images), _PIECE)])


def _cells(images: NDArray[Any]) -> Floats:
    light = images.astype(np.float32) / np.float32(255)
    across, down = np.zeros_like(light), np.zeros_like(light)
    across[:, :, 1:-1] = light[:, :, 2:] - light[:, :, :-2]
    down[:, 1:-1] = light[:, 2:] - light[:, :-2]
    strength = np.hypot(across, down)
    turn = np.mod(np.arctan2(down, across), np.pi) * np.float32(_DIRECTIONS / np.pi)
    whole = np.floor(turn)
    part, first = turn - whole, whole.astype(np.int64) % _DIRECTIONS
    edges = np.zeros((len(light), _DIRECTIONS, 28, 28), dtype=np.float32)
    where = np.indices(light.shape)
    edges[where[0], first, where[1], where[2]] += strength * (1 - part)
    edges[where[0], (first + 1) % _DIRECTIONS, where[1], where[2]] += strength * part
    summed = np.sqrt(edges.reshape(-1, _DIRECTIONS, 7, 4, 7, 4).sum(axis=(3, 5)))
    bright = light.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)) - np.float32(0.3)
    parts = [_to_length_one(part.reshape(len(light), -1)) for part in (summed, bright)]
    return _to_length_one(np.concatenate(parts, axis=1))


def _to_length_one(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6), dtype=np.float32)


def pixels(images: NDArray[Any]) -> Floats:
    """(n, 28, 28) pictures of bytes to (n, 784), of length 1."""
    return _to_length_one(images.reshape(len(images), -1).astype(np.float32) / np.float32(255) - np.float32(0.3))


@lru_cache(maxsize=3)
def _read(name: Data, pictures: Pictures, place: Path | None) -> tuple[Floats, Integers, Floats, Integers]:
    if name == "digits":
        return _digits()
    if place is None:
        raise BadInput(f"the data {name}", "nothing says where they are", "Give --data DIRECTORY")
    parts = {
        part: read_idx(place / name / f"{part}.gz")
        for part in (
            "train-images-idx3-ubyte",
            "train-labels-idx1-ubyte",
            "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte",
        )
    }
    x, y, test_x, test_y = parts.values()
    seen = cells if pictures == "cells" else pixels
    return seen(x), y.astype(np.int64), seen(test_x), test_y.astype(np.int64)


def _digits() -> tuple[Floats, Integers, Floats, Integers]:
    """The 1,797 digits of scikit-learn; every fourth is kept for the test."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    test = np.arange(len(y)) % 4 == 0
    pixels = _to_length_one(np.asarray(x, dtype=np.float32) / np.float32(16) - np.float32(0.3))
    classes = np.asarray(y, dtype=np.int64)
    return pixels[~test], classes[~test], pixels[test], classes[test]
