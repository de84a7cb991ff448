"""Random Fourier features: a linear model on them is about a Gaussian kernel machine (Rahimi and Recht 2007).

The inner product of two records' features is close to exp(-|x - x'|^2 / (2 lengthscale^2)), and each record has length
1. On top of another map, or of records that are arrays.

The directions are derived from a public seed: the raw words of numpy's Philox generator, which no version of numpy
changes, 16 bits at a time, each the place of one of 65,536 quantiles of the normal distribution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from discreet.checks import number, whole
from discreet.errors import BadInput
from discreet.features.feature_map import (
    ROUNDING,
    ArrayMap,
    FeatureMap,
    FeatureRequest,
    Features,
    checked,
    checked_shape,
    product,
)
from discreet.parts import Option, Part
from discreet.pools.rows import Mask

_QUANTILES = 2**16
_WORDS_OF_16 = 4
SIZE, LENGTHSCALE, SEED = whole(2, 2**20), number(1e-9, 1e9), whole(0, 2**63 - 1)


@dataclass(frozen=True, kw_only=True)
class RandomFourier(ArrayMap):
    """``size`` features: cosines and sines of half as many projections, drawn from the public ``seed``.

    base          the map that it is on top of; None: records are arrays of ``input_shape``
    lengthscale   the distance at which the kernel is exp(-1/2)
    """

    name = "random-fourier"
    block = 256
    base: FeatureMap | None = None
    input_shape: tuple[int, ...] = ()
    size: int = 2048
    lengthscale: float = field(default=0.0)
    seed: int = 0

    def __post_init__(self) -> None:
        asked = f"{self.name} features"
        if self.base is not None:
            object.__setattr__(self, "input_shape", self.base.output_shape)
        object.__setattr__(self, "input_shape", checked_shape(self.input_shape, asked))
        if not self.lengthscale:
            bound = None if self.base is None else self.base.norm_bound
            if bound is None:
                fact = "there is no bound of the records' norm to take instead"
                raise BadInput(f"{asked} without a lengthscale", fact, "Give the distance at which records differ")
            object.__setattr__(self, "lengthscale", bound)
        checked(asked, {"size": (SIZE, self.size), "seed": (SEED, self.seed)})
        checked(asked, {"lengthscale": (LENGTHSCALE, self.lengthscale)})
        if self.size % 2:
            raise BadInput(f"{asked} with size={self.size}", "it is odd", "Cosines and sines have one half each")

    @property
    def output_shape(self) -> tuple[int, ...]:
        """One axis."""
        return (self.size,)

    @property
    def norm_bound(self) -> float:
        """1: the square of each cosine and its sine is 1."""
        return ROUNDING

    def options(self) -> dict[str, Any]:
        """The map below it, or the shape of a record, and what was chosen."""
        below = {"shape": list(self.input_shape)} if self.base is None else {"base": self.base.to_json()}
        return below | {"size": self.size, "lengthscale": self.lengthscale, "seed": self.seed}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> RandomFourier:
        """The inverse of `options`, with the map that ``base`` stands for in its place."""
        return cls(**{"input_shape" if name == "shape" else name: value for name, value in options.items()})

    def located(self, encoder: Path | str) -> RandomFourier:
        """With the encoder of the map below it there."""
        return self if self.base is None else replace(self, base=self.base.located(encoder))

    def readable(self, batch: Any) -> tuple[Features, Mask]:
        """The features of records, nulls as zeros, and which records are none. Audience: owner."""
        return super().readable(batch) if self.base is None else self._on_top(*self.base.readable(batch))

    def of_inputs(self, inputs: Any) -> tuple[Features, Mask]:
        """The same of records as a pool gives them."""
        return super().readable(inputs) if self.base is None else self._on_top(*self.base.of_inputs(inputs))

    @property
    def record_map(self) -> FeatureMap:
        """The lowest map."""
        return self if self.base is None else self.base.record_map

    def _on_top(self, below: Features, present: Mask) -> tuple[Features, Mask]:
        values, fine = super().readable(below)
        fine &= present
        values[~fine] = 0
        return values, fine

    def features(self, records: Features) -> Features:
        """Of a block: each column of the product is a record."""
        angles = product(self.directions, np.ascontiguousarray(records.reshape(self.block, -1).T))
        both = np.concatenate([np.cos(angles), np.sin(angles)]) / np.float32(math.sqrt(self.size / 2))
        return np.ascontiguousarray(both.T)

    @cached_property
    def directions(self) -> Features:
        """Of the projections: (size / 2, inputs)."""
        from scipy.special import ndtri

        count = self.size // 2 * math.prod(self.input_shape)
        words = np.random.Philox(key=self.seed).random_raw(-(-count // _WORDS_OF_16)).astype("<u8").view("<u2")[:count]
        quantiles = ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES) / self.lengthscale
        return np.ascontiguousarray(quantiles.astype(np.float32)[words].reshape(self.size // 2, -1))


def _built(request: FeatureRequest) -> RandomFourier:
    if request.base is not None:
        return RandomFourier(base=request.base, **request.options)
    return RandomFourier(input_shape=request.record_shape("random-fourier"), **request.options)


PARTS = (
    Part(
        kind="feature",
        name="random-fourier",
        summary="on top of any map, or of arrays: random Fourier features of a Gaussian kernel",
        build=_built,
        options=(
            Option(name="size", check=SIZE, type="whole number", default="2048", meaning="how many features"),
            Option(
                name="lengthscale",
                check=LENGTHSCALE,
                type="number",
                default="the bound of the norm below it",
                meaning="the distance at which the kernel is exp(-1/2)",
            ),
            Option(name="seed", check=SEED, type="whole number", default="0", meaning="public, of the projections"),
        ),
        reads=(),
        makes=(RandomFourier,),
    ),
)
