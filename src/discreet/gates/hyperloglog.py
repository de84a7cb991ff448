"""How many distinct values there are, to a percent or so, in a few kilobytes: an estimate for the owner.

Guarantee: none about the data; the estimate is private, as the data is, and decides nothing. Its standard error is
1.04 / sqrt(2^precision), 0.8% at 14, at any number of values. `merge` of sketches of parts is the sketch of the whole,
bit for bit.

Codes are keyed (`UnitWords.value_codes`): they must be uniform, and nobody without the key can choose values that fall
into one register.

Flajolet, Fusy, Gandouet and Meunier, 2007; the estimator of Ertl, "New cardinality estimation algorithms for
HyperLogLog sketches", 2017 (algorithm 6), which needs no tables against bias and none for small numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.stream import Words

LEAST_PRECISION, MOST_PRECISION = 4, 18
_CHUNK = 1 << 16
_ALPHA = 1 / (2 * math.log(2))
_ONE = np.uint64(1)


class HyperLogLog:
    """Distinct codes, in 2^precision bytes."""

    def __init__(self, precision: int = 14) -> None:
        if type(precision) is not int or not LEAST_PRECISION <= precision <= MOST_PRECISION:
            raise BadInput(
                f"a HyperLogLog of precision {precision}",
                f"it is a whole number from {LEAST_PRECISION} to {MOST_PRECISION}",
                "Give 14, for a standard error of 0.8%",
            )
        self.precision = precision
        self.registers: NDArray[np.uint8] = np.zeros(1 << precision, dtype=np.uint8)

    @property
    def standard_error(self) -> float:
        """Of the estimate, as a share of the number of distinct values."""
        return 1.04 / math.sqrt(self.registers.size)

    def add(self, codes: Words) -> None:
        """See these codes, of 64 bits, or of 128 of which the first 64 are used."""
        found: Any = np.asarray(codes)
        if found.dtype != np.uint64 or found.ndim not in (1, 2):
            raise BadInput("adding to a sketch", "codes are 64 bits, or 128 in two words", "Use UnitWords.value_codes")
        words = found if found.ndim == 1 else found[:, 0]
        rest = 64 - self.precision
        for start in range(0, len(words), _CHUNK):
            part = words[start : start + _CHUNK]
            low = (part & np.uint64((1 << rest) - 1)) | np.uint64(1 << rest)
            zeros = np.bitwise_count((low & (~low + _ONE)) - _ONE)  # at its end
            np.maximum.at(self.registers, (part >> np.uint64(rest)).astype(np.int64), zeros + np.uint8(1))

    def merge(self, other: HyperLogLog) -> None:
        """See also what ``other`` saw."""
        if self.precision != other.precision:
            raise BadInput("merging two sketches", "their precisions differ", "Make both alike")
        np.maximum(self.registers, other.registers, out=self.registers)

    def estimate(self) -> float:
        """About how many distinct codes were seen."""
        size, most = self.registers.size, 64 - self.precision + 1
        histogram = np.bincount(self.registers, minlength=most + 1)
        if histogram[0] == size:
            return 0.0
        sum_ = size * _tau(1 - histogram[most] / size)
        for rank in range(most - 1, 0, -1):
            sum_ = 0.5 * (sum_ + float(histogram[rank]))
        return float(_ALPHA * size * size / (sum_ + size * _sigma(float(histogram[0]) / size)))

    def __repr__(self) -> str:
        """Never what was seen."""
        return f"HyperLogLog(precision={self.precision})"


def _sigma(share: float) -> float:
    """x + sum over j from 1 of x^(2^j) 2^(j-1): empty registers' part."""
    power, weight, found = share, 1.0, share
    while True:
        power, before = power * power, found
        found += power * weight
        weight *= 2
        if found == before:
            return found


def _tau(share: float) -> float:
    """(1 - x - sum over j from 1 of (1 - x^(2^-j))^2 2^-j) / 3: full registers' part."""
    if share in (0.0, 1.0):
        return 0.0
    root, weight, found = share, 1.0, 1 - share
    while True:
        root, before = math.sqrt(root), found
        weight *= 0.5
        found -= (1 - root) ** 2 * weight
        if found == before:
            return found / 3
