"""A stream's configuration as a value, and reading it: every mistake at its line.

Guarantee: as of a campaign's (`discreet.config.campaign`): declared, public numbers only, each checked by itself and
with the others it must agree with; stored forms read back to equal values.
"""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from typing import Any, ClassVar

from discreet.config.data_tables import SimulationConfig
from discreet.config.declared import Declared, Source
from discreet.config.schema import Schema
from discreet.config.stream_combinations import RULES
from discreet.config.stream_tables import (
    AskingConfig,
    DriftConfig,
    LearningConfig,
    NoiseConfig,
    PreparationConfig,
    PublishConfig,
    RecordsConfig,
    RedisConfig,
    ServiceConfig,
    SlabConfig,
    StreamBudgetConfig,
    StreamTaskConfig,
    WindowConfig,
)

FORMAT = "discreet.stream/1"


@dataclass(frozen=True, kw_only=True)
class StreamConfig(Declared):
    """All that a stream's file says. Made by `read_stream_config` and its kin, which check it."""

    FORMAT: ClassVar[str] = FORMAT
    name: str
    records: RecordsConfig
    task: StreamTaskConfig
    budget: StreamBudgetConfig
    asking: AskingConfig = field(default_factory=AskingConfig)
    slab: SlabConfig = field(default_factory=SlabConfig)
    window: WindowConfig = field(default_factory=lambda: WindowConfig(asked=10))
    learning: LearningConfig = field(default_factory=LearningConfig)
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    publish: PublishConfig = field(default_factory=PublishConfig)
    service: ServiceConfig = field(default_factory=ServiceConfig)
    redis: RedisConfig = field(default_factory=RedisConfig)
    preparation: PreparationConfig | None = None
    drift: DriftConfig | None = None
    simulation: SimulationConfig | None = None
    source: Source = field(default=Source(name="the stream"), compare=False, repr=False)

    @property
    def directory(self) -> pathlib.Path:
        """Where ledger, key and journal are kept."""
        return self.resolve(self.service.directory or f"{self.name}.stream")

    @property
    def models(self) -> pathlib.Path:
        """Where models are published."""
        return self.resolve(self.publish.directory) if self.publish.directory else self.directory / "models"


def read_stream_config(path: pathlib.Path | str) -> StreamConfig:
    """The configuration in the file at ``path``. Paths in it are seen from the folder it is in."""
    tables, source = STREAM.read_file(path)
    return StreamConfig(**tables, source=source)


def stream_config_from(text: str, *, name: str = "stream.toml", directory: pathlib.Path | None = None) -> StreamConfig:
    """The configuration in ``text``; errors call it ``name``."""
    tables, source = STREAM.read_text(text, name=name, directory=directory)
    return StreamConfig(**tables, source=source)


def stream_config_from_json(
    form: Any, *, name: str = "the stored stream", directory: pathlib.Path | None = None
) -> StreamConfig:
    """The inverse of `StreamConfig.to_json`, as strict as reading a file is."""
    tables, source = STREAM.read_json(form, name=name, directory=directory)
    return StreamConfig(**tables, source=source)


STREAM = Schema(
    format=FORMAT,
    what="stream",
    such_as="payments",
    tables={
        "records": RecordsConfig,
        "preparation": PreparationConfig,
        "task": StreamTaskConfig,
        "budget": StreamBudgetConfig,
        "asking": AskingConfig,
        "slab": SlabConfig,
        "window": WindowConfig,
        "learning": LearningConfig,
        "noise": NoiseConfig,
        "drift": DriftConfig,
        "publish": PublishConfig,
        "service": ServiceConfig,
        "redis": RedisConfig,
        "simulation": SimulationConfig,
    },
    rules=RULES,
    optional=("preparation", "window", "drift", "simulation"),
    elsewhere={"discreet.campaign/1": ("this is a campaign's file", "Use discreet run, or another verb of campaigns")},
)
