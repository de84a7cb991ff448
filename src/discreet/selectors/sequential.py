"""The exponential mechanism in sequence: k records, one after the other, each likelier the higher it scores.

Guarantee: draw j is epsilon / k-DP given the ones before (a record changes its own score alone, and upward, so the
mechanism is monotone), and k draws add up to epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.noise import exponential, random_places
from discreet.privacy.events import Event, Pure, Repeated
from discreet.privacy.exact import Number, exact_decimal, share_of
from discreet.privacy.ledger import Receipt
from discreet.records import Selection
from discreet.scorers.own import declared_range
from discreet.selectors.candidates import checked, chosen
from discreet.selectors.receipts import one_receipt, pure_price


@dataclass(frozen=True, kw_only=True)
class ExponentialSelector:
    """``epsilon`` for all k draws together."""

    epsilon: Number
    range: tuple[float, float] = (0.0, 1.0)
    name = "exponential"

    def __post_init__(self) -> None:
        object.__setattr__(self, "range", declared_range(self.range))
        object.__setattr__(self, "epsilon", exact_decimal(self.epsilon, "epsilon"))

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """k draws of epsilon / k."""
        draws = max(min(k, pool_size), 1)
        return (Repeated(event=Pure(epsilon=share_of(exact_decimal(self.epsilon, "epsilon"), draws)), count=draws),)

    def select(
        self, *, ids: Any, scores: Any, k: int, receipt: Receipt | Sequence[Receipt], phase: int = 0
    ) -> Selection:
        """k records; every draw is one of the receipt's."""
        names, values, count = checked(ids, scores, k, self.range)
        paid = one_receipt(receipt)
        if paid.charge_of().count < count:
            raise BadInput(
                "an exponential selection", "its receipt has fewer draws than records to ask", "Charge its price"
            )
        bottom, top = self.range
        left, places = np.arange(len(names)), []
        for _ in range(count):
            place = exponential(values[left] - bottom, sensitivity=top - bottom, receipt=paid, monotone=True)
            places.append(left[place])
            left = np.delete(left, place)
        order = random_places(count, count, where=paid)
        return Selection(
            ids=chosen(names, np.array(places, dtype=np.int64)[order]),
            mechanism=self.name,
            simulation=paid.simulation,
            epsilon=pure_price(paid),
        )
