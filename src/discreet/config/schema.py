"""Reads a TOML file by its schema, and reports every mistake in it at once, each with its line.

Guarantee: for any bytes, `Schema.read_file` and `Schema.read_text` give checked tables or an `InvalidConfig`. They run
nothing that the file names, and open no other file but the schema that [pool] names; only a part that an installed
package declares is loaded.
`Declared.to_json` gives the same form for equal configurations, with every key, also those left at their defaults.

A form of a campaign that exists is read with ``stored=True``: it was checked when the campaign was created, so no
package is loaded, options of its parts stay as they are, and rules about these tables are not run. Every other file or
form is new: its parts are loaded, and every rule is run.
"""

from __future__ import annotations

import pathlib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Context, Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar

from discreet.checks import Wrong, choice, name_of_campaign, nearest, required_keys, shown
from discreet.config.tables import (
    ORIGIN,
    PartTable,
    Problem,
    declaration_of,
    is_third_party,
    key_fields,
    read_table,
)
from discreet.config.unsupported_keys import KEYS, TABLES
from discreet.errors import BadInput, InvalidConfig, alternatives
from discreet.parts import RECIPES
from discreet.toml_lines import Path, line_index

T = TypeVar("T")


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
    """What a file says, as a frozen dataclass with ``name``, ``source``, and a field for every table.

    ``SCHEMA``: the tables and checks by which such a file is read.
    """

    FORMAT: ClassVar[str]
    SCHEMA: ClassVar[Schema]
    name: str
    source: Source

    @classmethod
    def read(cls, path: pathlib.Path | str, *, stored: bool = False) -> Self:
        """The configuration in the file at ``path``. Paths in it are seen from the folder it is in."""
        tables, source = cls.SCHEMA.read_file(path, stored=stored)
        return cls(**tables | {"source": source})

    @classmethod
    def from_text(cls, text: str, *, name: str = "", directory: pathlib.Path | None = None) -> Self:
        """The configuration in ``text``; errors call it ``name``."""
        tables, source = cls.SCHEMA.read_text(text, name=name or f"{cls.SCHEMA.what}.toml", directory=directory)
        return cls(**tables | {"source": source})

    @classmethod
    def from_json(
        cls, form: Any, *, name: str = "", directory: pathlib.Path | None = None, stored: bool = False
    ) -> Self:
        """The inverse of `to_json`, as strict as reading a file is. Paths are seen from ``directory``."""
        name = name or f"the stored {cls.SCHEMA.what}"
        tables, source = cls.SCHEMA.read_json(form, name=name, directory=directory, stored=stored)
        return cls(**tables | {"source": source})

    @classmethod
    def tables(cls) -> tuple[str, ...]:
        """Names of the tables, in the order of a file."""
        return tuple(cls.SCHEMA.tables)

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

    def check_all(self, *checks: Callable[[], object]) -> None:
        """Run every check; one error for everything that they refuse, in the order of lines."""
        errors: list[InvalidConfig] = []
        for check in checks:
            try:
                check()
            except InvalidConfig as refused:
                first = InvalidConfig(refused.asked, refused.fact, refused.remedy, line=refused.line)
                errors += [error for error in (first, *refused.others) if str(error) not in map(str, errors)]
        if errors:
            first, *others = sorted(errors, key=lambda error: error.line or MOST_BYTES)
            raise InvalidConfig(first.asked, first.fact, first.remedy, line=first.line, others=tuple(others))

    def check_file(self, key: str, path: str | None) -> None:
        """Refuse a file that ``key`` names and that is not there."""
        if path is not None and not self.resolve(path).exists():
            raise self.error(key, f"reading {self.resolve(path).name}: it is not there", "Check the path")

    def resolve(self, path: str) -> pathlib.Path:
        """A path of the file, seen from the file's folder."""
        return self.source.directory / path

    def to_json(self) -> dict[str, Any]:
        """The stored form: every key, also those left at their defaults, which a later version may change."""
        form: dict[str, Any] = {"format": self.FORMAT, "name": self.name}
        for table in self.tables():
            value = getattr(self, table)
            if value is not None:
                form[table] = _as_stored(value)
        return form

    def to_toml(self) -> str:
        """The same as a file for people; comments of the file it came from are not kept."""
        import tomli_w

        return tomli_w.dumps(self.to_json())


def _as_stored(value: Any) -> Any:
    """``value`` as JSON and TOML have it; what is None is left out."""
    if isinstance(value, PartTable):
        keys = {part.name: getattr(value, part.name) for part in key_fields(type(value))}
        origin = {} if value.origin is None else value.origin.to_json()
        stored = {**keys, **value.options, **origin}
        return {name: _as_stored(part) for name, part in stored.items() if part is not None}
    if hasattr(value, "to_json"):
        return _as_stored(value.to_json())
    if is_dataclass(value):
        parts = ((part.name, getattr(value, part.name)) for part in fields(value))
        return {name: _as_stored(part) for name, part in parts if part is not None}
    if isinstance(value, Mapping):
        return {name: _as_stored(value[name]) for name in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_as_stored(part) for part in value]
    return decimal_text(value) if isinstance(value, Decimal) else value


def decimal_text(value: Decimal) -> str:
    """One text for equal decimals, and the same decimal when read back."""
    if value == value.to_integral_value() and abs(value) < 10**15:
        return str(int(value))
    return str(Context(prec=60).normalize(value))


MOST_BYTES, MOST_SHOWN = 1 << 20, 10
UNREAD = object()
"""Stands for a table that is wrong by itself."""
_AT_LINE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")

Table = dict[str, Any]
Rule = tuple[Sequence[str], Callable[..., Any]]
"""Names of tables (with ``?``: also if it was left out), and what finds their disagreements."""


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A kind of file: its format, its tables, and what they must agree on.

    optional     tables that are None when they are left out
    extra        keys of a table that are turned into others while it is read, by ``rewrite``
    elsewhere    other formats of ours, and what to do with such a file
    recipes      other recipes of the same format, alike
    such_as      a name, as an example
    """

    format: str
    what: str
    such_as: str
    tables: Mapping[str, type[Any]]
    rules: Sequence[Rule]
    optional: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rewrite: Mapping[str, Callable[[Table, list[Problem], Source], Table]] = field(default_factory=dict)
    elsewhere: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    recipes: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def keys_of(self, table: str) -> list[str]:
        """The keys that a file may have in ``table``."""
        return self._keys(table, {}, stored=False)

    def read_file(self, path: pathlib.Path | str, *, stored: bool = False) -> tuple[Table, Source]:
        """Checked tables of the file at ``path``, its name among them. Paths in it are seen from its folder."""
        text, name = text_of(path, self.what), str(path)
        return self.read_text(text, name=name, directory=pathlib.Path(path).absolute().parent, stored=stored)

    def read_text(
        self, text: str, *, name: str, directory: pathlib.Path | None, stored: bool = False
    ) -> tuple[Table, Source]:
        """Checked tables in ``text``; errors call it ``name``."""
        text = text.removeprefix("\ufeff")
        data = _parsed(text, name)
        return self._checked(
            data, Source(name=name, directory=directory or pathlib.Path(), lines=line_index(text)), stored=stored
        )

    def read_json(
        self, form: Any, *, name: str, directory: pathlib.Path | None, stored: bool = False
    ) -> tuple[Table, Source]:
        """Checked tables of a form that `Declared.to_json` gave, as strict as reading a file is."""
        if not isinstance(form, dict) or not all(isinstance(key, str) for key in form):
            raise InvalidConfig(name, "it is not a table of tables", "Restore it")
        return self._checked(form, Source(name=name, directory=directory or pathlib.Path()), stored=stored)

    def _checked(self, data: Table, source: Source, *, stored: bool) -> tuple[Table, Source]:
        problems: list[Problem] = []
        self._check_format(data, source)
        self._check_names(data, problems, stored=stored)
        top = self._top(data, problems)
        tables = {name: self._table(name, data, problems, source, stored=stored) for name in self.tables}
        unloaded = [name for name, table in tables.items() if isinstance(table, PartTable) and table.is_unloaded]
        problems += disagreements(tables | (dict.fromkeys(unloaded, UNREAD) if stored else {}), self._rules_for(tables))
        if problems:
            raise _all_of(problems, source)
        return top | {name: value for name, value in tables.items() if value is not None}, source

    def _rules_for(self, tables: Mapping[str, Any]) -> Sequence[Rule]:
        """The rules of this kind of file, and those that its recipe declares."""
        entry = RECIPES.get(getattr(tables.get("recipe"), "name", ""))
        if entry is None or entry.rules is None or entry.config.load().SCHEMA is not self:
            return self.rules
        return (*self.rules, *entry.rules.load())

    def _check_format(self, data: Table, source: Source) -> None:
        """A file of another kind of ours has a hundred mistakes, and one reason."""
        format_name = data.get("format")
        if isinstance(format_name, str) and format_name in self.elsewhere:
            fact, remedy = self.elsewhere[format_name]
            raise source.error(Problem(path=("format",), fact=fact, remedy=remedy))
        recipe = data.get("recipe")
        named = recipe.get("name") if isinstance(recipe, dict) else None
        if not isinstance(named, str) or "recipe" not in self.tables:
            return
        if named in self.recipes:
            fact, remedy = self.recipes[named]
            raise source.error(Problem(path=("recipe", "name"), fact=fact, remedy=remedy))
        if named not in RECIPES:  # nobody can say which tables belong to it
            remedy = alternatives(named, RECIPES)
            raise source.error(Problem(path=("recipe", "name"), fact=f"there is no {shown(named)}", remedy=remedy))

    def _top(self, data: Table, problems: list[Problem]) -> Table:
        values = {}
        for name, check in (("format", choice(self.format)), ("name", name_of_campaign)):
            if name not in data:
                example = self.format if name == "format" else self.such_as
                add = f"Add {name} = '{example}' at the top, before the first table"
                problems.append(Problem(path=(name,), fact="it is missing", remedy=add))
                continue
            try:
                values[name] = check(data[name])
            except Wrong as wrong:
                problems.append(Problem(path=(name,), fact=wrong.fact, remedy=wrong.remedy))
        values.pop("format", None)
        return values

    def _table(self, name: str, data: Table, problems: list[Problem], source: Source, *, stored: bool) -> Any:
        """The table called ``name``: read, or as it is when left out (None, if it may), or `UNREAD`."""
        cls = self.tables[name]
        needed = required_keys(cls)
        if name not in data:
            if name in self.optional:
                return None
            if not needed:
                return cls()
            add = f"Add [{name}] with {', '.join(needed)}"
            problems.append(Problem(path=(name,), fact="the table is missing", remedy=add, table=True))
            return UNREAD
        table = data[name]
        if not isinstance(table, dict):
            fact = f"{shown(table)} stands where a table should"
            problems.append(Problem(path=(name,), fact=fact, remedy=f"Write [{name}] on a line of its own"))
            return UNREAD
        if name in self.rewrite:
            table = self.rewrite[name](table, problems, source)
        checked = read_table(cls, table, (name,), problems, stored=stored)
        return UNREAD if checked is None else checked

    def _check_names(self, data: Table, problems: list[Problem], *, stored: bool) -> None:
        """Tables and keys that there are none of."""
        for name, value in data.items():
            if name in self.tables:
                keys = value if isinstance(value, dict) else {}
                known = self._keys(name, keys, stored=stored)
                problems += [self._unknown((name, key), known) for key in keys if key not in known]
            elif name not in ("format", "name"):
                problems.append(self._unknown((name,), [*self.tables, "format", "name"], table=isinstance(value, dict)))

    def _keys(self, table: str, data: Table, *, stored: bool) -> list[str]:
        """The keys that a file may have in ``table``, by the part that it names."""
        cls = self.tables[table]
        try:
            declared, _ = declaration_of(cls, data, stored=stored)
        except BadInput:  # said where the table is read
            return [*data]
        origin = ORIGIN if is_third_party(cls, data) else ()
        return [*(part.name for part in key_fields(cls)), *declared, *self.extra.get(table, ()), *origin]

    def _unknown(self, path: tuple[str, ...], known: list[str], *, table: bool = False) -> Problem:
        name = path[-1]
        what = "table" if table else "key"
        homes = [home for home in self.tables if name in self.keys_of(home)]
        fact, remedy = f"there is no such {what}", nearest(name, known)
        refusals = TABLES if len(path) == 1 else KEYS
        if name in refusals and table == (len(path) == 1):
            fact, remedy = refusals[name]
        elif homes and not table:
            remedy = f"It belongs in {' or '.join(f'[{home}]' for home in homes)}"
        return Problem(path=path, fact=fact, remedy=remedy, table=table)


def disagreements(tables: Mapping[str, Any], rules: Sequence[Rule]) -> list[Problem]:
    """Everything on which these tables disagree. A table that was left out is None."""
    problems: list[Problem] = []
    for needed, rule in rules:
        values = [tables[name.removesuffix("?")] for name in needed]
        complete = all(value is not None or name.endswith("?") for name, value in zip(needed, values, strict=True))
        if complete and UNREAD not in values:
            problems += rule(*values)
    return problems


def text_of(path: pathlib.Path | str, what: str) -> str:
    """The text of a file of declarations."""
    name = str(path)
    try:
        with pathlib.Path(path).open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "that is no path"
        raise InvalidConfig(name, f"the file cannot be read: {reason}", "Check its path") from None
    if len(content) > MOST_BYTES:
        raise InvalidConfig(name, f"it is larger than {MOST_BYTES} bytes", f"Name a {what}'s file")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidConfig(f"{name}, line {line}", "it is not UTF-8 text", "Save it as UTF-8", line=line) from None


def format_of(path: pathlib.Path | str) -> str | None:
    """The format that a TOML file names, if it can be read at all."""
    return word_at(path, "format")


def word_at(path: pathlib.Path | str, *keys: str) -> str | None:
    """The text that a TOML file has at ``keys``, if it can be read at all."""
    try:
        value: Any = _parsed(text_of(path, "campaign").removeprefix("\ufeff"), str(path))
    except InvalidConfig:
        return None
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def _parsed(text: str, name: str) -> Table:
    try:
        return tomllib.loads(text, parse_float=_as_written)
    except tomllib.TOMLDecodeError as error:
        fact, line = _without_place(str(error), text)
        remedy = "Mend the line: words stand in quotes, lists in [ ], and each key and table once"
        raise InvalidConfig(f"{name}, line {line}", fact, remedy, line=line) from None
    except (ValueError, RecursionError):  # a number of thousands of digits; lists a thousand deep
        raise InvalidConfig(name, "a number is too long, or lists nest too deep", "Write less") from None


def _as_written(written: str) -> Decimal:
    try:
        return Decimal(written)
    except InvalidOperation:  # an exponent of twenty digits
        return Decimal("nan")


def _without_place(message: str, text: str) -> tuple[str, int]:
    """What the standard library says of a mistake, in our form, and the line it names."""
    match = _AT_LINE.search(message)
    last = text.rstrip().count("\n") + 1
    line = int(match[1]) if match and match[1] else last
    fact = _AT_LINE.sub("", message) or "it is not TOML"
    return fact[0].lower() + fact[1:], line


def _all_of(problems: list[Problem], source: Source) -> InvalidConfig:
    """One error for all, in the order of lines."""
    errors = [source.error(problem) for problem in problems]
    errors.sort(key=lambda error: error.line or MOST_BYTES)
    first, *others = errors[:MOST_SHOWN]
    left = len(errors) - MOST_SHOWN
    if left > 0:
        others.append(InvalidConfig(source.name, f"{left} more problems are not shown", "Mend these first"))
    return InvalidConfig(first.asked, first.fact, first.remedy, line=first.line, others=tuple(others))
