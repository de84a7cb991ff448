"""What is promised: (epsilon, delta) for one unit under one relation; and exact decimals for such numbers.

A budget of ten tenths must leave exactly zero after ten spends of one tenth, so promised numbers are decimals and their
sums are exact. Computed epsilons are floats; they are rounded *up* before anyone sees them.

Guarantee: a `Budget` is an exact value. Its numbers are the decimals the owner wrote; nothing here rounds them.
Relation: *zero-out* compares a dataset with the one in which a unit's record is replaced by a null (bottom score,
gradient 0, counted nowhere). *Replace-one* is a stronger, dearer claim; the accountants price it, the planner does not.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation
from typing import Any, Literal, Self, get_args

from discreet.errors import BadInput, InvalidBudget

MAX_DIGITS = 30
"""More digits than this in an input are a mistake, not a promise."""

_EXACT = Context(prec=400, traps=[Inexact, InvalidOperation])
"""Room for any sum of inputs; an inexact result is an error, never a rounding."""

Number = Decimal | int | str | float


def exact_decimal(value: Number, name: str, error: type[BadInput] = BadInput) -> Decimal:
    """``value`` as the decimal its writer meant: a float is read by its shortest form, so 0.1 is one tenth."""
    if isinstance(value, bool) or not isinstance(value, (Decimal, int, str, float)):
        raise error(f"{name}", f"a {type(value).__name__} is not a number", "Give a decimal such as '0.5'")
    if isinstance(value, str) and not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", value.strip(), re.ASCII):
        raise error(f"{name}", "it is not a decimal number", "Write it like '8' or '1e-6'")
    try:
        number = Decimal(repr(float(value))) if isinstance(value, float) else Decimal(value)
    except InvalidOperation:
        raise error(f"{name}", "it is not a decimal number", "Write it like '8' or '1e-6'") from None
    if not number.is_finite():
        raise error(f"{name}={value}", "it is not finite", "Give a finite decimal")
    digits, exponent = number.as_tuple().digits, number.as_tuple().exponent
    if len(digits) > MAX_DIGITS or not isinstance(exponent, int) or abs(exponent) > 100:
        raise error(f"{name}", f"it has more than {MAX_DIGITS} digits or an exponent beyond 100", "Round it")
    return number


def exact_sum(values: Iterable[Decimal]) -> Decimal:
    """The sum without rounding."""
    total = Decimal(0)
    for value in values:
        total = _EXACT.add(total, value)
    return total


def exact_times(value: Decimal, count: int) -> Decimal:
    """``count`` times ``value`` without rounding."""
    return _EXACT.multiply(value, Decimal(count))


def exact_product(left: Decimal, right: Decimal) -> Decimal:
    """The product without rounding."""
    return _EXACT.multiply(left, right)


def exact_minus(left: Decimal, right: Decimal) -> Decimal:
    """The difference without rounding."""
    return _EXACT.subtract(left, right)


def share_of(total: Decimal, parts: int, places: int = 9) -> Decimal:
    """``whole / parts`` rounded down, so that ``parts`` of them never pass the whole."""
    step = Decimal(1).scaleb(-places)
    return Context(prec=60).divide(total, Decimal(parts)).quantize(step, rounding=ROUND_FLOOR).normalize()


def divided_down(total: Decimal, parts: int) -> Decimal:
    """``whole / parts`` rounded down, whatever decimal context the caller has."""
    return Context(prec=60, rounding=ROUND_FLOOR).divide(total, Decimal(parts))


def float_above(value: Decimal) -> float:
    """The smallest float at or above ``value``."""
    near = float(value)
    return near if Decimal(near) >= value else math.nextafter(near, math.inf)


def float_below(value: Decimal) -> float:
    """The largest float at or below ``value``."""
    near = float(value)
    return near if Decimal(near) <= value else math.nextafter(near, -math.inf)


def rounded_up(value: float, digits: int = 9) -> float:
    """``value``, read as its shortest decimal, rounded up to ``digits`` significant digits; infinities stay."""
    if value == 0 or not math.isfinite(value):
        return value
    return float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(repr(value))))


def json_number(value: Decimal) -> int | float | str:
    """A JSON number where reading it back gives the same decimal, else its text."""
    if value == value.to_integral_value() and abs(value) < 10**15:
        return int(value)
    near = float(value)
    return near if Decimal(repr(near)) == value else str(value)


def shown_up(value: float, places: int = 4) -> str:
    """``value`` for people: fixed ``places``, rounded up, so that a printed epsilon is never below the claimed one."""
    if not math.isfinite(value) or abs(value) >= 1e50:
        return "unbounded" if value > 0 else str(value)
    return str(Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), rounding=ROUND_CEILING))


Unit = Literal["record", "person"]
Relation = Literal["zero-out", "replace-one"]
Accountant = Literal["pld", "rdp"]
Schedule = Literal["naive", "step-amplification", "noise-reduction", "continual", "scout"]
RATES_PER_COHORT: tuple[Schedule, ...] = ("step-amplification", "noise-reduction", "scout")
"""Schedules that give every cohort a sampling rate of its own."""
SelectionKind = Literal["one-sided", "shards", "paper", "hidden", "separate-budget"]
"""What a plan chooses from."""
BINS = 64
"""Counts of the histogram in which a hidden threshold is found, unless the plan says otherwise."""


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
