"""Mistakes of teachers that an audit must catch, planted into the real aggregators while a twin runs.

    no-noise              the class with the most votes is told as it is
    shared-records        records are split, not persons: one person moves the votes of several teachers
    uncounted-unstable    a sparse vector goes on after the last unstable answer that was paid for
    half-noise            noise of half the planned size; caught by how often answers are the true ones

Guarantee: what is paid for by a receipt that is not a simulation's stays as it is. Shared records are a matter of the
twin's own split.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Literal, get_args

import numpy as np

from discreet.audit.swapping import check_known, swapped

TeachersPlant = Literal["no-noise", "shared-records", "uncounted-unstable", "half-noise"]
TEACHERS_PLANTS: tuple[TeachersPlant, ...] = get_args(TeachersPlant)
_LARGER = 1 << 20
"""Votes multiplied by this: noise beside them is nothing."""


def planted_in_teachers(plant: str | None) -> AbstractContextManager[None]:
    """The mistake, for as long as the context lasts."""
    check_known(plant, TEACHERS_PLANTS)
    if plant == "uncounted-unstable":
        return _uncounted()
    if plant in ("no-noise", "half-noise"):
        return _louder(_LARGER if plant == "no-noise" else 2)
    return nullcontext()


@contextmanager
def _louder(times: int) -> Iterator[None]:
    """Votes that are ``times`` as loud beside the noise, which is to say: so much less noise."""
    from discreet.noise import SparseVector
    from discreet.oracles.teachers import aggregators

    winner, checked, above = (
        vars(aggregators)["noisy_winner"],
        vars(aggregators)["gaussian"],
        SparseVector.above,
    )

    def louder_winner(counts: Any, *, receipt: Any, who: str | None = None) -> int:
        votes = np.asarray(counts, dtype=np.int64)
        found: int = winner(votes * times if receipt.simulation else counts, receipt=receipt, who=who)
        return found

    def less(value: Any, *, receipt: Any, **options: Any) -> Any:
        noisy = checked(value, receipt=receipt, **options)
        return value + (noisy - value) / times if receipt.simulation else noisy

    def louder(self: SparseVector, value: float, threshold: float) -> bool:
        more = times if self._receipt.simulation else 1
        return above(self, more * value, more * threshold)

    with ExitStack() as all_of:
        all_of.enter_context(swapped(aggregators, "noisy_winner", louder_winner))
        all_of.enter_context(swapped(aggregators, "gaussian", less))
        all_of.enter_context(swapped(SparseVector, "above", louder))
        yield


@contextmanager
def _uncounted() -> Iterator[None]:
    """A sparse vector whose yeses nobody counts."""
    from discreet.noise import Seeded, SparseVector
    from discreet.oracles.teachers.aggregators import StableAnswer
    from discreet.privacy.budget import Budget
    from discreet.privacy.ledger import Ledger, MemorySink, adaptive

    left, begun = vars(StableAnswer)["left"], StableAnswer._begun

    def endless(self: StableAnswer) -> int:
        if not getattr(self, "uncounted", False):
            return int(left.fget(self))
        return self._price.answers - self._asked

    def unpaid(self: StableAnswer) -> SparseVector:
        first = self._epochs is None
        epochs = begun(self)
        if first and epochs._receipt.simulation:
            (epoch, _), _ = self._price.charges
            budget = Budget(epsilon=10**9, delta="1e-9", unit="person")
            uncounted = Ledger.create(MemorySink(), adaptive(budget), source=Seeded(1))
            receipt = uncounted.charge(event=epoch, count=self._price.answers, who="nobody", why="answers")
            self._epochs, self.uncounted = SparseVector(receipt=receipt, sensitivity=1.0), True  # type: ignore[attr-defined]
            return self._epochs
        return epochs

    with swapped(StableAnswer, "left", property(endless)), swapped(StableAnswer, "_begun", unpaid):
        yield
