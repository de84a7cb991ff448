"""Side by side: the schedules for one request, and what a change of the request would change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, get_args

from discreet.errors import BadInput
from discreet.planning import make_plan
from discreet.planning.request import PlanRequest
from discreet.privacy.budget import Budget
from discreet.privacy.plan import Plan, Schedule


@dataclass(frozen=True, kw_only=True)
class Option:
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
        return self._made.phases[-1].last.noise_multiplier / self._made.batch

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


def compare_schedules(ask: PlanRequest) -> Iterator[Option]:
    """The same request under every schedule (with rates per cohort where a schedule has no individual ones)."""
    for schedule in get_args(Schedule):
        individual = ask.individual_rates and schedule in ("step-amplification", "noise-reduction")
        whole = ask.whole_batches and schedule == "naive"
        yield _option(schedule, ask, schedule=schedule, individual_rates=individual, whole_batches=whole)


def price_list(ask: PlanRequest) -> Iterator[Option]:
    """What one more phase, 1,000 more labels, or a smaller epsilon would change."""
    yield _option("as asked", ask)
    yield _option("one more phase", ask, queries=_one_more(ask), missed=None, shards="even")
    yield _option("1,000 more labels", ask, **_thousand_more(ask))
    yield _option("three quarters of epsilon", ask, **_smaller(ask, Decimal("0.75")))
    yield _option("half of epsilon", ask, **_smaller(ask, Decimal("0.5")))


def _option(label: str, ask: PlanRequest, **changes: Any) -> Option:
    try:
        return Option(label=label, plan=make_plan(replace(ask, **changes)))
    except BadInput as error:
        return Option(label=label, plan=None, reason=str(error))


def _one_more(ask: PlanRequest) -> tuple[int, ...]:
    return (*ask.queries, ask.queries[-1] if ask.queries else max(1, ask.initial // 4))


def _thousand_more(ask: PlanRequest) -> dict[str, Any]:
    if not ask.queries:
        return {"initial": ask.initial + 1000}
    return {"queries": (*ask.queries[:-1], ask.queries[-1] + 1000)}


def _smaller(ask: PlanRequest, share: Decimal) -> dict[str, Any]:
    """The whole promise shrinks, what selection may take of it with it."""
    return {
        "budget": Budget(epsilon=ask.budget.epsilon * share, delta=ask.budget.delta, unit=ask.budget.unit),
        "selection_epsilon": ask.terms.epsilon * share,
        "threshold_epsilon": ask.terms.threshold_epsilon * share,
        "missed": None if ask.missed is None else tuple(cap * share for cap in ask.terms.missed),
    }
