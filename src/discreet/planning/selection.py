"""From what a user says about selection to committed terms: caps on misses, shards, shares from above."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from decimal import ROUND_UP, Decimal

from discreet.errors import BadInput
from discreet.planning.for_everyone import Mechanism, terms_for_everyone
from discreet.privacy.exact import Number, exact_decimal, exact_minus, exact_sum, share_of
from discreet.privacy.hidden_slots import BINS, HiddenSlots
from discreet.privacy.plan import Accountant
from discreet.privacy.selection_terms import SelectionKind, SelectionTerms

DEFAULT_HIGH_SHARE = 0.5
"""Share of a cohort planned as asked from above the threshold when no pool size says better."""


def selection_terms(
    *,
    queries: tuple[int, ...],
    budget_epsilon: Decimal,
    epsilon: Number = 0,
    kind: SelectionKind = "one-sided",
    threshold_epsilon: Number = 0,
    missed: tuple[Number, ...] | None = None,
    shards: str | tuple[Number, ...] = "even",
    individual_rates: bool = False,
    high_share: float | None = None,
    reads_training_data: bool = False,
    initial: int = 0,
    pool_size: int | None = None,
    delta: Decimal = Decimal(0),
    bins: int = BINS,
    mechanism: Mechanism = "laplace",
    subsample: float | None = None,
    selection_delta: Number | None = None,
    accountant: Accountant = "pld",
    releases: Sequence[str | date] = (),
) -> SelectionTerms:
    """Committed terms for ``len(queries)`` queries.

    Without ``missed``, the caps on misses are the largest that cost nothing: they sum to at most eps_a before the
    last query, so backward is never worse than forward, and the last one takes what a never-asked record may still
    lose. With a pool size they are shared out by what each query needs; with individual rates too, where records
    asked from below do pay for misses, they are what each query needs and a fifth more.

    A hidden selection has no caps; its cohorts get slots, for which it keeps a part of ``delta``. ``releases``: the
    planned release date of each of its phases; without them its claim does not cover time.

    ``mechanism``: of *paper* and *apart*, what a query is. Gaussian ones are *apart*, with ``selection_delta`` (half of
    delta, if it is left out) for all of them together; ``accountant`` finds their noise.
    """
    asked, tau = exact_decimal(epsilon, "selection epsilon"), exact_decimal(threshold_epsilon, "threshold epsilon")
    count = len(queries)
    if releases and kind != "hidden":
        raise BadInput(
            f"release dates with {kind} selection",
            "its asked sets are public, and so is when they were asked",
            "Leave them out, or choose hidden",
        )
    if individual_rates and (kind in ("paper", "hidden", "apart") or asked == 0):
        raise BadInput(
            "individual rates",
            "they need one-sided prices: only there does a record asked from below lose less",
            "Use selection one-sided or shards with a selection epsilon above 0",
        )
    if kind in ("paper", "apart"):
        return terms_for_everyone(
            kind,
            mechanism,
            queries,
            asked,
            delta=delta,
            selection_delta=selection_delta,
            subsample=subsample,
            accountant=accountant,
            reads_training_data=reads_training_data,
            threshold_epsilon=tau,
            missed=tuple(exact_decimal(cap, "cap on misses") for cap in missed or ()),
        )
    if mechanism != "laplace" or subsample is not None or selection_delta is not None:
        raise BadInput(f"{mechanism} priced as {kind}", "a mechanism is for 'paper' and 'apart'", "Choose one of them")
    if kind == "hidden":
        return _hidden(
            queries, asked, tau, missed, shards, delta, bins, releases, reads_training_data=reads_training_data
        )
    if high_share is not None and not individual_rates:
        raise BadInput("a high share without individual rates", "it would change nothing", "Add --individual-rates")
    pools = [None if pool_size is None else pool_size - initial - sum(queries[:i]) for i in range(count)]
    shares = _shards(shards, count) if kind == "shards" else ()
    if kind == "shards" and pool_size is not None:
        pools = [math.floor(share * (pool_size - initial)) for share in shares]
    if missed is not None:
        caps = tuple(exact_decimal(cap, "cap on misses") for cap in missed)
    elif asked == 0:
        caps = ()
    elif kind == "shards":
        caps = (asked,) * count
    else:
        needs = [_need(k, m, asked) for k, m in zip(queries, pools, strict=True)]
        caps = _free_caps(asked, tau, budget_epsilon, needs)
        if individual_rates and pool_size is not None:
            caps = tuple(min(cap, _with_headroom(need)) for cap, need in zip(caps, needs, strict=True))
    return SelectionTerms(
        kind=kind,
        queries=count,
        epsilon=asked,
        threshold_epsilon=tau,
        missed=caps,
        shards=shares,
        high_shares=high_shares(queries, pools, asked, high_share) if individual_rates else (),
        reads_training_data=reads_training_data,
    )


def _hidden(
    queries: tuple[int, ...],
    asked: Decimal,
    tau: Decimal,
    missed: tuple[Number, ...] | None,
    shards: str | tuple[Number, ...],
    delta: Decimal,
    bins: int,
    releases: Sequence[str | date],
    *,
    reads_training_data: bool,
) -> SelectionTerms:
    """Only thresholds are paid for. What does not go with that is refused by the terms themselves, in their words."""
    planned = bool(queries) and tau > 0 and delta > 0
    slots = None
    if planned:
        slots = HiddenSlots.of(queries, threshold_epsilon=tau, delta=delta, bins=bins, releases=releases)
    return SelectionTerms(
        kind="hidden",
        queries=len(queries),
        epsilon=asked,
        threshold_epsilon=tau,
        missed=tuple(exact_decimal(cap, "cap on misses") for cap in missed or ()),
        shards=() if isinstance(shards, str) else _shards(shards, len(queries)),
        reads_training_data=reads_training_data,
        hidden=slots,
    )


def _free_caps(asked: Decimal, tau: Decimal, total: Decimal, needs: list[float]) -> tuple[Decimal, ...]:
    """Caps that keep sum_{i<T} eps_n,i <= eps_a and the never-asked path within the budget."""
    count = len(needs)
    if count == 0:
        return ()
    most = max(Decimal(0), exact_minus(total, tau * count))  # what a never-asked record may lose to misses
    together = min(asked, most * (count - 1) / count)
    weights = [Decimal(repr(need / sum(needs[:-1]))) for need in needs[:-1]]
    before = [share_of(together * weight, 1) for weight in weights]
    return (*before, min(asked, exact_minus(most, exact_sum(before))))


def coming_caps(
    queries: tuple[int, ...], pools: Sequence[int | None], *, asked: Decimal, lost: Decimal, most: Decimal
) -> tuple[Decimal, ...]:
    """Caps of queries that follow others, which have taken ``lost`` of the ``most`` that a record may lose to misses.

    As `_free_caps`, as far as that goes; where the earlier ones left less, what each query needs and a fifth more.
    """
    if not queries or asked == 0:
        return ()
    needs = [_need(k, m, asked) for k, m in zip(queries, pools, strict=True)]
    free = _free_caps(max(Decimal(0), exact_minus(asked, lost)), Decimal(0), exact_minus(most, lost), needs)
    caps = [min(asked, max(_with_headroom(need), cap)) for need, cap in zip(needs, free, strict=True)]
    left = exact_minus(exact_minus(most, lost), exact_sum(caps[:-1]))
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

    least, most = 0.0, 1.0
    for _ in range(100):
        p = (least + most) / 2
        if above * high(p) + (pool - above) * p > size:
            most = p
        else:
            least = p
    return high(least), least


def high_shares(
    queries: tuple[int, ...], pools: list[int | None], asked: Decimal, given: float | None
) -> tuple[float, ...]:
    """Shares of the cohorts that are expected from above the threshold."""
    if given is not None and not 0 < given < 1:
        raise BadInput(f"a high share of {given}", "it must be between 0 and 1", "Give the expected share, such as 0.5")
    shares = []
    for size, pool in zip(queries, pools, strict=True):
        share = given if given is not None else DEFAULT_HIGH_SHARE
        if given is None and pool and size < pool:
            above = min(2 * size, pool)
            share = above * response_probabilities(size, pool, above, float(asked))[0] / size
        shares.append(round(min(max(share, 0.01), 0.99), 6))
    return tuple(shares)


def _shards(given: str | tuple[Number, ...], count: int) -> tuple[Decimal, ...]:
    if isinstance(given, str):
        if given != "even":
            raise BadInput(
                f"shards {given}", "it is neither 'even' nor a list of shares", "Give shares such as 0.6,0.4"
            )
        if not count:
            return ()
        each = Decimal(1) / count
        rounded = each.quantize(Decimal("1e-9"), rounding=ROUND_UP)
        return (*(rounded,) * (count - 1), exact_minus(Decimal(1), rounded * (count - 1)))
    return tuple(exact_decimal(share, "a shard's share") for share in given)
