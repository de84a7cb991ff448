"""Campaigns to attack: who is in the pool and scores what, query by query, and a selector that is run on it.

A scene has one record that matters (the first) and others. Scores are given for every query, for a model changes them
from one to the next; whoever is asked leaves the pool. `SelectorRuns` makes views through `select()` itself, so any
selector can be attacked; `discreet.testing.many_selections` draws the same views of our own selectors much faster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.noise import Seeded, derived_seed
from discreet.noise.stream import Stream
from discreet.privacy.events import Repeated
from discreet.privacy.ledger import Ledger, MemorySink, Receipt, adaptive
from discreet.records import Selection
from discreet.roles import Selector
from discreet.testing.neighbours import AMPLE
from discreet.testing.selection_attack import Views

Bits = NDArray[np.bool_]
Codes = NDArray[np.int64]
_FINE = 1 << 20
"""Thresholds are told apart in steps of this part of one."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """``record``: its score in each query; ``others``: theirs, a row each query; ``k``: how many are asked.

    ``meets``: who is shown to each query, where the pool is cut into shards; everybody, if it is empty.
    ``sides``: paths tell from which side of the threshold the record was asked, as individual rates do.
    """

    record: tuple[float, ...]
    others: tuple[tuple[float, ...], ...]
    k: tuple[int, ...]
    null: float = 0.0
    meets: tuple[tuple[bool, ...], ...] = ()
    sides: bool = False

    @property
    def queries(self) -> int:
        """How many there are."""
        return len(self.record)

    def scores(self, query: int, present: bool) -> NDArray[np.float64]:
        """Of the record, or of its null, and of the others."""
        return np.array([self.record[query] if present else self.null, *self.others[query]])

    def met(self, query: int) -> Bits:
        """Who is shown to a query, if still there."""
        return np.array(self.meets[query]) if self.meets else np.ones(len(self.others[query]) + 1, dtype=bool)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One query of many runs: who is asked (a row each run), at which place the record is shown (0: it is not), and
    what else is told: the threshold (0, if there is none) and how many were dropped.
    """

    who: Bits
    place: Codes
    threshold: NDArray[np.float64]
    dropped: Codes
    gone: Bits | None = None
    """Who leaves the pool, where that is not who was asked."""


@dataclass(frozen=True, kw_only=True)
class SceneRuns(ABC):
    """The loop over queries; `ask` is one query of all runs."""

    scene: Scene

    @abstractmethod
    def ask(self, query: int, scores: Any, pool: Bits, chance: Stream) -> Asked:
        """Who is asked of ``pool`` (a row each run)."""

    def views(self, *, present: bool, runs: int, seed: int) -> Views:
        """The record's path: 0 if it was never asked, else the query's number (more by the number of queries, if it was
        asked from below and that is told apart). Seen: the others that were asked, the record's place, what is told.
        """
        scene, chance = self.scene, Seeded(seed).free("selection attack")
        left, path, seen = np.ones((runs, len(scene.others[0]) + 1), dtype=bool), np.zeros(runs, dtype=np.int64), []
        for query in range(scene.queries):
            there = scene.met(query)
            columns = np.union1d([0], np.flatnonzero(there))  # the record has the first, wherever it is
            pool = (left & there)[:, columns]
            asked = self.ask(query, scene.scores(query, present)[columns], pool, chance)
            # the side is that of the record in both worlds: it stands there, whatever its null would do
            below = scene.queries * (scene.sides & (scene.record[query] < asked.threshold))
            path = np.where(asked.who[:, 0] & (path == 0), query + 1 + below, path)
            others = asked.who[:, 1:] @ (1 << np.arange(columns.size - 1))
            seen += [others, asked.place, np.rint(asked.threshold * _FINE).astype(np.int64), asked.dropped]
            left[:, columns] &= ~(asked.who if asked.gone is None else asked.gone)
        return Views(path=path, seen=np.stack(seen, axis=1))


@dataclass(frozen=True, kw_only=True)
class SelectorRuns(SceneRuns):
    """Through ``selector.select()``, one run after the other: as it is, and slow."""

    selector: Selector

    def ask(self, query: int, scores: Any, pool: Bits, chance: Stream) -> Asked:
        """One call a run, paid for by one charge for all runs whose pools have the same size."""
        source, names = Seeded(int(chance.words(1)[0])), [f"r{place}" for place in range(len(scores))]
        sizes, rows = np.unique(pool.sum(axis=1), return_inverse=True)
        paid = [
            self._receipts(query, int(size), int((rows == place).sum()), source) for place, size in enumerate(sizes)
        ]
        found = [
            self.selector.select(
                ids=[names[place] for place in np.flatnonzero(row)],
                scores=scores[row],
                k=self.scene.k[query],
                receipt=paid[rows[run]],
                phase=query,
            )
            for run, row in enumerate(pool)
        ]
        return _shown(found, names)

    def _receipts(self, query: int, size: int, runs: int, source: Seeded) -> list[Receipt]:
        made: list[Receipt] = []
        for event in self.selector.price(self.scene.k[query], size):
            each, count = (event.event, event.count) if isinstance(event, Repeated) else (event, 1)
            own = Seeded(derived_seed(source.seed, "receipts", len(made), size))
            book = Ledger.create(MemorySink(), adaptive(AMPLE), source=own)
            made.append(book.charge(event=each, count=count * runs, who="pool", why="attack"))
        return made


def _shown(found: list[Selection], names: list[str]) -> Asked:
    who = np.array([[name in one.ids for name in names] for one in found])
    place = np.array([one.ids.index(names[0]) + 1 if names[0] in one.ids else 0 for one in found])
    tau = np.array([one.threshold or 0.0 for one in found])
    return Asked(who=who, place=place, threshold=tau, dropped=np.array([one.dropped or 0 for one in found]))
