"""Which public records are worth labelling, seen by a private model: DiversePublic, and the baselines beside it.

    DiversePublic    the most uncertain, projected on principal components of the public embeddings, in clusters; of
                     each cluster those nearest its centre (Nguyen and Smeulders 2004; the Public paper's Algorithm 1)
    uncertain        the most uncertain alone
    k-means          clusters of all records, whatever the model thinks of them
    greedy-k-centre  each next record is the one farthest from all that are taken

Guarantee: all of them read public records and what a private model says of those: post-processing, free. That holds for
a model that was downloaded, too, whose private records are gone. Symbols: ``uncertain`` k, ``components`` p, ``each``
N_each; N_cluster is the number asked over N_each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.components.rows import shape_of
from discreet.errors import BadInput
from discreet.noise import Source
from discreet.privacy.events import Event
from discreet.privacy.ledger import Receipt
from discreet.records import Selection
from discreet.selectors.candidates import whole
from discreet.selectors.clusters import Clusters, clustered
from discreet.selectors.public_records import (
    Places,
    checked_public,
    looked_at,
    most_uncertain,
    projected,
    scored,
    shown,
)

COMPONENTS, EACH = 32, 10
Receipts = Receipt | Sequence[Receipt]


@dataclass(frozen=True, kw_only=True)
class UncertainPublic:
    """The k highest scores."""

    source: Source | None = None
    name = "uncertain"

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """Nothing: post-processing."""
        return ()

    def select(
        self, *, ids: Any, scores: Any, k: int, receipt: Receipts = (), phase: int = 0, embeddings: Any = None
    ) -> Selection:
        """k of ``ids``."""
        names, values, count = checked_public(ids, scores, None, k)
        return shown(names, most_uncertain(values, count), self.name, self.source, phase)


@dataclass(frozen=True, kw_only=True)
class DiversePublic:
    """``uncertain``: how many of the most uncertain are clustered; None: five times as many as are asked.

    ``seed``: of k-means; public.
    """

    uncertain: int | None = None
    each: int = EACH
    components: int = COMPONENTS
    seed: int = 0
    source: Source | None = None
    name: str = "diverse-public"

    def __post_init__(self) -> None:
        for word in ("each", "components"):
            value = getattr(self, word)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadInput(f"{self.name} with {word}={value}", "it is not a whole number from 1", "Try 10")

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """Nothing: post-processing."""
        return ()

    def select(
        self, *, ids: Any, scores: Any, k: int, receipt: Receipts = (), phase: int = 0, embeddings: Any = None
    ) -> Selection:
        """k of ``ids``; ``embeddings``: (n, d), an array or anything with a shape and slices."""
        names, _, count = checked_public(ids, scores, embeddings, k)
        places, found = self.clusters(scores=scores, embeddings=embeddings, k=k)
        return shown(names, places[found.taken(count)], self.name, self.source, phase)

    def clusters(self, *, scores: Any, embeddings: Any, k: int) -> tuple[Places, Clusters]:
        """The records that are clustered, by their places, and their clusters. Public, as they are."""
        size, _ = shape_of(embeddings, "embeddings of public records")
        count = min(whole(k), size)
        if self.name == K_MEANS:
            places = np.arange(size)
        else:
            places = most_uncertain(scored(scores, size), looked_at(self.uncertain, count, size))
        places, rows = projected(embeddings, places, self.components)
        return places, clustered(rows, math.ceil(max(count, 1) / self.each), seed=self.seed)


K_MEANS = "k-means"


def k_means_public(**options: Any) -> DiversePublic:
    """Clusters of all records, without a look at how uncertain they are."""
    return DiversePublic(name=K_MEANS, **options)


@dataclass(frozen=True, kw_only=True)
class GreedyKCentre:
    """Farthest first (Gonzalez 1985), among components of the public embeddings, without noise: records are public."""

    components: int = COMPONENTS
    source: Source | None = None
    name = "greedy-k-centre"

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """Nothing: post-processing."""
        return ()

    def select(
        self,
        *,
        ids: Any,
        scores: Any = None,
        k: int,
        receipt: Receipts = (),
        phase: int = 0,
        embeddings: Any = None,
        centres: Any = None,
    ) -> Selection:
        """k of ``ids``, far from each other and from ``centres``, embeddings of records that are labelled."""
        names, _, count = checked_public(ids, None, embeddings, k)
        before = 0 if centres is None else shape_of(centres, "embeddings of centres")[0]
        rows = embeddings if not before else _Joined(embeddings, centres)
        places, points = projected(rows, np.arange(len(names) + before), self.components)
        known = places >= len(names)
        taken = farthest_first(points[~known].astype(np.float32), count, known=points[known].astype(np.float32))
        return shown(names, places[~known][taken], self.name, self.source, phase)


def farthest_first(points: NDArray[np.float32], count: int, *, known: NDArray[np.float32]) -> Places:
    """Places of ``count`` points, each the farthest from ``known`` and all before it; the first is the most central."""
    taken = np.empty(min(count, len(points)), dtype=np.int64)
    if not len(taken):
        return taken
    lengths = np.einsum("ij,ij->i", points, points)
    apart = np.full(len(points), np.inf, dtype=np.float32)
    for centre in known:
        np.minimum(apart, lengths - 2 * (points @ centre) + centre @ centre, out=apart)
    place = int(apart.argmax()) if len(known) else int((lengths - 2 * (points @ points.mean(axis=0))).argmin())
    for number in range(len(taken)):
        taken[number] = place
        np.minimum(apart, lengths - 2 * (points @ points[place]) + lengths[place], out=apart)
        apart[place] = -np.inf
        place = int(apart.argmax())
    return taken


class _Joined:
    """Rows, then further rows."""

    def __init__(self, first: Any, second: Any) -> None:
        self._first, self._second = first, np.asarray(second)
        self.shape = (first.shape[0] + len(self._second), first.shape[1])
        if self._second.shape[1] != first.shape[1]:
            raise BadInput("centres", "they have another dimension than the pool", "Embed both by the same model")

    def __getitem__(self, key: Any) -> Any:
        places = np.arange(self.shape[0])[key]
        size = self._first.shape[0]
        before, after = places[places < size], places[places >= size] - size
        return np.concatenate([np.asarray(self._first[before]), self._second[after]])
