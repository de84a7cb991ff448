"""A reset that is paid for: the model is thrown away when it is wrong too often.

Of every ``window`` records that are asked, those whose label the model got wrong when it came are counted, noisily. A
record is counted once, by 0 or 1, and its null by 0: the count has sensitivity 1, costs ``epsilon`` once, and only
those who are asked pay it. Where persons are protected, of whom so many records may be counted, its noise is for as
many. Its window closes by ask bits alone; labels that do not come are no mistakes.

A reset decided by things that were released already costs nothing: call `StreamLearner.reset`.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from discreet.errors import BadInput
from discreet.privacy.events import DiscreteLaplace
from discreet.privacy.exact import Number, exact_decimal


@dataclass(frozen=True, kw_only=True)
class DriftWatch:
    """Reset when more than ``most`` of ``window`` asked records were mistakes, by a noisy count at ``epsilon``."""

    epsilon: Decimal
    window: int
    most: float

    def __init__(self, *, epsilon: Number, window: int, most: float) -> None:
        number = exact_decimal(epsilon, "epsilon")
        if number <= 0 or type(window) is not int or window < 1 or not 0 < most < 1:
            raise BadInput(
                "a watch for drift", "its epsilon, window or share is out of range", "Try 0.1, 200 asked and 0.4"
            )
        for name, value in (("epsilon", number), ("window", window), ("most", float(most))):
            object.__setattr__(self, name, value)

    def event(self, records: int = 1) -> DiscreteLaplace:
        """What it costs a record that is asked, or a person of so many ``records``."""
        return DiscreteLaplace(epsilon=self.epsilon, sensitivity=records)

    def drifted(self, count: int) -> bool:
        """Whether a noisy count is too many."""
        return count > self.most * self.window

    def to_json(self) -> dict[str, Any]:
        """Its numbers."""
        return {"epsilon": str(self.epsilon), "window": self.window, "most": self.most}
