"""What a list of charges to one unit costs, as a committed ledger will certify it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from discreet.privacy.budget import Budget
from discreet.privacy.events import Event, Repeated
from discreet.privacy.ledger.terms import cost_of
from discreet.privacy.trajectories import Trajectory

Charge = tuple[Event, int]
"""An event, and how often."""


def claimed(charges: Sequence[Charge], budget: Budget) -> Decimal:
    """Epsilon of all ``charges`` together at the budget's delta, by PLD, both directions."""
    training = tuple(Repeated(event=event, count=count) for event, count in charges)
    return cost_of(Trajectory(name="everyone", training=training), budget, by_pld=True)
