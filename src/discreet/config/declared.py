"""What every file of declarations has: where it came from, errors that point into it, and stored forms of its tables.

Guarantee: `to_json` gives the same form for equal configurations, with every key, also those left at their defaults.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Context, Decimal
from types import MappingProxyType
from typing import Any, ClassVar

from discreet.config.lines import Path
from discreet.config.table_reading import Problem
from discreet.errors import BadInput, InvalidConfig


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a configuration came from: what to call it, the folder its paths start from, and its lines."""

    name: str
    directory: pathlib.Path = pathlib.Path()
    lines: Mapping[Path, int] = field(default_factory=lambda: MappingProxyType({}))

    def line_of(self, path: Path) -> int | None:
        """The line of ``path``, or of the nearest thing around it; None where not even its table stands in the file."""
        return next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), None)

    def error(self, problem: Problem) -> InvalidConfig:
        """An error that says where."""
        line = self.line_of(problem.path)
        where = self.name if line is None else f"{self.name}, line {line}"
        asked = f"{where}: {problem.label}" if problem.path else where
        return InvalidConfig(asked, problem.fact, problem.remedy, line=line)


class Declared:
    """What a file says, as a frozen dataclass with ``name``, ``source``, and a field for every table."""

    FORMAT: ClassVar[str]
    name: str
    source: Source

    @classmethod
    def tables(cls) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(part.name for part in fields(cls) if part.name not in ("name", "source"))  # type: ignore[arg-type]

    def error(self, path: str, fact: str, remedy: str = "") -> InvalidConfig:
        """An error that points at a key, ``plan.queries`` or ``plan.queries.2``, or at a table, ``plan``."""
        parts: Path = tuple(int(part) if part.isdecimal() else part for part in path.split("."))
        return self.source.error(Problem(path=parts, fact=fact, remedy=remedy, table=path in self.tables()))

    @contextmanager
    def pointing(self, path: str) -> Iterator[None]:
        """Turns another room's `BadInput` into an error that points at ``path``: ``with config.pointing("scorer"):``.

        Only bad input: a lack of budget or of an extra is no fault of a line.
        """
        try:
            yield
        except InvalidConfig:
            raise
        except BadInput as error:
            raise self.error(path, f"{error.asked}: {error.fact}", error.remedy) from error

    def resolve(self, path: str) -> pathlib.Path:
        """A path of the file, seen from the file's folder."""
        return self.source.directory / path

    def to_json(self) -> dict[str, Any]:
        """The stored form: every key, also those left at their defaults, which a later version may change."""
        form: dict[str, Any] = {"format": self.FORMAT, "name": self.name}
        for table in self.tables():
            value = getattr(self, table)
            if value is not None:
                form[table] = _plain(value)
        return form

    def to_toml(self) -> str:
        """The same as a file for people; comments of the file it came from are not kept."""
        import tomli_w

        return tomli_w.dumps(self.to_json())


def _plain(value: Any) -> Any:
    """``value`` as JSON and TOML have it; what is None is left out."""
    if is_dataclass(value):
        parts = ((part.name, getattr(value, part.name)) for part in fields(value))
        return {name: _plain(part) for name, part in parts if part is not None}
    if isinstance(value, Mapping):
        return {name: _plain(value[name]) for name in sorted(value)}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return decimal_text(value) if isinstance(value, Decimal) else value


def decimal_text(value: Decimal) -> str:
    """One text for equal decimals, and the same decimal when read back."""
    if value == value.to_integral_value() and abs(value) < 10**15:
        return str(int(value))
    return str(Context(prec=60).normalize(value))
