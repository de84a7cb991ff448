"""Our own selectors, a hundred thousand runs at a time, for attacks that need millions.

Each class here draws what the selector of its name draws, with the same exact samplers, for many small pools at once.
That it is the same law is not taken on trust: tests compare it with `select()` run by run (chi-square, with the power
shown). Methods are small so that a test can plant a mistake in one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.noise import Seeded, derived_seed, discrete_laplace, numerator, threshold_coins
from discreet.noise.lattice import Lattice
from discreet.noise.stream import Stream
from discreet.privacy.events import DiscreteLaplace, Event, ThresholdResponse
from discreet.privacy.ledger import Ledger, MemorySink, Receipt, adaptive
from discreet.selectors import ExponentialSelector, GaussianTopK, LaplaceTopK, ThresholdSelector
from discreet.selectors.responding import Coins, tails_of
from discreet.testing.neighbours import AMPLE
from discreet.testing.selection_scenes import Asked, Bits, Codes, SceneRuns

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
        order, found = np.argsort(~left, axis=1, kind="stable"), np.full(len(left), -1)
        missing = np.arange(len(left))
        while missing.size:
            tried = order[missing, chance.below(left[missing].sum(axis=1))]
            under = _EPSILON_UNIT * 1024 * draws[missing]
            kept = chance.bernoulli_exp(gaps[missing, tried], under)
            found[missing[kept]] = tried[kept]
            missing = missing[~kept]
        return found


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
        place = np.minimum((values - bottom) * (bins / (top - bottom)), bins - 1).astype(np.int64)
        return np.asarray((pool & (values > bottom)) @ np.eye(bins, dtype=np.int64)[place])

    def response(self, k: int, facts: list[int]) -> tuple[float, Coins]:
        """Threshold and coins, as `select` finds them from noisy counts or from the declared threshold."""
        size, *tails = map(int, facts)
        noisy = np.array(tails, dtype=np.float64) if self.selector.threshold is None else None
        return self.selector.decide(noisy, min(k, size), size)

    def tossed(self, above: Bits, pool: Bits, coins: list[Coins], which: Codes, source: Seeded) -> Bits:
        """Whose coin falls."""
        fell, kinds = np.zeros_like(pool), sorted({(one.high, one.low) for one in coins})
        same = np.array([kinds.index((one.high, one.low)) for one in coins])[which]
        paid = self.response_receipt(len(kinds), source)
        for place, (high, low) in enumerate(kinds):
            rows = np.flatnonzero(same == place)
            here, bits = pool[rows], np.zeros((rows.size, pool.shape[1]), dtype=bool)
            bits[here] = threshold_coins(above[rows][here], high=high, low=low, receipt=paid)
            fell[rows] = bits
        return fell

    def response_receipt(self, count: int, source: Seeded) -> Receipt:
        """What pays for coins."""
        own = Seeded(derived_seed(source.seed, "response"))
        book = Ledger.create(MemorySink(), adaptive(AMPLE), source=own)
        event = ThresholdResponse(asked=self.selector.asked, missed=self.selector.missed or 0)
        return book.charge(event=event, count=max(count, 1), who="pool", why="response")

    def kept(self, fell: Bits, most: Codes, chance: Stream) -> Bits:
        """At most so many of them, at random."""
        rows, who = np.flatnonzero(fell.sum(axis=1) > most), fell.copy()
        luck = chance.words(rows.size * fell.shape[1]).reshape(fell[rows].shape) >> np.uint64(1)
        order = np.argsort(np.where(fell[rows], luck, np.uint64(1 << 63)), axis=1, kind="stable")
        rank = np.argsort(order, axis=1)
        who[rows] &= rank < most[rows, None]
        return who


def any_place(who: Bits, chance: Stream) -> NDArray[np.int64]:
    """A random place for the record among those shown; 0, if it is not one of them."""
    shown = np.maximum(who.sum(axis=1), 1)
    return np.where(who[:, 0], chance.below(shown) + 1, 0)


def plainly(who: Bits, place: Codes) -> Asked:
    """Nothing else is told."""
    return Asked(who=who, place=place, threshold=np.zeros(len(who)), dropped=np.zeros(len(who), dtype=np.int64))
