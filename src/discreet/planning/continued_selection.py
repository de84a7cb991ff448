"""Prices of selection for queries that are re-planned: those that are over keep theirs, the coming ones get caps anew.

Guarantee: what a query that is over was committed to is not touched. A kind of selection whose past prices would have
to change with the number of queries is refused.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from discreet.errors import BadInput
from discreet.planning.selection import coming_caps, high_shares
from discreet.privacy.budget import Budget
from discreet.privacy.events import BoundedRange, Pure, Repeated
from discreet.privacy.exact import exact_minus, exact_sum, exact_times, share_of
from discreet.privacy.plan import Plan
from discreet.privacy.selection_terms import SelectionTerms


def continued_selection(
    plan: Plan, done: int, queries: tuple[int, ...], budget: Budget, pool: int | None
) -> SelectionTerms:
    """Terms of the ``done - 1`` queries that are over and of those to come. ``pool``: units, as declared."""
    terms = plan.selection
    over = min(done - 1, terms.queries)
    count = over + len(queries)
    if terms.kind in ("hidden", "apart"):
        kind = "a hidden selection" if terms.kind == "hidden" else "selections priced apart"
        raise BadInput(
            f"re-planning {kind}",
            "its claim keeps a part of delta for queries that were committed together",
            "Finish the plan, or stop: the claim stays as it is",
        )
    if terms.kind == "shards" and count != terms.queries:
        raise BadInput(
            f"re-planning {terms.queries} shards into {count}",
            "the pool was cut once, a part for each query, and is not cut anew",
            f"Re-plan with {terms.queries - over} further queries, of whatever sizes",
        )
    if terms.kind == "paper":
        return _paper(terms, over, queries)
    if terms.is_free:
        return replace(terms, queries=count)
    left = _left_before(plan, over, queries, pool)
    caps = coming_caps(
        queries,
        left,
        asked=terms.epsilon,
        lost=Decimal(0) if terms.kind == "shards" else exact_sum(terms.missed[:over]),
        most=exact_minus(budget.epsilon, exact_times(terms.threshold_epsilon, count)),
    )
    shares = high_shares(queries, left, terms.epsilon, None) if terms.high_shares else ()
    return replace(
        terms,
        queries=count,
        missed=(*terms.missed[:over], *((terms.missed[over:]) if terms.kind == "shards" else caps)),
        high_shares=(*terms.high_shares[:over], *shares) if terms.high_shares else (),
    )


def _left_before(plan: Plan, over: int, queries: tuple[int, ...], pool: int | None) -> list[int | None]:
    """Units that are left in the pool before each coming query, as planned."""
    if pool is None:
        return [None] * len(queries)
    asked = round(sum(cohort.size for cohort in plan.cohorts if cohort.phase <= over))
    return [pool - asked - sum(queries[:place]) for place in range(len(queries))]


def _paper(terms: SelectionTerms, over: int, queries: tuple[int, ...]) -> SelectionTerms:
    """Every query at the price that one had; the filter adds up what they cost."""
    each, count = terms.per_query(), over + len(queries)
    events = terms.events[:over]
    if terms.events:
        kind = terms.events[0]
        assert isinstance(kind, Repeated)
        draw = Pure if isinstance(kind.event, Pure) else BoundedRange
        events = (*events, *(Repeated(event=draw(epsilon=share_of(each, k)), count=k) for k in queries))
    return replace(terms, queries=count, epsilon=exact_times(each, count), events=events)
