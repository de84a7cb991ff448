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
        """``count`` edges of each column, from noisy counts: of ranks 1 to ``count`` in ``count`` + 1 parts of the noisy
        total. Several ranks in one cell have one edge, so that the number of features tells nothing.
        """
        return {
            column.name: tuple(self._bounds(column)[places_of_ranks(row, count)].tolist())
            for column, row in zip(self.columns, noisy, strict=True)
        }

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
        return np.maximum(np.arange(1, count + 1) * len(sums) // (count + 1) - 1, 0)
    ranks = np.arange(1, count + 1) * doubled[-1]
    return np.minimum(np.searchsorted(doubled * (count + 1), ranks), len(sums) - 2)
