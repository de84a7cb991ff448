"""A stream's file: its tables, its checks, and `StreamConfig`.

Guarantee: as of a campaign's (`discreet.config.campaign`): declared, public numbers only, each checked by itself and
with the others; stored forms read back to equal values. What rules, slabs, windows and noise cost together is checked
by `discreet.stream`, whose errors point at the line.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, ClassVar, Literal, get_args

from discreet.checks import WORD, Wrong, choice, either, exact, key, listed, number, shown, text, truth, whole
from discreet.config.campaign_tables import FeaturesConfig, SimulationConfig, declared_schema, with_schema
from discreet.config.cross_field_checks import Problems, at, named_map
from discreet.config.schema import Declared, Rule, Schema, Source
from discreet.pools.schema import Schema as TableSchema
from discreet.privacy.budget import Budget, Unit

# ruff: noqa: RUF009 - `key` is dataclasses.field with a check


ASKING = ("one-sided", "bernoulli", "exponential", "everything")
SLABS = ("fixed", "shrinking", "balanced")
WINDOWS = ("mini-batch", "sliding", "immediate")
LOSSES = ("hinge", "logistic", "softmax", "multiclass-hinge")
STEPS = ("square-root", "inverse", "constant")
NOISES = ("gamma", "gaussian")
FILES = ("json", "safetensors")
MOST_BATCH = MOST_EACH = 1 << 16
PreparedWord = Literal["held-out", "arriving"]
_PATH = text(what="a path")
_WORDS = listed(WORD, least=1, distinct=True, such_as="['amount', 'hour']")
_CONSTANT = either(listed(number(-1e18, 1e18), least=1, such_as="[0.0, 1.0]"), (list, tuple), number(-1e18, 1e18))
_POSITIVE = number(1e-12, 1e12)
_LOSS = exact(zero=False, such_as="'1'")
_COST = exact(zero=True, such_as="'1'")
_WORD_OF_REDIS = text(what="a name", most=200)


def _declared_words(value: Any) -> dict[str, tuple[str, ...]]:
    """Columns whose values are declared."""
    if not isinstance(value, dict):
        raise Wrong(f"{shown(value)} is not a table", "Write it like { country = ['de', 'fr'] }")
    by_column = {}
    for name, words in value.items():
        try:
            by_column[WORD(name)] = _WORDS(words)
        except Wrong as wrong:
            raise Wrong(wrong.fact, wrong.remedy, (name, *wrong.at)) from None
    return by_column


@dataclass(frozen=True, kw_only=True)
class RecordsConfig:
    """What a record is, and how it becomes a vector. Everything is declared: nothing is found by looking.

    columns         with numbers: (value - center) / scale
    choices         columns with declared words: a number for each word
    center, scale   public numbers, one for all columns or one each
    schema          instead of these, for [features] of tables: what columns mean, their bounds and values, and what
                    becomes of missing ones; in tables of this file, or the path of a TOML file
    text            the same for [features] of texts: the column with the text
    radius          M: a longer vector is cut to it. The bound that the features state, or 1, if nothing is said
    preparation     instead of all these: a file that `Preparation.to_json` wrote (constants or components of a public
                    sample)
    id, label       what they are called in a line
    person          the same of the person whose record it is, where persons are protected
    """

    columns: tuple[str, ...] = key(_WORDS, ())
    choices: Mapping[str, tuple[str, ...]] = key(_declared_words, {})
    center: float | tuple[float, ...] = key(_CONSTANT, 0.0)
    scale: float | tuple[float, ...] = key(_CONSTANT, 1.0)
    schema: TableSchema | None = key(declared_schema, None)
    text: str | None = key(WORD, None)
    radius: float | None = key(_POSITIVE, None)
    preparation: str | None = key(_PATH, None)
    id: str = key(WORD, "id")
    label: str = key(WORD, "label")
    person: str | None = key(WORD, None)

    def to_json(self) -> dict[str, Any]:
        """Every key that has a value: a file has columns, or none of that name."""
        return {part.name: value for part in fields(self) if (value := getattr(self, part.name)) not in (None, ())}


@dataclass(frozen=True, kw_only=True)
class StreamTaskConfig:
    """What is asked: one of these classes. They are declared, in order; of two, the second is the positive one."""

    classes: tuple[str, ...] = key(
        listed(text(what="a class in quotes", most=200), least=2, distinct=True, such_as="['ok', 'fraud']"),
        add="classes = ['ok', 'fraud']",
    )


@dataclass(frozen=True, kw_only=True)
class StreamBudgetConfig:
    """What one record, or one person, may lose, however long the stream runs.

    unit       ``record`` or ``person``
    records    of a person: how many of their records are looked at; later ones are nulls
    """

    epsilon: Decimal = key(exact(zero=False, such_as="'2'"), add="epsilon = '2'")
    delta: Decimal = key(exact(zero=True, below=1, such_as="'1e-6'"), Decimal(0))
    unit: Unit = key(choice(*get_args(Unit)), "record")
    records: int | None = key(whole(most=MOST_EACH), None)

    def budget(self) -> Budget:
        """As the ledger takes it."""
        return Budget(epsilon=self.epsilon, delta=self.delta, unit=self.unit)


@dataclass(frozen=True, kw_only=True)
class PreparationConfig:
    """Principal components of private records, paid for before the first record arrives.

    path               lines of records, as they arrive; read once
    records            whom they are: ``held-out`` ones never arrive (who does is a null), ``arriving`` ones may
    components         how many
    norm               C: records, after center and scale, are cut to this length
    noise_multiplier   of C^2
    delta              arriving: the part of the budget's that pays for it; half, if nothing is said
    """

    path: str = key(_PATH, add="path = 'last-month.jsonl'")
    records: PreparedWord = key(choice(*get_args(PreparedWord)), "held-out")
    components: int = key(whole(most=1 << 12), add="components = 10")
    norm: float = key(_POSITIVE, 1.0)
    noise_multiplier: float = key(number(1e-6, 1e9), add="noise_multiplier = 4.0")
    delta: Decimal | None = key(exact(zero=False, below=1, such_as="'5e-7'"), None)


@dataclass(frozen=True, kw_only=True)
class AskingConfig:
    """Who is asked: one of `ASKING`.

    asked           one-sided: what being asked may cost; half of the budget, if nothing is said
    missed          one-sided: what being missed may cost; the budget, if neither this nor ``low`` is said
    low             one-sided: the chance outside of the slab. A small one asks for few labels
    epsilon         bernoulli, exponential
    form            exponential: ``ours``, or the ``paper``'s, which is refused where it breaks
    """

    name: str = key(choice(*ASKING), "one-sided")
    asked: Decimal | None = key(_COST, None)
    missed: Decimal | None = key(_COST, None)
    low: float | None = key(number(0, 1, open_ends=True, such_as="0.05"), None)
    epsilon: Decimal | None = key(_LOSS, None)
    form: str | None = key(choice("ours", "paper"), None)


@dataclass(frozen=True, kw_only=True)
class SlabConfig:
    """How near to the boundary a record is asked with the high chance: one of `SLABS`.

    width            of the slab; distances are up to the radius of the records
    power, least     shrinking: width / t^power, not below least; t counts updates
    shares, strength balanced: a declared share for each class, and how much rare ones are favoured
    """

    name: str = key(choice(*SLABS), "fixed")
    width: float = key(_POSITIVE, 0.2)
    power: float | None = key(_POSITIVE, None)
    least: float | None = key(number(0, 1e12), None)
    shares: tuple[float, ...] | None = key(listed(_POSITIVE, least=2, such_as="[0.99, 0.01]"), None)
    strength: float | None = key(number(0, 1, such_as="0.5"), None)


@dataclass(frozen=True, kw_only=True)
class WindowConfig:
    """When the model is updated: one of `WINDOWS`. It depends on arrivals and questions, never on labels.

    asked       mini-batch: after so many questions
    arrivals    sliding: after so many records
    """

    name: str = key(choice(*WINDOWS), "mini-batch")
    asked: int | None = key(whole(most=2**31 - 1), None)
    arrivals: int | None = key(whole(most=2**31 - 1), None)


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """How an update is made.

    loss              one of `LOSSES`; of two classes hinge, else softmax
    step, step_size   eta_t: size / sqrt(t), size / t, or size
    regularization    lambda
    ball              the length to which the model is cut
    patience          arrivals after which a question is forgotten; its label counts as one that never came
    """

    loss: str | None = key(choice(*LOSSES), None)
    step: str = key(choice(*STEPS), "square-root")
    step_size: float = key(_POSITIVE, 1.0)
    regularization: float = key(number(0, 1e6, such_as="0.001"), 0.001)
    ball: float = key(_POSITIVE, 1.0)
    patience: int = key(whole(most=2**31 - 1), 100_000)


@dataclass(frozen=True, kw_only=True)
class NoiseConfig:
    """What hides a record in an update.

    gamma       ``epsilon``: pure; better up to some 20 features. What the budget leaves, if nothing is said
    gaussian    ``noise_multiplier``; needs a delta. The least that keeps the budget, if nothing is said
    """

    name: str = key(choice(*NOISES), "gamma")
    epsilon: Decimal | None = key(_LOSS, None)
    noise_multiplier: float | None = key(number(1e-6, 1e9), None)


@dataclass(frozen=True, kw_only=True)
class DriftConfig:
    """A reset that is paid for, where more than the share ``most`` of ``window`` asked records were mistakes."""

    epsilon: Decimal = key(_LOSS, add="epsilon = '0.1'")
    window: int = key(whole(most=2**31 - 1), 200)
    most: float = key(number(0, 1, open_ends=True, such_as="0.4"), 0.4)


@dataclass(frozen=True, kw_only=True)
class PublishConfig:
    """Published models. ``every``: so many updates; ``keep``: so many files, or all."""

    directory: str | None = key(_PATH, None)
    every: int = key(whole(), 1)
    keep: int | None = key(whole(), None)
    file: str = key(choice(*FILES), "json")


@dataclass(frozen=True, kw_only=True)
class ServiceConfig:
    """directory: where ledger, key and journal are. batch: the most lines that share one durable write.

    skip_malformed: lines that are none of ours are counted and passed over; else they stop the stream.
    """

    directory: str | None = key(_PATH, None)
    batch: int = key(whole(most=MOST_BATCH), 4096)
    skip_malformed: bool = key(truth, False)


@dataclass(frozen=True, kw_only=True)
class RedisConfig:
    """Names in Redis: of the streams of records, labels and decisions, and of the consumer group.

    most_waiting    decisions that readers' groups have not taken yet, from which on nothing more is read
    """

    records: str | None = key(_WORD_OF_REDIS, None)
    labels: str | None = key(_WORD_OF_REDIS, None)
    decisions: str | None = key(_WORD_OF_REDIS, None)
    group: str = key(_WORD_OF_REDIS, "discreet")
    most_waiting: int = key(whole(), 100_000)


_ASKING = {"one-sided": ("asked", "missed", "low"), "bernoulli": ("epsilon",)}
_ASKING |= {"exponential": ("epsilon", "form", "missed"), "everything": ()}
_SLABS = {"fixed": (), "shrinking": ("power", "least"), "balanced": ("shares", "strength")}
_WINDOWS = {"mini-batch": ("asked",), "sliding": ("arrivals",), "immediate": ()}
_NOISES = {"gamma": ("epsilon",), "gaussian": ("noise_multiplier",)}
_OF_TWO = ("hinge", "logistic")


def _options(table: str, value: Any, known: Mapping[str, tuple[str, ...]]) -> Problems:
    """Options that the chosen one does not have."""
    for name in sorted({option for options in known.values() for option in options}):
        if getattr(value, name) is not None and name not in known[value.name]:
            homes = ", ".join(home for home, options in known.items() if name in options)
            yield at(f"{table}.{name}", f"{value.name} has no such option", f"Leave it out; it is for {homes}")


def _records(records: RecordsConfig) -> Problems:
    kinds = ("preparation", "schema", "text")
    saying = [name for name in kinds if getattr(records, name) is not None]
    if not (saying or records.columns or records.choices):
        yield at("records.columns", "nothing says what a record is", "Name columns, choices, or a preparation")
    for name in ("columns", "choices", *saying[1:]) if saying else ():
        if getattr(records, name):
            yield at(f"records.{name}", f"the {saying[0]} says what a record is", "Leave one of them out")
    if records.preparation is not None:
        return
    for name in ("center", "scale"):
        value = getattr(records, name)
        if isinstance(value, tuple) and len(value) != len(records.columns):
            fact = f"it has {len(value)} numbers for {len(records.columns)} columns"
            yield at(f"records.{name}", fact, "Give one each")
        if name == "scale" and min(value if isinstance(value, tuple) else (value,)) <= 0:
            yield at("records.scale", "a scale is not above 0", "Give positive numbers")
    both = [name for name in records.choices if name in records.columns]
    if both:
        yield at("records.choices", "a column is declared twice", "Declare it as numbers, or by its words")
    named = (*records.columns, *records.choices, *(() if records.schema is None else records.schema.names))
    for name in ("id", "label", "person"):
        if getattr(records, name) in (*named, *([] if records.text is None else [records.text])):
            yield at(f"records.{name}", "a feature has this name", "Call it otherwise in your lines")
    if records.id == records.label:
        yield at("records.label", "the id has this name", "Call it otherwise in your lines")
    if records.person in (records.id, records.label):
        yield at("records.person", "the id or the label has this name", "Call it otherwise in your lines")


def _features(records: RecordsConfig, features: FeaturesConfig | None) -> Problems:
    if features is None:
        for name in ("schema", "text"):
            if getattr(records, name) is not None:
                remedy = f"Add [features] with name = '{'bins' if name == 'schema' else 'hashed-text'}'"
                yield at(f"records.{name}", "it is for features, and there are none", remedy)
        return
    yield from named_map(features)
    if features.quantiles_epsilon is not None:
        yield at("features.quantiles_epsilon", "a stream has no pool that they are taken of", "Name a public file")
    if features.cache is not None:
        yield at("features.cache", "a record of a stream is read once, and nothing of it is kept", "Leave it out")
    lowest = features.lowest
    reads = None if lowest is None or not lowest.makes else getattr(lowest.makes[0], "reads", "arrays")
    name = features.name if lowest is None else lowest.name
    if reads == "arrays":
        yield at("features.name", f"{name} features are of arrays, and lines have columns", "Use bins, with a schema")
    for needed, key_name in (("tables", "schema"), ("texts", "text")):
        if reads == needed and getattr(records, key_name) is None:
            yield at("features.name", f"{name} features are of {needed}", f"Declare {key_name} in [records]")
    if reads == "texts" and features.public is not None:
        yield at("features.public", f"{name} has nothing to fit", "Leave it out; it is for maps of tables")


def _unit(records: RecordsConfig, budget: StreamBudgetConfig) -> Problems:
    if budget.unit == "record":
        if budget.records is not None:
            yield at("budget.records", "it is for the unit person", "Leave it out, or write unit = 'person'")
        if records.person is not None:
            fact = "records are protected, and a person with many would lose as many times as much"
            yield at("records.person", fact, "Leave it out, or write [budget] unit = 'person' and records = 5")
        return
    if budget.records is None:
        yield at(
            "budget.records", "it is missing: a person's price grows with each of their records", "Add records = 5"
        )
    if records.person is None:
        yield at("records.person", "nothing says whose a record is", "Name the field: person = 'customer'")


def _preparation(preparation: PreparationConfig, budget: StreamBudgetConfig) -> Problems:
    if budget.unit == "person":
        fact = "a person's records could be on both sides of it, and their number in it is not bounded"
        yield at("preparation.path", fact, "Use public or declared constants to protect persons")
    if budget.delta == 0:
        yield at("budget.delta", "a paid preparation has no guarantee at delta 0", "Write delta = '1e-6'")
    elif preparation.delta is not None and preparation.delta >= budget.delta:
        yield at("preparation.delta", f"it is not below [budget] delta, {budget.delta}", "Write about half of that")
    if preparation.delta is not None and preparation.records == "held-out":
        yield at("preparation.delta", "held-out records may use all of it", "Leave it out")


def _asking(asking: AskingConfig) -> Problems:
    yield from _options("asking", asking, _ASKING)
    if asking.name in ("bernoulli", "exponential") and asking.epsilon is None:
        yield at("asking.epsilon", "it is missing", "Add a line such as epsilon = '1'")
    if asking.form == "paper" and asking.missed is not None:
        yield at("asking.missed", "the paper's form has none of its own", "Leave it out, or use form = 'ours'")


def _slab(slab: SlabConfig, task: StreamTaskConfig) -> Problems:
    yield from _options("slab", slab, _SLABS)
    if slab.name == "balanced" and len(slab.shares or ()) != len(task.classes):
        yield at("slab.shares", f"there are {len(task.classes)} classes", "Declare a share for each, in their order")
    if slab.least is not None and slab.least > slab.width:
        yield at("slab.least", "it is above the width", "Give a smaller one")


def _window(window: WindowConfig) -> Problems:
    yield from _options("window", window, _WINDOWS)
    for name in _WINDOWS[window.name]:
        if getattr(window, name) is None:
            yield at(f"window.{name}", "it is missing", f"Add a line such as {name} = 10")


def _noise(noise: NoiseConfig, budget: StreamBudgetConfig) -> Problems:
    yield from _options("noise", noise, _NOISES)
    if noise.name == "gaussian" and budget.delta == 0:
        yield at("budget.delta", "Gaussian noise has no guarantee at delta 0", "Write delta = '1e-6', or use gamma")


def _learning(learning: LearningConfig, task: StreamTaskConfig) -> Problems:
    if learning.loss in _OF_TWO and len(task.classes) != 2:
        yield at("learning.loss", f"{learning.loss} is for two classes", "Use softmax or multiclass-hinge")


def _redis(redis: RedisConfig) -> Problems:
    named = [getattr(redis, name) for name in ("records", "labels", "decisions")]
    names = [name for name in named if name is not None]
    if len(set(names)) != len(names):
        yield at("redis.decisions", "two of the streams have one name", "Name each otherwise")


RULES: tuple[Rule, ...] = (
    (("records",), _records),
    (("records", "features?"), _features),
    (("records", "budget"), _unit),
    (("preparation", "budget"), _preparation),
    (("asking",), _asking),
    (("slab", "task"), _slab),
    (("window",), _window),
    (("noise", "budget"), _noise),
    (("learning", "task"), _learning),
    (("redis",), _redis),
)


FORMAT = "discreet.stream/1"


STREAM = Schema(
    format=FORMAT,
    what="stream",
    such_as="payments",
    tables={
        "records": RecordsConfig,
        "features": FeaturesConfig,
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
    optional=("features", "preparation", "window", "drift", "simulation"),
    rewrite={"records": with_schema},
    elsewhere={"discreet.campaign/1": ("this is a campaign's file", "Use discreet run, or another verb of campaigns")},
)


@dataclass(frozen=True, kw_only=True)
class StreamConfig(Declared):
    """All that a stream's file says. Made by `read`, `from_text` and `from_json`, which check it."""

    FORMAT: ClassVar[str] = FORMAT
    SCHEMA: ClassVar[Schema] = STREAM
    recipe_name: ClassVar[str] = "stream"
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
    features: FeaturesConfig | None = None
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
