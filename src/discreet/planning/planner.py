"""Makes plans: drafts one by RDP, fits it to its budget, or refuses and names the nearest request that is feasible.

Also side by side: the schedules for one request, and what a change of the request would change.

Tightening: a plan made by RDP leaves something over. On the DP-AL paper's CIFAR setting PLD finds 7 to 14% of epsilon
unspent, and whole-number steps leave a little even by RDP. Every noise multiplier is scaled by one factor until the
worst trained path, certified at eps - l(path) by the plan's own accountant, reaches the budget.
Guarantee: a tightened plan is certified, and no path passes the budget in either direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, get_args

import numpy as np

from discreet.errors import BadInput, InfeasiblePlan
from discreet.planning.calibration import least_noise
from discreet.planning.request import PlanRequest, TooLittleLeft
from discreet.planning.schedules import continual_phases, equalised_phases, naive_phases, scout_phases
from discreet.privacy.accounting.rdp import Array, conversion
from discreet.privacy.budget import RATES_PER_COHORT, Budget, Schedule, float_below
from discreet.privacy.plan import Phase, Plan, build_trajectories
from discreet.privacy.trajectories import Trajectory


def make_plan(ask: PlanRequest) -> Plan:
    """The plan for this request: scheduled by RDP, then its noise tightened against its own accountant."""
    try:
        plan = tightened(_draft(ask))
        credit = leftover(plan) if ask.schedule in RATES_PER_COHORT else None
        # what one cohort cannot use, its own rate can
        return plan if credit is None else tightened(_draft(ask, credit))
    except TooLittleLeft as problem:
        raise infeasible(ask, str(problem), _draft) from None


def _draft(ask: PlanRequest, credit: Array | None = None) -> Plan:
    """Phases by RDP, not yet certified."""
    check_losses(ask)
    if ask.schedule == "naive":
        phases = naive_phases(ask)
    elif ask.schedule == "continual":
        phases = continual_phases(ask)
    elif ask.schedule == "scout":
        phases = scout_phases(ask, credit)
    else:
        phases = equalised_phases(ask, credit)
    check_trained(ask, phases)
    return Plan(
        budget=ask.budget,
        schedule=ask.schedule,
        accountant=ask.accountant,
        batch=ask.batch,
        epochs=ask.epochs,
        selection=ask.terms,
        cohorts=ask.cohorts,
        phases=phases,
    ).with_paths()


def check_losses(ask: PlanRequest) -> None:
    """Selection alone must fit, and must leave asked records something."""
    for path in build_trajectories(ask.terms, ask.cohorts, ()):
        loss, trains = max(path.forward, path.backward), path.name != "never-asked"
        if loss > ask.budget.epsilon or (loss == ask.budget.epsilon and trains):
            what = "private quantiles and selection" if ask.terms.quantiles else "selection"
            raise TooLittleLeft(f"the path '{path.name}' would lose {loss} to {what} alone")


def check_trained(ask: PlanRequest, phases: tuple[Phase, ...]) -> None:
    """Nobody pays for labels that never train."""
    for path in build_trajectories(ask.terms, ask.cohorts, phases)[:-1]:
        if not path.training:
            raise TooLittleLeft(f"the path '{path.name}' would have nothing left to train with")


def infeasible(ask: PlanRequest, fact: str, draft: Callable[[PlanRequest], object]) -> InfeasiblePlan:
    """The refusal, naming the nearest request for which ``draft`` succeeds."""

    def works(**changes: Any) -> bool:
        try:
            draft(replace(ask, accountant="rdp", **changes))
        except (TooLittleLeft, BadInput):
            return False
        return True

    if ask.terms.epsilon > 0 and works(selection_epsilon=0, threshold_epsilon=0, missed=None, individual_rates=False):
        nearest = _largest(lambda share: works(selection_epsilon=_down(ask.terms.epsilon * share)))
        if nearest > 0:
            value = f"{_down(ask.terms.epsilon * nearest):f}"
            return InfeasiblePlan(
                f"a selection epsilon of {ask.terms.epsilon} in a budget of {ask.budget.epsilon}",
                fact,
                f"The nearest feasible selection epsilon is {value}",
                {"selection_epsilon": value},
            )
    epsilon = _enough_epsilon(ask, works)
    return InfeasiblePlan(
        f"epsilon={ask.budget.epsilon} at delta={ask.budget.delta}",
        fact,
        f"The nearest feasible epsilon is about {epsilon}",
        {"epsilon": epsilon},
    )


def _largest(works: Callable[[Decimal], bool]) -> Decimal:
    low, high = Decimal(0), Decimal(1)
    for _ in range(9):
        middle = (low + high) / 2
        low, high = (middle, high) if works(middle) else (low, middle)
    return low


def _down(value: Decimal) -> Decimal:
    return Context(prec=3, rounding=ROUND_FLOOR).create_decimal(value)


def _enough_epsilon(ask: PlanRequest, works: Callable[..., bool]) -> str:
    """RDP proves nothing below what its conversion costs at the largest order; start there and go up."""
    least = float(conversion(float(ask.accounted.delta)).min())
    epsilon = max(float(ask.budget.epsilon), least)
    for _ in range(40):
        epsilon *= 1.15
        text = f"{epsilon:.2g}"
        if works(budget=Budget(epsilon=text, delta=ask.budget.delta, unit=ask.budget.unit)):
            return text
    return f"{epsilon:.2g}"


TOLERANCE = 1e-3
"""The worst path ends within this share of the budget."""
WORTH_ANOTHER_ROUND = 0.02
"""A path left this share of the budget below it is planned once more."""


def tightened(plan: Plan) -> Plan:
    """``plan`` with its noise scaled so that its worst trained path reaches the budget."""
    target = float_below(plan.budget.epsilon)
    trained = {path.name: path for path in plan.trajectories if path.training}
    worst, factor, fitting = _likely_worst(plan, trained), 1.0, None
    for _ in range(20):
        scaling = _factor_for(plan, trained[worst], target, start=factor)
        if scaling is None or (fitting is not None and scaling == factor):
            break
        factor = scaling
        certified = plan.rescaled(factor).certified()
        claims = {path.name: certified.claim_of(path) for path in certified.trajectories if path.training}
        worst = max(claims, key=lambda name: claims[name])
        if claims[worst] <= target:
            fitting = certified
            if claims[worst] >= target * (1 - TOLERANCE):
                return certified
    if fitting is not None:  # by RDP a claim can jump past the budget where the best order changes: stay below
        return fitting
    raise TooLittleLeft(f"no scaling of the noise brings every path to the budget by {plan.accountant.upper()}")


def _likely_worst(plan: Plan, trained: dict[str, Trajectory]) -> str:
    """Where to begin: certifying every path by PLD takes seconds, and the worst by RDP is mostly the worst by PLD.

    Of several that RDP holds equal, PLD spares most those that selection has left least.
    """
    delta = float(plan.accounted.delta)
    return max(trained, key=lambda name: (round(trained[name].rdp(delta), 3), -trained[name].selection_loss))


def leftover(plan: Plan) -> Array | None:
    """What each cohort's path stays below the budget, or None when none is left far behind.

    RDP prices both directions by the worse one. A path whose backward losses bind (asked from below the threshold after
    many misses) trains cheaper than that, which only PLD sees: planned again with this credit, its rate rises.
    """
    target = float_below(plan.budget.epsilon)
    left = np.array([target - plan.claim_of(path) if path.training else 0.0 for path in plan.trajectories[:-1]])
    return left if plan.accountant == "pld" and left.max() > WORTH_ANOTHER_ROUND * target else None


def _factor_for(plan: Plan, path: Trajectory, target: float, *, start: float) -> float | None:
    delta, interval, by_pld = float(plan.accounted.delta), path.interval(target), plan.accountant == "pld"

    def claim(factor: float) -> float:
        scaled = path.with_noise_times(factor)
        return scaled.pld(delta, interval) if by_pld else scaled.rdp(delta)

    first = start * 0.95 if by_pld else start
    return least_noise(claim, target, start=first, tolerance=TOLERANCE / 2, smallest=1e-3, largest=1e4)


# -- comparisons


@dataclass(frozen=True, kw_only=True)
class ComparedPlan:
    """One row of a comparison: a plan, or why there is none."""

    label: str
    plan: Plan | None
    reason: str = ""

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole campaign."""
        return sum(phase.steps for phase in self._made.phases)

    @property
    def gradients(self) -> float:
        """Per-record gradients computed, on average."""
        return sum(s.steps * s.expected_batch(self._made.cohorts) for p in self._made.phases for s in p.stages)

    @property
    def final_noise(self) -> float:
        """Noise on the mean gradient in the last phase, per unit of clip norm: sigma / b."""
        return self._made.phases[-1].last.noise_multiplier / self._made.phases[-1].batch

    @property
    def participations(self) -> tuple[float, ...]:
        """Expected steps per record, one number per cohort."""
        return tuple(self._made.participations(c) for c in range(len(self._made.cohorts)))

    @property
    def mean_participations(self) -> float:
        """The same, averaged over all labelled records."""
        sizes = [cohort.size for cohort in self._made.cohorts]
        return sum(p * s for p, s in zip(self.participations, sizes, strict=True)) / sum(sizes)

    @property
    def _made(self) -> Plan:
        assert self.plan is not None
        return self.plan


def compare_schedules(ask: PlanRequest) -> Iterator[ComparedPlan]:
    """The same request under every schedule (with rates per cohort where a schedule has no individual ones)."""
    for schedule in get_args(Schedule):
        individual = ask.individual_rates and schedule in RATES_PER_COHORT
        whole_batches = ask.whole_batches and schedule == "naive"
        changes: dict[str, Any] = {"individual_rates": individual, "whole_batches": whole_batches}
        if schedule != "scout":
            changes |= {"scout_epsilon": None, "scout_epochs": None}
        yield _option(schedule, ask, schedule=schedule, **changes)


def price_list(ask: PlanRequest) -> Iterator[ComparedPlan]:
    """What one more phase, 1,000 more labels, or a smaller epsilon would change."""
    yield _option("as asked", ask)
    yield _option("one more phase", ask, queries=_one_more(ask), missed=None, shards="even")
    yield _option("1,000 more labels", ask, **_thousand_more(ask))
    yield _option("three quarters of epsilon", ask, **_smaller(ask, Decimal("0.75")))
    yield _option("half of epsilon", ask, **_smaller(ask, Decimal("0.5")))


def _option(label: str, ask: PlanRequest, **changes: Any) -> ComparedPlan:
    try:
        return ComparedPlan(label=label, plan=make_plan(replace(ask, **changes)))
    except BadInput as error:
        return ComparedPlan(label=label, plan=None, reason=str(error))


def _one_more(ask: PlanRequest) -> tuple[int, ...]:
    return (*ask.queries, ask.queries[-1] if ask.queries else max(1, ask.initial // 4))


def _thousand_more(ask: PlanRequest) -> dict[str, Any]:
    if not ask.queries:
        return {"initial": ask.initial + 1000}
    return {"queries": (*ask.queries[:-1], ask.queries[-1] + 1000)}


def _smaller(ask: PlanRequest, share: Decimal) -> dict[str, Any]:
    """The whole promise shrinks, what quantiles, scouts and selection may take of it with it."""
    return {
        "budget": Budget(epsilon=ask.budget.epsilon * share, delta=ask.budget.delta, unit=ask.budget.unit),
        "selection_epsilon": ask.terms.epsilon * share,
        "threshold_epsilon": ask.terms.threshold_epsilon * share,
        "scout_epsilon": None if ask.scout_epsilon is None else ask.scout_epsilon * share,
        "quantiles_epsilon": 0 if ask.terms.quantiles is None else ask.terms.quantiles.epsilon * share,
        "missed": None if ask.missed is None else tuple(cap * share for cap in ask.terms.missed),
    }
