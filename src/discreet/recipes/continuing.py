"""A private pool's campaign, re-planned: the rest of its plan, and what the change costs in figures.

Guarantee: reads the plan, the file and the ledger; no record, and no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING

from discreet.campaign.replanning import Continuation, Wish
from discreet.errors import BadInput, InfeasiblePlan
from discreet.planning.continuing import Rest, continued_plan
from discreet.planning.feasible import TooLittleLeft
from discreet.planning.request import MOST_EPSILON
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger.amendments import filter_order
from discreet.privacy.ledger.continued import Continued, continued_budget
from discreet.recipes import measuring
from discreet.recipes.replanned_figures import figures_of

if TYPE_CHECKING:
    from discreet.recipes.private_pool import PrivatePool


def continuation(recipe: PrivatePool, wish: Wish, *, ledger: Ledger, done: int, units: int) -> Continuation:
    """What ``wish`` makes of a campaign whose first ``done`` phases are over. ``units``: in the pool, with those that
    joined it.
    """
    planned = [recipe.units_planned(phase) for phase in range(done, recipe.phases)]
    in_units = wish if wish.labels is None else replace(wish, labels=wish.labels // recipe.labels_each)
    queries = in_units.sizes([size for size in planned if size])
    epsilon = recipe.plan.budget.epsilon if wish.epsilon is None else wish.epsilon
    if epsilon > MOST_EPSILON:
        raise BadInput(f"epsilon={epsilon}", "beyond 100 the promise protects nobody", "Give less")

    def rest(epsilon: Decimal, queries: tuple[int, ...]) -> Rest:
        return _rest(recipe, wish, ledger, done, epsilon, queries, units)

    wanted = rest(epsilon, queries)
    try:
        plan, terms = continued_plan(wanted)
    except TooLittleLeft as problem:
        raise _nearest(rest, wish, epsilon, queries, str(problem)) from None
    figures = figures_of(recipe.plan, plan, ledger=ledger, terms=terms, done=done)
    figures["warnings"] += _over_budget(recipe, round(sum(cohort.size for cohort in plan.cohorts)))
    return Continuation(recipe=replace(recipe, plan=plan), terms=terms, plan=plan.to_json(), figures=figures)


def _over_budget(recipe: PrivatePool, units: int) -> list[str]:
    """The file's limit of labels was set when the campaign began: whoever re-plans may go beyond it, and is told."""
    limit, labels = recipe.config.budget.labels, units * recipe.labels_each
    if limit is None or labels <= limit:
        return []
    return [f"up to {labels} labels in all: the campaign's file has labels = {limit} in [budget]"]


def _rest(
    recipe: PrivatePool, wish: Wish, ledger: Ledger, done: int, epsilon: Decimal, queries: tuple[int, ...], units: int
) -> Rest:
    config, terms = recipe.config, ledger.terms
    budget, kept = continued_budget(terms.budget, epsilon, wish.because, first=terms.continued is None)
    if terms.continued is None:
        orders: tuple[float, ...] = (filter_order(ledger.opening.terms, epsilon),)
    else:
        orders, kept = terms.orders, terms.continued.kept
    return Rest(
        plan=recipe.plan,
        done=done,
        queries=queries,
        budget=budget,
        orders=orders,
        continued=Continued(because=wish.because, note=wish.note, kept=kept),
        entries=ledger.entries,
        held_out=measuring.price_of(config),
        pool=units,
    )


Make = Callable[[Decimal, tuple[int, ...]], Rest]


def _nearest(make: Make, wish: Wish, epsilon: Decimal, queries: tuple[int, ...], fact: str) -> InfeasiblePlan:
    """The refusal, with the smallest epsilon and the largest sizes that would do, found by trying."""

    def works(epsilon: Decimal, sizes: tuple[int, ...]) -> bool:
        try:
            continued_plan(make(epsilon, sizes))
        except (TooLittleLeft, BadInput):
            return False
        return True

    found: dict[str, str] = {}
    smaller = _largest(queries, lambda sizes: works(epsilon, sizes))
    if smaller:
        found["queries"] = ",".join(map(str, smaller))
    elif queries and works(epsilon, ()):
        found["queries"] = "none"
    if wish.because == "outside" and (more := _smallest(epsilon, lambda eps: works(eps, queries))) is not None:
        found["epsilon"] = str(more)
    words = [f"the smallest epsilon that would do is {found['epsilon']}"] if "epsilon" in found else []
    words += [f"the largest queries are {found['queries']}"] if "queries" in found else []
    remedy = " and ".join(words) or "Finish the plan as it is, or stop: the claim stays"
    asked = f"re-planning with epsilon {epsilon} and queries {','.join(map(str, queries)) or 'none'}"
    return InfeasiblePlan(asked, fact, remedy[0].upper() + remedy[1:], found)


def _largest(queries: tuple[int, ...], works: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
    """The largest share of these sizes that works; empty if none does."""

    def share(part: int) -> tuple[int, ...]:
        return tuple(max(1, size * part // 64) for size in queries)

    if not queries or not works(share(1)):
        return ()
    low, high = 1, 64
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if works(share(middle)) else (low, middle)
    return share(low)


def _smallest(epsilon: Decimal, works: Callable[[Decimal], bool]) -> Decimal | None:
    """The smallest epsilon that works, to a hundredth of itself, rounded up."""
    low, high = epsilon, epsilon
    while not works(high):
        low, high = high, high * Decimal("1.25")
        if high > MOST_EPSILON:
            return None
    while high - low > high / 200:
        middle = (low + high) / 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return Context(prec=3, rounding=ROUND_CEILING).create_decimal(high)
