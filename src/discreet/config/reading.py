"""Reading a campaign's file: everything that is wrong with it at once, each at its line.

Guarantee: for any bytes at all, `read_config` gives a checked configuration or an `InvalidConfig`; it runs nothing that
the file names, and opens no other file.
"""

from __future__ import annotations

import pathlib
import re
import tomllib
from dataclasses import fields
from decimal import Decimal, InvalidOperation
from typing import Any

from discreet.config.campaign import FORMAT, TABLES, CampaignConfig, Source
from discreet.config.combinations import UNREAD, disagreements
from discreet.config.data_tables import (
    EvaluationConfig,
    InitialConfig,
    OracleConfig,
    PoolConfig,
    SimulationConfig,
    StorageConfig,
    TaskConfig,
)
from discreet.config.keys import required_keys
from discreet.config.learning_tables import (
    MOST_QUERIES,
    BudgetConfig,
    ModelConfig,
    PlanConfig,
    RecipeConfig,
    ScorerConfig,
    SelectorConfig,
    TrainerConfig,
)
from discreet.config.lines import line_index
from discreet.config.refusals import KEYS
from discreet.config.table_reading import Problem, read_table
from discreet.config.values import Wrong, choice, name_of_campaign, nearest, shown, whole
from discreet.errors import InvalidConfig

SCHEMA: dict[str, type[Any]] = {
    "pool": PoolConfig,
    "task": TaskConfig,
    "initial": InitialConfig,
    "budget": BudgetConfig,
    "recipe": RecipeConfig,
    "plan": PlanConfig,
    "scorer": ScorerConfig,
    "selector": SelectorConfig,
    "oracle": OracleConfig,
    "model": ModelConfig,
    "trainer": TrainerConfig,
    "evaluation": EvaluationConfig,
    "storage": StorageConfig,
    "simulation": SimulationConfig,
}
"""Which table is read as what."""
EXTRA_KEYS = {"plan": ("phases",)}
"""Keys of a file that are turned into others while it is read."""
_OPTIONAL = ("initial", "simulation")
_TOP = {"format": choice(FORMAT), "name": name_of_campaign}
MOST_BYTES, MOST_SHOWN = 1 << 20, 10
_AT_LINE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")


def read_config(path: pathlib.Path | str) -> CampaignConfig:
    """The configuration in the file at ``path``. Paths in it are seen from the folder it is in."""
    file = pathlib.Path(path)
    name = str(path)
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "that is no path"
        raise InvalidConfig(name, f"the file cannot be read: {reason}", "Check its path") from None
    if len(content) > MOST_BYTES:
        raise InvalidConfig(name, f"it is larger than {MOST_BYTES} bytes", "Name a campaign's file")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidConfig(f"{name}, line {line}", "it is not UTF-8 text", "Save it as UTF-8", line=line) from None
    return config_from(text, name=name, directory=file.absolute().parent)


def config_from(text: str, *, name: str = "campaign.toml", directory: pathlib.Path | None = None) -> CampaignConfig:
    """The configuration in ``text``; errors call it ``name``."""
    text = text.removeprefix("\ufeff")
    data = _parsed(text, name)
    source = Source(name=name, directory=directory or pathlib.Path(), lines=line_index(text))
    return _config(data, source)


def config_from_json(
    form: Any, *, name: str = "the stored campaign", directory: pathlib.Path | None = None
) -> CampaignConfig:
    """The inverse of `CampaignConfig.to_json`, as strict as reading a file is."""
    if not isinstance(form, dict) or not all(isinstance(key, str) for key in form):
        raise InvalidConfig(name, "it is not a table of tables", "Restore it")
    return _config(form, Source(name=name, directory=directory or pathlib.Path()))


def _parsed(text: str, name: str) -> dict[str, Any]:
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


def _config(data: dict[str, Any], source: Source) -> CampaignConfig:
    problems: list[Problem] = []
    _check_names(data, problems)
    top = _read_top(data, problems)
    tables = {name: _read(name, data, problems) for name in TABLES}
    problems += disagreements(tables)
    if problems:
        raise _all_of(problems, source)
    given = {name: value for name, value in tables.items() if value is not None}
    return CampaignConfig(name=top["name"], source=source, **given)


def _read_top(data: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    found = {}
    for name, check in _TOP.items():
        if name not in data:
            add = f"Add {name} = '{FORMAT if name == 'format' else 'scans'}' at the top, before the first table"
            problems.append(Problem(path=(name,), fact="it is missing", remedy=add))
            continue
        try:
            found[name] = check(data[name])
        except Wrong as wrong:
            problems.append(Problem(path=(name,), fact=wrong.fact, remedy=wrong.remedy))
    return found


def _read(name: str, data: dict[str, Any], problems: list[Problem]) -> Any:
    """The table called ``name``: read, or as it is when left out (None, if it may), or `UNREAD`."""
    cls = SCHEMA[name]
    needed = required_keys(cls)
    if name not in data:
        if name in _OPTIONAL:
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
    if name == "plan":
        table = _spread_queries(table, problems)
    found = read_table(cls, table, (name,), problems)
    return UNREAD if found is None else found


def _spread_queries(table: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """``queries = 500`` with ``phases = 4`` is a list of four."""
    size, phases = table.get("queries"), table.get("phases")
    rest = {key: value for key, value in table.items() if key != "phases"}
    if isinstance(size, bool) or not isinstance(size, int):
        if phases is not None:
            fact = "it is for queries that are one number"
            problems.append(Problem(path=("plan", "phases"), fact=fact, remedy="Leave it out beside a list"))
        return rest
    try:
        count = whole(0, MOST_QUERIES)(phases) if phases is not None else None
    except Wrong as wrong:
        problems.append(Problem(path=("plan", "phases"), fact=wrong.fact, remedy=wrong.remedy))
        return rest | {"queries": [size]}
    if count is None:
        remedy = "Add phases = 4, or write a list such as [500, 300]"
        problems.append(Problem(path=("plan", "queries"), fact="one number, and nothing says how often", remedy=remedy))
    return rest | {"queries": [size] * (1 if count is None else count)}


def _check_names(data: dict[str, Any], problems: list[Problem]) -> None:
    """Tables and keys that there are none of."""
    for name, value in data.items():
        if name in SCHEMA:
            known = keys_of(name)
            given = value if isinstance(value, dict) else {}
            problems += [_unknown((name, key), known) for key in given if key not in known]
        elif name not in _TOP:
            problems.append(_unknown((name,), [*SCHEMA, *_TOP], table=isinstance(value, dict)))


def keys_of(table: str) -> list[str]:
    """The keys that a file may have in ``table``."""
    return [*(field.name for field in fields(SCHEMA[table])), *EXTRA_KEYS.get(table, ())]


def _unknown(path: tuple[str, ...], known: list[str], *, table: bool = False) -> Problem:
    name = path[-1]
    what = "table" if table else "key"
    homes = [home for home in SCHEMA if name in keys_of(home)]
    fact, remedy = f"there is no such {what}", nearest(name, known)
    if name in KEYS and not table:
        fact, remedy = KEYS[name]
    elif homes and not table:
        remedy = f"It belongs in {' or '.join(f'[{home}]' for home in homes)}"
    return Problem(path=path, fact=fact, remedy=remedy, table=table)


def _all_of(problems: list[Problem], source: Source) -> InvalidConfig:
    """One error for all, in the order of lines."""
    errors = [source.error(problem) for problem in problems]
    errors.sort(key=lambda error: error.line or MOST_BYTES)
    first, *others = errors[:MOST_SHOWN]
    left = len(errors) - MOST_SHOWN
    if left > 0:
        others.append(InvalidConfig(source.name, f"{left} more problems are not shown", "Mend these first"))
    return InvalidConfig(first.asked, first.fact, first.remedy, line=first.line, others=tuple(others))
