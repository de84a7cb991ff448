"""From a table as a file has it to a frozen value, or to a list of everything that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from discreet.config.keys import is_required
from discreet.config.lines import Path
from discreet.config.refusals import refused_value
from discreet.config.values import Check, Wrong, nearest, shown

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
            return f"[{_plain(first)}]" if self.table else _plain(first)
        inner = _plain(rest[0]) + "".join(f"[{p}]" if isinstance(p, int) else f".{_plain(p)}" for p in rest[1:])
        return f"[{_plain(first)}] {inner}"


def _plain(part: str | int) -> str:
    word = str(part)
    return word if word.isprintable() and word.strip() == word != "" and len(word) <= 60 else shown(word)


def read_table(cls: type[T], data: dict[str, Any], path: Path, problems: list[Problem]) -> T | None:
    """A ``cls`` of the keys it knows in ``data``. What is wrong joins ``problems``; then there is no value."""
    found: dict[str, Any] = {}
    before = len(problems)
    for field in fields(cls):  # type: ignore[arg-type]
        here = (*path, field.name)
        if field.name in data:
            try:
                found[field.name] = _checked(field.metadata["check"], data[field.name], here)
            except Wrong as wrong:
                problems.append(Problem(path=(*here, *wrong.at), fact=wrong.fact, remedy=wrong.remedy))
        elif is_required(field):
            problems.append(
                Problem(path=here, fact="it is missing", remedy=f"Add a line such as {field.metadata['add']}")
            )
    return cls(**found) if len(problems) == before else None


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
    known = [field.name for field in fields(cls)]

    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Wrong(f"{shown(value)} is not a table", f"Write it like {{ {known[0]} = ... }}")
        for name in value:
            if name not in known:
                raise Wrong("there is no such key", nearest(name, known), (name,))
        problems: list[Problem] = []
        found = read_table(cls, value, (), problems)
        if problems:
            raise Wrong(problems[0].fact, problems[0].remedy, problems[0].path)
        return found

    return check
