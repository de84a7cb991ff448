"""Canaries of a white-box attack on a linear model: each is alone on its coordinate.

Record i is a long vector along axis i, so its clipped gradient points along that axis, in a direction that is known
beforehand, with the full length C; nothing that any other record does moves the weights there. A sum of noisy gradients
then shows every canary apart, in noise of exactly the planned size: no attack on one canary sees more of it.

A canary that does not take part is a null in its place: a row that no reader can use, which a pool keeps as such.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

LENGTH = 20.0
"""Long enough that its gradient is clipped, and that the share of it that goes to the bias is lost (1 in 800)."""
CLASSES = ("no", "yes")


@dataclass(frozen=True, kw_only=True)
class Canaries:
    """``count`` canaries; coins and labels come from ``seed``. ``coins``: the secret, true where one takes part."""

    count: int
    seed: int
    coins: NDArray[np.bool_] = field(init=False, repr=False)
    labels: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        luck = np.random.default_rng([self.seed, self.count])
        object.__setattr__(self, "coins", luck.random(self.count) < 0.5)
        object.__setattr__(self, "labels", luck.integers(0, 2, self.count))

    @cached_property
    def ids(self) -> list[str]:
        """Their names."""
        return [f"canary-{number:05d}" for number in range(self.count)]

    def rows(self) -> NDArray[np.float32]:
        """A row a canary; one that does not take part is not a number."""
        rows = np.zeros((self.count, self.count), dtype=np.float32)
        np.fill_diagonal(rows, LENGTH)
        rows[~self.coins] = np.nan
        return rows

    def truth(self) -> dict[str, str]:
        """What annotators say. Of a null they would say something, too: it teaches nothing."""
        return {name: CLASSES[label] for name, label in zip(self.ids, self.labels.tolist(), strict=True)}

    def along(self, weights: Any) -> NDArray[np.float64]:
        """How far (2, count) weights went in the direction that each canary pulls."""
        table = np.asarray(weights, dtype=np.float64)
        found: NDArray[np.float64] = np.where(self.labels == 1, 1.0, -1.0) * (table[1] - table[0]) / math.sqrt(2.0)
        return found
