"""A campaign that teachers label, as a value: public records, private labelled ones, and what answers may cost.

Guarantee: as of `CampaignConfig`: declared, public numbers only, each checked by itself and with the others.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from discreet.config.campaign import FORMAT, CampaignFile
from discreet.config.combinations import at, pool_rules, storage_rules, task_rules
from discreet.config.data_tables import OracleConfig, PoolConfig, SimulationConfig, StorageConfig, TaskConfig
from discreet.config.declared import Source
from discreet.config.learning_tables import BudgetConfig, RecipeConfig
from discreet.config.reading import spread_queries
from discreet.config.schema import Rule, Schema
from discreet.config.table_reading import Problem
from discreet.config.teachers_tables import (
    LabelledConfig,
    StudentConfig,
    TeacherEvaluationConfig,
    TeacherPlanConfig,
    TeachersTable,
    VotesConfig,
)

Problems = Iterator[Problem]
NAME = "teachers"
_OF_CONFIDENT = ("answered_share", "check_share", "confident_share")


@dataclass(frozen=True, kw_only=True)
class TeachersConfig(CampaignFile):
    """All that such a campaign's file says. Made by `read_campaign` and its kin, which check it."""

    FORMAT: ClassVar[str] = FORMAT
    name: str
    pool: PoolConfig
    private: LabelledConfig
    task: TaskConfig
    budget: BudgetConfig
    recipe: RecipeConfig
    teachers: TeachersTable
    plan: TeacherPlanConfig
    answers: VotesConfig = field(default_factory=VotesConfig)
    student: StudentConfig = field(default_factory=StudentConfig)
    oracle: OracleConfig = field(default_factory=lambda: OracleConfig(name=NAME))
    evaluation: TeacherEvaluationConfig = field(default_factory=TeacherEvaluationConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    simulation: SimulationConfig | None = None
    source: Source = field(default=Source(name="the campaign"), compare=False, repr=False)


def _one_label(task: TaskConfig) -> Problems:
    if task.kind == "multilabel":
        yield at("task.kind", "a teacher votes for one class", "Use binary or multiclass")


def _records(pool: PoolConfig, plan: TeacherPlanConfig) -> Problems:
    if pool.text is not None:
        yield at("pool.text", "teachers and students take numbers", "Embed texts by a public encoder first")
    for name in ("person", "persons", "further"):
        if getattr(pool, name) is not None:
            yield at(f"pool.{name}", "these records are public, and all there from the start", "Remove it")
    if sum(plan.queries) > pool.size:
        yield at("plan.queries", f"{sum(plan.queries)} questions are more than {pool.size} records", "Ask fewer")


def _units(private: LabelledConfig, budget: BudgetConfig, teachers: TeachersTable) -> Problems:
    if (private.person is not None) != (budget.unit == "person"):
        fact = "a person column is named, and records are protected"
        if private.person is None:
            fact = "persons are protected, and nothing says whose a record is"
        yield at("budget.unit", fact, "Write unit = 'person' and [private] person, or unit = 'record' and none")
    if private.persons is not None and private.person is None:
        yield at("private.persons", "no person column is named", "Remove it, or name the column")
    if budget.records_per_person != 1:
        yield at("budget.records_per_person", "all records of a person are with one teacher", "Remove it")
    if budget.delta == 0:
        yield at("budget.delta", "answers of teachers have no promise at delta 0", "Write delta = '1e-6'")
    if teachers.count > (private.persons or private.size):
        yield at("teachers.count", f"{teachers.count} teachers share fewer units than that", "Train fewer")


def _labels(budget: BudgetConfig, plan: TeacherPlanConfig) -> Problems:
    if budget.labels is not None and sum(plan.queries) > budget.labels:
        yield at("budget.labels", f"{sum(plan.queries)} questions are more than {budget.labels}", "Ask fewer in [plan]")


def _answers(answers: VotesConfig) -> Problems:
    sparse = answers.aggregator.startswith("sparse")
    if sparse and answers.unstable is None:
        yield at("answers.unstable", "it is missing: a sparse vector pays for unstable answers", "Write unstable = 5")
    if not sparse and answers.unstable is not None:
        yield at("answers.unstable", f"{answers.aggregator} has no unstable answers", "Remove it, or use sparse")
    for name in _OF_CONFIDENT:
        if getattr(answers, name) is not None and answers.aggregator != "confident":
            yield at(f"answers.{name}", f"{answers.aggregator} checks nothing", "Remove it, or use confident")


def _student(student: StudentConfig, task: TaskConfig) -> Problems:
    if student.random_share is not None and student.ask != "margin":
        yield at("student.random_share", f"{student.ask} has none", "Remove it, or ask = 'margin'")
    for name in ("oracle", "caution"):
        if getattr(student, name) is not None and student.ask != "disagreement":
            yield at(f"student.{name}", f"{student.ask} has none", "Remove it, or ask = 'disagreement'")
    if student.oracle == "quadratic" and (student.name != "logistic" or len(task.classes) != 2):
        yield at("student.oracle", "it is of logistic students of two classes", "Write oracle = 'committee'")
    if student.pseudo_labels and student.ask == "disagreement":
        yield at("student.pseudo_labels", "disagreement labels the rest itself, as it is", "Remove it")


def _oracle(oracle: OracleConfig | None) -> Problems:
    if oracle is not None and oracle.name != NAME:
        yield at("oracle.name", "teachers answer here", "Write name = 'teachers', or leave [oracle] out")
    if oracle is not None and oracle != OracleConfig(name=oracle.name):
        yield at("oracle.name", "teachers have no options here", "Leave the others out; see [teachers] and [answers]")


def _measured(evaluation: TeacherEvaluationConfig) -> Problems:
    told = {evaluation.path is not None, evaluation.labels is not None, evaluation.kind == "public"}
    if len(told) > 1:
        fact = "a public evaluation has records and labels, and none has not"
        yield at("evaluation.path", fact, "Give kind, path and labels, or none of them")


RULES: tuple[Rule, ...] = (
    *pool_rules(),
    *task_rules(),
    (("task",), _one_label),
    (("pool", "plan"), _records),
    (("private", "budget", "teachers"), _units),
    (("budget", "plan"), _labels),
    (("answers",), _answers),
    (("student", "task"), _student),
    (("oracle?",), _oracle),
    (("evaluation",), _measured),
    *storage_rules(),
)

TEACHERS = Schema(
    format=FORMAT,
    what="campaign",
    such_as="income",
    tables={
        "pool": PoolConfig,
        "private": LabelledConfig,
        "task": TaskConfig,
        "budget": BudgetConfig,
        "recipe": RecipeConfig,
        "teachers": TeachersTable,
        "answers": VotesConfig,
        "plan": TeacherPlanConfig,
        "student": StudentConfig,
        "oracle": OracleConfig,
        "evaluation": TeacherEvaluationConfig,
        "storage": StorageConfig,
        "simulation": SimulationConfig,
    },
    rules=RULES,
    optional=("oracle", "simulation"),
    extra={"plan": ("phases",)},
    rewrite={"plan": spread_queries},
    elsewhere={"discreet.stream/1": ("this is a stream's file", "Use discreet stream")},
)


def read_teachers_config(path: pathlib.Path | str) -> TeachersConfig:
    """The configuration in the file at ``path``."""
    tables, source = TEACHERS.read_file(path)
    return TeachersConfig(**tables, source=source)


def teachers_config_from(
    text: str, *, name: str = "campaign.toml", directory: pathlib.Path | None = None
) -> TeachersConfig:
    """The configuration in ``text``; errors call it ``name``."""
    tables, source = TEACHERS.read_text(text, name=name, directory=directory)
    return TeachersConfig(**tables, source=source)


def teachers_config_from_json(
    form: Any, *, name: str = "the stored campaign", directory: pathlib.Path | None = None
) -> TeachersConfig:
    """The inverse of `TeachersConfig.to_json`, as strict as reading a file is."""
    tables, source = TEACHERS.read_json(form, name=name, directory=directory)
    return TeachersConfig(**tables, source=source)
