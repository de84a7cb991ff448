"""The facade: what a script needs, under short names.

>>> from discreet import plan
>>> made = plan(epsilon=8, delta="4e-6", initial=10000, queries=[3750] * 4, batch=4096, epochs=30, accountant="rdp")
>>> [phase.steps for phase in made.phases]
[73, 132, 189, 243, 296]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import BadInput
from discreet.planning import make_plan, plan_request
from discreet.privacy.budget import Budget, Unit
from discreet.privacy.exact import Number
from discreet.privacy.plan import Plan

if TYPE_CHECKING:
    from discreet.noise import Source
    from discreet.privacy.events import Event
    from discreet.privacy.ledger import Ledger

__all__ = ["create_ledger", "open_ledger", "plan", "plan_request"]


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


def create_ledger(
    path: Path | str,
    *,
    plan: Plan | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    unit: Unit = "record",
    seed: int | None = None,
    held_out: Event | None = None,
) -> Ledger:
    """A new ledger in a file: committed to ``plan``, or adaptive under (``epsilon``, ``delta``).

    ``held_out``: with a plan, what evaluating on records kept apart costs them in every phase
    (`discreet.trainers.evaluation.evaluation_event`).

    Its noise comes from the operating system, unless ``seed`` is given: then it is a simulation for ever.
    """
    from discreet.privacy.ledger import FileSink, Ledger, adaptive, terms_of

    if (plan is None) == (epsilon is None or delta is None):
        raise BadInput("creating a ledger", "it needs a plan, or an epsilon and a delta", "Give one of the two")
    if plan is not None:
        terms = terms_of(plan, held_out=held_out)
    else:
        assert epsilon is not None
        assert delta is not None
        terms = adaptive(Budget(epsilon=epsilon, delta=delta, unit=unit))
    return Ledger.create(FileSink(path), terms, source=_source(seed))


def open_ledger(path: Path | str, *, seed: int | None = None) -> Ledger:
    """The ledger in a file, to go on charging it. A simulation is opened with its seed."""
    from discreet.privacy.ledger import FileSink, Ledger

    return Ledger.open(FileSink(path, must_exist=True), source=_source(seed))


def _source(seed: int | None) -> Source:
    from discreet.noise import OperatingSystem, Seeded

    return OperatingSystem() if seed is None else Seeded(seed)
