"""Faults of teacher votes (PATE): injected into the aggregators while an audit target runs. An audit must catch each.

    no-noise              the class with the most votes is released as it is
    shared-records        records are split, not persons: one person moves the votes of several teachers
    uncounted-unstable    a sparse vector goes on after the last unstable answer that was paid for
    half-noise            noise of half the planned size; caught by how often answers are the true ones

Guarantee: what is paid for by a receipt that is not a simulation's stays as it is. Shared records are a
setting of the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from discreet.audit import Fault
from discreet.noise import Seeded, SparseVector
from discreet_research.injected_faults.training_faults import quieter

_LARGER = 1 << 20
"""Votes multiplied by this: noise beside them is nothing."""


@contextmanager
def _louder(times: int) -> Iterator[None]:
    """Votes multiplied by ``times`` before noise is added: the same as noise divided by it."""
    from discreet.oracles import teachers as aggregation

    winner, above = vars(aggregation)["noisy_winner"], SparseVector.above

    def louder_winner(counts: Any, *, receipt: Any, who: str | None = None) -> int:
        votes = np.asarray(counts, dtype=np.int64)
        return int(winner(votes * times if receipt.simulation else counts, receipt=receipt, who=who))

    def louder(self: SparseVector, value: float, threshold: float) -> bool:
        more = times if self._receipt.simulation else 1
        return above(self, more * value, more * threshold)

    with (
        mock.patch.object(aggregation, "noisy_winner", louder_winner),
        mock.patch.object(aggregation, "gaussian", quieter(vars(aggregation)["gaussian"], 1 / times)),
        mock.patch.object(SparseVector, "above", louder),
    ):
        yield


@contextmanager
def _uncounted() -> Iterator[None]:
    """A sparse vector whose positive answers are not counted."""
    from discreet.oracles.teachers import StableAnswer
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

    with mock.patch.object(StableAnswer, "left", property(endless)), mock.patch.object(StableAnswer, "_begun", unpaid):
        yield


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(name="no-noise", inject=partial(_louder, _LARGER)),
        Fault(name="shared-records", settings={"split_by": "record"}),
        Fault(name="uncounted-unstable", inject=_uncounted),
        Fault(name="half-noise", inject=partial(_louder, 2)),
    )
}
