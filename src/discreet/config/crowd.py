"""A crowd campaign's configuration as a value: a log, a gate, and a crowd that answers what passed.

Guarantee: as of `CampaignConfig`: declared, public numbers only, each checked by itself and with the others.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from discreet.config.campaign import FORMAT, CampaignFile
from discreet.config.combinations import at, oracle_rules, storage_rules, task_rules
from discreet.config.crowd_tables import (
    AnswersConfig,
    CrowdEvaluationConfig,
    CrowdPlanConfig,
    CrowdScorerConfig,
    GateConfig,
    GoldConfig,
    LogConfig,
    TextModelConfig,
)
from discreet.config.data_tables import OracleConfig, SimulationConfig, StorageConfig, TaskConfig
from discreet.config.declared import Source
from discreet.config.learning_tables import BudgetConfig, RecipeConfig
from discreet.config.reading import spread_queries
from discreet.config.schema import Rule, Schema
from discreet.config.table_reading import Problem

Problems = Iterator[Problem]
NAME = "crowd"


@dataclass(frozen=True, kw_only=True)
class CrowdConfig(CampaignFile):
    """All that a crowd campaign's file says. Made by `read_campaign` and its kin, which check it."""

    FORMAT: ClassVar[str] = FORMAT
    name: str
    log: LogConfig
    gate: GateConfig
    gold: GoldConfig
    task: TaskConfig
    budget: BudgetConfig
    recipe: RecipeConfig
    plan: CrowdPlanConfig
    oracle: OracleConfig
    answers: AnswersConfig = field(default_factory=AnswersConfig)
    scorer: CrowdScorerConfig = field(default_factory=CrowdScorerConfig)
    model: TextModelConfig = field(default_factory=TextModelConfig)
    evaluation: CrowdEvaluationConfig = field(default_factory=CrowdEvaluationConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    simulation: SimulationConfig | None = None
    source: Source = field(default=Source(name="the campaign"), compare=False, repr=False)


def _one_label(task: TaskConfig) -> Problems:
    if task.kind == "multilabel":
        yield at("task.kind", "a crowd's answers are made one label a text", "Use binary or multiclass")


def _units(log: LogConfig, gate: GateConfig, budget: BudgetConfig) -> Problems:
    if (log.person is not None) != (budget.unit == "person"):
        fact = "a person column is named, and records are protected"
        if log.person is None:
            fact = "persons are protected, and nothing says whose a row is"
        yield at("budget.unit", fact, "Write unit = 'person' and [log] person, or unit = 'record' and none")
    if log.person is not None and log.row_id is not None:
        yield at("log.row_id", "the person is the unit, and its rows need no name", "Remove it")
    if log.person is None and gate.values != 1:
        yield at(
            "gate.values", "without persons the unit is a row, which has one text", "Remove it, or add [log] person"
        )
    if budget.records_per_person != 1:
        yield at("budget.records_per_person", "what a person brings here is texts", "Write values in [gate]")
    if budget.delta == 0:
        yield at("budget.delta", "the gate has no promise at delta 0", "Write delta = '1e-9'")


def _labels(budget: BudgetConfig, plan: CrowdPlanConfig, oracle: OracleConfig) -> Problems:
    asked = sum(plan.queries) * oracle.per_question
    if budget.labels is not None and asked > budget.labels:
        fact = f"{sum(plan.queries)} questions to {oracle.per_question} people each are more than {budget.labels}"
        yield at("budget.labels", fact, "Ask fewer in [plan], or raise it")


def _score(scorer: CrowdScorerConfig) -> Problems:
    if scorer.draws is not None and scorer.name not in ("predictive-variance", "bald", "variation-ratio"):
        yield at("scorer.draws", f"{scorer.name} reads one prediction", "Remove it, or use predictive-variance")


def _measured(evaluation: CrowdEvaluationConfig) -> Problems:
    if (evaluation.kind == "none") != (evaluation.path is None):
        yield at(
            "evaluation.path", "a public evaluation has a file, and none has not", "Give kind and path, or neither"
        )


RULES: tuple[Rule, ...] = (
    *task_rules(),
    (("task",), _one_label),
    (("log", "gate", "budget"), _units),
    (("budget", "plan", "oracle"), _labels),
    (("scorer",), _score),
    (("evaluation",), _measured),
    *oracle_rules(),
    *storage_rules(),
)

CROWD = Schema(
    format=FORMAT,
    what="campaign",
    such_as="queries",
    tables={
        "log": LogConfig,
        "gate": GateConfig,
        "gold": GoldConfig,
        "task": TaskConfig,
        "budget": BudgetConfig,
        "recipe": RecipeConfig,
        "plan": CrowdPlanConfig,
        "scorer": CrowdScorerConfig,
        "oracle": OracleConfig,
        "answers": AnswersConfig,
        "model": TextModelConfig,
        "evaluation": CrowdEvaluationConfig,
        "storage": StorageConfig,
        "simulation": SimulationConfig,
    },
    rules=RULES,
    optional=("simulation",),
    extra={"plan": ("phases",)},
    rewrite={"plan": spread_queries},
    elsewhere={"discreet.stream/1": ("this is a stream's file", "Use discreet stream")},
)


def read_crowd_config(path: pathlib.Path | str) -> CrowdConfig:
    """The configuration in the file at ``path``."""
    tables, source = CROWD.read_file(path)
    return CrowdConfig(**tables, source=source)


def crowd_config_from(text: str, *, name: str = "campaign.toml", directory: pathlib.Path | None = None) -> CrowdConfig:
    """The configuration in ``text``; errors call it ``name``."""
    tables, source = CROWD.read_text(text, name=name, directory=directory)
    return CrowdConfig(**tables, source=source)


def crowd_config_from_json(
    form: Any, *, name: str = "the stored campaign", directory: pathlib.Path | None = None
) -> CrowdConfig:
    """The inverse of `CrowdConfig.to_json`, as strict as reading a file is."""
    tables, source = CROWD.read_json(form, name=name, directory=directory)
    return CrowdConfig(**tables, source=source)
