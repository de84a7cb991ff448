"""A campaign's configuration as a value, and reading it from a file: every mistake at once, each with its line.

Guarantee: a `CampaignConfig` that was read holds declared, public numbers only, each checked by itself and with the
others it must agree with. Decimals of the budget are exactly those of the file. `to_json` gives the same form for
equal configurations, and reading a form, or the file that `to_toml` writes, gives an equal one. For any bytes,
`CampaignConfig.read` gives a checked configuration or an `InvalidConfig`; it runs nothing that the file names.
"""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, ClassVar
from urllib.parse import urlsplit

from discreet.checks import Wrong, nearest, whole
from discreet.config.campaign_tables import (
    BudgetConfig,
    CheckpointConfig,
    EvaluationConfig,
    FeaturesConfig,
    InitialConfig,
    ModelConfig,
    OracleConfig,
    PoolConfig,
    PrivateConfig,
    RecipeConfig,
    ScorerConfig,
    SelectorConfig,
    SimulationConfig,
    StorageConfig,
    TaskConfig,
    TrainerConfig,
    with_schema,
)
from discreet.config.cross_field_checks import RULES
from discreet.config.schema import Declared, Schema, Source, word_at
from discreet.config.tables import Problem
from discreet.errors import BadInput
from discreet.parts import RECIPES
from discreet.planning.parameters import MOST_QUERIES, PlanTable

FORMAT = "discreet.campaign/1"
_SQLITE = "sqlite:///"


@dataclass(frozen=True, kw_only=True)
class CampaignFile(Declared):
    """What files of all recipes have."""

    FORMAT: ClassVar[str] = FORMAT
    name: str
    task: TaskConfig
    budget: BudgetConfig
    recipe: RecipeConfig
    oracle: OracleConfig
    storage: StorageConfig = field(default_factory=StorageConfig)
    simulation: SimulationConfig | None = None
    source: Source = field(default=Source(name="the campaign"), compare=False, repr=False)

    @property
    def recipe_name(self) -> str:
        """As `discreet.parts.RECIPES` has it."""
        return self.recipe.name

    def storage_url(self) -> str:
        """Where state is kept: as declared, with a SQLite file (also a bare path) seen from the file's folder."""
        url = self.storage.url or f"{self.name}.db"
        file = url.removeprefix(_SQLITE)
        if "://" in file or file in ("", ":memory:"):
            return url
        return f"{_SQLITE}{self.resolve(file)}"

    def storage_directory(self) -> pathlib.Path | None:
        """Where this host has the keys, checkpoints and files of a store on a server; None: beside a SQLite file."""
        url = self.storage_url()
        if url.startswith(_SQLITE) or "://" not in url:
            return None
        return self.resolve(self.storage.directory or f"{urlsplit(url).path.strip('/') or self.name}.files")

    def storage_mark(self) -> pathlib.Path | None:
        """The directory for the high-water mark of the ledger; None: beside the keys."""
        return None if self.storage.mark is None else self.resolve(self.storage.mark)


SCHEMA: dict[str, type[Any]] = {
    "pool": PoolConfig,
    "task": TaskConfig,
    "initial": InitialConfig,
    "checkpoint": CheckpointConfig,
    "private": PrivateConfig,
    "budget": BudgetConfig,
    "recipe": RecipeConfig,
    "plan": PlanTable,
    "scorer": ScorerConfig,
    "selector": SelectorConfig,
    "oracle": OracleConfig,
    "features": FeaturesConfig,
    "model": ModelConfig,
    "trainer": TrainerConfig,
    "evaluation": EvaluationConfig,
    "storage": StorageConfig,
    "simulation": SimulationConfig,
}
"""Which table is read as what."""


def spread_queries(table: dict[str, Any], problems: list[Problem], _source: Source) -> dict[str, Any]:
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
    optional=("initial", "checkpoint", "private", "features", "simulation"),
    extra={"plan": ("phases",)},
    rewrite={"plan": spread_queries, "pool": with_schema},
    elsewhere={"discreet.stream/1": ("this is a stream's file", "Use discreet stream")},
    recipes={name: recipe.elsewhere for name, recipe in RECIPES.items() if recipe.elsewhere is not None},
)


@dataclass(frozen=True, kw_only=True)
class CampaignConfig(CampaignFile):
    """All that a campaign's file says. Made by `read`, `from_text` and `from_json`, which check it."""

    SCHEMA: ClassVar[Schema] = CAMPAIGN
    pool: PoolConfig
    plan: PlanTable
    model: ModelConfig
    scorer: ScorerConfig = field(default_factory=ScorerConfig)
    selector: SelectorConfig = field(default_factory=SelectorConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    initial: InitialConfig | None = None
    checkpoint: CheckpointConfig | None = None
    private: PrivateConfig | None = None
    features: FeaturesConfig | None = None
    cache: Any = field(default=None, compare=False, repr=False)
    """Of a campaign that exists: where features of its pool are kept (`discreet.recipes.feature_cache`)."""


# -- files of every recipe

EXAMPLES = tuple(RECIPES)


def _config_class(recipe: object) -> type[CampaignFile]:
    """What a campaign's file is read as; of a recipe that does not exist as that of a private pool, which says so."""
    entry = RECIPES.get(recipe) if isinstance(recipe, str) else None
    if entry is None or entry.spec is None:
        return CampaignConfig
    config: type[CampaignFile] = entry.config.load()
    return config


def read_campaign(path: pathlib.Path | str, *, stored: bool = False) -> CampaignFile:
    """The configuration in the file at ``path``, of whichever recipe.

    ``stored``: to look at a campaign that exists; no part of another package is loaded.
    """
    return _config_class(word_at(path, "recipe", "name")).read(path, stored=stored)


def campaign_from_json(
    form: Any, *, name: str = "", directory: pathlib.Path | None = None, stored: bool = False
) -> CampaignFile:
    """The inverse of `to_json`, of whichever recipe. ``stored``: of a campaign that exists, as in `read_campaign`."""
    recipe = form.get("recipe") if isinstance(form, dict) else None
    config_class = _config_class(recipe.get("name") if isinstance(recipe, dict) else None)
    return config_class.from_json(form, name=name, directory=directory, stored=stored)


def example(name: str = "private-pool") -> str:
    """The text of a file for this recipe."""
    if name not in EXAMPLES:
        raise BadInput(f"an example called {name}", "there is none", nearest(name, EXAMPLES))
    return (resources.files("discreet.config") / f"{name}.toml").read_text(encoding="utf-8")
