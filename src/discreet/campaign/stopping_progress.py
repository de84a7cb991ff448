"""How far a campaign has come: all that a stopping rule may read.

Guarantee: numbers that are public or paid for, and nothing else. An accuracy comes as the `Evaluation` that says how it
was measured; a number by itself is refused, and so is a simulated one in a campaign that is none (its noise hides
nobody).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from discreet.errors import BadInput
from discreet.privacy.exact import exact_decimal

if TYPE_CHECKING:
    from discreet.trainers.accuracy import Evaluation

MOST = 10**15


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a campaign has come, in numbers that are public or paid for. Audience: world.

    labels       labels asked for so far (asked, not answered: who answers may depend on the record); of a hidden
                 selection as many as were planned, for how many were asked is private there
    phases       phases that are finished; after the first training, 1
    epsilon      what was spent so far, by the ledger's gauge
    evaluations  by phase (0 is the first): an `Evaluation`, public or paid. A bare number is refused
    simulation   whether the campaign is one; a production campaign reads no simulated evaluation
    """

    labels: int
    phases: int
    epsilon: Decimal = Decimal(0)
    evaluations: Mapping[int, Evaluation] = field(default_factory=dict)
    simulation: bool = False

    def __post_init__(self) -> None:
        for name in ("labels", "phases"):
            checked_count(getattr(self, name), name, least=0)
        object.__setattr__(self, "epsilon", _spent(self.epsilon))
        for phase, found in self.evaluations.items():
            checked_count(phase, "the phase of an evaluation", least=0)
            if phase >= self.phases:
                raise BadInput(f"an evaluation of phase {phase}", f"{self.phases} are finished", "They count from 0")
            _paid_for(found, simulation=self.simulation)
        object.__setattr__(self, "evaluations", MappingProxyType(dict(sorted(self.evaluations.items()))))


def _spent(value: Any) -> Decimal:
    """A ledger's total as it is, however many digits its exact sum has; other numbers as their writer meant them."""
    spent = value if isinstance(value, Decimal) else exact_decimal(value, "epsilon spent")
    if not spent.is_finite() or spent < 0:
        raise BadInput("epsilon spent", "it is a finite number from 0", "Give the ledger's total")
    return spent


def checked_count(value: Any, name: str, *, least: int) -> None:
    """Raise `BadInput` unless ``value`` is a whole number from ``least``."""
    if type(value) is not int or not least <= value <= MOST:
        raise BadInput(name, f"they are counted by a whole number from {least}", "Count again")


def _paid_for(found: Any, *, simulation: bool) -> None:
    """An accuracy is read from an evaluation that says how it came to be, or not at all."""
    from discreet.trainers.accuracy import Evaluation

    if type(found) is not Evaluation or found.kind not in ("public", "paid"):
        raise BadInput(
            "an accuracy to stop by",
            "nothing says that it was public or paid for",
            "Give the Evaluation of evaluate_public or evaluate_paid",
        )
    if found.simulation and not simulation:
        raise BadInput("an accuracy to stop by", "it was simulated: its noise hides nobody", "Pay for an evaluation")
    if not all(0 <= end <= 1 for end in (found.accuracy, found.low, found.high)):  # NaN is not
        raise BadInput("an accuracy to stop by", "it is not a share with an interval", "Evaluate again")
