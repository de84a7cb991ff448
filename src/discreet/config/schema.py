"""Reading a file of declarations by its schema: everything that is wrong with it at once, each at its line.

Guarantee: for any bytes at all, `read_file` and `read_text` give checked tables or an `InvalidConfig`; they run nothing
that the file names, and open no other file.
"""

from __future__ import annotations

import pathlib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from typing import Any

from discreet.config.declared import Source
from discreet.config.keys import required_keys
from discreet.config.lines import line_index
from discreet.config.refusals import KEYS
from discreet.config.table_reading import Problem, read_table
from discreet.config.values import Wrong, choice, name_of_campaign, nearest, shown
from discreet.errors import InvalidConfig

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
    rewrite: Mapping[str, Callable[[Table, list[Problem]], Table]] = field(default_factory=dict)
    elsewhere: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    recipes: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def keys_of(self, table: str) -> list[str]:
        """The keys that a file may have in ``table``."""
        return [*(part.name for part in fields(self.tables[table])), *self.extra.get(table, ())]

    def read_file(self, path: pathlib.Path | str) -> tuple[Table, Source]:
        """Checked tables of the file at ``path``, its name among them. Paths in it are seen from its folder."""
        text, name = text_of(path, self.what), str(path)
        return self.read_text(text, name=name, directory=pathlib.Path(path).absolute().parent)

    def read_text(self, text: str, *, name: str, directory: pathlib.Path | None) -> tuple[Table, Source]:
        """Checked tables in ``text``; errors call it ``name``."""
        text = text.removeprefix("\ufeff")
        data = _parsed(text, name)
        return self._checked(data, Source(name=name, directory=directory or pathlib.Path(), lines=line_index(text)))

    def read_json(self, form: Any, *, name: str, directory: pathlib.Path | None) -> tuple[Table, Source]:
        """Checked tables of a stored form, as strict as reading a file is."""
        if not isinstance(form, dict) or not all(isinstance(key, str) for key in form):
            raise InvalidConfig(name, "it is not a table of tables", "Restore it")
        return self._checked(form, Source(name=name, directory=directory or pathlib.Path()))

    def _checked(self, data: Table, source: Source) -> tuple[Table, Source]:
        problems: list[Problem] = []
        self._check_format(data, source)
        self._check_names(data, problems)
        top = self._top(data, problems)
        tables = {name: self._table(name, data, problems) for name in self.tables}
        problems += disagreements(tables, self.rules)
        if problems:
            raise _all_of(problems, source)
        return top | {name: value for name, value in tables.items() if value is not None}, source

    def _check_format(self, data: Table, source: Source) -> None:
        """A file of another kind of ours has a hundred mistakes, and one reason."""
        found = data.get("format")
        if isinstance(found, str) and found in self.elsewhere:
            fact, remedy = self.elsewhere[found]
            raise source.error(Problem(path=("format",), fact=fact, remedy=remedy))
        recipe = data.get("recipe")
        named = recipe.get("name") if isinstance(recipe, dict) else None
        if isinstance(named, str) and named in self.recipes:
            fact, remedy = self.recipes[named]
            raise source.error(Problem(path=("recipe", "name"), fact=fact, remedy=remedy))

    def _top(self, data: Table, problems: list[Problem]) -> Table:
        found = {}
        for name, check in (("format", choice(self.format)), ("name", name_of_campaign)):
            if name not in data:
                example = self.format if name == "format" else self.such_as
                add = f"Add {name} = '{example}' at the top, before the first table"
                problems.append(Problem(path=(name,), fact="it is missing", remedy=add))
                continue
            try:
                found[name] = check(data[name])
            except Wrong as wrong:
                problems.append(Problem(path=(name,), fact=wrong.fact, remedy=wrong.remedy))
        found.pop("format", None)
        return found

    def _table(self, name: str, data: Table, problems: list[Problem]) -> Any:
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
            table = self.rewrite[name](table, problems)
        found = read_table(cls, table, (name,), problems)
        return UNREAD if found is None else found

    def _check_names(self, data: Table, problems: list[Problem]) -> None:
        """Tables and keys that there are none of."""
        for name, value in data.items():
            if name in self.tables:
                known = self.keys_of(name)
                given = value if isinstance(value, dict) else {}
                problems += [self._unknown((name, key), known) for key in given if key not in known]
            elif name not in ("format", "name"):
                problems.append(self._unknown((name,), [*self.tables, "format", "name"], table=isinstance(value, dict)))

    def _unknown(self, path: tuple[str, ...], known: list[str], *, table: bool = False) -> Problem:
        name = path[-1]
        what = "table" if table else "key"
        homes = [home for home in self.tables if name in self.keys_of(home)]
        fact, remedy = f"there is no such {what}", nearest(name, known)
        if name in KEYS and not table:
            fact, remedy = KEYS[name]
        elif homes and not table:
            remedy = f"It belongs in {' or '.join(f'[{home}]' for home in homes)}"
        return Problem(path=path, fact=fact, remedy=remedy, table=table)


def disagreements(tables: Mapping[str, Any], rules: Sequence[Rule]) -> list[Problem]:
    """Everything on which these tables disagree. A table that was left out is None."""
    found: list[Problem] = []
    for needed, rule in rules:
        given = [tables[name.removesuffix("?")] for name in needed]
        there = all(value is not None or name.endswith("?") for name, value in zip(needed, given, strict=True))
        if there and UNREAD not in given:
            found += rule(*given)
    return found


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
        found: Any = _parsed(text_of(path, "campaign").removeprefix("\ufeff"), str(path))
    except InvalidConfig:
        return None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None


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
    found = _AT_LINE.search(message)
    last = text.rstrip().count("\n") + 1
    line = int(found[1]) if found and found[1] else last
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
