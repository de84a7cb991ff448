"""k-means of public rows, and who of each cluster is nearest its centre. Costs nothing: nothing private is read.

Lloyd's algorithm runs on at most 50 rows a cluster (by lot, from a public seed); then every row is assigned, block by
block, so a million rows need little memory. The same rows and seed give the same clusters.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.components.rows import Floats

ROWS_EACH, FEWEST_ROWS = 50, 20_000
ITERATIONS = 50
_BLOCK = 4096
Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """Of n rows: the cluster each is in, and its rank there, 0 for the one nearest the centre. Audience: world."""

    labels: Places
    ranks: Places

    def taken(self, count: int) -> Places:
        """``count`` places: the nearest of every cluster, then the second nearest of every cluster, and so on.

        Large clusters come first among equals, so that where not all can be served the rare ones wait.
        """
        sizes = np.bincount(self.labels, minlength=int(self.labels.max(initial=-1)) + 1)
        order = np.lexsort((self.labels, -sizes[self.labels], self.ranks))
        return np.asarray(order[:count], dtype=np.int64)


def clustered(rows: Floats, count: int, *, seed: int = 0) -> Clusters:
    """``rows`` in ``count`` clusters (fewer, if fewer rows differ)."""
    if not len(rows):
        return Clusters(labels=np.empty(0, dtype=np.int64), ranks=np.empty(0, dtype=np.int64))
    centres = _centres(rows.astype(np.float32), min(count, len(rows)), seed)
    labels, apart = assigned(rows, centres)
    order = np.lexsort((np.arange(len(rows)), apart, labels))
    ranks = np.empty(len(rows), dtype=np.int64)
    starts = np.searchsorted(labels[order], np.arange(len(centres)))
    ranks[order] = np.arange(len(rows)) - starts[labels[order]]
    return Clusters(labels=labels, ranks=ranks)


def assigned(rows: Floats, centres: Floats) -> tuple[Places, Floats]:
    """The nearest centre of each row, and the square of the distance to it."""
    labels, apart = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
    lengths = (centres * centres).sum(axis=1)
    for start in range(0, len(rows), _BLOCK):
        piece = rows[start : start + _BLOCK]
        squares = lengths - 2 * (piece @ centres.T)
        labels[start : start + _BLOCK] = squares.argmin(axis=1)
        apart[start : start + _BLOCK] = squares.min(axis=1) + (piece * piece).sum(axis=1)
    return labels, apart


def _centres(rows: NDArray[np.float32], count: int, seed: int) -> Floats:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    most = max(FEWEST_ROWS, ROWS_EACH * count)
    if len(rows) > most:
        rows = rows[np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer rows differ than clusters were asked for
        found = KMeans(n_clusters=count, n_init=1, max_iter=ITERATIONS, random_state=seed).fit(rows)
    return np.asarray(found.cluster_centers_, dtype=np.float64)
