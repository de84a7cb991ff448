"""A key of a table: a field of a frozen dataclass that carries its check, and what a file could say for it."""

from __future__ import annotations

import dataclasses
from typing import Any

from discreet.config.values import Check

_REQUIRED = object()


def key(check: Check, default: Any = _REQUIRED, *, add: str = "") -> Any:
    """A field whose values pass ``check``. Without a default it is required; ``add`` is a line to add, as an example.

    A default is a value as the check returns it: it is not checked again.
    """
    facts = {"check": check, "add": add}
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
