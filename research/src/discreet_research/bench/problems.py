"""How records are chosen, and how that is paid for.

free        random; or exact, which is not private: both train with the whole budget
paper       the DP-AL paper's price: every query costs selection_epsilon / T, and training gets the rest; k-centre reads
            labelled records too, so there everybody pays all queries
one-sided   our price (docs/proofs/one-sided-selection.md): asked once, caps on misses, thresholds
hidden      asked sets are not released (docs/proofs/hidden-selection.md): only threshold_epsilon is paid, a query, and
            cohorts are padded
authors     the same selection in a plan by the authors' own code (`authors_rules`), which may pass its budget: **not
            certified** at what was asked for, only priced at what it costs
apart       mechanisms that a plan has no lines for (Gaussian, exponential): a ledger of their own for
            selection_epsilon and half of delta, and a plan for the rest; the two claims add up

What is to be learned: public, fully labelled data made into a private pool, and the terms of a campaign on it.

Everything here is for simulations: the data are public, so that gains can be measured which nobody may measure on a
private pool.

The model of a problem, and how it is trained: the same for every method of a table.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.privacy.budget import Accountant, Schedule
from discreet_research.bench.embeddings import (
    cells,
    pixels,
    random_features,
    read_embedding,
    scattering_of,
    standing,
    to_length_one,
)
from discreet_research.bench.sets import SOURCES, Data, Integers, digest_of, paths_of, read_set

if TYPE_CHECKING:
    from torch import nn

    from discreet.trainers.dp_sgd import Settings
    from discreet.trainers.torch_predictor import TorchPredictor


Pricing = Literal["free", "paper", "authors", "one-sided", "hidden", "apart"]
PRICING: dict[str, Pricing] = {
    "random": "free",
    "exact": "free",
    "exact-k-centre": "free",
    "laplace": "paper",
    "clipped-laplace": "paper",
    "authors-laplace": "authors",
    "gaussian": "apart",
    "subsampled-gaussian": "apart",
    "exponential": "apart",
    "k-centre": "paper",
    "threshold-response": "one-sided",
    "hidden-threshold": "hidden",
}


class GridSettings:
    """A problem or a method: a frozen dataclass with a name.

    ``later``: fields that came later, with the values that they had before: left out where they have them, so that
    older results keep their names.
    """

    later: ClassVar[dict[str, Any]] = {}

    def settings(self) -> dict[str, Any]:
        """All that distinguishes it from another."""
        fields = asdict(self)  # type: ignore[call-overload]
        return {name: value for name, value in fields.items() if name not in self.later or value != self.later[name]}


@dataclass(frozen=True, kw_only=True)
class Method(GridSettings):
    """``selection_epsilon``: what selection may cost on the worst path, thresholds included; 0 for hidden ones, which
    cost ``threshold_epsilon`` a query.

    strict      caps keep every path's selection within it; otherwise a record that is never asked may lose more, since
                it never trains
    above       the share of the pool that shall be above the threshold; None: what makes the mean score highest
    score       what is worth asking; empty: the problem's
    schedule    how later records catch up with earlier ones
    passive     no queries: as many records, drawn at random, are labelled before training begins
    """

    name: str
    mechanism: str
    selection_epsilon: str = "0"
    threshold_epsilon: str = "0"
    individual_rates: bool = False
    strict: bool = False
    above: float | None = None
    score: str = ""
    schedule: Schedule = "step-amplification"
    passive: bool = False
    later: ClassVar = {"score": "", "schedule": "step-amplification", "passive": False}

    def __post_init__(self) -> None:
        if self.mechanism not in PRICING:
            raise BadInput(f"the method {self.mechanism}", "there is none", f"Choose one of {', '.join(PRICING)}")
        if (self.pricing in ("free", "hidden")) != (Decimal(self.selection_epsilon) == 0):
            raise BadInput(f"the method {self.name}", "its selection is free or paid for, not both", "Set its epsilon")
        if self.passive and self.mechanism != "random":
            raise BadInput(f"the method {self.name}", "without queries nothing is chosen", "Let it be random")

    @property
    def pricing(self) -> Pricing:
        """How it is paid for."""
        return PRICING[self.mechanism]

    @property
    def certified(self) -> bool:
        """Whether its plan is made to keep the budget; the authors' is not, and claims what it turns out to cost."""
        return self.pricing != "authors"

    @property
    def private(self) -> bool:
        """Whether what it asks may be shown, for its price."""
        return self.mechanism not in ("exact", "exact-k-centre")


Pictures = Literal["cells", "pixels", "images", "vectors", "scattering"]
Model = Literal["random-features", "small_cnn", "embedding_head", "linear"]
Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Problem(GridSettings):
    """A pool, and a campaign on it.

    rare        every second class has so many times fewer records; 1: all classes as they are
    initial     labelled at random before the first query
    queries     how many each query may ask
    epsilon, delta, batch, epochs      of the plan; epochs are a phase's
    score       what is worth asking, where the method does not say
    pictures    what the model reads: `cells` of edges, from which a linear model learns more, or plain `pixels`, both
                through a random map; `images` as they are, for a convolution; `vectors` of a frozen encoder;
                `scattering` of each picture
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
    later: ClassVar = {"model": "random-features", "pool": None}

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
        return [f"r{index}" for index in range(len(self.y))]


def pool_of(problem: Problem, seed: int, data: Path | None) -> Pool:
    """The pool of ``problem`` for a seed."""
    data_set = _read(problem.data, problem.pictures, data)
    chosen = _kept(problem, seed, data_set.y)
    pool = replace(data_set, x=data_set.x[chosen], y=data_set.y[chosen])
    if problem.model != "random-features":
        return pool
    map_of = random_features(data_set.x.shape[1], problem.features)
    return replace(pool, x=map_of(pool.x), test_x=map_of(pool.test_x))


def pool_size(problem: Problem, data: Path | None) -> int:
    """How many records its pool has: the same for every seed."""
    return int(_kept(problem, 0, _read(problem.data, problem.pictures, data).y).size)


def _kept(problem: Problem, seed: int, y: Integers) -> Integers:
    chance = np.random.default_rng([seed, problem.rare])
    chosen = _imbalanced(y, problem.rare, problem.classes, chance)[: problem.pool]
    if chosen.size < max(problem.labels, problem.pool or 0):
        raise BadInput(f"{problem.labels} labels of {problem.name}", f"its pool has {chosen.size} records", "Ask fewer")
    return chosen


def _imbalanced(y: Integers, rare: int, classes: int, chance: np.random.Generator) -> Integers:
    """All of the even classes, and one of ``rare`` records of each odd one, mixed."""
    parts = []
    for number in range(classes):
        of_class = chance.permutation(np.flatnonzero(y == number))
        parts.append(of_class if number % 2 == 0 else of_class[: max(1, of_class.size // rare)])
    return np.asarray(chance.permutation(np.concatenate(parts)))


@lru_cache(maxsize=3)
def _read(name: Data, pictures: Pictures, data: Path | None) -> Pool:
    """The whole set, as a model reads it."""
    raw = read_set(name, data)
    if pictures == "vectors":
        embedding, x, test_x = read_embedding(name, data)
        if (len(x), len(test_x)) != (len(raw.y), len(raw.test_y)):
            raise BadInput(f"vectors of {name}", "there is not one a record", "Make them again")
        return Pool(x=_centred(x), y=raw.y, test_x=_centred(test_x), test_y=raw.test_y, made_of=embedding.digest)
    if pictures == "scattering":
        x, test_x = (scattering_of(name, data, part) for part in ("train", "test"))
        made_of = digest_of(paths_of(name, data))[:16]
        return Pool(x=x, y=raw.y, test_x=test_x, test_y=raw.test_y, made_of=made_of)
    seen = {"cells": cells, "pixels": pixels, "images": standing}[pictures]
    if name == "digits" and pictures != "images":
        seen = _small_pixels
    made_of = digest_of(paths_of(name, data))[:16]
    return Pool(x=seen(raw.x), y=raw.y, test_x=seen(raw.test_x), test_y=raw.test_y, made_of=made_of)


def _centred(vectors: Floats) -> Floats:
    """Each record by its own mean and length: encoders whose numbers are never negative put all records together."""
    return to_length_one(vectors - vectors.mean(axis=1, keepdims=True))


def _small_pixels(images: NDArray[Any]) -> Floats:
    """Digits have sixteen levels of grey."""
    return to_length_one(images.reshape(len(images), -1).astype(np.float32) / np.float32(16) - np.float32(0.3))


DROPOUT = 0.25
"""Of the models that BALD draws. It acts in the head and when scoring alone: every row of a table trains the same
model, so that its difference to random asking is one of asking."""
_ROWS = {"small_cnn": 1024}
_MOST_ROWS = 8192


def model_of(problem: Problem, inputs: tuple[int, ...], seed: int) -> Callable[[], nn.Module]:
    """What makes the model; first weights are public, drawn from the seed."""
    from torch import nn

    from discreet.models import build_model

    def linear() -> nn.Module:
        """A linear model that starts at 0."""
        model = nn.Linear(problem.features, problem.classes, bias=False)
        nn.init.zeros_(model.weight)
        return model

    def built() -> nn.Module:
        return build_model(problem.model, inputs=inputs, classes=problem.classes, seed=seed)

    return linear if problem.model == "random-features" else built


def settings_of(problem: Problem, steps: int) -> Settings:
    """``steps`` of the whole plan: public, as all of a plan is."""
    from discreet.trainers.dp_sgd import Settings

    return Settings(
        learning_rate=problem.travel / steps,
        ema=problem.ema,
        micro_batch=_ROWS.get(problem.model, _MOST_ROWS),
    )


def drawing(model: TorchPredictor) -> TorchPredictor:
    """The same model with dropout in its head, for scores that read draws."""
    from discreet.models.layers import has_seam
    from discreet.trainers.torch_predictor import TorchPredictor

    if not has_seam(model.module):
        return model  # it refuses to be drawn from, and says why
    module: Any = copy.deepcopy(model.module)
    module.head.dropout.p = DROPOUT
    return TorchPredictor(module, task=model.task)
