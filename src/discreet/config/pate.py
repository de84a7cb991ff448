"""The file of a campaign that is labelled by teachers (PATE): its tables, its checks, and `PateConfig`.

Guarantee: as of `CampaignConfig`: declared, public numbers only, each checked by itself and with the others. The
private records are read once, after all of it is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

from discreet.checks import WORD, choice, key, listed, named, number, options, text, truth, whole
from discreet.config.campaign import CAMPAIGN, CampaignFile
from discreet.config.campaign_tables import (
    MOST_SEED,
    BudgetConfig,
    FeaturesConfig,
    OracleConfig,
    PoolConfig,
    RecipeConfig,
    SimulationConfig,
    StorageConfig,
    TaskConfig,
)
from discreet.config.cross_field_checks import (
    FEATURE_RULES,
    POOL_RULES,
    STORAGE_RULES,
    TASK_RULES,
    Problems,
    at,
    one_label,
    unit_of_persons,
)
from discreet.config.schema import Rule, Schema
from discreet.planning.parameters import MOST_QUERIES

AGGREGATORS = ("gaussian", "gaussian-paper", "laplace", "laplace-paper", "confident", "sparse", "sparse-paper")
TEACHER_MODELS = ("logistic", "tree", "forest")
STUDENT_MODELS = ("logistic", "voting", "tree", "forest")
QUERY_STRATEGIES = ("margin", "passive", "disagreement")
UNSTABLE = ("dropped", "arbitrary", "pseudo-label")
_PATH = text(what="a path")
_SHARE = number(0, 1, open_ends=True, such_as="0.5")


@dataclass(frozen=True, kw_only=True)
class LabelledConfig:
    """Private records with labels, read as the pool's are. They are read once, when the campaign is created.

    path      a file or folder of the pool's kind
    size      how many records there are: declared, never counted
    labels    a CSV or JSONL file with columns record and label; a record without one teaches nobody
    person    the column (array) that says whose record it is, where persons are protected
    persons   how many persons there are, about: for the warning that delta is too large
    """

    path: str = key(_PATH, add="path = 'private.parquet'")
    size: int = key(whole(), add="size = 40000, the number of private records: it is declared, never counted")
    labels: str = key(_PATH, add="labels = 'labels.csv'")
    person: str | None = key(WORD, None)
    persons: int | None = key(whole(), None)


@dataclass(frozen=True, kw_only=True)
class TeachersTable:
    """K models on disjoint parts of the private records.

    count       K: more of them hide more, and know less each
    name        one of `TEACHER_MODELS`, or ``module:callable`` that makes a classifier with fit, predict and get_params
    options     of that classifier
    processes   how many are trained at once
    """

    count: int = key(whole(2, 100_000), add="count = 250")
    name: str = key(named(*TEACHER_MODELS), "logistic")
    options: Mapping[str, Any] = key(options, {})
    processes: int = key(whole(1, 1024), 1)


@dataclass(frozen=True, kw_only=True)
class VotesConfig:
    """How votes become answers.

    aggregator        one of `AGGREGATORS`
    unstable          of a sparse vector: how many questions of a phase may be unstable, T
    answered_share    of confident: the share of a phase's questions that may be answered
    check_share       of confident: the part of the budget that checks take
    confident_share   of confident: the share of teachers that the winner must have, noisily
    """

    aggregator: str = key(choice(*AGGREGATORS), "gaussian")
    unstable: int | None = key(whole(most=10**6), None)
    answered_share: float | None = key(_SHARE, None)
    check_share: float | None = key(_SHARE, None)
    confident_share: float | None = key(_SHARE, None)


@dataclass(frozen=True, kw_only=True)
class TeacherPlanConfig:
    """How many public records teachers are asked about in each phase; the sum is what the budget is spent on."""

    queries: tuple[int, ...] = key(
        listed(whole(), least=1, most=MOST_QUERIES, such_as="[50, 100, 150]"), add="queries = [50, 100, 150]"
    )


@dataclass(frozen=True, kw_only=True)
class StudentConfig:
    """Who asks, and learns from the answers. All of it is free: public records and paid answers.

    ask             ``margin``: where it is torn; ``passive``: at random; ``disagreement``: where models that fit the
                    answers still disagree, labelling the rest itself
    name            one of `STUDENT_MODELS`, or ``module:callable`` that makes a classifier
    options         of that classifier
    unstable        what becomes of a question without an answer
    pseudo_labels   learn from unasked records, too, where the student is sure of them itself
    random_share    of margin: the share of a phase's questions that is drawn at random
    oracle          of disagreement: how it is found out whether models disagree
    caution         of disagreement: how much worse a model may fit and still be thought of
    seed            public: orders and first weights
    """

    ask: str = key(choice(*QUERY_STRATEGIES), "margin")
    name: str = key(named(*STUDENT_MODELS), "logistic")
    options: Mapping[str, Any] = key(options, {})
    unstable: Literal["dropped", "arbitrary", "pseudo-label"] = key(choice(*UNSTABLE), "dropped")
    pseudo_labels: bool = key(truth, False)
    random_share: float | None = key(number(0, 1, such_as="0.2"), None)
    oracle: str | None = key(choice("quadratic", "committee", "refit"), None)
    caution: float | None = key(number(0, 1e6, open_ends=True, such_as="0.1"), None)
    seed: int = key(whole(0, MOST_SEED), 0)


@dataclass(frozen=True, kw_only=True)
class TeacherEvaluationConfig:
    """Accuracy on public labelled records, declared as the pool's are, after every phase; or none."""

    kind: str = key(choice("public", "none"), "none")
    path: str | None = key(_PATH, None)
    labels: str | None = key(_PATH, None)


NAME = "pate"
ORACLE = "teachers"
_OF_CONFIDENT = ("answered_share", "check_share", "confident_share")


def _records(pool: PoolConfig, plan: TeacherPlanConfig, features: FeaturesConfig | None) -> Problems:
    if features is None and (pool.text is not None or (pool.schema is not None and not pool.schema.width)):
        remedy = "Add [features] with name = 'hashed-text', or embed texts by a public encoder first"
        yield at("pool.text", "teachers and students take numbers", remedy)
    if features is not None and features.cache is not None:
        yield at("features.cache", "features of these records are not kept on the disk", "Leave it out")
    for name in ("person", "persons", "further"):
        if getattr(pool, name) is not None:
            yield at(f"pool.{name}", "these records are public, and all there from the start", "Remove it")
    if sum(plan.queries) > pool.size:
        yield at("plan.queries", f"{sum(plan.queries)} questions are more than {pool.size} records", "Ask fewer")


def _units(private: LabelledConfig, budget: BudgetConfig, teachers: TeachersTable) -> Problems:
    yield from unit_of_persons(budget, private.person, "private", "record")
    if private.persons is not None and private.person is None:
        yield at("private.persons", "no person column is named", "Remove it, or name the column")
    if budget.records_per_person != 1:
        yield at("budget.records_per_person", "all records of a person are with one teacher", "Remove it")
    if budget.delta == 0:
        yield at("budget.delta", "answers of teachers have no guarantee at delta 0", "Write delta = '1e-6'")
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
    if oracle is not None and oracle.name != ORACLE:
        yield at("oracle.name", "teachers answer here", "Write name = 'teachers', or leave [oracle] out")
    if oracle is not None and oracle != OracleConfig(name=oracle.name):
        yield at("oracle.name", "teachers have no options here", "Leave the others out; see [teachers] and [answers]")


def _measured(evaluation: TeacherEvaluationConfig) -> Problems:
    stated = {evaluation.path is not None, evaluation.labels is not None, evaluation.kind == "public"}
    if len(stated) > 1:
        fact = "a public evaluation has records and labels, and none has not"
        yield at("evaluation.path", fact, "Give kind, path and labels, or none of them")


RULES: tuple[Rule, ...] = (
    *POOL_RULES,
    *TASK_RULES,
    *FEATURE_RULES,
    (("task",), partial(one_label, fact="a teacher votes for one class")),
    (("pool", "plan", "features?"), _records),
    (("private", "budget", "teachers"), _units),
    (("budget", "plan"), _labels),
    (("answers",), _answers),
    (("student", "task"), _student),
    (("oracle?",), _oracle),
    (("evaluation",), _measured),
    *STORAGE_RULES,
)

PATE = replace(
    CAMPAIGN,
    such_as="income",
    tables={
        "pool": PoolConfig,
        "private": LabelledConfig,
        "task": TaskConfig,
        "budget": BudgetConfig,
        "recipe": RecipeConfig,
        "features": FeaturesConfig,
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
    optional=("features", "oracle", "simulation"),
    recipes={},
)


@dataclass(frozen=True, kw_only=True)
class PateConfig(CampaignFile):
    """All that such a campaign's file says. Made by `read_campaign` and its kin, which check it."""

    SCHEMA: ClassVar[Schema] = PATE
    pool: PoolConfig
    private: LabelledConfig
    teachers: TeachersTable
    plan: TeacherPlanConfig
    answers: VotesConfig = field(default_factory=VotesConfig)
    student: StudentConfig = field(default_factory=StudentConfig)
    oracle: OracleConfig = field(default_factory=lambda: OracleConfig(name=ORACLE))
    evaluation: TeacherEvaluationConfig = field(default_factory=TeacherEvaluationConfig)
    features: FeaturesConfig | None = None
