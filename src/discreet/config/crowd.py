"""A crowd campaign's file: its tables, its checks, and `CrowdConfig`.

Guarantee: as of `CampaignConfig`: declared, public numbers only, each checked by itself and with the others. What the
log holds is not looked at before it is paid for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

from discreet.checks import WORD, Wrong, choice, key, listed, number, part_name, shown, text, whole
from discreet.config.campaign import CAMPAIGN, CampaignFile
from discreet.config.campaign_tables import (
    MOST_SEED,
    BudgetConfig,
    OracleConfig,
    RecipeConfig,
    SimulationConfig,
    StorageConfig,
    TaskConfig,
)
from discreet.config.cross_field_checks import (
    ORACLE_RULES,
    STORAGE_RULES,
    TASK_RULES,
    Problems,
    at,
    one_label,
    unit_of_persons,
)
from discreet.config.schema import Rule, Schema
from discreet.config.tables import PartTable
from discreet.errors import alternatives
from discreet.parts import Registry
from discreet.planning.parameters import MOST_QUERIES
from discreet.privacy.events import MOST_K, MOST_VALUES, PLAIN
from discreet.scorers import SCORERS

NAME = "crowd"
AGGREGATIONS = ("dawid-skene", "majority")
ORDERS = ("least-confident", "shuffled")
_PATH = text(what="a path")


def _public(value: Any) -> bool:
    if value is not True:
        raise Wrong(
            f"{shown(value)}: private labels are trained on here without noise, and nothing pays for them",
            "Give public ones and write public = true; private ones belong into a private-pool campaign",
        )
    return True


@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """People's queries: a file or a directory of Parquet, CSV or JSONL (also .gz, .zst).

    text, person, row_id   names of columns. Without ``person`` a row is hidden, and a person with many rows is not
    units                  how many persons (or rows) there are, about: for the warning that delta is too large
    """

    path: str = key(_PATH, add="path = 'queries.parquet'")
    text: str = key(WORD, add="text = 'query'")
    person: str | None = key(WORD, None)
    row_id: str | None = key(WORD, None)
    units: int | None = key(whole(), None)


@dataclass(frozen=True, kw_only=True)
class GateConfig:
    """What may be shown to the crowd: a text that ``k`` units kept, each by a coin of ``beta``.

    values          different texts that one person brings, at most
    normalisation   what texts are brought to before they are counted; released are those forms
    """

    k: int = key(whole(2, MOST_K), add="k = 100")
    beta: float = key(number(0, 1, open_ends=True, such_as="0.3"), add="beta = 0.3")
    values: int = key(whole(1, MOST_VALUES), 1)
    normalisation: str = key(text(what="steps with commas between", most=200), PLAIN)


@dataclass(frozen=True, kw_only=True)
class GoldConfig:
    """Labelled texts that the first model is made of: a CSV or JSONL file with columns ``text`` and ``label``.

    They must be public: declared by ``public = true``.
    """

    path: str = key(_PATH, add="path = 'gold.csv'")
    public: bool = key(_public, add="public = true, if these texts and labels are nobody's")


@dataclass(frozen=True, kw_only=True)
class CrowdPlanConfig:
    """How many texts are asked about in each phase; phase 0 trains on the gold labels alone."""

    queries: tuple[int, ...] = key(
        listed(whole(), least=1, most=MOST_QUERIES, such_as="[500, 500]"), add="queries = [500, 500]"
    )


@dataclass(frozen=True, kw_only=True)
class AnswersConfig:
    """One label of several answers, and how far it is trusted.

    aggregation   ``dawid-skene``: people who are right more often count for more; ``majority``: all alike
    accuracy      the share of right answers that is expected of everybody beforehand
    believed      so many answers each is that expectation worth
    """

    aggregation: Literal["dawid-skene", "majority"] = key(choice(*AGGREGATIONS), "dawid-skene")
    accuracy: float = key(number(0, 1, open_ends=True, such_as="0.7"), 0.7)
    believed: float = key(number(0, 1e9, such_as="50"), 50.0)


@dataclass(frozen=True, kw_only=True)
class CrowdScorerConfig(PartTable):
    """What is asked first."""

    registry: ClassVar[Registry] = SCORERS
    name: str = key(part_name(*SCORERS.names(recipe=NAME)), "entropy")


@dataclass(frozen=True, kw_only=True)
class TextModelConfig:
    """A classifier of hashed words and letters (`discreet.trainers.text_classifier`). ``order``: of training."""

    name: str = key(choice("text"), "text")
    features: int = key(whole(2, 2**24), 2**17)
    epochs: int = key(whole(1, 10_000), 10)
    regularization: float = key(number(0, 1, open_ends=True, such_as="1e-4"), 1e-4)
    dropout: float = key(number(0, 0.999, such_as="0.3"), 0.3)
    order: Literal["least-confident", "shuffled"] = key(choice(*ORDERS), "least-confident")
    seed: int = key(whole(0, MOST_SEED), 0)


@dataclass(frozen=True, kw_only=True)
class CrowdEvaluationConfig:
    """Accuracy on public labelled texts, a file like that of the gold labels, after every phase; or none."""

    kind: str = key(choice("public", "none"), "none")
    path: str | None = key(_PATH, None)


def _units(log: LogConfig, gate: GateConfig, budget: BudgetConfig) -> Problems:
    yield from unit_of_persons(budget, log.person, "log", "row")
    if log.person is not None and log.row_id is not None:
        yield at("log.row_id", "the person is the unit, and its rows need no name", "Remove it")
    if log.person is None and gate.values != 1:
        yield at(
            "gate.values", "without persons the unit is a row, which has one text", "Remove it, or add [log] person"
        )
    if budget.records_per_person != 1:
        yield at("budget.records_per_person", "what a person brings here is texts", "Write values in [gate]")
    if budget.delta == 0:
        yield at("budget.delta", "the gate has no guarantee at delta 0", "Write delta = '1e-9'")


def _labels(budget: BudgetConfig, plan: CrowdPlanConfig, oracle: OracleConfig) -> Problems:
    asked = sum(plan.queries) * oracle.per_question
    if budget.labels is not None and asked > budget.labels:
        fact = f"{sum(plan.queries)} questions to {oracle.per_question} people each are more than {budget.labels}"
        yield at("budget.labels", fact, "Ask fewer in [plan], or raise it")


def _score(scorer: CrowdScorerConfig) -> Problems:
    if scorer.part is None or NAME not in scorer.part.recipes:
        remedy = alternatives(scorer.name, SCORERS.names(recipe=NAME))
        yield at("scorer.name", f"there is no {shown(scorer.name)}", remedy)
        return
    if scorer.draws is not None and scorer.part.option("draws") is None:
        yield at("scorer.draws", f"{scorer.name} reads one prediction", "Remove it, or use predictive-variance")
    if scorer.clip is not None:
        yield at("scorer.clip", "texts are ranked, and clipped scores would rank alike", "Remove it")


def _measured(evaluation: CrowdEvaluationConfig) -> Problems:
    if (evaluation.kind == "none") != (evaluation.path is None):
        yield at(
            "evaluation.path", "a public evaluation has a file, and none has not", "Give kind and path, or neither"
        )


RULES: tuple[Rule, ...] = (
    *TASK_RULES,
    (("task",), partial(one_label, fact="a crowd's answers are made one label a text")),
    (("log", "gate", "budget"), _units),
    (("budget", "plan", "oracle"), _labels),
    (("scorer",), _score),
    (("evaluation",), _measured),
    *ORACLE_RULES,
    *STORAGE_RULES,
)

CROWD = replace(
    CAMPAIGN,
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
    recipes={},
)


@dataclass(frozen=True, kw_only=True)
class CrowdConfig(CampaignFile):
    """All that a crowd campaign's file says. Made by `read_campaign` and its kin, which check it."""

    SCHEMA: ClassVar[Schema] = CROWD
    log: LogConfig
    gate: GateConfig
    gold: GoldConfig
    plan: CrowdPlanConfig
    answers: AnswersConfig = field(default_factory=AnswersConfig)
    scorer: CrowdScorerConfig = field(default_factory=CrowdScorerConfig)
    model: TextModelConfig = field(default_factory=TextModelConfig)
    evaluation: CrowdEvaluationConfig = field(default_factory=CrowdEvaluationConfig)
