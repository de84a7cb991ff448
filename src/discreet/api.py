"""The facade: what a script needs, under short names.

>>> from discreet import plan
>>> made = plan(epsilon=8, delta="4e-6", initial=10000, queries=[3750] * 4, batch=4096, epochs=30, accountant="rdp")
>>> [phase.steps for phase in made.phases]
[73, 132, 189, 243, 296]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet.planning import PlanRequest, make_plan
from discreet.privacy.budget import Budget, Unit
from discreet.privacy.exact import Number
from discreet.privacy.plan import Plan

__all__ = ["plan", "plan_request"]


def plan(
    *,
    epsilon: Number,
    delta: Number,
    initial: int,
    queries: Sequence[int] = (),
    batch: int,
    epochs: int,
    unit: Unit = "record",
    **options: Any,
) -> Plan:
    """What this budget buys: a certified, committed `Plan`. Touches no data; warns (`LooseDelta`) of a loose delta.

    ``options`` are the fields of `discreet.planning.PlanRequest`: schedule, selection, selection_epsilon,
    threshold_epsilon, missed, shards, individual_rates, high_share, accountant, whole_batches, pool_size ...
    """
    ask = plan_request(
        epsilon=epsilon,
        delta=delta,
        initial=initial,
        queries=queries,
        batch=batch,
        epochs=epochs,
        unit=unit,
        **options,
    )
    ask.budget.warn_if_loose(ask.units)
    return make_plan(ask)


def plan_request(
    *, epsilon: Number, delta: Number, unit: Unit = "record", queries: Sequence[int] = (), **options: Any
) -> PlanRequest:
    """The checked request behind `plan`."""
    budget = Budget(epsilon=epsilon, delta=delta, unit=unit)
    return PlanRequest(budget=budget, queries=tuple(queries), **options)
