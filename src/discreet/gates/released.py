"""What a gate let out, and beside it what its owner alone may know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.privacy.release_gate import ReleaseGate


@dataclass(frozen=True, kw_only=True)
class OwnersFigures:
    """Counts of a log as it was read. Audience: owner. They are exact and unpaid for: never print them to the world."""

    rows: int
    """All that were read, the broken among them."""
    broken: int = 0
    """Lines that could not be taken apart, or held no UTF-8."""
    without_text: int = 0
    """Rows whose text is missing, empty, or not to be counted."""
    without_unit: int = 0
    """Rows with a text that name no person (or row)."""
    units: int | None = None
    """Distinct persons or row ids, where the engine counted them."""
    kept: int | None = None
    """Coins that fell: rows, or (unit, value) pairs."""
    values_about: int | None = None
    """Distinct values, estimated to a percent or so, where the engine keeps a sketch of them."""
    units_about: int | None = None
    """Distinct persons or row ids, in the same way."""

    def to_json(self) -> dict[str, int | None]:
        """Plain numbers, for the owner."""
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True)
class Released:
    """The values that passed, in the order of their UTF-8 bytes: the order says nothing. Paid for; for anybody.

    ``texts`` is an Arrow array of strings; ``counts``, where they were paid for, how many units kept each (numpy).
    ``figures`` are the owner's and stay behind.
    """

    texts: Any
    counts: Any | None
    event: ReleaseGate
    simulation: bool
    figures: OwnersFigures

    def __len__(self) -> int:
        """How many values passed."""
        return len(self.texts)

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<Released {len(self)} values, k={self.event.k}, beta={self.event.beta}>"
