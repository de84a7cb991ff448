"""Choosing without a price: at random, which is free, and by looking, which is not private at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from discreet.noise import OperatingSystem, Source, random_places
from discreet.privacy.events import Event
from discreet.privacy.ledger import Receipt
from discreet.records import Selection
from discreet.selectors.candidates import checked, chosen


@dataclass(frozen=True, kw_only=True)
class RandomSelector:
    """k records, all equally likely. Reads nothing, costs nothing; needs no receipt.

    ``source``: where its chance comes from; the operating system, or a seed in a simulation.
    """

    source: Source | None = None
    name = "random"

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """Nothing."""
        return ()

    def select(
        self, *, ids: Any, scores: Any = None, k: int, receipt: Receipt | Sequence[Receipt] = (), phase: int = 0
    ) -> Selection:
        """k of ``ids``. ``phase`` keeps the draws of a simulation's phases apart."""
        names, _, count = checked(ids, None, k, None)
        where = self.source or OperatingSystem()
        places = random_places(len(names), count, where=where, kind=f"{self.name} {phase}")
        return Selection(ids=chosen(names, places), mechanism=self.name, simulation=where.simulation)


@dataclass(frozen=True, kw_only=True)
class ExactTopK:
    """The k largest scores: **not private**. For simulations, and for pools of public records.

    Its selections are marked ``private=False``, and so is everything that is made of them.
    """

    range: tuple[float, float] = (0.0, 1.0)
    source: Source | None = None
    name = "exact"

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """There is none: no finite epsilon holds."""
        return ()

    def select(
        self, *, ids: Any, scores: Any, k: int, receipt: Receipt | Sequence[Receipt] = (), phase: int = 0
    ) -> Selection:
        """The k largest; of equal scores, at random."""
        names, values, count = checked(ids, scores, k, self.range)
        where = self.source or OperatingSystem()
        mixed = random_places(len(names), len(names), where=where, kind=f"{self.name} {phase}")
        places = mixed[np.argsort(-values[mixed], kind="stable")[:count]]
        shown = places[random_places(count, count, where=where, kind=f"{self.name} order {phase}")]
        return Selection(
            ids=chosen(names, shown),
            mechanism=self.name,
            private=False,
            simulation=where.simulation,
            epsilon=Decimal("Infinity"),
        )
