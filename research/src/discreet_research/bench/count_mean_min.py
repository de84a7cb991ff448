"""Count-mean-min: estimates of counts from a count-min sketch, and what a release decided by them would get wrong.

The crowd paper counts so. An estimate takes the other values' expected share off, so it is too low as often as too
high: a value below k may be let out. The release gate of discreet never decides by a sketch.

Count-mean-min after Deng and Rafiei, 2007, and Goyal, Daume and Cormode, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.gates.sketches import CHUNK, CountMin, Counts, checked_codes
from discreet.noise.keys import SecretKey
from discreet.noise.stream import Words


class CountMeanMin:
    """Estimates of counts, for the owner: the median over rows of a counter less what others are expected to add.

    With conservative update (the default) what others add is taken from each row's own sum.
    """

    def __init__(self, width: int, depth: int, seed_key: SecretKey, *, conservative: bool = True) -> None:
        if type(width) is int and width < 2:
            raise BadInput(f"estimates from rows of {width}", "others have no counter of their own", "Give 2 or more")
        self._sketch = CountMin(width, depth, seed_key, conservative=conservative)

    def add(self, codes: Words, counts: Any = 1) -> None:
        """Count each code once, or as often as ``counts`` says."""
        self._sketch.add(codes, counts)

    def merge(self, other: CountMeanMin) -> None:
        """Count also what ``other`` counted."""
        self._sketch.merge(other._sketch)

    def estimates(self, codes: Words) -> NDArray[np.float64]:
        """An estimate for each code: from 0, and never above the upper bound; it may be below the count."""
        codes = checked_codes(codes)
        sums = self._sketch.cells.sum(axis=1, dtype=np.uint64).astype(np.float64)
        estimates = np.empty(len(codes))
        for start in range(0, len(codes), CHUNK):
            part = slice(start, start + CHUNK)
            places = enumerate(self._sketch.places(codes[part]))
            seen = np.stack([self._sketch.cells[row][at].astype(np.float64) for row, at in places])
            residues = seen - (sums[:, None] - seen) / (self._sketch.width - 1)
            estimates[part] = np.clip(np.median(residues, axis=0), 0, seen.min(axis=0))
        return estimates

    def __repr__(self) -> str:
        """Never what was counted."""
        return f"CountMeanMin(of {self._sketch!r})"


@dataclass(frozen=True, kw_only=True)
class FalseReleases:
    """What a release decided by count-mean-min would have got wrong, in numbers of values."""

    values: int
    reach: int
    """At or above k in truth."""
    false: int
    """Below k, and released: each breaks the promise."""
    missed: int
    """At or above k, and not released."""


def false_releases(
    counts: Counts, k: int, width: int, depth: int, *, conservative: bool = True, seed: int = 0
) -> FalseReleases:
    """How wrong a release by count-mean-min alone would be. A simulation, for public data.

    ``counts`` is how often each value was kept. Occurrences come in random order, added 65,536 at a time.
    """
    key = SecretKey(seed.to_bytes(32, "little"))
    codes = key.derive("values").words(str(number) for number in range(len(counts)))
    sketch = CountMeanMin(width, depth, key.derive("sketch"), conservative=conservative)
    if conservative:  # what is counted depends on the order
        stream = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        np.random.default_rng(seed).shuffle(stream)
        for start in range(0, len(stream), CHUNK):
            sketch.add(codes[stream[start : start + CHUNK]])
    else:
        sketch.add(codes, counts)
    taken, reach = sketch.estimates(codes) >= k, counts >= k
    return FalseReleases(
        values=len(counts),
        reach=int(reach.sum()),
        false=int((taken & ~reach).sum()),
        missed=int((reach & ~taken).sum()),
    )
