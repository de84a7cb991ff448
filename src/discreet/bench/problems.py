"""What is to be learned: public, fully labelled data made into a private pool, and the terms of a campaign on it.

Everything here is for simulations: the data are public, so that gains can be measured which nobody may measure on a
private pool.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.bench.embeddings import read_embedding
from discreet.bench.pictures import cells, pixels, random_features, standing, to_length_one
from discreet.bench.sets import SOURCES, Data, Integers, digest_of, paths_of, read_set
from discreet.errors import BadInput
from discreet.privacy.plan import Accountant

Pictures = Literal["cells", "pixels", "images", "vectors"]
Model = Literal["random-features", "small_cnn", "embedding_head"]
Floats = NDArray[np.float32]
_LATER = {"model": "random-features", "pool": None}
"""Settings that came later: left out where they are as they always were, so that older results keep their names."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A pool, and a campaign on it.

    rare        every second class has so many times fewer records; 1: all classes as they are
    initial     labelled at random before the first query
    queries     how many each query may ask
    epsilon, delta, batch, epochs      of the plan; epochs are a phase's
    score       what is worth asking, where the method does not say
    pictures    what the model reads: `cells` of edges, from which a linear model learns more, or plain `pixels`, both
                through a random map; `images` as they are, for a convolution; `vectors` of a frozen encoder
    features    of the random map in front of the linear model
    travel      learning rate times steps, the same for every plan: one that pays for selection has fewer steps, and
                would otherwise only learn less far
    ema         averaging of the weights
    first_only  stop after the first query: for looking at selections alone
    accountant  of the plan; ``rdp`` plans faster and claims more
    model       what is trained: a linear model of `features` random features, or one of `build_model`
    pool        how many records the pool has; None: all of the set
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
    model: Model = "random-features"
    pool: int | None = None

    def settings(self) -> dict[str, Any]:
        """All that distinguishes it from another."""
        return {name: value for name, value in asdict(self).items() if name not in _LATER or value != _LATER[name]}

    @property
    def classes(self) -> int:
        """How many there are to tell apart."""
        return SOURCES[self.data].classes

    @property
    def labels(self) -> int:
        """How many records are labelled in all."""
        return self.initial + sum(self.queries)


@dataclass(frozen=True, kw_only=True, repr=False)
class Pool:
    """Records of a problem as one seed cuts them: features and classes, and a test set as it came.

    ``made_of``: a hash of the files.
    """

    x: Floats
    y: Integers
    test_x: Floats
    test_y: Integers
    made_of: str = ""

    @property
    def ids(self) -> list[str]:
        """Names of the records."""
        return [f"r{place}" for place in range(len(self.y))]


def pool_of(problem: Problem, seed: int, data: Path | None) -> Pool:
    """The pool of ``problem`` for a seed."""
    whole = _read(problem.data, problem.pictures, data)
    kept = _kept(problem, seed, whole.y)
    if problem.model != "random-features":
        return Pool(x=whole.x[kept], y=whole.y[kept], test_x=whole.test_x, test_y=whole.test_y, made_of=whole.made_of)
    map_of = random_features(whole.x.shape[1], problem.features)
    return Pool(
        x=map_of(whole.x[kept]),
        y=whole.y[kept],
        test_x=map_of(whole.test_x),
        test_y=whole.test_y,
        made_of=whole.made_of,
    )


def pool_size(problem: Problem, data: Path | None) -> int:
    """How many records its pool has: the same for every seed."""
    return int(_kept(problem, 0, _read(problem.data, problem.pictures, data).y).size)


def _kept(problem: Problem, seed: int, y: Integers) -> Integers:
    chance = np.random.default_rng([seed, problem.rare])
    kept = _imbalanced(y, problem.rare, problem.classes, chance)[: problem.pool]
    if kept.size < max(problem.labels, problem.pool or 0):
        raise BadInput(f"{problem.labels} labels of {problem.name}", f"its pool has {kept.size} records", "Ask fewer")
    return kept


def _imbalanced(y: Integers, rare: int, classes: int, chance: np.random.Generator) -> Integers:
    """All of the even classes, and one of ``rare`` records of each odd one, mixed."""
    parts = []
    for number in range(classes):
        mine = chance.permutation(np.flatnonzero(y == number))
        parts.append(mine if number % 2 == 0 else mine[: max(1, mine.size // rare)])
    return np.asarray(chance.permutation(np.concatenate(parts)))


@lru_cache(maxsize=3)
def _read(name: Data, pictures: Pictures, place: Path | None) -> Pool:
    """The whole set, as a model reads it."""
    if pictures == "vectors":
        made, x, test_x = read_embedding(name, place)
        raw = read_set(name, place)
        if (len(x), len(test_x)) != (len(raw.y), len(raw.test_y)):
            raise BadInput(f"vectors of {name}", "there is not one a record", "Make them again")
        return Pool(x=_centred(x), y=raw.y, test_x=_centred(test_x), test_y=raw.test_y, made_of=made.digest)
    raw = read_set(name, place)
    seen = {"cells": cells, "pixels": pixels, "images": standing}[pictures]
    if name == "digits":
        seen = standing if pictures == "images" else _small_pixels
    x, test_x = seen(raw.x), seen(raw.test_x)
    return Pool(x=x, y=raw.y, test_x=test_x, test_y=raw.test_y, made_of=digest_of(paths_of(name, place))[:16])


def _centred(vectors: Floats) -> Floats:
    """Each record by its own mean and length: encoders whose numbers are never negative put all records together."""
    return to_length_one(vectors - vectors.mean(axis=1, keepdims=True))


def _small_pixels(images: NDArray[Any]) -> Floats:
    """Digits have sixteen levels of grey."""
    return to_length_one(images.reshape(len(images), -1).astype(np.float32) / np.float32(16) - np.float32(0.3))
