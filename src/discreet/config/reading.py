"""Reading a campaign's file: everything that is wrong with it at once, each at its line.

Guarantee: for any bytes at all, `read_config` gives a checked configuration or an `InvalidConfig`; it runs nothing that
the file names, and opens no other file.
"""

from __future__ import annotations

import pathlib
from typing import Any

from discreet.config.campaign import FORMAT, CampaignConfig
from discreet.config.combinations import RULES
from discreet.config.data_tables import (
    EvaluationConfig,
    InitialConfig,
    OracleConfig,
    PoolConfig,
    SimulationConfig,
    StorageConfig,
    TaskConfig,
)
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
from discreet.config.public_tables import CheckpointConfig, PrivateConfig
from discreet.config.schema import Schema
from discreet.config.table_reading import Problem
from discreet.config.values import Wrong, whole

SCHEMA: dict[str, type[Any]] = {
    "pool": PoolConfig,
    "task": TaskConfig,
    "initial": InitialConfig,
    "checkpoint": CheckpointConfig,
    "private": PrivateConfig,
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


def read_config(path: pathlib.Path | str) -> CampaignConfig:
    """The configuration in the file at ``path``. Paths in it are seen from the folder it is in."""
    tables, source = CAMPAIGN.read_file(path)
    return CampaignConfig(**tables, source=source)


def config_from(text: str, *, name: str = "campaign.toml", directory: pathlib.Path | None = None) -> CampaignConfig:
    """The configuration in ``text``; errors call it ``name``."""
    tables, source = CAMPAIGN.read_text(text, name=name, directory=directory)
    return CampaignConfig(**tables, source=source)


def config_from_json(
    form: Any, *, name: str = "the stored campaign", directory: pathlib.Path | None = None
) -> CampaignConfig:
    """The inverse of `CampaignConfig.to_json`, as strict as reading a file is."""
    tables, source = CAMPAIGN.read_json(form, name=name, directory=directory)
    return CampaignConfig(**tables, source=source)


def keys_of(table: str) -> list[str]:
    """The keys that a file may have in ``table``."""
    return CAMPAIGN.keys_of(table)


def spread_queries(table: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
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


CAMPAIGN = Schema(
    format=FORMAT,
    what="campaign",
    such_as="scans",
    tables=SCHEMA,
    rules=RULES,
    optional=("initial", "checkpoint", "private", "simulation"),
    extra=EXTRA_KEYS,
    rewrite={"plan": spread_queries},
    elsewhere={"discreet.stream/1": ("this is a stream's file", "Use discreet stream")},
    recipes={
        "crowd": ("this verb is of private-pool campaigns", "See docs/howto/ask-a-crowd.md for those of a crowd"),
        "teachers": (
            "this verb is of private-pool campaigns; private records are in votes that were counted at init",
            "See docs/howto/label-by-teachers.md. To leave somebody out, take their records out of [private] and "
            "create a campaign of another name; what was paid stays paid",
        ),
    },
)
