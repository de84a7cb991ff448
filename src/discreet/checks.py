"""Checks of single values: each is made once, beside the key it belongs to, and turns what a file says into a value.

A check takes what `tomllib` (or JSON) gives and returns the value, or raises `Wrong` with what is so and what to do.
Values of a campaign's file are parameters, so they may be echoed, shortened; nothing here reads a record.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from discreet.errors import BadInput, alternatives
from discreet.privacy.budget import exact_decimal

Check = Callable[[Any], Any]
MOST_TEXT, MOST_LIST, MOST_DEPTH, MOST_PROBLEMS = 1000, 100_000, 8, 5
MOST_COUNT = 10**12
_PLACE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


class Wrong(Exception):
    """A value that cannot be taken. ``at``: where inside it; ``others``: what else is wrong with it."""

    def __init__(
        self, fact: str, remedy: str, at: tuple[str | int, ...] = (), *, others: tuple[Wrong, ...] = ()
    ) -> None:
        super().__init__(fact)
        self.fact, self.remedy, self.at, self.others = fact, remedy, at, others


def shown(value: Any) -> str:
    """``value`` in few words, safe to print."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(value) if len(value) <= 40 else f"{value[:40]!r}..."
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 38 digits"
    if isinstance(value, (int, float, Decimal)):
        return str(value)[:45]
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, dict):
        return "a table"
    return "a date or time" if hasattr(value, "isoformat") else "nothing"


def nearest(name: str, known: list[str] | tuple[str, ...]) -> str:
    """What to do about a name that is not known: the nearest one, or all."""
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"The nearest is {close[0]}" if close else f"Choose one of {', '.join(known)}"


def text(*, what: str = "text", most: int = MOST_TEXT) -> Check:
    """Some printable characters, on one line, without blanks around them."""

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise Wrong(f"{shown(value)} is not {what}", "Write it in quotes")
        if not value or len(value) > most or not value.isprintable() or value != value.strip():
            raise Wrong(
                f"{shown(value)} is empty, longer than {most}, or has blanks around it or odd characters in it",
                f"Give {what} of 1 to {most} characters on one line",
            )
        return value

    return check


def name_of_campaign(value: Any) -> str:
    """Letters, digits and a few signs between them: it appears in file names and tables."""
    name: str = text(what="a name", most=100)(value)
    if not re.fullmatch(r"\w[\w .-]*", name) or name.endswith("."):
        raise Wrong(f"{shown(name)} has other signs than letters, digits, space, point, _ and -", "Choose a plain name")
    return name


def address(value: Any) -> str:
    """Of a store. Never echoed: somebody may have written a password into it."""
    try:
        url: str = text()(value)
    except Wrong:
        raise Wrong("it is not an address", "Write it in quotes, like 'sqlite:///scans.db'") from None
    return url


def place(value: Any) -> str:
    """``module:callable``."""
    path: str = text(what="module:callable")(value)
    if not _PLACE.fullmatch(path):
        raise Wrong(f"{shown(path)} is not of the form module:callable", "Write it like 'mycode:function'")
    return path


def choice(*names: str) -> Check:
    """One of these words."""

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise Wrong(f"{shown(value)} is not a word", f"Choose one of {', '.join(names)}")
        if value not in names:
            raise Wrong(f"there is no {shown(value)}", alternatives(value, names))
        return value

    return check


def named(*names: str) -> Check:
    """One of these, or somebody's own ``module:callable``."""
    return lambda value: place(value) if isinstance(value, str) and ":" in value else choice(*names)(value)


WORD = text(what="a word", most=200)


def part_name(*names: str) -> Check:
    """A word. Whether a part of that name is installed is a rule, so that a stored name is read without it."""
    return lambda value: WORD(value) if isinstance(value, str) else choice(*names)(value)


def day(value: Any) -> str:
    """A day of the calendar, as text or as TOML writes a date; as text."""
    from discreet.privacy.selection_terms import release_date  # imports numpy

    try:
        return release_date(value).isoformat()
    except BadInput:
        raise Wrong(f"{shown(value)} is not a day of the calendar", "Write it like '2027-01-15'") from None


def truth(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Wrong(f"{shown(value)} is neither true nor false", "Write true or false, without quotes")
    return value


def whole(least: int = 1, most: int = MOST_COUNT) -> Check:
    """A whole number, both ends allowed."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Wrong(
                f"{shown(value)} is not a whole number from {least} to {most}", f"Write digits alone, such as {least}"
            )
        return value

    return check


def number(least: float, most: float, *, open_ends: bool = False, such_as: str = "1.0") -> Check:
    """A float in a range; without its ends if ``open_ends``."""

    def check(value: Any) -> float:
        number = _as_float(value)
        fits = number is not None and (least < number < most if open_ends else least <= number <= most)
        if number is None or not fits:
            words = f"between {least:g} and {most:g}" if open_ends else f"from {least:g} to {most:g}"
            raise Wrong(f"{shown(value)} is not a number {words}", f"Write a number without quotes, such as {such_as}")
        return number

    return check


def _as_float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    try:
        return float(value)
    except (OverflowError, ValueError):  # beyond floats; a signalling NaN
        return None


def exact(*, zero: bool, below: int | None = None, such_as: str = "'0.5'") -> Check:
    """An exact decimal, as written: of a guarantee nothing is rounded. ``zero``: whether 0 is allowed."""

    def check(value: Any) -> Decimal:
        try:
            decimal = exact_decimal(value, "it")
        except BadInput as error:
            fact = error.fact.replace("it is", f"{shown(value)} is", 1)
            raise Wrong(fact, f"Write a decimal such as {such_as}") from None
        if decimal < 0 or (decimal == 0 and not zero) or (below is not None and decimal >= below):
            words = "at least 0" if zero else "above 0"
            words += "" if below is None else f" and below {below}"
            raise Wrong(f"{shown(value)} is not {words}", f"Write a decimal such as {such_as}")
        return decimal

    return check


def listed(
    check: Check, *, least: int = 0, most: int = MOST_LIST, distinct: bool = False, such_as: str = "[1, 2]"
) -> Check:
    """A list of such values."""

    def check_all(values: Any) -> tuple[Any, ...]:
        if not isinstance(values, (list, tuple)):
            raise Wrong(f"{shown(values)} is not a list", f"Write it like {such_as}")
        if not least <= len(values) <= most:
            raise Wrong(f"it has {len(values)} entries, and {least} to {most} are allowed", f"Write it like {such_as}")
        checked, problems, seen = list[Any](), list[Wrong](), set[Any]()
        for position, value in enumerate(values):
            try:
                checked.append(_within(check, value, position))
                if distinct and checked[-1] in seen:
                    problems.append(Wrong(f"{shown(checked[-1])} stands in it twice", "Name each once", (position,)))
                seen |= {checked[-1]} if distinct else set()
            except Wrong as wrong:
                problems.append(wrong)
        if problems:
            first, *others = problems[:MOST_PROBLEMS]
            raise Wrong(first.fact, first.remedy, first.at, others=tuple(others))
        return tuple(checked)

    return check_all


def _within(check: Check, value: Any, position: str | int) -> Any:
    try:
        return check(value)
    except Wrong as wrong:
        raise Wrong(wrong.fact, wrong.remedy, (position, *wrong.at)) from None


def either(first: Check, kind: type | tuple[type, ...], second: Check) -> Check:
    """``first`` for values of ``kind``, else ``second``."""
    return lambda value: first(value) if isinstance(value, kind) else second(value)


def options(value: Any, depth: int = MOST_DEPTH) -> Any:
    """A table of plain values, for somebody else to check: numbers, words, lists and tables."""
    if depth == MOST_DEPTH and not isinstance(value, dict):
        raise Wrong(f"{shown(value)} is not a table", "Write it like { hidden = [64] }")
    if isinstance(value, dict) and depth:
        return {_option_name(key): _within(lambda part: options(part, depth - 1), value[key], key) for key in value}
    if isinstance(value, (list, tuple)) and depth:
        return tuple(
            _within(lambda part: options(part, depth - 1), part, position) for position, part in enumerate(value)
        )
    if isinstance(value, str):
        return _readable(value)
    if isinstance(value, bool) or (isinstance(value, int) and value.bit_length() < 64):
        return value
    number = _as_float(value)
    if number is None or number - number != 0:
        raise Wrong(f"{shown(value)} is no option", "Give finite numbers, words, lists and tables of them")
    return number


def _readable(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a character, which JSON can write and a file cannot hold
        raise Wrong("it is not Unicode text", "Write it anew") from None
    return value


def _option_name(key: Any) -> str:
    if not isinstance(key, str) or not key.isidentifier():
        raise Wrong("an option's name is not a name in Python", "Use letters, digits and _")
    return key


_REQUIRED = object()


def key(check: Check, default: Any = _REQUIRED, *, add: str = "", meaning: str = "") -> Any:
    """A field whose values pass ``check``. Without a default it is required; ``add`` is a line to add, as an example.

    A default is a value as the check returns it: it is not checked again. ``meaning`` is shown by help and reference.
    """
    facts = {"check": check, "add": add, "meaning": meaning}
    if default is _REQUIRED:
        return dataclasses.field(metadata=facts)
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=facts)
    return dataclasses.field(default=default, metadata=facts)


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Whether a table must have it."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def required_keys(table: type) -> list[str]:
    """Names of the keys that a table must have."""
    return [field.name for field in dataclasses.fields(table) if is_required(field)]
