"""Checks of keys that must agree with one another: each reads whole tables and says which key to change.

A check runs only when the tables it reads are right by themselves. Which plan keeps the budget is checked by the
planner; here is what needs no computation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from discreet.checks import shown
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
    groups_of,
)
from discreet.config.schema import Rule
from discreet.config.tables import PartTable, Problem
from discreet.errors import alternatives
from discreet.features import FEATURES
from discreet.features.table_options import numeric_columns
from discreet.models.build import MODELS, model_names
from discreet.oracles import ORACLES
from discreet.parts import RECIPES
from discreet.planning.parameters import PlanTable
from discreet.pools.opening import READERS
from discreet.privacy.budget import BINS, RATES_PER_COHORT, exact_sum
from discreet.privacy.selection_terms import HiddenSlots
from discreet.scorers import SCORERS
from discreet.selectors import SELECTORS

Problems = Iterator[Problem]
_NO_CAPS = ("paper", "separate-budget", "hidden")


def at(path: str, fact: str, remedy: str, *, table: bool = False) -> Problem:
    """A problem of one key, or of a whole table."""
    return Problem(path=tuple(path.split(".")), fact=fact, remedy=remedy, table=table)


def _pool(pool: PoolConfig) -> Problems:
    if pool.schema is not None:
        yield from _with_schema(pool)
    elif pool.kind in READERS.having("columns") and (pool.columns is None) == (pool.text is None):
        fact = f"a pool of kind {pool.kind} has a schema, columns with numbers, or one with text"
        yield at("pool.columns", fact, "Name one of them")
    for name in ("columns", "text", "array", "schema"):
        kinds = READERS.having(name)
        if pool.kind == "arrays" and name != "array":  # as a table in memory was declared
            continue
        if getattr(pool, name) is not None and pool.kind not in kinds:
            yield at(f"pool.{name}", f"a pool of kind {pool.kind} has none", f"Leave it out; it is for {kinds[-1]}")
    if pool.id is None and pool.kind not in ("images", "arrays"):
        yield at("pool.id", "nothing says which record is which", "Name the column or array with ids, or 'position'")
    if pool.kind == "npy" and pool.id not in (None, "position"):
        yield at("pool.id", "an npy file holds one array, and no ids", "Write id = 'position', or use an npz file")
    if pool.kind == "images" and (pool.shape is None or len(pool.shape) not in (2, 3)):
        yield at("pool.shape", "the shape of a picture is declared", "Write [height, width] or [3, height, width]")
    if pool.text is not None and (pool.shape is not None or (pool.center, pool.scale) != (0.0, 1.0)):
        yield at("pool.text", "text has no shape, center or scale", "Leave them out")
    for name in ("center", "scale"):
        value = getattr(pool, name)
        if isinstance(value, tuple) and pool.columns is not None and len(value) != len(pool.columns):
            yield at(f"pool.{name}", f"it has {len(value)} numbers for {len(pool.columns)} columns", "Give one each")


def _with_schema(pool: PoolConfig) -> Problems:
    usual = {"columns": None, "text": None, "shape": None, "center": 0.0, "scale": 1.0}
    for name in (name for name, value in usual.items() if getattr(pool, name) != value):
        yield at(f"pool.{name}", "the schema declares columns, texts and bounds", "Leave it out")


def one_label(task: TaskConfig, *, fact: str) -> Problems:
    """For recipes whose answers are one class a record, and why."""
    if task.kind == "multilabel":
        yield at("task.kind", fact, "Use binary or multiclass")


def unit_of_persons(budget: BudgetConfig, person: str | None, table: str, one: str) -> Problems:
    """Persons are protected where ``table`` names whose ``one`` each is, and nowhere else."""
    if (person is not None) != (budget.unit == "person"):
        missing = f"persons are protected, and nothing says whose a {one} is"
        fact = missing if person is None else "a person column is named, and records are protected"
        yield at("budget.unit", fact, f"Write unit = 'person' and [{table}] person, or unit = 'record' and none")


def _task(task: TaskConfig) -> Problems:
    least = 1 if task.kind == "multilabel" else 2
    if task.kind == "binary" and len(task.classes) != 2:
        remedy = "Use kind = 'multiclass'" if len(task.classes) > 2 else "Declare both, also the rare one"
        yield at("task.classes", f"a binary task has two, and there are {len(task.classes)}", remedy)
    elif len(task.classes) < least:
        yield at("task.classes", f"a {task.kind} task has at least {least}", "Declare them all, also rare ones")
    if task.threshold is not None and (task.kind == "multilabel" or len(task.classes) != 2):
        yield at("task.threshold", "it is for two classes", "Leave it out")


def _persons(budget: BudgetConfig, pool: PoolConfig, trainer: TrainerConfig) -> Problems:
    if budget.unit == "record":
        named = {"pool.person": pool.person is not None, "pool.persons": pool.persons is not None}
        named |= {"budget.records_per_person": budget.records_per_person != 1}
        named |= {"trainer.person_clip": trainer.person_clip != "each"}
        for path, is_set in named.items():
            if is_set:
                yield at(path, "persons are named, and [budget] protects records", "Use unit = 'person', or remove it")
        return
    if pool.person is None:
        yield at("pool.person", "it is missing, and persons are protected", "Name what says whose record it is")
    if pool.persons is None:
        yield at("pool.persons", "it is missing, and plans count persons", "Declare how many persons there are")
    elif pool.persons > pool.size:
        yield at("pool.persons", f"{pool.persons} persons have only {pool.size} records", "Count again")


def _options(path: str, table: PartTable, remedy: str) -> Problems:
    """Options of another part than the named one, and those that the named one needs and the file leaves out."""
    part = table.part
    for name, (fact, instead) in () if part is None else part.required.items():
        if table.options.get(name) is None:
            yield at(f"{path}.{name}", fact, instead)
    for name, value in table.options.items():
        if part is None or part.origin is not None or part.option(name) is not None or value is False:
            continue
        option, homes = table.registry.options()[name], ", ".join(table.registry.having(name))
        fact, instead = option.unlisted or ("{name} has no such option", f"{remedy}; it is for {homes}")
        yield at(f"{path}.{name}", fact.format(name=table.name), instead)


def _name(path: str, name: str, table: PartTable, known: Iterable[str]) -> Problems:
    """A name that no part has. One of another package, which was read without it, has an origin."""
    if table.part is None and table.origin is None and ":" not in name:
        yield at(f"{path}.name", f"there is no {shown(name)}", alternatives(name, known))


def _selector_name(selector: SelectorConfig, recipe: RecipeConfig) -> Problems:
    yield from _name("selector", selector.name, selector, SELECTORS.names(recipe=recipe.name))


def _selector(selector: SelectorConfig) -> Problems:
    yield from _options("selector", selector, "Leave it out")
    if selector.threshold is not None and (selector.threshold_epsilon is not None or selector.share_above is not None):
        yield at("selector.threshold", "a declared threshold is free, and where it stands", "Keep it, or the others")


def _exact(selector: SelectorConfig, simulation: SimulationConfig | None) -> Problems:
    if selector.part is not None and not selector.part.private and simulation is None:
        yield at("selector.name", f"{selector.name} selection is not private", "Add [simulation], or choose another")


def _scorer(scorer: ScorerConfig, selector: SelectorConfig) -> Problems:
    is_function = ":" in scorer.name
    yield from _name("scorer", scorer.name, scorer, SCORERS.names())
    yield from _options("scorer", scorer, "Remove it")
    if is_function and scorer.range is None:
        yield at("scorer.range", "a score of your own has a declared range", "Add range = [0.0, 1.0]")
    for name in ("range", "needs"):
        if not is_function and getattr(scorer, name) is not None:
            yield at(f"scorer.{name}", "only a score of your own declares it", "Remove it")
    if scorer.range is not None and scorer.range[0] >= scorer.range[1]:
        yield at("scorer.range", "its bottom is not below its top", "Write [bottom, top]")
    if scorer.name == "random" and (selector.part is None or "scores" in selector.part.reads):
        yield at("scorer.name", f"{selector.name} would pay for looking at random scores", "Name a score, as 'entropy'")


def _oracle(oracle: OracleConfig, simulation: SimulationConfig | None) -> Problems:
    yield from _name("oracle", oracle.name, oracle, ORACLES.names())
    if oracle.part is not None and not oracle.part.private and simulation is None:
        yield at("oracle.name", f"{oracle.name} people answer in simulations only", "Add [simulation] with seed = 0")
    yield from _options("oracle", oracle, "Remove it")
    if _option(oracle, "url") is not None:
        yield from _no_secret(oracle.url)
    if oracle.accuracy is not None and oracle.label_noise is not None:
        yield at("oracle.accuracy", "it and label_noise both say how often people are wrong", "Keep one of them")
    people = _option(oracle, "annotators")
    if people is not None and oracle.per_question > people:
        yield at("oracle.per_question", f"there are only {people} annotators", "Ask fewer, or add some")


def _option(table: PartTable, name: str) -> Any:
    """The option of a built-in part; None where it has none, or none is given."""
    part = table.registry.by_name.get(table.name)
    return None if part is None or part.option(name) is None else table.options.get(name)


def _no_secret(url: str) -> Problems:
    try:
        parts = urlsplit(url)
        secret = parts.username is not None or parts.password is not None
    except ValueError:
        yield at("oracle.url", "it is not an address", "Write url = 'https://labels.example.org'")
        return
    if secret:  # never echoed
        yield at("oracle.url", "it has a name or a password in it", "Leave them out; a token is all that is needed")


def _evaluation(evaluation: EvaluationConfig, budget: BudgetConfig, task: TaskConfig, pool: PoolConfig) -> Problems:
    for key in ("path", "labels"):
        if (evaluation.kind != "none") != (getattr(evaluation, key) is not None):
            fact = "records, their labels and a kind of evaluation go together"
            yield at(f"evaluation.{key}", fact, "Give path, labels and kind, or none of them")
    if (evaluation.kind == "paid") != (evaluation.epsilon is not None):
        yield at("evaluation.epsilon", "a paid evaluation has a price, and no other has", "Give it for kind = 'paid'")
    elif (evaluation.epsilon or Decimal(0)) > budget.epsilon:
        yield at("evaluation.epsilon", f"it is more than the whole budget of {budget.epsilon}", "Give less")
    if evaluation.table is not None and evaluation.kind != "paid":
        yield at("evaluation.table", "a public evaluation tells everything", "Remove it")
    elif evaluation.table == "confusion" and task.kind == "multilabel":
        yield at("evaluation.table", "records with several labels have no confusion matrix", "Use table = 'scores'")
    if evaluation.groups is not None and evaluation.group is None:
        yield at("evaluation.groups", "nothing says which column has them", "Write group = 'sex'")
    elif evaluation.group is not None and evaluation.kind == "none":
        yield at("evaluation.group", "nothing is measured", "Remove it, or declare what to measure on")
    elif evaluation.group is not None and not groups_of(evaluation, pool):
        fact = "its values are declared neither here nor as a category of the schema"
        yield at("evaluation.group", fact, "Write groups = ['female', 'male']")
    known = groups_of(replace(evaluation, groups=None), pool)
    if known and (strange := [name for name in evaluation.groups or () if name not in known]):
        yield at("evaluation.groups", f"the schema has no {shown(strange[0])}", f"Choose of {', '.join(known)}")
    ends = (0.0, *(evaluation.edges or ()), 1.0)
    if any(low >= high for low, high in pairwise(ends)):
        yield at("evaluation.edges", "they do not increase within 0 and 1", "Write edges = [0.1, 0.5, 0.9]")


def _model(model: ModelConfig) -> Problems:
    if ":" not in model.name and MODELS.find(model.name) is None:
        yield at("model.name", f"there is no {shown(model.name)}", alternatives(model.name, model_names()))
    if model.encoder is not None and model.name != "transformer":
        fact = f"{model.name} reads vectors, and [model] names the encoder whose tokens a transformer reads"
        yield at("model.encoder", fact, f"Write [features] name = 'text-encoder', encoder = '{model.encoder}'")
    if model.max_length is not None and model.encoder is None:
        yield at("model.max_length", "there is no encoder whose tokens it would count", "Add encoder, or remove it")
    for name in ("inputs", "classes", "dropout", "seed"):
        if name in model.options:
            yield at(f"model.options.{name}", "it is no option of a model", "Remove it; the other tables say it")


def _features(features: FeaturesConfig, pool: PoolConfig) -> Problems:
    yield from named_map(features)
    yield from _private_quantiles(features, pool)
    lowest = features.lowest
    if lowest is not None and lowest.makes:
        yield from _fits_records(features, lowest.name, getattr(lowest.makes[0], "reads", "arrays"), pool)


def named_map(features: FeaturesConfig) -> Problems:
    """What is wrong with the map by itself, whatever the records are."""
    yield from _name("features", features.name, features, FEATURES.names())
    yield from _options("features", features, "Leave it out")
    if features.base is not None and features.name != "random-fourier":
        yield at("features.base", f"{features.name} takes records themselves", "Leave it out; it is for random-fourier")


def _features_and_model(features: FeaturesConfig, model: ModelConfig, trainer: TrainerConfig) -> Problems:
    if model.encoder is not None:
        yield at("model.encoder", "[features] and an encoder both say what the model reads", "Keep one of them")
    if trainer.augment:
        yield at("trainer.augment", "views are of records, and the model reads features of them", "Remove it")


def _private_quantiles(features: FeaturesConfig, pool: PoolConfig) -> Problems:
    if features.quantiles_epsilon is None:
        if features.quantile_bins is not None:
            yield at("features.quantile_bins", "there are no private quantiles", "Add quantiles_epsilon = '0.1'")
        return
    here, edges = "features.quantiles_epsilon", features.options.get("edges")
    declared = set(edges) if isinstance(edges, Mapping) else set()
    if features.name != "bins":
        yield at(here, f"{features.name} features have no edges that are private quantiles", "Use name = 'bins'")
    elif features.public is not None:
        yield at(here, "edges are fitted on public rows", "Leave out one of public and quantiles_epsilon")
    elif pool.schema is not None and set(numeric_columns(pool.schema)) <= declared:
        yield at(here, "no column of numbers is without declared edges", "Remove it")


def _quantiles_of_recipe(features: FeaturesConfig, recipe: RecipeConfig) -> Problems:
    if features.quantiles_epsilon is not None and recipe.name != "private-pool":
        fact = f"the pool of {recipe.name} is not what private quantiles are taken of"
        yield at("features.quantiles_epsilon", fact, "Name a file of public rows instead: public = 'rows.csv'")


def _fits_records(features: FeaturesConfig, lowest: str, reads: str, pool: PoolConfig) -> Problems:
    """``lowest``: the map that takes the record itself, and what it ``reads``."""
    key, schema = "features.name" if features.base is None else "features.base", pool.schema
    if features.public is not None and reads != "tables":
        yield at("features.public", f"{lowest} has nothing to fit", "Leave it out; it is for maps of tables")
    has_text = pool.text is not None or (schema is not None and schema.text is not None)
    if reads == "tables" and schema is None:
        fact = f"{lowest} features are of a table whose columns a schema declares"
        yield at(key, fact, "Declare schema in [pool], with bounds and values; discreet schema proposes one")
    elif reads == "texts" and not has_text and pool.kind != "arrays":
        yield at(key, f"{lowest} features are of texts, and the pool declares none", "Name their column: [pool] text")
    elif reads == "arrays" and has_text and pool.columns is None and schema is None:
        yield at(key, f"{lowest} features are of numbers, and the pool has texts", "Write name = 'hashed-text'")
    elif lowest == "scattering" and (schema is not None or (pool.columns is not None and pool.shape is None)):
        yield at(key, "scattering features are of pictures, and the pool is a table", "Use bins, with a schema")


def _trainer(trainer: TrainerConfig, task: TaskConfig) -> Problems:
    weights = trainer.class_weights
    if weights is not None and len(weights) != len(task.classes):
        fact = f"it has {len(weights)} numbers for {len(task.classes)} classes"
        yield at("trainer.class_weights", fact, "Give one a class, in their order")
    if weights is not None and task.kind == "multilabel":
        yield at("trainer.class_weights", "they are for records of one class, not of several labels", "Remove them")
    if weights is not None and trainer.loss is not None:
        yield at("trainer.loss", "weights are for the usual loss", "Keep one of the two")
    if trainer.views > 1 and not trainer.augment:
        yield at("trainer.views", "nothing makes the views differ", "Add augment = [{ name = 'flip' }], or remove it")
    for number, view in enumerate(trainer.augment):
        declared = {} if view.part is None else {option.name: option for option in view.part.options}
        missing = [name for name, option in declared.items() if not option.default and name not in view.options]
        for name in (*missing, *(name for name in view.options if name not in declared))[:1]:
            fact, remedy = view.registry.options()[name].unlisted or (f"{name} does not fit {view.name}", "Change it")
            yield Problem(path=("trainer", "augment", number), fact=fact, remedy=remedy)


def _storage(storage: StorageConfig) -> Problems:
    try:
        parts = urlsplit(storage.url or "")
        secret = parts.password is not None or "password" in parts.query
    except ValueError:
        yield at("storage.url", "it is not an address", "Write 'sqlite:///scans.db'")
        return
    if secret:  # never echoed: the file is stored with the campaign, and shown
        yield at("storage.url", "it has a password in it", "Give that by the environment or a password file")
    if storage.directory is not None and not parts.scheme.startswith("postgres"):
        yield at("storage.directory", "a file has its directory beside it", "Remove it; it is for postgresql:// alone")


def _sizes(plan: PlanTable) -> Problems:
    if plan.batch is not None and 0 < plan.initial < plan.batch and plan.schedule != "scout":
        fact = f"phase 0 has {plan.initial}, too few for an expected batch of {plan.batch}"
        yield at("plan.batch", fact, f"Write at most {plan.initial}, or raise initial")
    if plan.whole_batches and plan.schedule != "naive":
        yield at(
            "plan.whole_batches", f"{plan.schedule} does not round its rates", "Remove it, or use schedule = 'naive'"
        )


def _rates(plan: PlanTable) -> Problems:
    if plan.high_share is not None and not plan.individual_rates:
        yield at("plan.high_share", "without individual rates it changes nothing", "Add individual_rates = true")
    if plan.individual_rates and (plan.selection in _NO_CAPS or plan.selection_epsilon == 0):
        fact = "only one-sided selection that is paid for gives records rates of their own"
        yield at("plan.individual_rates", fact, "Use selection one-sided or shards, and a selection_epsilon")
    if plan.individual_rates and plan.schedule not in RATES_PER_COHORT:
        fact, remedy = f"{plan.schedule} has one rate for all", f"Use one of {', '.join(RATES_PER_COHORT)}"
        yield at("plan.individual_rates", fact, remedy)


def _releases(plan: PlanTable) -> Problems:
    if plan.releases is None:
        return
    phases = len(plan.queries) + 1
    if plan.selection != "hidden":
        yield at("plan.releases", f"{plan.selection} selection is public when it is made", "Remove it")
    elif len(plan.releases) != phases:
        yield at("plan.releases", f"it has {len(plan.releases)} dates for {phases} phases", "Give one a phase")
    elif list(plan.releases) != sorted(set(plan.releases)):
        yield at("plan.releases", "a date is not later than the one before it", "Give them in order")


def _prices(plan: PlanTable) -> Problems:
    count = len(plan.queries)
    if plan.missed is not None and (plan.selection in _NO_CAPS or plan.selection_epsilon == 0):
        yield at("plan.missed", "there are caps on misses where one-sided selection is paid for, alone", "Remove it")
    elif plan.missed is not None and len(plan.missed) != count:
        yield at("plan.missed", f"it has {len(plan.missed)} caps for {count} queries", "Give one a query")
    if plan.reads_training_data and plan.selection != "paper":
        fact = "one-sided prices hold for scores of the record alone"
        yield at("plan.reads_training_data", fact, "Use selection = 'paper', where every record pays every query")
    if isinstance(plan.shards, str):
        return
    if plan.selection != "shards":
        yield at("plan.shards", f"{plan.selection} does not cut the pool", "Remove it, or use selection = 'shards'")
    elif len(plan.shards) != count or exact_sum(plan.shards) != 1:
        yield at("plan.shards", f"it needs {count} shares, one a query, that sum to exactly 1", "Write 'even'")


def _within_the_pool(plan: PlanTable, pool: PoolConfig, budget: BudgetConfig) -> Problems:
    units = pool.size if budget.unit == "record" else pool.persons
    wanted = plan.initial + sum(plan.queries)
    if units is not None and wanted > units:
        fact = f"initial and queries come to {wanted}, and the pool has {units} {budget.unit}s"
        yield at("plan.queries", fact, "Ask fewer")


def _within_the_budget(plan: PlanTable, budget: BudgetConfig, initial: InitialConfig | None) -> Problems:
    if plan.selection_epsilon >= budget.epsilon:
        fact = f"it leaves nothing of epsilon {budget.epsilon} for training"
        yield at("plan.selection_epsilon", fact, "Give a part of it, about a quarter")
    asked = sum(plan.queries) + (0 if initial else plan.initial)
    each = budget.records_per_person if budget.unit == "person" else 1
    if budget.labels is not None and asked * each > budget.labels:
        persons = f" about {asked} persons, each with {each} records at most" if each > 1 else ""
        fact = f"the plan asks {asked * each} questions{persons}, and people answer {budget.labels}"
        yield at("budget.labels", fact, "Ask fewer in [plan], or raise it")


def _hides_asked(plan: PlanTable, selector: SelectorConfig) -> bool:
    return plan.selection == "hidden" or (selector.part is not None and selector.part.prices == ("hidden",))


def _hidden_caps(plan: PlanTable, selector: SelectorConfig, oracle: OracleConfig) -> Problems:
    if _hides_asked(plan, selector) and oracle.per_annotator is not None:
        fact = "selection is hidden, and an annotator who stops at a cap leaves other records without a label"
        yield at("oracle.per_annotator", fact, "Remove it, or use another selector")


def _hidden_labels(
    plan: PlanTable, selector: SelectorConfig, budget: BudgetConfig, initial: InitialConfig | None
) -> Problems:
    """Whoever is asked is labelled: the limit must allow for as many as may be asked."""
    if budget.labels is None or not _hides_asked(plan, selector) or not plan.queries:
        return
    if selector.threshold_epsilon is None or selector.threshold_epsilon <= 0 or budget.delta <= 0:
        return  # refused elsewhere
    slots = HiddenSlots.of(
        tuple(plan.queries),
        threshold_epsilon=selector.threshold_epsilon,
        delta=budget.delta,
        bins=selector.bins or BINS,
    ).slots
    questions = sum(slots) + (0 if initial else plan.initial)
    if questions > budget.labels:
        fact = f"a hidden selection may ask up to {questions} questions, all of which are answered"
        yield at("budget.labels", fact, f"Raise it to {questions}, or leave it out")


PLAN_RULES: tuple[Rule, ...] = (
    (("plan",), _sizes),
    (("plan",), _rates),
    (("plan",), _releases),
    (("plan",), _prices),
    (("plan", "pool", "budget"), _within_the_pool),
    (("plan", "budget", "initial?"), _within_the_budget),
    (("plan", "selector", "oracle"), _hidden_caps),
    (("plan", "selector", "budget", "initial?"), _hidden_labels),
)


def _tables_of_recipes(
    recipe: RecipeConfig, checkpoint: CheckpointConfig | None, private: PrivateConfig | None
) -> Problems:
    """Tables that some recipes alone have, which declare them."""
    for name, table in (("checkpoint", checkpoint), ("private", private)):
        having = [other for other, entry in RECIPES.items() if name in entry.tables]
        if table is not None and recipe.name not in having:
            yield at(name, f"{recipe.name} has none", f"Remove it; it is for {' or '.join(having)}", table=True)


def _checkpoint(checkpoint: CheckpointConfig) -> Problems:
    if sum(checkpoint.ways) != 1:
        fact = "its guarantee is said in none of three ways, or in several"
        remedy = "Give epsilon and delta; or sampling_rate, noise_multiplier and steps; or certificate"
        yield at("checkpoint.epsilon", fact, remedy)
    elif checkpoint.ways[0] and (checkpoint.epsilon is None or checkpoint.delta is None):
        yield at("checkpoint.delta", "a guarantee has an epsilon and a delta", "Give both, as its maker states them")
    elif checkpoint.ways[1] and None in (checkpoint.sampling_rate, checkpoint.noise_multiplier, checkpoint.steps):
        fact = "a training is a sampling rate, a noise multiplier and a number of steps"
        yield at("checkpoint.steps", fact, "Give all three")


RULES: tuple[Rule, ...] = (
    (("pool",), _pool),
    (("task",), _task),
    (("budget", "pool", "trainer"), _persons),
    (("selector",), _selector),
    (("selector", "recipe"), _selector_name),
    (("selector", "simulation?"), _exact),
    (("scorer", "selector"), _scorer),
    (("oracle", "simulation?"), _oracle),
    (("evaluation", "budget", "task", "pool"), _evaluation),
    (("model",), _model),
    (("features", "pool"), _features),
    (("features", "model", "trainer"), _features_and_model),
    (("features", "recipe"), _quantiles_of_recipe),
    (("trainer", "task"), _trainer),
    (("storage",), _storage),
    *PLAN_RULES,
    (("recipe", "checkpoint?", "private?"), _tables_of_recipes),
    (("checkpoint",), _checkpoint),
)
"""What each rule reads; a name with a question mark may be left out of a file. A recipe declares rules of its own."""
POOL_RULES: tuple[Rule, ...] = ((("pool",), _pool),)
TASK_RULES: tuple[Rule, ...] = ((("task",), _task),)
FEATURE_RULES: tuple[Rule, ...] = (
    (("features", "pool"), _features),
    (("features", "recipe"), _quantiles_of_recipe),
)
ORACLE_RULES: tuple[Rule, ...] = ((("oracle", "simulation?"), _oracle),)
STORAGE_RULES: tuple[Rule, ...] = ((("storage",), _storage),)
