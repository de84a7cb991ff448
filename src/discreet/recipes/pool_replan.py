"""A private pool's campaign, re-planned: the rest of its plan, and what the change costs in figures.

Guarantee: reads the plan, the file and the ledger; no record, and no answer. The figures are public: they follow from
plans and the ledger's entries. *As committed* is what the same charges would have cost by the plan's own accountant,
had they been fixed beforehand: the difference to the new budget is what it costs to decide late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from discreet.campaign.recipe import ReplanRequest
from discreet.config import CampaignConfig
from discreet.errors import BadInput, BudgetExceeded, InfeasiblePlan
from discreet.planning.replanning import Rest, continued_plan
from discreet.planning.request import MOST_EPSILON, TooLittleLeft
from discreet.privacy.budget import float_below, json_number
from discreet.privacy.ledger import Charge, ChargeReason, Ledger, Terms
from discreet.privacy.ledger.admission import ChargeRule, filter_order
from discreet.privacy.ledger.plan_terms import HELD_OUT, lines_of
from discreet.privacy.ledger.terms import Continued, continued_budget
from discreet.privacy.plan import Plan
from discreet.recipes.labelled_records import price_of
from discreet.recipes.pool_queries import units_asked
from discreet.recipes.pool_records import records_each


@dataclass(frozen=True, kw_only=True)
class Replanned:
    """Another plan behind the phases that are done, the ledger's new terms, and both plans in figures."""

    plan: Plan
    terms: Terms
    figures: dict[str, Any]


def replanned(
    config: CampaignConfig, plan: Plan, wish: ReplanRequest, *, ledger: Ledger, done: int, units: int
) -> Replanned:
    """What ``wish`` makes of a campaign whose first ``done`` phases are over. ``units``: in the pool, with those that
    joined it.
    """
    planned = [units_asked(plan, phase) for phase in range(done, len(plan.phases))]
    in_units = wish if wish.labels is None else replace(wish, labels=wish.labels // records_each(config))
    queries = in_units.sizes([size for size in planned if size])
    epsilon = plan.budget.epsilon if wish.epsilon is None else wish.epsilon
    if epsilon > MOST_EPSILON:
        raise BadInput(f"epsilon={epsilon}", "beyond 100 the guarantee protects nobody", "Give less")

    def rest(epsilon: Decimal, queries: tuple[int, ...]) -> Rest:
        budget, kept_delta = continued_budget(
            ledger.terms.budget, epsilon, wish.because, first=ledger.terms.continued is None
        )
        if ledger.terms.continued is None:
            orders: tuple[float, ...] = (filter_order(ledger.opening.terms, epsilon),)
        else:
            orders, kept_delta = ledger.terms.orders, ledger.terms.continued.kept
        return Rest(
            plan=plan,
            done=done,
            queries=queries,
            budget=budget,
            orders=orders,
            continued=Continued(because=wish.because, note=wish.note, kept=kept_delta),
            entries=ledger.entries,
            held_out=price_of(config),
            pool=units,
        )

    try:
        after, terms = continued_plan(rest(epsilon, queries))
    except TooLittleLeft as problem:
        raise _nearest(rest, wish, epsilon, queries, str(problem)) from None
    figures = figures_of(plan, after, ledger=ledger, terms=terms, done=done)
    figures["warnings"] += _over_budget(config, round(sum(cohort.size for cohort in after.cohorts)))
    return Replanned(plan=after, terms=terms, figures=figures)


def _over_budget(config: CampaignConfig, units: int) -> list[str]:
    """The file's limit of labels was set when the campaign began: whoever re-plans may go beyond it, and is told."""
    limit, labels = config.budget.labels, units * records_each(config)
    if limit is None or labels <= limit:
        return []
    return [f"up to {labels} labels in all: the campaign's file has labels = {limit} in [budget]"]


Make = Callable[[Decimal, tuple[int, ...]], Rest]


def _nearest(make: Make, wish: ReplanRequest, epsilon: Decimal, queries: tuple[int, ...], fact: str) -> InfeasiblePlan:
    """The refusal, with the smallest epsilon and the largest sizes that would do, found by trying."""

    def works(epsilon: Decimal, sizes: tuple[int, ...]) -> bool:
        try:
            continued_plan(make(epsilon, sizes))
        except (TooLittleLeft, BadInput):
            return False
        return True

    would_do: dict[str, str] = {}
    smaller = _largest(queries, lambda sizes: works(epsilon, sizes))
    if smaller:
        would_do["queries"] = ",".join(map(str, smaller))
    elif queries and works(epsilon, ()):
        would_do["queries"] = "none"
    if wish.because == "outside" and (more := _smallest(epsilon, lambda eps: works(eps, queries))) is not None:
        would_do["epsilon"] = str(more)
    words = [f"the smallest epsilon that would do is {would_do['epsilon']}"] if "epsilon" in would_do else []
    words += [f"the largest queries are {would_do['queries']}"] if "queries" in would_do else []
    remedy = " and ".join(words) or "Finish the plan as it is, or stop: the claim stays"
    asked = f"re-planning with epsilon {epsilon} and queries {','.join(map(str, queries)) or 'none'}"
    return InfeasiblePlan(asked, fact, remedy[0].upper() + remedy[1:], would_do)


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


# -- both plans in figures


def figures_of(before: Plan, after: Plan, *, ledger: Ledger, terms: Terms, done: int) -> dict[str, Any]:
    """Both plans, every path, what leaving committed mode costs, and what to be warned of."""
    return {
        "before": _plan_form(before, mode=ledger.terms.mode, done=done),
        "after": _plan_form(after, mode=terms.mode, done=done),
        "filter": {"orders": list(terms.orders), "kept_delta": json_number(terms.budget.delta - terms.accounted.delta)},
        "paths": _paths(after, ledger, terms, done),
        "as_committed": _as_committed(after, terms),
        "effect": _effect(before, after),
        "warnings": _warnings(before, ledger, terms),
    }


def _plan_form(plan: Plan, *, mode: str, done: int) -> dict[str, Any]:
    return {
        "mode": mode,
        "epsilon": json_number(plan.budget.epsilon),
        "delta": json_number(plan.budget.delta),
        "claim": plan.claim,
        "labels": round(sum(cohort.size for cohort in plan.cohorts)),
        "phases_left": len(plan.phases) - done,
        "batch": plan.batch,
        "phases": [
            {
                "phase": number,
                "labels": units_asked(plan, number),
                "steps": phase.steps,
                "noise_multiplier": phase.last.noise_multiplier,
                "rates": dict(zip([cohort.label for cohort in plan.cohorts], phase.last.rates, strict=False)),
            }
            for number, phase in enumerate(plan.phases)
            if number >= done
        ],
    }


def _paths(after: Plan, ledger: Ledger, terms: Terms, done: int) -> list[dict[str, Any]]:
    """By path: the gauge under the old terms, the same charges under the filter, and where the new plan ends."""
    rule, old = ChargeRule(terms), {total.path: total.epsilon for total in ledger.totals()}
    balances = rule.start
    for entry in ledger.entries:
        if entry.charges:
            balances = rule.weigh(balances, entry.charges, entry.why)
    now, ends = balances, balances
    try:
        for line in lines_of(after, first=done):
            charge = Charge(who=line.who, event=line.event, count=line.count)
            ends = rule.weigh(ends, [charge], ChargeReason(phase=line.phase, purpose="planned"))
    except BudgetExceeded:  # pragma: no cover - the plan was admitted by the same rule
        raise AssertionError("a plan that was admitted is refused") from None
    limit = ledger.terms.budget.epsilon
    return [
        {
            "path": path.name,
            "spent": None if path.name not in old else json_number(min(old[path.name], limit)),
            "spent_by_filter": json_number(rule.epsilon(now.totals[number])),
            "planned": json_number(rule.epsilon(ends.totals[number])),
        }
        for number, path in enumerate(terms.paths)
        if path.name != HELD_OUT
    ]


def _as_committed(after: Plan, terms: Terms) -> dict[str, Any]:
    delta, by_pld = float_below(terms.accounted.delta), after.accountant == "pld"
    limit = float(after.budget.epsilon)
    costs = [path.pld(delta, path.interval(limit)) if by_pld else path.rdp(delta) for path in after.trajectories]
    return {"accountant": after.accountant, "epsilon": max(costs), "promised": json_number(after.budget.epsilon)}


def _effect(before: Plan, after: Plan) -> dict[str, Any]:
    """What training will notice: noise on the mean gradient for a clip of 1, and steps a record takes part in."""
    return {
        name: {
            "noise_on_the_mean": plan.phases[-1].last.noise_multiplier / plan.phases[-1].batch,
            "steps_a_record": {
                cohort.label: round(plan.participations(number), 2) for number, cohort in enumerate(plan.cohorts)
            },
        }
        for name, plan in (("before", before), ("after", after))
    }


def _warnings(before: Plan, ledger: Ledger, terms: Terms) -> list[str]:
    old, new, warnings = before.budget, terms.budget, []
    if new.epsilon > old.epsilon:
        warnings.append(
            f"The guarantee grows from epsilon {old.epsilon} to {new.epsilon}. Whoever was told {old.epsilon} was told "
            "something that will no longer be true: tell them before you go on."
        )
    if new.delta > old.delta:
        warnings.append(
            f"The guarantee's delta grows from {old.delta} to {new.delta}: the old claim must hold where you would not "
            "have re-planned, the new one where you did, and you chose by what came out."
        )
    if ledger.terms.continued is None:
        warnings.append("The campaign leaves committed mode for good; its claim is then the filter's whole budget.")
    return warnings
