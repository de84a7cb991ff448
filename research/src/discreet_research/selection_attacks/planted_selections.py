"""Selection with one thing wrong, each: what `attack_selection` must catch, or it would be worth nothing.

A mistake is either in the mechanism (too little noise, a null that is counted, an order that tells) or in the claim (a
loss that nobody charged). Each is a case like those of `selection_cases`, and false.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from discreet.noise import Seeded, derived_seed
from discreet.noise.stream import ONE, Stream
from discreet.privacy.events import ThresholdResponse
from discreet.privacy.ledger import Ledger, MemorySink, Receipt, adaptive
from discreet.selectors import GaussianTopK, LaplaceTopK, ThresholdSelector
from discreet.selectors.threshold_selector import Coins
from discreet.testing.neighbours import AMPLE
from discreet_research.selection_attacks.selection_cases import (
    COUNTED,
    DECLARED,
    EXPONENTIAL,
    FAINT,
    GAUSSIAN,
    LAPLACE,
    SAMPLED,
    TELLING,
    Case,
    all_pay,
    by_shards,
    every_query,
    one_sided,
    separate,
)
from discreet_research.selection_attacks.selection_scenes import (
    Asked,
    Bits,
    Codes,
    ExponentialRuns,
    ThresholdRuns,
    TopRuns,
)


class InOrder(TopRuns):
    """Questions are shown in the order of their noisy scores."""

    def places(self, who: Bits, noisy: Any, chance: Stream) -> Codes:
        """The record's rank."""
        return np.where(who[:, 0], 1 + (noisy > noisy[:, :1]).sum(axis=1), 0)


class Unclipped(TopRuns):
    """Noise for clipped scores, on scores that are not."""

    def limited(self, scores: Any) -> Any:
        """As they came."""
        return scores


@dataclass(frozen=True, kw_only=True)
class LeftOut(TopRuns):
    """Whoever the subsample leaves out cannot be asked, at the price of a subsample that competes."""

    rate: float

    def ask(self, query: int, scores: Any, pool: Bits, chance: Stream) -> Asked:
        """Of those who were drawn."""
        numerators = np.full(pool.size, int(self.rate * ONE), dtype=np.uint64)
        return super().ask(query, scores, pool & chance.bernoulli(numerators).reshape(pool.shape), chance)


class Stays(TopRuns):
    """Whoever was asked stays in the pool, and pays once."""

    def ask(self, query: int, scores: Any, pool: Bits, chance: Stream) -> Asked:
        """Nobody leaves."""
        asked = super().ask(query, scores, pool, chance)
        return replace(asked, gone=np.zeros_like(asked.who))


class WholeEach(ExponentialRuns):
    """Every draw takes all of epsilon, not its share."""

    def draw(self, shares: Any, left: Bits, draws: Codes, chance: Stream) -> Codes:
        """As if it were the only one."""
        return super().draw(shares, left, np.ones_like(draws), chance)


class NullCounted(ThresholdRuns):
    """A null is counted, in the lowest bin: one record then changes two counts."""

    def counts(self, values: Any, pool: Bits) -> Codes:
        """Of everybody."""
        bottom, _ = self.selector.range
        return super().counts(np.where(values > bottom, values, bottom + 1e-9), pool)


class Remembered(ThresholdRuns):
    """Whoever fell is remembered: the dropped are not asked again."""

    def leaving(self, fell: Bits, who: Bits) -> Bits:
        """The set before truncation."""
        return fell


class Doubled(ThresholdRuns):
    """Records above the threshold are asked twice as often as was charged for."""

    def response(self, k: int, facts: list[int]) -> tuple[float, Coins]:
        """With p_hi twice as large."""
        tau, coins = super().response(k, facts)
        return tau, Coins(low=coins.low, high=min(2 * coins.high, ONE))

    def response_receipt(self, count: int, source: Seeded) -> Receipt:
        """Of another price, for `threshold_coins` refuses what was not paid for."""
        seeded = Seeded(derived_seed(source.seed, "response"))
        book = Ledger.create(MemorySink(), adaptive(AMPLE), source=seeded)
        return book.charge(event=ThresholdResponse(asked=9, missed=9), count=max(count, 1), who="pool", why="response")


def faulty_mechanisms() -> list[Case]:
    """The claim is right for what should have been drawn."""
    halved = [(GAUSSIAN, "gaussian"), (SAMPLED, "subsampled gaussian")]
    tops, crowd, rate, faint = separate(2, [1.0] * 4, 1), separate(1, [1.0] * 12, 1), 0.2, 3e-3
    return [
        Case(
            name="laplace: noise halved",
            campaign=TopRuns(selector=LaplaceTopK(epsilon=2), scene=tops),
            claims=lambda: one_sided(2, "1", "1"),
            runs=10_000,
        ),
        *(
            Case(
                name=f"{name}: noise halved",
                campaign=TopRuns(selector=replace(selector, noise_multiplier=0.5), scene=crowd),
                claims=partial(all_pay, selector, 1),
                runs=20_000,
            )
            for selector, name in halved
        ),
        Case(
            name="clipped laplace: not clipped",
            campaign=Unclipped(selector=LaplaceTopK(epsilon=1, range=(0.0, 0.5)), scene=tops),
            claims=lambda: one_sided(2, "1", "1"),
            runs=10_000,
        ),
        Case(
            name="laplace: shown in the order of noisy scores, k = 4",
            campaign=InOrder(selector=LAPLACE, scene=separate(1, [0.0] * 4, 4)),
            claims=lambda: one_sided(1, "1", "1"),
            runs=10_000,
        ),
        Case(
            name="laplace: the asked stay in the pool, and pay once",
            campaign=Stays(selector=LAPLACE, scene=separate(2, [1.0] * 3, 1)),
            claims=lambda: one_sided(2, "1", "1"),
            runs=40_000,
        ),
        Case(
            name="subsampled gaussian: who is left out cannot be asked",
            campaign=LeftOut(rate=rate, selector=GAUSSIAN, scene=separate(1, [1.0] * 40, 1)),
            claims=lambda: all_pay(GaussianTopK(noise_multiplier=1.0, subsample=rate), 1, faint),
        ),
        Case(
            name="exponential: epsilon for each of 2 draws",
            campaign=WholeEach(selector=EXPONENTIAL, scene=separate(1, [0.0] * 2, 2)),
            claims=lambda: every_query(1, "2"),
            runs=20_000,
        ),
        Case(
            name="threshold response: p_hi doubled",
            campaign=Doubled(selector=DECLARED, scene=separate(2, [0.0] * 8, 3)),
            claims=lambda: one_sided(2, "1", "1"),
            runs=20_000,
        ),
        Case(
            name="threshold response: the dropped are remembered",
            campaign=Remembered(
                selector=ThresholdSelector(asked=1, threshold=0.99),
                scene=replace(separate(2, [1.0] * 5, 2), k=(2, 6)),  # the second query asks everybody
            ),
            claims=lambda: one_sided(2, "1", "1"),
            runs=10_000,
        ),
        Case(
            name="threshold response: the null is counted",
            campaign=NullCounted(selector=FAINT, scene=separate(1, [0.75] * 6, 5)),
            claims=lambda: one_sided(1, "0.5", "0.5", threshold="1"),
            runs=40_000,
        ),
    ]


def faulty_claims() -> list[Case]:
    """The mechanism is right, and something is not charged."""
    declared = ThresholdRuns(selector=DECLARED, scene=separate(3, [0.0] * 14, 11))
    counted = ThresholdRuns(selector=COUNTED, scene=separate(1, [0.25] * 3, 1))
    return [
        Case(
            name="laplace: misses cost nothing",
            campaign=TopRuns(selector=LAPLACE, scene=separate(1, [0.0] * 8, 6)),
            claims=lambda: one_sided(1, "1", "0"),
            runs=10_000,
        ),
        Case(
            name="threshold response: misses cost nothing",
            campaign=declared,
            claims=lambda: one_sided(3, "1", "0"),
            runs=10_000,
        ),
        Case(
            name="threshold response: only the last miss is charged",
            campaign=declared,
            claims=lambda: by_shards(3, "1", "1", "0"),
            runs=10_000,
        ),
        Case(
            name="threshold response: asked costs half",
            campaign=declared,
            claims=lambda: one_sided(3, "0.5", "1"),
            runs=10_000,
        ),
        Case(
            name="threshold response: thresholds cost nothing",
            campaign=counted,
            claims=lambda: one_sided(1, "1", "1"),
            runs=10_000,
        ),
        Case(
            name="threshold response: tells how many were dropped, and saves on paths",
            campaign=ThresholdRuns(selector=TELLING, scene=separate(2, [1.0] * 2, 2)),
            claims=lambda: one_sided(2, "1", "1"),
            runs=20_000,
        ),
        Case(
            name="threshold response: shards that share a record",
            campaign=ThresholdRuns(
                selector=ThresholdSelector(asked=1, threshold=0.01), scene=separate(2, [0.0] * 14, 11)
            ),
            claims=lambda: by_shards(2, "1", "1", "0"),
            runs=10_000,
        ),
    ]


def planted_mistakes() -> list[Case]:
    """All of them."""
    return [*faulty_mechanisms(), *faulty_claims()]
