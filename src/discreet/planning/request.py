"""What a user asks the planner for, checked before anything is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, get_args

from discreet.errors import BadInput, InfeasiblePlan
from discreet.planning.parameters import MOST_QUERIES, SCOUT_EPOCHS, PlanParameters
from discreet.planning.selection import selection_terms
from discreet.privacy.budget import RATES_PER_COHORT, Accountant, Budget, Number, Schedule, Unit, exact_decimal
from discreet.privacy.plan import Cohort
from discreet.privacy.selection_terms import SelectionTerms

MOST_EPSILON = 100
"""Above this sigma leaves the range in which the accountants are trusted, and the promise means nothing."""
MOST_DELTA = Decimal("0.01")
"""A promise that may fail for one in a hundred is none."""


class TooLittleLeft(Exception):
    """Selection, or the budget itself, leaves some records nothing to train with."""


@dataclass(frozen=True, kw_only=True)
class PlanRequest(PlanParameters):
    """A campaign as its owner states it: what may be lost, what will be labelled, how it is trained.

    Its parameters are those of `PlanParameters`; ``terms`` is what they say about the price of selection.
    """

    terms: SelectionTerms = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", tuple(self.queries))
        if self.scout_epsilon is not None:
            object.__setattr__(self, "scout_epsilon", exact_decimal(self.scout_epsilon, "scout epsilon"))
        _check_counts(self)
        object.__setattr__(self, "terms", selection_terms(self))
        _check_choices(self)
        _check_sizes(self)
        _check_budget(self)

    @property
    def accounted(self) -> Budget:
        """What paths are planned for: the budget, less the delta that a hidden selection keeps for its slots, or one
        that is priced apart for its block.
        """
        return self.budget.keeping(self.terms.overflow + self.terms.delta)

    @property
    def sizes(self) -> tuple[int, ...]:
        """|D_i| of every phase."""
        return tuple(self.initial + sum(self.queries[:i]) for i in range(len(self.queries) + 1))

    @property
    def units(self) -> int:
        """How many units the promise protects, as far as the request says: the pool, or at least the labelled."""
        return self.pool_size or self.sizes[-1]

    @property
    def cohorts(self) -> tuple[Cohort, ...]:
        """The initial cohort, then each query's (in two parts where rates are individual)."""
        groups = [Cohort(name="initial", phase=0, size=self.initial)]
        for phase, size in enumerate(self.queries, start=1):
            name = f"phase-{phase}"
            if self.terms.high_shares:
                high = round(size * self.terms.high_shares[phase - 1], 6)
                groups.append(Cohort(name=name, phase=phase, size=high, part="high"))
                groups.append(Cohort(name=name, phase=phase, size=size - high, part="low"))
            else:
                groups.append(Cohort(name=name, phase=phase, size=size))
        return tuple(groups)

    def batch_of(self, phase: int) -> int:
        """b_i: the expected batch, or all records of a phase that has fewer (with the schedule *scout* alone)."""
        return min(self.batch, self.sizes[phase])

    def naive_rate(self, phase: int) -> float:
        """q_i = b_i / |D_i|, or in whole batches 1 / floor(|D_i| / b)."""
        size = self.sizes[phase]
        return 1 / (size // self.batch) if self.whole_batches else self.batch_of(phase) / size

    def naive_steps(self, phase: int) -> int:
        """n_i = floor(e / q_i), computed in whole numbers."""
        size = self.sizes[phase]
        if self.whole_batches:
            return self.epochs * (size // self.batch)
        return self.epochs * size // self.batch_of(phase)

    def scout_steps(self, phase: int) -> int:
        """Steps of the scout of ``phase``."""
        epochs = self.scout_epochs or max(1, round(self.epochs * SCOUT_EPOCHS))
        return epochs * self.sizes[phase] // self.batch_of(phase)


def _check_counts(ask: PlanRequest) -> None:
    counts = {"initial": ask.initial, "batch": ask.batch, "epochs": ask.epochs}
    if ask.scout_epochs is not None:
        counts["scout epochs"] = ask.scout_epochs
    counts |= {f"query {i}": size for i, size in enumerate(ask.queries, start=1)}
    if ask.pool_size is not None:
        counts["pool size"] = ask.pool_size
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10**12:
            raise BadInput(f"{name}={value}", "it must be a whole number from 1 to 10^12", "Count again")
    if len(ask.queries) > MOST_QUERIES:
        raise BadInput(f"{len(ask.queries)} queries", f"at most {MOST_QUERIES} are planned", "Ask more per query")
    if max(ask.epochs, ask.scout_epochs or 0) * ask.sizes[-1] // ask.batch > 10**7:
        raise BadInput("this many steps", "a phase would have more than 10^7", "Lower the epochs or raise the batch")


def _check_choices(ask: PlanRequest) -> None:
    if ask.schedule not in get_args(Schedule):
        raise BadInput(
            f"schedule {ask.schedule}", "there is no such schedule", f"Choose one of {', '.join(get_args(Schedule))}"
        )
    if ask.accountant not in get_args(Accountant):
        raise BadInput(
            f"accountant {ask.accountant}", "there is no such one", f"Choose one of {', '.join(get_args(Accountant))}"
        )
    if ask.budget.relation != "zero-out":
        raise BadInput(
            f"a plan under {ask.budget.relation}",
            "selection prices and trajectories are proven for zero-out only",
            "Plan under zero-out; price single events under replace-one with discreet.privacy.accounting.pld",
        )
    if (ask.scout_epsilon or ask.scout_epochs) and ask.schedule != "scout":
        raise BadInput(f"scouts with {ask.schedule}", "that schedule has none", "Use the schedule scout")
    if ask.scout_epsilon is not None and not 0 < ask.scout_epsilon < ask.budget.epsilon:
        raise BadInput(
            f"a scout epsilon of {ask.scout_epsilon} in a budget of {ask.budget.epsilon}",
            "a scout takes a part of the budget",
            f"Give a number above 0 and below {ask.budget.epsilon}, or leave it out",
        )
    if ask.terms.kind == "hidden" and ask.budget.unit != "record":
        raise BadInput(
            f"a hidden selection for the {ask.budget.unit}",
            "it is proven for records: one score, one slot",
            "Protect records, or choose one-sided",
        )
    if ask.budget.delta == 0:
        raise BadInput("a plan at delta=0", "Gaussian training has no pure guarantee", "Give a delta above 0")
    if ask.whole_batches and ask.schedule != "naive":
        raise BadInput(
            f"whole batches with {ask.schedule}", "only the naive schedule rounds its rates", "Drop --whole-batches"
        )
    if ask.terms.high_shares and ask.schedule not in RATES_PER_COHORT:
        raise BadInput(
            f"individual rates with {ask.schedule}",
            "that schedule has one rate for all cohorts",
            f"Use one of {', '.join(RATES_PER_COHORT)}",
        )


def _check_sizes(ask: PlanRequest) -> None:
    if ask.batch > ask.initial and ask.schedule != "scout":
        raise InfeasiblePlan(
            f"batch={ask.batch} with initial={ask.initial}",
            "the first phase has too few records for that expected batch (its rate would pass 1)",
            f"The nearest feasible batch is {ask.initial}, the nearest feasible initial size {ask.batch}",
            {"batch": str(ask.initial), "initial": str(ask.batch)},
        )
    labelled = ask.sizes[-1]
    if ask.pool_size is not None and labelled > ask.pool_size:
        raise InfeasiblePlan(
            f"{labelled} labels from a pool of {ask.pool_size}",
            "the pool has fewer records than would be labelled",
            f"The nearest feasible pool size is {labelled}",
            {"pool_size": str(labelled)},
        )
    if ask.terms.kind == "shards" and ask.pool_size is not None:
        left = ask.pool_size - ask.initial
        for number, (share, size) in enumerate(zip(ask.terms.shards, ask.queries, strict=True), start=1):
            if size > share * left:
                raise InfeasiblePlan(
                    f"{size} questions of shard {number}",
                    f"it holds {math.floor(share * left)} records on average",
                    f"Give it a share of at least {size / left:.4f}, or ask at most {math.floor(share * left)}",
                    {"shards": f"{size / left:.4f}", "queries": str(math.floor(share * left))},
                )


def _check_budget(ask: PlanRequest) -> None:
    for name, value, largest in (
        ("epsilon", ask.budget.epsilon, MOST_EPSILON),
        ("delta", ask.budget.delta, MOST_DELTA),
    ):
        if value > largest:
            raise InfeasiblePlan(
                f"{name}={value}",
                f"plans are made up to {largest}; beyond it the promise protects nobody",
                f"The nearest feasible {name} is {largest}",
                {name: str(largest)},
            )


def plan_request(*, epsilon: Number, delta: Number, unit: Unit = Budget.unit, **parameters: Any) -> PlanRequest:
    """A checked request, with its budget in plain words. ``parameters``: the fields of `PlanParameters`."""
    return PlanRequest(budget=Budget(epsilon=epsilon, delta=delta, unit=unit), **parameters)
