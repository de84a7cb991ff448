"""The worst cases of our own selectors, for `attack_selection`: pools in which what is claimed is nearly lost.

A record is asked most tellingly when its competitors stand at the top and few are asked; it is missed most tellingly
when they stand at the bottom and nearly all are asked. Most scenes give every query competitors of its own, so that all
queries are as hard; two have one pool that shrinks. Claims are made when they are asked for: that of Gaussian noise
takes a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

import numpy as np

from discreet.noise import SecretKey
from discreet.privacy.events import Composed
from discreet.privacy.selection_terms import SelectionTerms
from discreet.selectors import ExponentialSelector, GaussianTopK, LaplaceTopK, ThresholdSelector
from discreet.selectors.selection_inputs import even_shares, in_shard
from discreet_research.selection_attacks.selection_attack import (
    SelectionAttack,
    SelectionClaim,
    attack_selection,
    composed_claim,
    one_sided_claim,
)
from discreet_research.selection_attacks.selection_scenes import (
    ExponentialRuns,
    Scene,
    SceneRuns,
    ThresholdRuns,
    TopRuns,
)

DELTA = 1e-2
"""Of Gaussian noise: its events have to be seen often enough to be counted."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A campaign and what is claimed of it. ``runs``: enough of them to catch a mistake that is planted."""

    name: str
    campaign: SceneRuns
    claims: Callable[[], SelectionClaim]
    runs: int = 100_000

    def attacked(self, *, runs: int, seed: int = 0) -> tuple[SelectionAttack, SelectionClaim]:
        """What was proved, and what is claimed."""
        claim = self.claims()
        names = [loss.name for loss in claim.paths]
        return attack_selection(self.campaign, paths=names, runs=runs, delta=claim.delta, seed=seed), claim


def separate(queries: int, others: Sequence[float], k: int, record: float | tuple[float, ...] = 1.0) -> Scene:
    """Every query has the record and competitors of its own."""
    size = len(others)
    meets = tuple((True, *(index // size == query for index in range(queries * size))) for query in range(queries))
    scores = record if isinstance(record, tuple) else (record,) * queries
    return Scene(record=scores, others=(tuple(others) * queries,) * queries, k=(k,) * queries, meets=meets)


def shrinking(queries: int, others: Sequence[float], k: int, record: float = 1.0) -> Scene:
    """One pool for all queries."""
    return Scene(record=(record,) * queries, others=(tuple(others),) * queries, k=(k,) * queries)


def in_shards(queries: int, records: int, score: float, k: int) -> Scene:
    """Ids cut by a keyed hash; the record meets the query of its shard."""
    ids, key = [f"r{index}" for index in range(records)], SecretKey(b"selection attack".ljust(32))
    parts = [in_shard(ids, number, queries, key) for number in range(1, queries + 1)]
    meets = tuple(tuple(np.isin(np.arange(records), part).tolist()) for part in parts)
    return Scene(record=(1.0,) * queries, others=((score,) * (records - 1),) * queries, k=(k,) * queries, meets=meets)


def one_sided(queries: int, asked: str, missed: str, *, threshold: str = "0", sides: bool = False) -> SelectionClaim:
    """Asked costs once, misses and thresholds add up."""
    terms = SelectionTerms(
        queries=queries,
        epsilon=Decimal(asked),
        missed=(Decimal(missed),) * queries,
        threshold_epsilon=Decimal(threshold),
    )
    return one_sided_claim(terms, sides=sides)


def by_shards(queries: int, asked: str, missed: str, threshold: str) -> SelectionClaim:
    """One query each."""
    return one_sided_claim(
        SelectionTerms(
            kind="shards",
            queries=queries,
            epsilon=Decimal(asked),
            missed=(Decimal(missed),) * queries,
            threshold_epsilon=Decimal(threshold),
            shards=even_shares(queries),
        )
    )


def every_query(queries: int, each: str) -> SelectionClaim:
    """The paper's price: each query costs everybody who is still in the pool."""
    return one_sided_claim(SelectionTerms(kind="paper", queries=queries, epsilon=queries * Decimal(each)))


def all_pay(selector: GaussianTopK, queries: int, delta: float = DELTA) -> SelectionClaim:
    """The privacy loss distribution of all queries."""
    return composed_claim(Composed(events=selector.price(1, 1)), queries, delta=delta)


LAPLACE, CLIPPED = LaplaceTopK(epsilon=1), LaplaceTopK(epsilon=1, range=(0.0, 0.8), name="clipped-laplace")
GAUSSIAN, SAMPLED = GaussianTopK(noise_multiplier=1.0), GaussianTopK(noise_multiplier=1.0, subsample=0.7)
EXPONENTIAL = ExponentialSelector(epsilon=2)
DECLARED, COUNTED = ThresholdSelector(asked=1, threshold=0.01), ThresholdSelector(asked=1, threshold_epsilon=1, bins=2)
FAINT = ThresholdSelector(asked="0.5", threshold_epsilon=1, bins=2)
TELLING = ThresholdSelector(asked=1, threshold=0.01, tells_dropped=True)


def laplace_cases() -> list[Case]:
    """Noisy top-k with Laplace noise."""
    return [
        Case(
            name="laplace: the top among the top, 1 asked",
            campaign=TopRuns(selector=LAPLACE, scene=separate(4, [1.0] * 4, 1)),
            claims=lambda: one_sided(4, "1", "1"),
        ),
        Case(
            name="laplace: the top among the bottom, 6 of 9 asked",
            campaign=TopRuns(selector=LAPLACE, scene=separate(3, [0.0] * 8, 6)),
            claims=lambda: one_sided(3, "1", "1"),
        ),
        Case(
            name="laplace: the middle, one pool that shrinks, 1 asked",
            campaign=TopRuns(selector=LAPLACE, scene=shrinking(4, [0.2, 0.4, 0.6, 0.8], 1, 0.5)),
            claims=lambda: one_sided(4, "1", "1"),
        ),
        Case(
            name="clipped laplace: above the clip, among such, 1 asked",
            campaign=TopRuns(selector=CLIPPED, scene=separate(2, [1.0] * 4, 1)),
            claims=lambda: one_sided(2, "1", "1"),
        ),
    ]


def gaussian_cases() -> list[Case]:
    """Noisy top-k with Gaussian noise, and the exponential mechanism: every record pays every query."""
    return [
        *(
            Case(
                name=f"{selector.name}: {where}",
                campaign=TopRuns(selector=selector, scene=separate(2, [score] * 24, k)),
                claims=partial(all_pay, selector, 2),
            )
            for selector in (GAUSSIAN, SAMPLED)
            for where, score, k in (
                ("the top among the top, 1 asked", 1.0, 1),
                ("the top among the bottom, 23 of 25 asked", 0.0, 23),
            )
        ),
        Case(
            name="exponential: the top among the top, 1 asked",
            campaign=ExponentialRuns(selector=EXPONENTIAL, scene=separate(3, [1.0] * 30, 1)),
            claims=lambda: every_query(3, "2"),
        ),
        Case(
            name="exponential: the top among the bottom, 2 of 3 asked",
            campaign=ExponentialRuns(selector=EXPONENTIAL, scene=separate(3, [0.0] * 2, 2)),
            claims=lambda: every_query(3, "2"),
        ),
    ]


def threshold_cases() -> list[Case]:
    """Threshold response."""
    return [
        Case(
            name="threshold response, declared: at the threshold, 11 of 15",
            campaign=ThresholdRuns(selector=DECLARED, scene=separate(4, [0.0] * 14, 11, 0.01)),
            claims=lambda: one_sided(4, "1", "1"),
        ),
        Case(
            name="threshold response, declared: above in query 4 only",
            campaign=ThresholdRuns(selector=DECLARED, scene=separate(4, [0.0] * 14, 11, (0.0, 0.0, 0.0, 1.0))),
            claims=lambda: one_sided(4, "1", "1"),
        ),
        Case(
            name="threshold response, declared: one pool that shrinks, 2 asked",
            campaign=ThresholdRuns(selector=DECLARED, scene=shrinking(4, [0.0] * 5 + [1.0] * 3, 2)),
            claims=lambda: one_sided(4, "1", "1"),
        ),
        Case(
            name="threshold response, counted: alone in the upper bin, 1 of 4",
            campaign=ThresholdRuns(selector=COUNTED, scene=separate(3, [0.25] * 3, 1)),
            claims=lambda: one_sided(3, "1", "1", threshold="1"),
        ),
        Case(
            name="threshold response, counted: all in the upper bin, 5 of 7",
            campaign=ThresholdRuns(selector=FAINT, scene=separate(2, [0.75] * 6, 5)),
            claims=lambda: one_sided(2, "0.5", "0.5", threshold="1"),
        ),
        Case(
            name="threshold response, counted, by sides: in the lower bin, 5 of 7",
            campaign=ThresholdRuns(selector=FAINT, scene=replace(separate(2, [0.75] * 6, 5, 0.3), sides=True)),
            claims=lambda: one_sided(2, "0.5", "0.5", threshold="1", sides=True),
        ),
        Case(
            name="threshold response that tells how many were dropped, 2 of 3",
            campaign=ThresholdRuns(selector=TELLING, scene=separate(2, [1.0] * 2, 2)),
            claims=lambda: composed_claim(Composed(events=TELLING.price(2, 3)), 2, delta=0.0),
        ),
        Case(
            name="threshold response, counted, in 4 shards, 5 asked of each",
            campaign=ThresholdRuns(selector=FAINT, scene=in_shards(4, 28, 0.75, 5)),
            claims=lambda: by_shards(4, "0.5", "0.5", "1"),
        ),
    ]


def selection_cases() -> list[Case]:
    """All of them."""
    return [*laplace_cases(), *gaussian_cases(), *threshold_cases()]
