"""A campaign's configuration as a value, and errors that point into the file it came from.

Guarantee: a `CampaignConfig` that was read holds declared, public numbers only, each checked by itself and with the
others it must agree with. Decimals of the promise are exactly those of the file. `to_json` gives the same form for
equal configurations, and reading a form, or the file that `to_toml` writes, gives an equal one.
"""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlsplit

from discreet.config.data_tables import (
    EvaluationConfig,
    InitialConfig,
    OracleConfig,
    PoolConfig,
    SimulationConfig,
    StorageConfig,
    TaskConfig,
)
from discreet.config.declared import Declared, Source
from discreet.config.learning_tables import (
    BudgetConfig,
    ModelConfig,
    PlanConfig,
    RecipeConfig,
    ScorerConfig,
    SelectorConfig,
    TrainerConfig,
)
from discreet.config.public_tables import CheckpointConfig, PrivateConfig

FORMAT = "discreet.campaign/1"
_SQLITE = "sqlite:///"


class CampaignFile(Declared):
    """What files of all recipes have: a place where state is kept."""

    storage: StorageConfig

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


@dataclass(frozen=True, kw_only=True)
class CampaignConfig(CampaignFile):
    """All that a campaign's file says. Made by `read_config`, `config_from` and `from_json`, which check it."""

    FORMAT: ClassVar[str] = FORMAT
    name: str
    pool: PoolConfig
    task: TaskConfig
    budget: BudgetConfig
    recipe: RecipeConfig
    plan: PlanConfig
    oracle: OracleConfig
    model: ModelConfig
    scorer: ScorerConfig = field(default_factory=ScorerConfig)
    selector: SelectorConfig = field(default_factory=SelectorConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    initial: InitialConfig | None = None
    checkpoint: CheckpointConfig | None = None
    private: PrivateConfig | None = None
    simulation: SimulationConfig | None = None
    source: Source = field(default=Source(name="the campaign"), compare=False, repr=False)

    @classmethod
    def from_json(cls, form: Any, *, directory: pathlib.Path | None = None) -> CampaignConfig:
        """The inverse of `to_json`, as strict as reading a file is. Paths are seen from ``directory``."""
        from discreet.config.reading import config_from_json

        return config_from_json(form, directory=directory)


TABLES = CampaignConfig.tables()
