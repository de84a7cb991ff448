"""Two plans side by side in numbers: what a re-planning changes, costs and gives up. Audience: world.

Everything here follows from plans and the ledger's entries. *As committed* is what the same charges would have cost by
the plan's own accountant, had they been fixed beforehand: the difference to the new promise is what it costs to decide
late.
"""

from __future__ import annotations

from typing import Any

from discreet.errors import BudgetExceeded
from discreet.privacy.exact import float_below, json_number
from discreet.privacy.ledger import Charge, Ledger, Terms, Why
from discreet.privacy.ledger.plan_terms import HELD_OUT, lines_of
from discreet.privacy.ledger.standing import Rule
from discreet.privacy.plan import Plan


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
                "labels": round(sum(cohort.size for cohort in plan.cohorts if cohort.phase == number)),
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
    rule, old = Rule(terms), {total.path: total.epsilon for total in ledger.totals()}
    standing = rule.start
    for entry in ledger.entries:
        if entry.charges:
            standing = rule.weigh(standing, entry.charges, entry.why)
    now, ends = standing, standing
    try:
        for line in lines_of(after, first=done):
            charge = Charge(who=line.who, event=line.event, count=line.count)
            ends = rule.weigh(ends, [charge], Why(phase=line.phase, purpose="planned"))
    except BudgetExceeded:  # pragma: no cover - the plan was admitted by the same rule
        raise AssertionError("a plan that was admitted is refused") from None
    most = ledger.terms.budget.epsilon
    return [
        {
            "path": path.name,
            "spent": None if path.name not in old else json_number(min(old[path.name], most)),
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
            "noise_on_the_mean": plan.phases[-1].last.noise_multiplier / plan.batch,
            "steps_a_record": {
                cohort.label: round(plan.participations(number), 2) for number, cohort in enumerate(plan.cohorts)
            },
        }
        for name, plan in (("before", before), ("after", after))
    }


def _warnings(before: Plan, ledger: Ledger, terms: Terms) -> list[str]:
    old, new, found = before.budget, terms.budget, []
    if new.epsilon > old.epsilon:
        found.append(
            f"The promise grows from epsilon {old.epsilon} to {new.epsilon}. Whoever was told {old.epsilon} was told "
            "something that will no longer be true: tell them before you go on."
        )
    if new.delta > old.delta:
        found.append(
            f"The promise's delta grows from {old.delta} to {new.delta}: the old claim must hold where you would not "
            "have re-planned, the new one where you did, and you chose by what came out."
        )
    if ledger.terms.continued is None:
        found.append("The campaign leaves committed mode for good; its claim is then the filter's whole budget.")
    return found
