"""Reads one table of a file: its keys, and the options of the part that it names. Every mistake is a `Problem`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, ClassVar, Self, TypeVar

from discreet.checks import Check, Wrong, is_required, nearest, options, shown
from discreet.config.unsupported_keys import refused_value
from discreet.errors import BadInput
from discreet.parts import Option, Origin, Part, Registry
from discreet.toml_lines import Path

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Something wrong with a file: where, what is so, what to do."""

    path: Path
    fact: str
    remedy: str
    table: bool = False

    @property
    def label(self) -> str:
        """``[plan] queries[2]``."""
        first, *rest = self.path or ("",)
        if not rest:
            return f"[{plain(first)}]" if self.table else plain(first)
        inner = plain(rest[0]) + "".join(f"[{p}]" if isinstance(p, int) else f".{plain(p)}" for p in rest[1:])
        return f"[{plain(first)}] {inner}"


def plain(part: str | int) -> str:
    """A part of a path as errors show it."""
    word = str(part)
    return word if word.isprintable() and word.strip() == word != "" and len(word) <= 60 else shown(word)


@dataclass(frozen=True, kw_only=True)
class PartTable:
    """A table that names a part: its ``name``, keys that all parts have, and the ``options`` that this one declares.

    An option is also an attribute: None where it is not set. ``origin``: the package that declares the part, if it is
    not built in; ``loaded``: its declaration, unless the table is a stored one, which is read without the package
    (`resolved` loads it).
    """

    registry: ClassVar[Registry]
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin | None = None
    loaded: Part | None = field(default=None, compare=False, repr=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.registry.options():
            raise AttributeError(name)
        return self.options.get(name)

    @property
    def part(self) -> Part | None:
        """The part; None for one of your own, ``module:callable``, and for one that was not loaded or is not there."""
        return self.registry.by_name.get(self.name, self.loaded)

    @property
    def is_unloaded(self) -> bool:
        """Whether it names a part of another package that was not loaded, or a part that is not there."""
        return self.part is None and ":" not in self.name

    def resolved(self) -> Self:
        """This table with its part loaded and its options checked; the same one if no package has its part."""
        part = self.registry.find(self.name) if self.is_unloaded else None
        if part is None:
            return self
        if part.origin != self.origin:
            fact = f"the campaign was created with {self.origin or 'no such package'}, and {part.origin} is installed"
            raise BadInput(f"the {part.kind} {part.name}", fact, "Install the version that it was created with")
        return replace(self, loaded=part, options=part.checked(self.options))

    @property
    def declared(self) -> Part:
        """The part, which is known to be there."""
        return self.resolved().part or self.registry.get(self.name)


ORIGIN = ("distribution", "version")
"""Keys by which a table says which package declares its part: always of a stored one."""


def key_fields(cls: type[Any]) -> list[Field[Any]]:
    """The fields of a table that are keys of their own."""
    return [part for part in fields(cls) if "check" in part.metadata]


def is_third_party(cls: type[Any], data: Mapping[str, Any]) -> bool:
    """Whether a table names a part that is not built in, nor your own."""
    name = data.get("name")
    return issubclass(cls, PartTable) and isinstance(name, str) and not (":" in name or name in cls.registry.by_name)


def declaration_of(cls: type[Any], data: Mapping[str, Any], *, stored: bool) -> tuple[dict[str, Option], Part | None]:
    """The options that a table may have, and the part where another package declares it.

    A stored table is read without that package: what it holds was checked when it was stored.
    """
    if not issubclass(cls, PartTable):
        return {}, None
    part = None
    if is_third_party(cls, data):
        if stored:
            known = {*ORIGIN, *(part.name for part in key_fields(cls))}
            return {word: _plain_option(word) for word in data if word not in known}, None
        part = cls.registry.find(data["name"])
    if part is None:  # built in: its own options come first, for two parts may call different things by one name
        named = cls.registry.by_name.get(str(data.get("name")))
        own = {} if named is None else {option.name: option for option in named.options}
        return cls.registry.options() | own, None
    return {option.name: option for option in part.options}, part


def _plain_option(name: str) -> Option:
    return Option(name=name, check=lambda value: options({"value": value})["value"], type="", meaning="")


def _origin_of(data: Mapping[str, Any], part: Part | None, *, stored: bool) -> Origin | None:
    """The package that declares the part; a file may say which one it was written for."""
    pinned = {word: data[word] for word in ORIGIN if word in data}
    if stored:
        whole = len(pinned) == len(ORIGIN) and all(isinstance(value, str) for value in pinned.values())
        return Origin(**pinned) if whole else None
    origin = None if part is None else part.origin
    for word, value in pinned.items():
        if value != getattr(origin, word, None):
            fact = f"{origin or 'no such package'} is installed"
            raise Wrong(fact, "Install the version that the file names, or change it", (word,))
    return origin


def read_table(
    cls: type[T], data: dict[str, Any], path: Path, problems: list[Problem], *, stored: bool = False
) -> T | None:
    """A ``cls`` of the keys it knows in ``data``. What is wrong joins ``problems``; then there is no value."""
    values: dict[str, Any] = {}
    before = len(problems)

    def read(name: str, check: Check) -> Any:
        try:
            return _checked(check, data[name], (*path, name))
        except Wrong as wrong:
            here = (*path, name)
            each = (wrong, *wrong.others)
            problems.extend(Problem(path=(*here, *part.at), fact=part.fact, remedy=part.remedy) for part in each)

    for part in key_fields(cls):
        here = (*path, part.name)
        if part.name in data:
            values[part.name] = read(part.name, part.metadata["check"])
        elif is_required(part):
            problems.append(
                Problem(path=here, fact="it is missing", remedy=f"Add a line such as {part.metadata['add']}")
            )
    if issubclass(cls, PartTable):
        try:
            declared, loaded = declaration_of(cls, data, stored=stored)
            values["options"] = {name: read(name, option.check) for name, option in declared.items() if name in data}
            values["loaded"] = loaded
            if is_third_party(cls, data):
                values["origin"] = _origin_of(data, loaded, stored=stored)
        except BadInput as error:  # of a package that declares the part
            problems.append(Problem(path=(*path, "name"), fact=error.fact, remedy=error.remedy))
        except Wrong as wrong:
            problems.append(Problem(path=(*path, *wrong.at), fact=wrong.fact, remedy=wrong.remedy))
    return cls(**values) if len(problems) == before else None


def _checked(check: Check, value: Any, path: Path) -> Any:
    try:
        return check(value)
    except Wrong:
        refusal = refused_value(path, value)
        if refusal is None:
            raise
        raise Wrong(*refusal) from None


def record(cls: type[Any]) -> Check:
    """A table inside a list: the check for one such."""
    declared = cls.registry.options() if issubclass(cls, PartTable) else ()
    known = [*(part.name for part in key_fields(cls)), *declared]

    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Wrong(f"{shown(value)} is not a table", f"Write it like {{ {known[0]} = ... }}")
        for name in value:
            if name not in known:
                raise Wrong("there is no such key", nearest(name, known), (name,))
        problems: list[Problem] = []
        table = read_table(cls, value, (), problems)
        if problems:
            raise Wrong(problems[0].fact, problems[0].remedy, problems[0].path)
        return table

    return check
