"""Exact decimals for what people promise, and safe rounding for what machines compute.

A budget of ten tenths must leave exactly zero after ten spends of one tenth, so promised numbers are decimals
and their sums are exact. Computed epsilons are floats; they are rounded *up* before anyone sees them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation

from discreet.errors import BadInput

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
