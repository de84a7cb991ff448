"""Mistakes that an audit must catch, each planted into the real code while a twin runs.

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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.audit.swapping import check_known, swapped

Plant = Literal["no-noise", "no-clipping", "uncharged-selection", "redraw", "half-noise", "fixed-batches"]
PLANTS: tuple[Plant, ...] = get_args(Plant)
REDRAWS = 30
"""How often a process that is stopped again and again trains anew."""
Models = list[tuple[int, Any]]
"""Further models that a run shows, each with its phase."""


def planted(plant: Plant | None, further: Models) -> AbstractContextManager[None]:
    """The mistake, in the real code, for as long as the context lasts. ``further``: what it shows beyond the campaign's
    own models. Uncharged selection is a matter of the twin's plan.
    """
    check_known(plant, PLANTS)
    made: dict[str | None, Callable[[], AbstractContextManager[None]]] = {
        "no-noise": lambda: _noise(0.0),
        "half-noise": lambda: _noise(0.5),
        "no-clipping": _unclipped,
        "fixed-batches": _fixed_batches,
        "redraw": lambda: _redrawn(further),
    }
    return made.get(plant, nullcontext)()


@contextmanager
def counted_batches(into: list[tuple[int, int, float]]) -> Iterator[None]:
    """Note of every step and cohort: how many take part, of how many, and the planned rate."""
    from discreet.privacy.events import PoissonSampledGaussian
    from discreet.trainers.dp_sgd import cohorts

    drawn = vars(cohorts)["poisson_mask"]

    def counted(slots: int, *, receipt: Any, who: str | None = None) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = drawn(slots, receipt=receipt, who=who)
        if not receipt.simulation:
            return mask
        events = [one.event for one in receipt.entry.charges if one.who == who]
        assert isinstance(events[0], PoissonSampledGaussian)
        into.append((int(mask.sum()), slots, events[0].sampling_rate))
        return mask

    with swapped(cohorts, "poisson_mask", counted):
        yield


@contextmanager
def _noise(share: float) -> Iterator[None]:
    """Of every Gaussian draw of training, ``share`` of the noise."""
    from discreet.trainers.dp_sgd import trainer

    drawn = vars(trainer)["gaussian"]

    def less(value: Any, *, receipt: Any, **options: Any) -> Any:
        noisy = drawn(value, receipt=receipt, **options)
        return value + share * (noisy - value) if receipt.simulation else noisy

    with swapped(trainer, "gaussian", less):
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

    with swapped(trainer, "_Step", Unclipped):
        yield


@contextmanager
def _redrawn(further: Models) -> Iterator[None]:
    """Every phase is trained again and again, with noise of its own, and charged once."""
    from discreet.noise import Seeded
    from discreet.privacy.budget import Budget
    from discreet.privacy.ledger import Ledger, MemorySink, adaptive
    from discreet.trainers.dp_sgd import DPSGD, charge_training

    trained = DPSGD.train

    def again(self: DPSGD, *, phase: Any, cohorts: Any, start: Any = None, receipt: Any) -> Any:
        if not all(one.simulation for one in (receipt if isinstance(receipt, Sequence) else [receipt])):
            return trained(self, phase=phase, cohorts=cohorts, start=start, receipt=receipt)
        anew = DPSGD(self._model, classes=self.classes, task=self.task, settings=self.settings)
        for number in range(1, REDRAWS):
            uncounted = Ledger.create(
                MemorySink(), adaptive(Budget(epsilon=10**9, delta="1e-9")), source=Seeded(number)
            )
            paid = charge_training(uncounted, phase)
            made = trained(anew, phase=phase, cohorts=cohorts, start=start, receipt=paid)
            further.append((phase.number, made.module))
        return trained(self, phase=phase, cohorts=cohorts, start=start, receipt=receipt)

    with swapped(DPSGD, "train", again):
        yield


@contextmanager
def _fixed_batches() -> Iterator[None]:
    from discreet.trainers.dp_sgd import cohorts

    drawn = vars(cohorts)["poisson_mask"]
    luck = np.random.default_rng(0)

    def fixed(slots: int, *, receipt: Any, who: str | None = None) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = drawn(slots, receipt=receipt, who=who)
        if not receipt.simulation:
            return mask
        rates = [one.event.sampling_rate for one in receipt.entry.charges if one.who == who]
        mask = np.zeros(slots, dtype=bool)
        mask[luck.permutation(slots)[: round(rates[0] * slots)]] = True
        return mask

    with swapped(cohorts, "poisson_mask", fixed):
        yield
