"""k-centre in the bench: the greedy choice itself, which is not private, and what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.noise import Source, random_places
from discreet.privacy.events import Event
from discreet.privacy.ledger import Receipt
from discreet.records import Selection

DIMENSIONS = 32
"""Longer embeddings are projected to so many numbers by a public random map: thousands of draws from tens of thousands
of records take minutes then, not hours, and distances keep their order but for some noise."""
_SEED = 30_000


def projected(embeddings: NDArray[Any]) -> NDArray[np.float64]:
    """(n, d) to (n, at most 32), of length at most 1."""
    points = np.asarray(embeddings, dtype=np.float64)
    if points.shape[1] > DIMENSIONS:
        chance = np.random.default_rng(_SEED)
        points = points @ (chance.normal(size=(points.shape[1], DIMENSIONS)) / np.sqrt(DIMENSIONS))
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.maximum(lengths, 1e-12))


@dataclass(frozen=True, kw_only=True)
class ExactKCentre:
    """The farthest record, k times: **not private**, for simulations."""

    source: Source
    name = "exact-k-centre"

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """There is none: no finite epsilon holds."""
        return ()

    def select(
        self,
        *,
        ids: Any,
        scores: Any,
        k: int,
        receipt: Receipt | Sequence[Receipt] = (),
        phase: int = 0,
        centres: Any = None,
    ) -> Selection:
        """k of ``ids``, each the farthest from all before it and from ``centres``."""
        points = np.asarray(scores, dtype=np.float64)
        nearest = np.full(len(points), np.inf)
        for centre in () if centres is None else centres:
            nearest = np.minimum(nearest, _squares(points, centre))
        places: list[int] = []
        for _ in range(min(k, len(points))):
            place = int(nearest.argmax())
            places.append(place)
            nearest = np.minimum(nearest, _squares(points, points[place]))
            nearest[place] = -1.0
        order = random_places(len(places), len(places), where=self.source, kind=f"{self.name} order {phase}")
        return Selection(
            ids=tuple(ids[places[at]] for at in order.tolist()),
            mechanism=self.name,
            private=False,
            simulation=self.source.simulation,
            epsilon=Decimal("Infinity"),
        )


def _squares(points: NDArray[np.float64], centre: NDArray[np.float64]) -> NDArray[np.float64]:
    apart = points - centre
    return np.asarray(np.einsum("ij,ij->i", apart, apart))
