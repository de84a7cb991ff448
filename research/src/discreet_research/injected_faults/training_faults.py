"""Faults of the private pool: injected into training while an audit target runs. An audit must catch each.

    no-noise                 gradients are released as they are
    no-clipping              a gradient counts with its whole length
    uncharged-selection      the highest scores are asked, for nothing
    redraw                   a training that was stopped is begun anew, with new noise, for one charge
    half-noise               noise of half the planned size
    fixed-batches            batches of a fixed size, accounted as Poisson samples

The first four are caught by the bound, the last two by their variances.

Guarantee: what is paid for by a receipt that is not a simulation's stays as it is, whatever else the process does
meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from discreet.audit import Fault

REDRAWS = 30
"""How often a process that is stopped again and again trains anew."""


def quieter(drawn: Callable[..., Any], share: float) -> Callable[..., Any]:
    """``drawn`` with ``share`` of its noise, in simulations."""

    def less(value: Any, *, receipt: Any, **options: Any) -> Any:
        noisy = drawn(value, receipt=receipt, **options)
        return value + share * (noisy - value) if receipt.simulation else noisy

    return less


@contextmanager
def _noise(share: float) -> Iterator[None]:
    """Of every Gaussian draw of training."""
    from discreet.trainers.dp_sgd import trainer

    with mock.patch.object(trainer, "gaussian", quieter(vars(trainer)["gaussian"], share)):
        yield


@contextmanager
def _unclipped() -> Iterator[None]:
    from discreet.trainers.dp_sgd import trainer

    class Unclipped(trainer._Step):
        def take(self, stage: Any, receipt: Any) -> None:
            clip = self._clip
            self._clip = clip * 1e3 if receipt.simulation else clip
            super().take(stage, receipt)
            self._clip = clip

    with mock.patch.object(trainer, "_Step", Unclipped):
        yield


@contextmanager
def _redrawn() -> Iterator[list[tuple[int, Any]]]:
    """Every phase is trained again and again, with noise of its own, and charged once."""
    from discreet.noise import Seeded
    from discreet.privacy.budget import Budget
    from discreet.privacy.ledger import Ledger, MemorySink, adaptive
    from discreet.trainers.dp_sgd import DPSGD, charge_training

    trained, further = DPSGD.train, list[tuple[int, Any]]()

    def again(self: DPSGD, *, phase: Any, cohorts: Any, start: Any = None, receipt: Any) -> Any:
        if not all(paid.simulation for paid in (receipt if isinstance(receipt, Sequence) else [receipt])):
            return trained(self, phase=phase, cohorts=cohorts, start=start, receipt=receipt)
        anew = DPSGD(self._model, classes=self.classes, task=self.task, settings=self.settings)
        for number in range(1, REDRAWS):
            uncounted = Ledger.create(
                MemorySink(), adaptive(Budget(epsilon=10**9, delta="1e-9")), source=Seeded(number)
            )
            paid = charge_training(uncounted, phase)
            model = trained(anew, phase=phase, cohorts=cohorts, start=start, receipt=paid)
            further.append((phase.number, model.module))
        return trained(self, phase=phase, cohorts=cohorts, start=start, receipt=receipt)

    with mock.patch.object(DPSGD, "train", again):
        yield further


@contextmanager
def _fixed_batches() -> Iterator[None]:
    from discreet.trainers.dp_sgd import cohorts

    drawn = vars(cohorts)["poisson_mask"]
    rng = np.random.default_rng(0)

    def fixed(slots: int, *, receipt: Any, who: str | None = None) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = drawn(slots, receipt=receipt, who=who)
        if not receipt.simulation:
            return mask
        rates = [charge.event.sampling_rate for charge in receipt.entry.charges if charge.who == who]
        mask = np.zeros(slots, dtype=bool)
        mask[rng.permutation(slots)[: round(rates[0] * slots)]] = True
        return mask

    with mock.patch.object(cohorts, "poisson_mask", fixed):
        yield


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(name="no-noise", inject=partial(_noise, 0.0)),
        Fault(name="no-clipping", inject=_unclipped),
        Fault(name="uncharged-selection", settings={"selector": "exact"}),
        Fault(name="redraw", inject=_redrawn),
        Fault(name="half-noise", inject=partial(_noise, 0.5)),
        Fault(name="fixed-batches", inject=_fixed_batches),
    )
}
