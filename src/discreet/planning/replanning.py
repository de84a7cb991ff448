"""The rest of a campaign that is re-planned: the phases after those that are done, every path within the filter.

Guarantee: made from the plan, the ledger's entries and the request, all public: planned sizes, never counted ones. The
returned plan's charges are all admitted by the rule that the ledger will apply (docs/proofs/replanning.md). What a
query that is over was committed to stays; the coming ones get new caps. A kind of selection whose past prices would
have to change with the number of queries is refused.

At the filter's one order everything adds up: what a cohort may still spend in training is epsilon, less the conversion,
less what its path lost to choices, less its Rényi sum so far. Schedules are those of a first plan: the cohort with most
room, trained the naive way, says where every cohort should stand after each phase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import BadInput, BudgetExceeded
from discreet.planning.calibration import least_noise
from discreet.planning.request import TooLittleLeft
from discreet.planning.schedules import (
    LEAST_SIGMA,
    MOST_SIGMA,
    balanced_stage,
    epsilon_of,
    scout_stage,
    strongest_stage,
)
from discreet.planning.selection import coming_caps, high_shares
from discreet.planning.spending import CohortSpending
from discreet.privacy.budget import Budget, exact_minus, exact_sum, exact_times, float_above, float_below, share_of
from discreet.privacy.events import BoundedRange, Pure, Repeated
from discreet.privacy.ledger import Charge, ChargeReason, Entry
from discreet.privacy.ledger.admission import Balances, ChargeRule
from discreet.privacy.ledger.plan_terms import continued_terms, lines_of
from discreet.privacy.plan import Cohort, Phase, Plan, Stage
from discreet.privacy.selection_terms import SelectionTerms

if TYPE_CHECKING:
    from discreet.privacy.events import Event
    from discreet.privacy.ledger import Terms
    from discreet.privacy.ledger.terms import Continued


MOST_NOISE = 10
"""Noise this many times the largest so far teaches nothing: such a rest is refused."""
_SAFE = 1 - 1e-9
_ROUNDS = 40


@dataclass(frozen=True, kw_only=True)
class Rest:
    """What is to follow the ``done`` phases of ``plan``: queries of these sizes; without any, one last training.

    entries   of the ledger so far: what every path was charged, whatever was planned
    held_out  what an evaluation costs the records kept apart, where it is paid for
    pool      units in the pool, with those that joined
    """

    plan: Plan
    done: int
    queries: tuple[int, ...]
    budget: Budget
    orders: tuple[float, ...]
    continued: Continued
    entries: Sequence[Entry]
    held_out: Event | None = None
    pool: int | None = None

    def __post_init__(self) -> None:
        for size in self.queries:
            if type(size) is not int or not 1 <= size <= 10**12:
                raise BadInput(f"a query of {size}", "it is not a whole number from 1", "Give sizes, or none")
        asked = sum(cohort.size for cohort in self.plan.cohorts if cohort.phase < self.done) + sum(self.queries)
        if self.pool is not None and asked > self.pool:
            raise BadInput(f"{round(asked)} labels in all", f"the pool has {self.pool} units", "Ask for fewer")
        if self.queries and self.plan.selection.queries < self.done - 1:
            raise BadInput("asking again", "the last phase was trained without a query", "Re-plan with no queries")

    @property
    def phases(self) -> int:
        """Of the whole campaign."""
        return self.done + max(1, len(self.queries))

    @property
    def batch(self) -> int:
        """b: public, and never recomputed."""
        return self.plan.batch

    def size(self, phase: int) -> int:
        """Planned records that train in ``phase``."""
        before = sum(cohort.size for cohort in self.plan.cohorts if cohort.phase < self.done)
        return round(before + sum(self.queries[: phase - self.done + 1]))

    def batch_of(self, phase: int) -> int:
        """b_i."""
        return min(self.batch, self.size(phase))

    def naive_rate(self, phase: int) -> float:
        """q_i = b_i / |D_i|."""
        return self.batch_of(phase) / self.size(phase)

    def naive_steps(self, phase: int) -> int:
        """n_i = floor(e / q_i)."""
        return max(1, self.plan.epochs * self.size(phase) // self.batch_of(phase))

    def scout_steps(self, phase: int) -> int:
        """As many epochs as the first phase had, which was a scout if there was a query."""
        first = self.plan.phases[0]
        return max(1, round(first.steps * first.batch / first.size * self.size(phase) / self.batch_of(phase)))


def continued_plan(rest: Rest) -> tuple[Plan, Terms]:
    """The whole campaign, done phases first, and the terms under which its ledger goes on. Raises `TooLittleLeft`."""
    begun = _without_phases(rest)
    amplify = rest.plan.schedule in ("step-amplification", "continual")
    schedule = "step-amplification" if amplify else rest.plan.schedule
    spending, target = _spending(rest, begun), float_below(rest.budget.epsilon) * _SAFE
    for _ in range(_ROUNDS):
        if schedule == "scout":
            coming = _scouts(rest, spending, target)
        else:
            stages = _stages(rest, spending, target, naive=schedule == "naive", amplify=amplify)
            coming = tuple(
                Phase(size=rest.size(rest.done + n), batch=rest.batch, stages=(stage,))
                for n, stage in enumerate(stages)
            )
        plan = replace(begun, schedule=schedule, phases=(*begun.phases, *coming)).with_paths()
        terms = terms_for(rest, plan)
        if _admitted(rest, plan, terms):
            return plan, terms
        target *= 1 - 1e-7  # the ledger rounds every sum up
    raise TooLittleLeft("some records, perhaps those kept apart for evaluation, have nothing left for so many phases")


def terms_for(rest: Rest, plan: Plan) -> Terms:
    """Under which the ledger goes on with ``plan``."""
    return continued_terms(plan, orders=rest.orders, continued=rest.continued, held_out=rest.held_out)


def _without_phases(rest: Rest) -> Plan:
    """The plan with its coming cohorts and prices of selection, and only the phases that are done."""
    done = [cohort for cohort in rest.plan.cohorts if cohort.phase < rest.done]
    terms = continued_selection(rest.plan, rest.done, rest.queries, rest.budget, rest.pool)
    for phase, size in enumerate(rest.queries, start=rest.done):
        if terms.high_shares:
            high = round(size * terms.high_shares[phase - 1], 6)
            done.append(Cohort(name=f"phase-{phase}", phase=phase, size=high, part="high"))
            done.append(Cohort(name=f"phase-{phase}", phase=phase, size=size - high, part="low"))
        else:
            done.append(Cohort(name=f"phase-{phase}", phase=phase, size=float(size)))  # as it is read back
    return replace(
        rest.plan,
        mode="adaptive",
        budget=rest.budget,
        selection=terms,
        cohorts=tuple(done),
        phases=rest.plan.phases[: rest.done],
    ).with_paths()


def balances_so_far(rest: Rest, terms: Terms) -> tuple[ChargeRule, Balances]:
    """Everything that was charged, on the paths of ``terms``. Raises `TooLittleLeft` if that is too much already."""
    rule = ChargeRule(terms)
    balances = rule.start
    try:
        for entry in rest.entries:
            if entry.charges:
                balances = rule.weigh(balances, entry.charges, entry.why)
    except BudgetExceeded:
        raise TooLittleLeft("what was charged so far is more than the filter allows by itself") from None
    return rule, balances


def _spending(rest: Rest, begun: Plan) -> CohortSpending:
    """Every cohort, with all that its path will have lost to selection, before the training that is to come."""
    terms = terms_for(rest, begun)
    rule, balances = balances_so_far(rest, terms)
    try:
        for line in lines_of(begun, first=rest.done):
            charge = Charge(who=line.who, event=line.event, count=line.count)
            balances = rule.weigh(balances, [charge], ChargeReason(phase=line.phase, purpose="selection"))
    except BudgetExceeded:
        raise TooLittleLeft("the selections alone would take more than is left") from None
    names = [path.name for path in terms.paths]
    totals = [balances.totals[names.index(cohort.label)] for cohort in begun.cohorts]
    losses = np.array([float_above(max(total.forward, total.backward)) for total in totals])
    spending = CohortSpending(begun.cohorts, losses, float_below(terms.accounted.delta), np.array(rest.orders))
    spending.history = np.array([total.spending.curve for total in totals])
    return spending


def _stages(rest: Rest, spending: CohortSpending, target: float, *, naive: bool, amplify: bool) -> list[Stage]:
    history, phases = spending.history.copy(), range(rest.done, rest.phases)
    rooms = [spending.losses[c] + history[c].min() for c in range(spending.entered(rest.done - 1))]
    yardstick = int(np.argmin(rooms))

    def run(sigma: float) -> list[float]:
        """Where the yardstick, or every cohort if they train alike, stands after each phase."""
        spending.history = history.copy()
        stands = []
        for phase in phases:
            spending.spend(_naive(rest, spending, phase, sigma))
            who = range(len(spending.cohorts)) if naive else [yardstick]
            stands.append(max(spending.epsilon(cohort) for cohort in who))
        return stands

    sigma = _calibrated(lambda s: run(s)[-1], target, start=rest.plan.phases[rest.done - 1].last.noise_multiplier)
    targets = [*run(sigma)[:-1], target]
    spending.history = history.copy()
    stages = []
    for phase, wanted in zip(phases, targets, strict=True):
        if naive:
            stage = _naive(rest, spending, phase, sigma)
        else:
            stage = balanced_stage(rest, spending, phase, wanted, sigma, amplify=amplify)
        spending.spend(stage)
        stages.append(stage)
    spending.history = history
    _check_useful(rest, stages)
    return stages


def _scouts(rest: Rest, spending: CohortSpending, target: float) -> tuple[Phase, ...]:
    """After each further query but the last a scout at the price of the first; then one training with the rest."""
    history, first, last = spending.history.copy(), rest.plan.phases[0], rest.phases - 1
    each = epsilon_of(first.last, spending)
    phases = []
    for i in range(rest.done, last):
        stage = scout_stage(rest, spending, i, each)
        spending.spend(stage)
        phases.append(Phase(size=rest.size(i), batch=rest.batch_of(i), stages=(stage,)))
    batch, stage = strongest_stage(rest, spending, last, target)
    phases.append(Phase(size=rest.size(last), batch=batch, stages=(stage,)))
    spending.history = history
    _check_useful(rest, [phase.last for phase in phases])
    return tuple(phases)


def _naive(rest: Rest, spending: CohortSpending, phase: int, sigma: float) -> Stage:
    rates = (rest.naive_rate(phase),) * spending.entered(phase)
    return Stage(steps=rest.naive_steps(phase), noise_multiplier=sigma, rates=rates)


def _calibrated(cost: Callable[[float], float], target: float, *, start: float) -> float:
    sigma = least_noise(cost, target, start=start, tolerance=1e-9, smallest=LEAST_SIGMA, largest=MOST_SIGMA)
    if sigma is None:
        raise TooLittleLeft("nothing is left to train with, whatever the noise")
    return sigma


def _check_useful(rest: Rest, stages: Sequence[Stage]) -> None:
    largest = max(stage.noise_multiplier for phase in rest.plan.phases[: rest.done] for stage in phase.stages)
    worst = max(stage.noise_multiplier for stage in stages)
    if worst > MOST_NOISE * largest:
        raise TooLittleLeft(f"it fits only with {worst / largest:.0f} times the noise so far, which teaches nothing")
    if any(rate == 0 for rate in stages[-1].rates[-1:]) and rest.queries:
        raise TooLittleLeft("the records asked last would have nothing left to train with")


def _admitted(rest: Rest, plan: Plan, terms: Terms) -> bool:
    """Whether the ledger would take every charge that is to come, by its own rule."""
    rule, balances = balances_so_far(rest, terms)
    try:
        for line in lines_of(plan, held_out=rest.held_out, first=rest.done):
            charge = Charge(who=line.who, event=line.event, count=line.count)
            balances = rule.weigh(balances, [charge], ChargeReason(phase=line.phase, purpose="planned"))
    except BudgetExceeded:
        return False
    return True


def continued_selection(
    plan: Plan, done: int, queries: tuple[int, ...], budget: Budget, pool: int | None
) -> SelectionTerms:
    """Terms of the ``done - 1`` queries that are over and of those to come. ``pool``: units, as declared."""
    terms = plan.selection
    over = min(done - 1, terms.queries)
    count = over + len(queries)
    if terms.kind in ("hidden", "separate-budget"):
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
    quantiles = Decimal(0) if terms.quantiles is None else terms.quantiles.epsilon
    caps = coming_caps(
        queries,
        left,
        asked=terms.epsilon,
        lost=Decimal(0) if terms.kind == "shards" else exact_sum(terms.missed[:over]),
        limit=exact_minus(exact_minus(budget.epsilon, quantiles), exact_times(terms.threshold_epsilon, count)),
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
    return [pool - asked - sum(queries[:number]) for number in range(len(queries))]


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
