"""What is promised: (epsilon, delta) for one unit under one relation.

Guarantee: a `Budget` is an exact value. Its numbers are the decimals the owner wrote; nothing here rounds them.
Relation: *zero-out* compares a dataset with the one in which a unit's record is replaced by a null (bottom score,
gradient 0, counted nowhere). *Replace-one* is a stronger, dearer claim; the accountants price it, the planner does not.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Self, get_args

from discreet.errors import InvalidBudget
from discreet.privacy.exact import Number, exact_decimal, exact_minus, json_number

Unit = Literal["record", "person"]
Relation = Literal["zero-out", "replace-one"]
Accountant = Literal["pld", "rdp"]
Schedule = Literal["naive", "step-amplification", "noise-reduction", "continual"]
SelectionKind = Literal["one-sided", "shards", "paper", "hidden", "separate-budget"]
"""What a plan chooses from."""


class LooseDelta(UserWarning):
    """delta is so large that a mechanism publishing a few whole records would keep the promise."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An (epsilon, delta) promise. delta has no default: nobody should inherit one by accident.

    >>> Budget(epsilon="8", delta="1e-6")
    Budget(epsilon=Decimal('8'), delta=Decimal('0.000001'), unit='record', relation='zero-out')
    """

    epsilon: Decimal = field(metadata={"meaning": "What one unit may lose in all, such as 8."})
    delta: Decimal = field(metadata={"meaning": "The chance that the promise fails; no default. Below 1/(10 x units)."})
    unit: Unit = field(
        default="record", metadata={"meaning": "What is protected: record, or person (sizes then count persons)."}
    )
    relation: Relation = "zero-out"

    def __init__(
        self, *, epsilon: Number, delta: Number, unit: Unit = "record", relation: Relation = "zero-out"
    ) -> None:
        eps = exact_decimal(epsilon, "epsilon", InvalidBudget)
        dlt = exact_decimal(delta, "delta", InvalidBudget)
        if eps <= 0:
            raise InvalidBudget(f"epsilon={eps}", "it must be above 0", "Give what one unit may lose, such as 8")
        if not 0 <= dlt < 1:
            raise InvalidBudget(f"delta={dlt}", "it must be in [0, 1)", "Give a chance far below 1/units")
        if unit not in get_args(Unit):
            raise InvalidBudget(f"unit={unit}", "it is not a unit", f"Choose one of {', '.join(get_args(Unit))}")
        if relation not in get_args(Relation):
            raise InvalidBudget(
                f"relation={relation}", "it is not a relation", f"Choose one of {', '.join(get_args(Relation))}"
            )
        for name, value in (("epsilon", eps), ("delta", dlt), ("unit", unit), ("relation", relation)):
            object.__setattr__(self, name, value)

    def keeping(self, part: Decimal) -> Budget:
        """This promise with ``part`` of its delta kept for something else: what is left to account with."""
        if part == 0:
            return self
        left = exact_minus(self.delta, part)
        return Budget(epsilon=self.epsilon, delta=left, unit=self.unit, relation=self.relation)

    def loose_delta(self, units: int) -> str | None:
        """Why delta is too large for ``units`` protected units (the whole pool), or None when it is not."""
        limit = Decimal(1) / (10 * max(units, 1))
        if self.delta <= limit:
            return None
        return (
            f"delta={float(self.delta):.3g} is above 1/(10 x {units} {self.unit}s) = {float(limit):.3g}: "
            f"with that chance the promise may fail for a {self.unit} outright"
        )

    def warn_if_loose(self, units: int) -> str | None:
        """`loose_delta`, said as a `LooseDelta` warning too."""
        reason = self.loose_delta(units)
        if reason:
            warnings.warn(reason, LooseDelta, stacklevel=3)
        return reason

    def to_json(self) -> dict[str, Any]:
        """A form that reads back to an equal value."""
        return {
            "epsilon": json_number(self.epsilon),
            "delta": json_number(self.delta),
            "unit": self.unit,
            "relation": self.relation,
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The inverse of `to_json`; strict about its keys."""
        expected = {"epsilon", "delta", "unit", "relation"}
        if not isinstance(data, dict) or set(data) != expected:
            raise InvalidBudget("a stored budget", f"its keys are not {sorted(expected)}", "Restore the file")
        return cls(**data)
