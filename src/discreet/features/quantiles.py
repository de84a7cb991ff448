"""Private quantiles: edges of features from noisy histograms of a table's columns.

One histogram a column, on a fixed grid over its declared bounds. A record adds 1 to one cell of each histogram in which
it has a value, and its null adds nothing: the sensitivity is the number of columns in L1 (times m for persons with m
records). Edges are cells' bounds, read off the noisy counts alone: post-processing (docs/proofs/discrete-laplace.md).

Laplace noise, not Gaussian, whose sensitivity is the root of the number of columns: at epsilon .1 and delta 1e-6
Gaussian noise has the smaller deviation from 7 columns on, and half of it from 27 on. But it would take that delta from
training, and is not pure, as what stands before a branch is best (docs/proofs/trajectories.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.features.table_options import edges_within
from discreet.pools.columns import Column, ResolvedCells
from discreet.pools.rows import Mask

Counts = NDArray[np.int64]
USUAL_BINS = 256


@dataclass(frozen=True, kw_only=True)
class QuantileGrid:
    """Histograms of ``columns`` of numbers with ``bins`` cells each. A value on a bound is of the cell below it."""

    columns: tuple[Column, ...]
    bins: int = USUAL_BINS

    def counts(self, resolved: Mapping[str, ResolvedCells], nulls: Mask) -> Counts:
        """How many records of a batch are in each cell, a row a column: without nulls and missing cells. Private."""
        return np.array([self._counts(column, resolved[column.name], ~nulls) for column in self.columns])

    def _counts(self, column: Column, cells: ResolvedCells, present: Mask) -> Counts:
        values = cells.codes[cells.known & present]
        return np.bincount(np.searchsorted(self._bounds(column), values), minlength=self.bins)

    def edges(self, noisy: NDArray[np.int64], count: int) -> dict[str, tuple[float, ...]]:
        """``count`` edges of each column, from noisy counts, at ranks that cut the noisy total into equal parts.

        A cell that several ranks fall into is cut off on both sides. Edges that are left over lie evenly within the
        bounds: there are always ``count``, equal ones among them, so that the number of features tells nothing.
        """
        return {
            column.name: self._edges(column, places_of_ranks(row, count), count)
            for column, row in zip(self.columns, noisy, strict=True)
        }

    def _edges(self, column: Column, places: NDArray[np.int64], count: int) -> tuple[float, ...]:
        reached, times = np.unique(places, return_counts=True)
        before = reached[times > 1] - 1
        chosen = self._bounds(column)[np.union1d(reached, before[before >= 0])].tolist()
        low, high = column.code(column.low), column.code(column.high)
        return tuple(sorted((*chosen, *edges_within(low, high, count - len(chosen)))))

    def _bounds(self, column: Column) -> NDArray[np.float64]:
        """Bounds between cells: an edge at one of the ends of the grid would tell nobody from anybody."""
        return np.linspace(column.code(column.low), column.code(column.high), self.bins + 1)[1:-1]


def places_of_ranks(noisy: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The bounds at which noisy sums reach the ranks: places of bounds between cells, which rise.

    A noisy sum may fall where a true one cannot. What is read is the middle of the largest sum so far and the smallest
    one to come, in whole numbers, so that every machine finds the same.
    """
    sums = np.cumsum(np.asarray(noisy, dtype=np.int64))
    doubled = np.maximum.accumulate(sums) + np.minimum.accumulate(sums[::-1])[::-1]
    doubled = np.maximum(doubled, 0)
    if doubled[-1] == 0:  # noise alone: evenly spaced
        return (np.arange(1, count + 1) * len(sums) // (count + 1) - 1).clip(min=0)
    ranks = np.arange(1, count + 1) * doubled[-1]
    places: NDArray[np.int64] = np.searchsorted(doubled * (count + 1), ranks).clip(max=len(sums) - 2)
    return places
