"""A grid of powers of two on which real values are hidden by whole numbers.

Floating-point noise has holes that depend on the value it is added to (Mironov 2012). Here a value is first floored to
a grid 2^-28 times as fine as the noise, the noise is a whole number of steps drawn without looking at the value, and
only their sum leaves. Flooring moves two neighbours apart by less than one step a coordinate, which the noise pays
for: its scale is computed for the widened sensitivity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.errors import BadInput
from discreet.noise.stream import Floats, Integers

FINENESS = 28
"""Finer would cost range: values keep their meaning up to 2^33 (8.6e9) times the scale of their noise."""
_MOST_STEPS = 2.0**61
_MOST_NOISE = 2.0**52


@dataclass(frozen=True)
class Lattice:
    """Multiples of ``step``, a power of two."""

    step: float

    @classmethod
    def under(cls, scale: float, what: str) -> Lattice:
        """A lattice 2^28 times as fine as noise of ``scale``."""
        if not 1e-200 < scale < 1e200:
            raise BadInput(
                f"{what} noise of scale {scale:.3g}", "it is out of any sensible range", "Rescale the values"
            )
        return cls(2.0 ** (math.floor(math.log2(scale)) - FINENESS))

    def floored(self, values: Floats) -> Integers:
        """Values in steps. Division by a power of two is exact; clipping brings no two values further apart."""
        with np.errstate(all="ignore"):  # a warning would tell how large a value is
            steps = values / self.step
        kept = np.minimum(np.maximum(steps, -_MOST_STEPS), _MOST_STEPS)
        return np.asarray(np.floor(kept).astype(np.int64))

    def plus(self, values: Floats, noise: Integers) -> Floats:
        """Floored values with ``noise`` steps added, back on the ordinary scale."""
        return np.asarray((self.floored(values) + noise.astype(np.int64, copy=False)) * self.step)

    @staticmethod
    def check_noise(steps: float, what: str) -> None:
        """Refuse noise so large that whole numbers of 64 bits cannot hold its tails."""
        if not steps <= _MOST_NOISE:
            raise BadInput(f"{what} noise", "it is too large for what it hides", "Charge more, or rescale the values")

    def steps_l1(self, sensitivity: float, size: int) -> int:
        """Most steps by which floored vectors differ in sum: one coordinate never more than the rounded-up bound."""
        return math.ceil(sensitivity / self.step) + max(size - 1, 0)

    def steps_l2(self, sensitivity: float, size: int) -> float:
        """Most steps by which floored vectors differ in length."""
        return math.nextafter(sensitivity / self.step + math.sqrt(size), math.inf)
