"""Campaigns to attack: who is in the pool and scores what, query by query, and a selector that is run on it.

A scene has one record that matters (the first) and others. Scores are given for every query, for a model changes them
from one to the next; whoever is asked leaves the pool. `SelectorRuns` makes views through `select()` itself, so any
selector can be attacked; `many_selections` draws the same views of our own selectors much faster.

Our own selectors, a hundred thousand runs at a time, for attacks that need millions.

Each class here draws what the selector of its name draws, with the same exact samplers, for many small pools at once.
That it is the same law is not taken on trust: tests compare it with `select()` run by run (chi-square, with the power
shown). Methods are small so that a test can plant a mistake in one of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.noise import Seeded, derived_seed, discrete_laplace, numerator, threshold_coins
from discreet.noise.additive_noise import Lattice
from discreet.noise.stream import Stream
from discreet.privacy.events import DiscreteLaplace, Event, Repeated, ThresholdResponse
from discreet.privacy.ledger import Ledger, MemorySink, Receipt, adaptive
from discreet.records import Selection
from discreet.roles import Selector
from discreet.selectors import ExponentialSelector, GaussianTopK, LaplaceTopK, ThresholdSelector
from discreet.selectors.selection_inputs import tails_of
from discreet.selectors.threshold_selector import Coins
from discreet.testing.neighbours import AMPLE
from discreet_research.selection_attacks.selection_attack import Views

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
            met = scene.met(query)
            columns = np.union1d([0], np.flatnonzero(met))  # the record has the first, wherever it is
            pool = (left & met)[:, columns]
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
        source, names = Seeded(int(chance.words(1)[0])), [f"r{index}" for index in range(len(scores))]
        sizes, rows = np.unique(pool.sum(axis=1), return_inverse=True)
        paid = [
            self._receipts(query, int(size), int((rows == index).sum()), source) for index, size in enumerate(sizes)
        ]
        selections = [
            self.selector.select(
                ids=[names[index] for index in np.flatnonzero(row)],
                scores=scores[row],
                k=self.scene.k[query],
                receipt=paid[rows[run]],
                phase=query,
            )
            for run, row in enumerate(pool)
        ]
        return _shown(selections, names)

    def _receipts(self, query: int, size: int, runs: int, source: Seeded) -> list[Receipt]:
        receipts: list[Receipt] = []
        for event in self.selector.price(self.scene.k[query], size):
            each, count = (event.event, event.count) if isinstance(event, Repeated) else (event, 1)
            seeded = Seeded(derived_seed(source.seed, "receipts", len(receipts), size))
            book = Ledger.create(MemorySink(), adaptive(AMPLE), source=seeded)
            receipts.append(book.charge(event=each, count=count * runs, who="pool", why="attack"))
        return receipts


def _shown(selections: list[Selection], names: list[str]) -> Asked:
    who = np.array([[name in selection.ids for name in names] for selection in selections])
    index = np.array(
        [selection.ids.index(names[0]) + 1 if names[0] in selection.ids else 0 for selection in selections]
    )
    tau = np.array([selection.threshold or 0.0 for selection in selections])
    return Asked(
        who=who, place=index, threshold=tau, dropped=np.array([selection.dropped or 0 for selection in selections])
    )


_NOWHERE = -(1 << 62)
_EPSILON_UNIT = 1 << 24


@dataclass(frozen=True, kw_only=True)
class TopRuns(SceneRuns):
    """The k largest of noisy scores, for `LaplaceTopK` and `GaussianTopK`."""

    selector: LaplaceTopK | GaussianTopK

    def ask(self, query: int, scores: Any, pool: Bits, chance: Stream) -> Asked:
        """Noise for everybody who is there; equal ones in the order of places."""
        bottom, top = self.selector.range
        raised = np.broadcast_to(self.limited(scores) - bottom, pool.shape)[pool]
        noisy = np.full(pool.shape, _NOWHERE, dtype=np.int64)
        noisy[pool] = self.noisy(raised, top - bottom, chance)
        order = np.argsort(-noisy, axis=1, kind="stable")[:, : self.scene.k[query]]
        who = np.zeros_like(pool)
        np.put_along_axis(who, order, True, axis=1)
        who &= pool
        return plainly(who, self.places(who, noisy, chance))

    def limited(self, scores: Any) -> Any:
        """Scores, brought into their range."""
        return np.clip(scores, *self.selector.range)

    def noisy(self, raised: Any, reach: float, chance: Stream) -> Any:
        """Floored scores with noise, in whole steps."""
        if isinstance(self.selector, LaplaceTopK):
            epsilon = Fraction(Decimal(self.selector.epsilon))
            lattice = Lattice.under(reach / float(epsilon), "Laplace")
            scale = math.ceil(lattice.steps_l1(reach, 1) / epsilon)
            return lattice.floored(raised) + chance.discrete_laplace(scale, 1, raised.size)
        sigma, rate = self.selector.noise_multiplier, self.selector.subsample
        if rate < 1:
            mask = np.full(raised.size, numerator(rate, up=False), dtype=np.uint64)
            raised = np.where(chance.bernoulli(mask), raised, 0.0)
        lattice = Lattice.under(sigma * reach, "Gaussian")
        noise = np.rint(chance.normals(raised.size) * (sigma * lattice.steps_l2(reach, 1)))
        return lattice.floored(raised) + noise.astype(np.int64)

    def places(self, who: Bits, noisy: Any, chance: Stream) -> Codes:
        """Where the record is shown: anywhere."""
        return any_place(who, chance)


@dataclass(frozen=True, kw_only=True)
class ExponentialRuns(SceneRuns):
    """One after the other, by rejection, as `exponential` draws; epsilon to a 1024th."""

    selector: ExponentialSelector

    def ask(self, query: int, scores: Any, pool: Bits, chance: Stream) -> Asked:
        """k draws, each of those who are left."""
        bottom, top = self.selector.range
        raised, left = np.clip(scores, bottom, top) - bottom, pool.copy()
        sizes = np.minimum(self.scene.k[query], pool.sum(axis=1))
        for draw in range(int(sizes.max(initial=0))):
            rows = np.flatnonzero(sizes > draw)
            left[rows, self.draw(raised / (top - bottom), left[rows], sizes[rows], chance)] = False
        who = pool & ~left
        return plainly(who, any_place(who, chance))

    def draw(self, shares: Any, left: Bits, draws: Codes, chance: Stream) -> Codes:
        """A uniform place among those left, kept with probability exp(-epsilon / k times its gap to the best)."""
        heights = np.where(left, np.floor(shares * _EPSILON_UNIT).astype(np.int64), -1)
        gaps = (heights.max(axis=1, keepdims=True) - heights) * round(float(self.selector.epsilon) * 1024)
        order, drawn = np.argsort(~left, axis=1, kind="stable"), np.full(len(left), -1)
        missing = np.arange(len(left))
        while missing.size:
            tried = order[missing, chance.below(left[missing].sum(axis=1))]
            under = _EPSILON_UNIT * 1024 * draws[missing]
            accepted = chance.bernoulli_exp(gaps[missing, tried], under)
            drawn[missing[accepted]] = tried[accepted]
            missing = missing[~accepted]
        return drawn


@dataclass(frozen=True, kw_only=True)
class ThresholdRuns(SceneRuns):
    """Histograms, thresholds and coins, by the selector's own functions, each called for many runs."""

    selector: ThresholdSelector

    def ask(self, query: int, scores: Any, pool: Bits, chance: Stream) -> Asked:
        """Runs with the same coins toss them in one call."""
        bottom, top = self.selector.range
        values, source = np.clip(scores, bottom, top), Seeded(int(chance.words(1)[0]))
        decided, which = self.decided(query, values, pool, source)
        taus = np.array([tau for tau, _ in decided])[which]
        above = (values >= taus[:, None]) & (values > bottom) & pool
        fell = self.tossed(above, pool, [coins for _, coins in decided], which, source)
        who = self.kept(fell, np.minimum(self.scene.k[query], pool.sum(axis=1)), chance)
        dropped = (fell.sum(axis=1) - who.sum(axis=1)) * self.selector.tells_dropped
        place, gone = any_place(who, chance), self.leaving(fell, who)
        return Asked(who=who, place=place, threshold=taus, dropped=dropped, gone=gone)

    def leaving(self, fell: Bits, who: Bits) -> Bits:
        """Who is not in the pool any more: those who were asked."""
        return who

    def decided(self, query: int, values: Any, pool: Bits, source: Seeded) -> tuple[list[tuple[float, Coins]], Codes]:
        """Thresholds with their coins, and which of them each run has."""
        facts = pool.sum(axis=1)[:, None]
        if self.selector.threshold is None:
            book = Ledger.create(MemorySink(), adaptive(AMPLE), source=source)
            paid = book.charge(event=self.histogram_event(), who="pool", why="threshold")
            noisy = discrete_laplace(self.counts(values, pool), receipt=paid)
            facts = np.column_stack([facts, tails_of(noisy, facts)])
        kinds, which = np.unique(facts, axis=0, return_inverse=True)
        return [self.response(self.scene.k[query], row) for row in kinds.tolist()], which

    def histogram_event(self) -> Event:
        """What pays for a histogram."""
        return DiscreteLaplace(epsilon=self.selector.threshold_epsilon)

    def counts(self, values: Any, pool: Bits) -> Codes:
        """How many of each pool are in each bin; a null is not counted."""
        (bottom, top), bins = self.selector.range, self.selector.bins
        index = np.minimum((values - bottom) * (bins / (top - bottom)), bins - 1).astype(np.int64)
        return np.asarray((pool & (values > bottom)) @ np.eye(bins, dtype=np.int64)[index])

    def response(self, k: int, facts: list[int]) -> tuple[float, Coins]:
        """Threshold and coins, as `select` finds them from noisy counts or from the declared threshold."""
        size, *tails = map(int, facts)
        noisy = np.array(tails, dtype=np.float64) if self.selector.threshold is None else None
        return self.selector.decide(noisy, min(k, size), size)

    def tossed(self, above: Bits, pool: Bits, coins: list[Coins], which: Codes, source: Seeded) -> Bits:
        """Whose coin falls."""
        fell, kinds = np.zeros_like(pool), sorted({(pair.high, pair.low) for pair in coins})
        same = np.array([kinds.index((pair.high, pair.low)) for pair in coins])[which]
        paid = self.response_receipt(len(kinds), source)
        for index, (high, low) in enumerate(kinds):
            rows = np.flatnonzero(same == index)
            here, bits = pool[rows], np.zeros((rows.size, pool.shape[1]), dtype=bool)
            bits[here] = threshold_coins(above[rows][here], high=high, low=low, receipt=paid)
            fell[rows] = bits
        return fell

    def response_receipt(self, count: int, source: Seeded) -> Receipt:
        """What pays for coins."""
        seeded = Seeded(derived_seed(source.seed, "response"))
        book = Ledger.create(MemorySink(), adaptive(AMPLE), source=seeded)
        event = ThresholdResponse(asked=self.selector.asked, missed=self.selector.missed or 0)
        return book.charge(event=event, count=max(count, 1), who="pool", why="response")

    def kept(self, fell: Bits, limit: Codes, chance: Stream) -> Bits:
        """At most so many of them, at random."""
        rows, who = np.flatnonzero(fell.sum(axis=1) > limit), fell.copy()
        draws = chance.words(rows.size * fell.shape[1]).reshape(fell[rows].shape) >> np.uint64(1)
        order = np.argsort(np.where(fell[rows], draws, np.uint64(1 << 63)), axis=1, kind="stable")
        rank = np.argsort(order, axis=1)
        who[rows] &= rank < limit[rows, None]
        return who


def any_place(who: Bits, chance: Stream) -> NDArray[np.int64]:
    """A random place for the record among those shown; 0, if it is not one of them."""
    shown = np.maximum(who.sum(axis=1), 1)
    return np.where(who[:, 0], chance.below(shown) + 1, 0)


def plainly(who: Bits, place: Codes) -> Asked:
    """Nothing else is told."""
    return Asked(who=who, place=place, threshold=np.zeros(len(who)), dropped=np.zeros(len(who), dtype=np.int64))
