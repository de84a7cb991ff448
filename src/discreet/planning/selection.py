"""Committed prices of selection from what a request says: caps on misses, shards, shares from above, mechanisms.

Queries that every record of the pool pays are priced for the whole pool: pure ones a share each, Gaussian ones together
in a block with a budget of its own. Guarantee: the block's noise is found on the safe side, so that all queries cost at
most the selection epsilon at their part of delta, by the plan's accountant (docs/proofs/apart.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_FLOOR, ROUND_UP, Context, Decimal
from typing import get_args

from discreet.errors import BadInput
from discreet.planning.calibration import gaussian_query
from discreet.planning.parameters import GAUSSIAN, Mechanism, PlanParameters
from discreet.privacy.budget import MAX_DIGITS, Number, exact_decimal, exact_minus, exact_sum, share_of
from discreet.privacy.events import (
    BoundedRange,
    DiscreteLaplace,
    Event,
    Pure,
    Repeated,
)
from discreet.privacy.selection_terms import HiddenSlots, SelectionTerms

DEFAULT_HIGH_SHARE = 0.5
"""Share of a cohort planned as asked from above the threshold when no pool size says better."""


DEFAULT_SUBSAMPLE = 0.7
"""The DP-AL paper's."""


def selection_terms(ask: PlanParameters) -> SelectionTerms:
    """The committed terms of the queries that ``ask`` plans, and of the private quantiles before them."""
    terms, epsilon = _query_terms(ask), exact_decimal(ask.quantiles_epsilon, "quantiles epsilon")
    if epsilon == 0:
        return terms
    return replace(terms, quantiles=DiscreteLaplace(epsilon=epsilon, sensitivity=ask.quantile_cells))


def _query_terms(ask: PlanParameters) -> SelectionTerms:
    kind, queries, count, initial = ask.selection, ask.queries, len(ask.queries), ask.initial
    asked = exact_decimal(ask.selection_epsilon, "selection epsilon")
    tau = exact_decimal(ask.threshold_epsilon, "threshold epsilon")
    if ask.releases and kind != "hidden":
        raise BadInput(
            f"release dates with {kind} selection",
            "its asked sets are public, and so is when they were asked",
            "Leave them out, or choose hidden",
        )
    if ask.individual_rates and (kind in ("paper", "hidden", "separate-budget") or asked == 0):
        raise BadInput(
            "individual rates",
            "they need one-sided prices: only there does a record asked from below lose less",
            "Use selection one-sided or shards with a selection epsilon above 0",
        )
    if kind in ("paper", "separate-budget"):
        return _pool_wide_terms(ask, asked, tau)
    if ask.mechanism != "laplace" or ask.subsample is not None or ask.selection_delta is not None:
        raise BadInput(
            f"{ask.mechanism} priced as {kind}",
            "a mechanism is for 'paper' and 'separate-budget'",
            "Choose one of them",
        )
    if kind == "hidden":
        return _hidden(ask, asked, tau)
    if ask.high_share is not None and not ask.individual_rates:
        raise BadInput("a high share without individual rates", "it would change nothing", "Add --individual-rates")
    pool_size = ask.pool_size
    pools = [None if pool_size is None else pool_size - initial - sum(queries[:i]) for i in range(count)]
    shares = _shards(ask.shards, count) if kind == "shards" else ()
    if kind == "shards" and pool_size is not None:
        pools = [math.floor(share * (pool_size - initial)) for share in shares]
    if ask.missed is not None:
        caps = ask.caps
    elif asked == 0:
        caps = ()
    elif kind == "shards":
        caps = (asked,) * count
    else:
        needs = [_need(k, m, asked) for k, m in zip(queries, pools, strict=True)]
        left = exact_minus(ask.budget.epsilon, exact_decimal(ask.quantiles_epsilon, "quantiles epsilon"))
        caps = _free_caps(asked, tau, left, needs)
        if ask.individual_rates and pool_size is not None:
            caps = tuple(min(cap, _with_headroom(need)) for cap, need in zip(caps, needs, strict=True))
    return SelectionTerms(
        kind=kind,
        queries=count,
        epsilon=asked,
        threshold_epsilon=tau,
        missed=caps,
        shards=shares,
        high_shares=high_shares(queries, pools, asked, ask.high_share) if ask.individual_rates else (),
        reads_training_data=ask.reads_training_data,
    )


def _hidden(ask: PlanParameters, asked: Decimal, tau: Decimal) -> SelectionTerms:
    """Only thresholds are paid for. What does not go with that is refused by the terms themselves, in their words."""
    queries, delta, slots = ask.queries, ask.budget.delta, None
    if queries and tau > 0 and delta > 0:
        slots = HiddenSlots.of(queries, threshold_epsilon=tau, delta=delta, bins=ask.bins, releases=ask.releases or ())
    return SelectionTerms(
        kind="hidden",
        queries=len(queries),
        epsilon=asked,
        threshold_epsilon=tau,
        missed=ask.caps,
        shards=() if isinstance(ask.shards, str) else _shards(ask.shards, len(queries)),
        reads_training_data=ask.reads_training_data,
        hidden=slots,
    )


def _free_caps(asked: Decimal, tau: Decimal, total: Decimal, needs: list[float]) -> tuple[Decimal, ...]:
    """Caps that keep sum_{i<T} eps_n,i <= eps_a and the never-asked path within the budget."""
    count = len(needs)
    if count == 0:
        return ()
    limit = max(Decimal(0), exact_minus(total, tau * count))  # what a never-asked record may lose to misses
    together = min(asked, limit * (count - 1) / count)
    weights = [Decimal(repr(need / sum(needs[:-1]))) for need in needs[:-1]]
    before = [share_of(together * weight, 1) for weight in weights]
    return (*before, min(asked, exact_minus(limit, exact_sum(before))))


def coming_caps(
    queries: tuple[int, ...], pools: Sequence[int | None], *, asked: Decimal, lost: Decimal, limit: Decimal
) -> tuple[Decimal, ...]:
    """Caps of queries that follow others, which have taken ``lost`` of the ``most`` that a record may lose to misses.

    As `_free_caps`, as far as that goes; where the earlier ones left less, what each query needs and a fifth more.
    """
    if not queries or asked == 0:
        return ()
    needs = [_need(k, m, asked) for k, m in zip(queries, pools, strict=True)]
    free = _free_caps(max(Decimal(0), exact_minus(asked, lost)), Decimal(0), exact_minus(limit, lost), needs)
    caps = [min(asked, max(_with_headroom(need), cap)) for need, cap in zip(needs, free, strict=True)]
    left = exact_minus(exact_minus(limit, lost), exact_sum(caps[:-1]))
    return (*caps[:-1], max(Decimal(0), min(asked, left)))


def _with_headroom(need: float) -> Decimal:
    return Decimal(repr(need * 1.2)).quantize(Decimal("1e-6"), rounding=ROUND_UP)


def _need(size: int, pool: int | None, asked: Decimal) -> float:
    """eps_n a query of ``size`` from ``pool`` uses when its threshold stands at the top 2k; 1 when nobody knows."""
    if not pool or size >= pool:
        return 1.0
    high, low = response_probabilities(size, pool, min(2 * size, pool), float(asked))
    return max(math.log((1 - low) / (1 - high)), 1e-6) if high < 1 else float(asked)


def response_probabilities(size: int, pool: int, above: int, asked: float) -> tuple[float, float]:
    """(p_hi, p_lo) with p_hi = min(e^eps_a p, 1 - (1 - p) e^-eps_a) and above p_hi + (pool - above) p_lo = size."""

    def high(p: float) -> float:
        return min(math.exp(asked) * p, 1 - (1 - p) * math.exp(-asked))

    least, high_p = 0.0, 1.0
    for _ in range(100):
        p = (least + high_p) / 2
        if above * high(p) + (pool - above) * p > size:
            high_p = p
        else:
            least = p
    return high(least), least


def high_shares(
    queries: tuple[int, ...], pools: list[int | None], asked: Decimal, declared: float | None
) -> tuple[float, ...]:
    """Shares of the cohorts that are expected from above the threshold."""
    if declared is not None and not 0 < declared < 1:
        raise BadInput(
            f"a high share of {declared}", "it must be between 0 and 1", "Give the expected share, such as 0.5"
        )
    shares = []
    for size, pool in zip(queries, pools, strict=True):
        share = declared if declared is not None else DEFAULT_HIGH_SHARE
        if declared is None and pool and size < pool:
            above = min(2 * size, pool)
            share = above * response_probabilities(size, pool, above, float(asked))[0] / size
        shares.append(round(min(max(share, 0.01), 0.99), 6))
    return tuple(shares)


def _shards(shards: str | tuple[Number, ...], count: int) -> tuple[Decimal, ...]:
    if isinstance(shards, str):
        if shards != "even":
            raise BadInput(
                f"shards {shards}", "it is neither 'even' nor a list of shares", "Give shares such as 0.6,0.4"
            )
        if not count:
            return ()
        each = Decimal(1) / count
        rounded = each.quantize(Decimal("1e-9"), rounding=ROUND_UP)
        return (*(rounded,) * (count - 1), exact_minus(Decimal(1), rounded * (count - 1)))
    return tuple(exact_decimal(share, "a shard's share") for share in shards)


def _pool_wide_terms(ask: PlanParameters, epsilon: Decimal, tau: Decimal) -> SelectionTerms:
    """Terms of queries that every record of the pool pays. By default half of delta is the block's."""
    _check_mechanism(ask)
    queries, mechanism = ask.queries, ask.mechanism
    events: tuple[Event, ...] = ()
    part = Decimal(0)
    if epsilon and queries and mechanism in GAUSSIAN:
        part = _part_of(ask.budget.delta, ask.selection_delta)
        rate = 1.0 if mechanism == "gaussian" else DEFAULT_SUBSAMPLE if ask.subsample is None else ask.subsample
        events = (gaussian_query(epsilon, part, len(queries), rate=rate, accountant=ask.accountant),) * len(queries)
    elif epsilon and queries and mechanism != "laplace":
        events = tuple(_draws(mechanism, share_of(epsilon, len(queries)), queries))
    return SelectionTerms(
        kind=ask.selection,
        queries=len(queries),
        epsilon=epsilon,
        threshold_epsilon=tau,
        missed=ask.caps,
        reads_training_data=ask.reads_training_data,
        events=events,
        delta=part,
    )


def _check_mechanism(ask: PlanParameters) -> None:
    kind, mechanism = ask.selection, ask.mechanism
    if mechanism not in (known := get_args(Mechanism)):
        raise BadInput(f"selection by {mechanism}", "there is no such mechanism", f"Choose one of {', '.join(known)}")
    if (kind == "separate-budget") != (mechanism in GAUSSIAN):
        raise BadInput(
            f"{mechanism} selection priced as {kind}",
            "Gaussian ones have a separate budget, pure ones are priced the paper's way",
            f"Use selection = 'separate-budget' for {' and '.join(GAUSSIAN)}, and only for them",
        )
    if ask.subsample is not None and mechanism != "subsampled-gaussian":
        raise BadInput(f"{mechanism} with a subsample", "it looks at all records", "Drop it")
    if ask.selection_delta is not None and mechanism not in GAUSSIAN:
        raise BadInput(f"{mechanism} with a delta of its own", "its price holds at delta 0", "Drop it")


def _part_of(delta: Decimal, selection_delta: Number | None) -> Decimal:
    if selection_delta is None:
        return Context(prec=MAX_DIGITS - 2, rounding=ROUND_FLOOR).divide(delta, Decimal(2))
    part = exact_decimal(selection_delta, "selection delta")
    if not 0 < part < delta:
        raise BadInput(f"a selection delta of {part}", f"it is no part of delta {delta}", "Leave it out for half of it")
    return part


def _draws(mechanism: Mechanism, share: Decimal, queries: tuple[int, ...]) -> list[Event]:
    """k draws a query, of equal prices that sum to its share."""
    draw = Pure if mechanism == "exponential" else BoundedRange
    return [Repeated(event=draw(epsilon=share_of(share, k)), count=k) for k in queries]
