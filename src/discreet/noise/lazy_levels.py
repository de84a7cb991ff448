"""Levels between which the k-th largest noisy score probably is, guessed from a sample of the scores.

Nothing that leaves depends on them (docs/proofs/noisy-top.md): they decide which noise is drawn first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.noise.inversion import Noise
from discreet.noise.lattice import Lattice
from discreet.noise.stream import Floats, Integers, Stream

Places = NDArray[np.int64]
Scores = NDArray[Any]
"""Finite floats, of 32 or 64 bits."""

MOST_HALVINGS = 8
"""So that "U is below 2^-j" is about the first byte of U."""
_SAMPLE = 1 << 14
_FARTHEST = 1 << 60
"""In steps. The lattice ends at 2^61, where scores are no longer as far apart as they look."""
_ALL_COST, _NEAR_COST, _FALLEN_COST = 13.0, 35.0, 130.0
"""Nanoseconds for a record if all are near, for a near one of some, and for a far one that falls: measured. What they
are moves work, not results."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Levels:
    """About k noisy scores, and some more, are above ``low``; about k, less some, above ``high`` (None: do not say).
    Both in steps.

    A record whose score is not above ``cut`` is far: it reaches ``low`` only with a U below 2^-``halvings``. With 0
    halvings everybody is near.
    """

    low: int
    high: int | None
    halvings: int = 0
    cut: Any = -math.inf


def heights(scores: Scores, lattice: Lattice) -> Integers:
    """Scores in steps."""
    return lattice.floored(scores.astype(np.float64, copy=False))


def guessed_levels(scores: Scores, count: int, lattice: Lattice, noise: Noise, stream: Stream) -> Levels:
    """Levels around the ``count``-th largest, four and a half deviations apart from where it is expected."""
    size = scores.size
    taken = min(size, _SAMPLE)
    offsets = (stream.words(taken) % np.uint64(size)).astype(np.int64)
    sample = heights(scores[(np.arange(taken) * size + offsets) // taken], lattice) / noise.unit
    weight = size / taken + 1
    spare = 4.5 * math.sqrt(weight * count) + 12 * weight
    low = _within(_level(sample, (count + spare) / size, noise, up=False) * noise.unit)
    high = None
    if count > spare:
        high = max(low, _within(_level(sample, (count - spare) / size, noise, up=True) * noise.unit))
    halvings = _cheapest(low / noise.unit - sample, noise)
    return Levels(low=low, high=high, halvings=halvings, cut=_cut(low, halvings, lattice, noise, scores.dtype))


def _within(level: float) -> int:
    return min(max(math.floor(level), -_FARTHEST), _FARTHEST)


def _level(sample: Floats, share: float, noise: Noise, *, up: bool) -> float:
    """Where about ``share`` of noisy scores are above, in units, rounded up or down."""
    below, above = float(sample.min()) - 64, float(sample.max()) + 64
    while above - below > 0.01:
        middle = (below + above) / 2
        if noise.tail(middle - sample).mean() >= share:
            below = middle
        else:
            above = middle
    return above if up else below


def _cheapest(distances: Floats, noise: Noise) -> int:
    """The number of halvings that seems to cost least."""
    costs = [_ALL_COST]
    for halvings in range(1, MOST_HALVINGS + 1):
        near = float(np.mean(distances < noise.distance(halvings)))
        costs.append(_NEAR_COST * near + _FALLEN_COST * 2.0**-halvings)
    return int(np.argmin(costs))


def _cut(low: int, halvings: int, lattice: Lattice, noise: Noise, kind: np.dtype[Any]) -> Any:
    """A score up to which a record is far, as a float of the scores' own kind, rounded down."""
    if not halvings:
        return kind.type(-math.inf)
    with np.errstate(all="ignore"):
        exact = (low - (noise.distance(halvings) + 0.01) * noise.unit) * lattice.step  # 0.01: more than all rounding
        cut = kind.type(exact)
        return cut if float(cut) <= exact else np.nextafter(cut, kind.type(-math.inf))
