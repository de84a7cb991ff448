"""Tables of a campaign's file: pool, task, oracle, evaluation, storage, checkpoint, budget, plan, scorer, selector,
model and trainer.

Everything is declared by the owner and public. Nothing is found out by looking at records: not the classes, not a
scale, not the size of the pool. Names of scores, selectors, models and optimizers are words here: the packages that
have them know them, and point at the line by `CampaignConfig.error`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from discreet.checks import (
    WORD,
    Wrong,
    address,
    choice,
    either,
    exact,
    key,
    listed,
    named,
    number,
    options,
    part_name,
    text,
    truth,
    whole,
)
from discreet.config.schema import Source
from discreet.config.tables import PartTable, Problem, record
from discreet.errors import BadInput, InvalidConfig
from discreet.features import FEATURES, FeatureMap, FeatureRequest
from discreet.features.encoders import encoder_place
from discreet.oracles import ORACLES
from discreet.parts import RECIPES, Part, Registry
from discreet.pools.opening import READERS
from discreet.pools.schema import Schema as TableSchema
from discreet.pools.schema import checked_schema
from discreet.privacy.budget import Budget, Unit
from discreet.scorers import SCORERS
from discreet.selectors import SELECTORS
from discreet.trainers.augmentations import AUGMENTATIONS
from discreet.trainers.layouts import TABLES

# ruff: noqa: RUF009 - `key` is dataclasses.field with a check


TASKS = ("binary", "multiclass", "multilabel")
EVALUATIONS = ("public", "paid", "none")
CHOSEN = ("uniformly", "by-public-rule")
MOST_SEED = 2**63 - 1
_PATH = text(what="a path")
_CENTER, _SCALE = number(-1e30, 1e30, such_as="0"), number(1e-30, 1e30, such_as="255")
_MANY = (list, tuple)


def declared_schema(value: object) -> TableSchema:
    """A schema. Of a file that could not be read, `with_schema` gives what is wrong."""
    if isinstance(value, Wrong):
        raise value
    return checked_schema(value)


@dataclass(frozen=True, kw_only=True)
class PoolConfig:
    """People's records.

    path            a file or folder, from where the campaign's file is
    kind            how to read it: a reader of `discreet.pools.READERS`; ``arrays`` are given in Python, and never
                    named by a file
    size            how many records there are
    id              the column (array) with the ids, or ``position``
    columns, text   the columns with numbers, or the one with text
    array           of an npz file: the name of the array with the records
    person          the column (array) that says whose record it is
    persons         how many persons there are, where they are protected
    shape           of one record
    further         where the files are now that joined the pool later, in their order, if they were moved
    center, scale   public numbers: a value v is used as (v - center) / scale; one for all, or one a column
    schema          of a table, instead of columns, text, center and scale: what its columns mean, which values they
                    have, and what becomes of missing ones; in tables of this file, or the path of a TOML file
    """

    path: str = key(_PATH, add="path = 'pool.parquet'")
    kind: str = key(choice(*READERS.names(), "arrays"), add="kind = 'parquet'")
    size: int = key(whole(), add="size = 20000, the number of records in the pool: it is declared, never counted")
    id: str | None = key(WORD, None)
    columns: tuple[str, ...] | None = key(listed(WORD, least=1, distinct=True, such_as="['age', 'dose']"), None)
    text: str | None = key(WORD, None)
    array: str | None = key(WORD, None)
    person: str | None = key(WORD, None)
    persons: int | None = key(whole(), None)
    shape: tuple[int, ...] | None = key(listed(whole(most=10**6), least=1, most=4, such_as="[1, 28, 28]"), None)
    further: tuple[str, ...] | None = key(listed(_PATH, least=1, such_as="['july.parquet']"), None)
    center: float | tuple[float, ...] = key(either(listed(_CENTER, least=1), _MANY, _CENTER), 0.0)
    scale: float | tuple[float, ...] = key(either(listed(_SCALE, least=1), _MANY, _SCALE), 1.0)
    schema: TableSchema | None = key(declared_schema, None)


def with_schema(table: dict[str, Any], _problems: list[Problem], source: Source) -> dict[str, Any]:
    """The table with its schema read, where that is a file of its own."""
    if not isinstance(table.get("schema"), str):
        return table
    try:
        return table | {"schema": TableSchema.read(source.directory / table["schema"])}
    except InvalidConfig as error:
        wrongs = [Wrong(f"{each.asked}: {each.fact}", each.remedy) for each in (error, *error.others)]
        return table | {"schema": Wrong(wrongs[0].fact, wrongs[0].remedy, others=tuple(wrongs[1:]))}


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """What is asked: one of two classes, one of several, or several labels at once. Classes are declared, in order.

    ``threshold``: of two classes, the probability of the second from which it is the answer; None: the likelier one.
    """

    kind: str = key(choice(*TASKS), add="kind = 'multiclass'")
    classes: tuple[str, ...] = key(
        listed(text(what="a class in quotes", most=200), least=1, distinct=True, such_as="['no', 'yes']"),
        add="classes = ['no', 'yes']",
    )
    threshold: float | None = key(number(0, 1, open_ends=True, such_as="0.3"), None)


@dataclass(frozen=True, kw_only=True)
class InitialConfig:
    """Labels that are there already, for phase 0. The guarantee rests on how their records were ``chosen``."""

    path: str = key(_PATH, add="path = 'labels.csv'")
    chosen: str = key(choice(*CHOSEN), add="chosen = 'uniformly', if they were drawn uniformly at random")


@dataclass(frozen=True, kw_only=True)
class OracleConfig(PartTable):
    """Who answers, and how many people answer each question.

    ``separator``: what stands between several labels in a cell of a file.
    """

    registry: ClassVar[Registry] = ORACLES
    name: str = key(part_name(*ORACLES.names()), add="name = 'files'")
    per_question: int = key(whole(most=1000), 1)
    separator: str | None = key(text(what="a sign such as '|'", most=10), None)


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """How good the model is, and who pays for knowing.

    kind        ``public``: on public records; ``paid``: on private ones kept apart, for ``epsilon`` a time; ``none``
    path        of those records, declared as the pool's are
    labels      of a file with their labels: columns record and label
    every       after every so manyth phase, and after the last one
    table       what is counted: ``accuracy``, ``confusion`` or ``scores``; by default what tells most for the price
    edges       of the bins of ``scores``, increasing, within 0 and 1
    group       a column of the file in ``path``: metrics are told for each of its ``groups``, too
    groups      values of that column; left out, those of the schema
    """

    kind: str = key(choice(*EVALUATIONS), "none")
    path: str | None = key(_PATH, None)
    labels: str | None = key(_PATH, None)
    epsilon: Decimal | None = key(exact(zero=False, such_as="'0.1'"), None)
    every: int = key(whole(most=1000), 1)
    table: str | None = key(choice(*TABLES), None)
    group: str | None = key(WORD, None)
    groups: tuple[str, ...] | None = key(listed(WORD, least=1, distinct=True, such_as="['a', 'b']"), None)
    edges: tuple[float, ...] | None = key(listed(number(0, 1), least=2, most=200, such_as="[0.1, 0.5, 0.9]"), None)


def groups_of(evaluation: EvaluationConfig, pool: PoolConfig) -> tuple[str, ...]:
    """Names of the subgroups that an evaluation tells apart: declared with it, or by the schema of the pool."""
    if evaluation.group is None or evaluation.groups is not None:
        return evaluation.groups or ()
    columns = pool.schema.columns if pool.schema is not None else ()
    return next((column.values for column in columns if column.name == evaluation.group), ())


@dataclass(frozen=True, kw_only=True)
class StorageConfig:
    """Where the campaign's state is kept; None: in a file beside this one, called by the campaign's name.

    url         of a SQLite file or a PostgreSQL database; a password is not part of it
    directory   of a database: where this host has keys, checkpoints and copies of files
    mark        the directory for the high-water mark of the ledger; None: beside the keys. Hosts that share a database
                name the same one
    """

    url: str | None = key(address, None)
    directory: str | None = key(_PATH, None)
    mark: str | None = key(_PATH, None)


@dataclass(frozen=True, kw_only=True)
class SimulationConfig:
    """Chance from a seed, so that a run can be repeated. It protects nobody, and everything it makes says so."""

    seed: int = key(whole(0, MOST_SEED), add="seed = 0")


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """The private model that a campaign on public data begins with: weights of [model], as safetensors.

    epsilon, delta                              what it states, if that is all one knows
    sampling_rate, noise_multiplier, steps      of the DP-SGD that made it: composes more tightly
    certificate                                 of discreet, which is verified; its claim is taken
    recall                                      what it says itself of unlabelled public records counts, while it is
                                                fine-tuned, as much as so many labels, so that it does not forget
    """

    path: str = key(_PATH, add="path = 'weights.safetensors'")
    epsilon: Decimal | None = key(exact(zero=False, such_as="'3'"), None)
    delta: Decimal | None = key(exact(zero=True, below=1, such_as="'1e-6'"), None)
    sampling_rate: float | None = key(number(1e-12, 1, such_as="0.01"), None)
    noise_multiplier: float | None = key(number(1e-3, 1e9), None)
    steps: int | None = key(whole(most=10**8), None)
    certificate: str | None = key(_PATH, None)
    recall: float = key(number(0, 1e6, such_as="500"), 0.0)

    @property
    def ways(self) -> tuple[bool, bool, bool]:
        """Which of the three ways something was said of: a statement, a training, a certificate."""
        trained = (self.sampling_rate, self.noise_multiplier, self.steps)
        return (
            self.epsilon is not None or self.delta is not None,
            any(value is not None for value in trained),
            self.certificate is not None,
        )


@dataclass(frozen=True, kw_only=True)
class PrivateConfig:
    """The private records that the checkpoint learnt from, declared as the pool's are. near-private counts them."""

    path: str = key(_PATH, add="path = 'private.npz'")
    size: int = key(whole(), add="size = 40000, the number of private records: it is declared, never counted")


_POSITIVE = number(1e-9, 1e9)
_ROWS = whole(most=10**6)
_NEEDS = ("proba", "draws", "embedding")


@dataclass(frozen=True, kw_only=True)
class BudgetConfig:
    """What is guaranteed, in exact decimals.

    epsilon, delta          for one unit, all phases together
    unit                    ``record`` or ``person``
    records_per_person      the most records of a person that are used at once
    labels                  the most questions people are asked in all phases, if that is limited
    """

    epsilon: Decimal = key(exact(zero=False, such_as="'8'"), add="epsilon = '8'")
    delta: Decimal = key(exact(zero=True, below=1, such_as="'1e-6'"), add="delta = '1e-6', far below 1/records")
    unit: Unit = key(choice(*get_args(Unit)), "record")
    records_per_person: int = key(_ROWS, 1)
    labels: int | None = key(whole(), None)

    def budget(self) -> Budget:
        """As the ledger takes it."""
        return Budget(epsilon=self.epsilon, delta=self.delta, unit=self.unit)


@dataclass(frozen=True, kw_only=True)
class RecipeConfig:
    """How the loop is wired: one of `discreet.parts.RECIPES`."""

    name: str = key(choice(*RECIPES), add="name = 'private-pool'")


@dataclass(frozen=True, kw_only=True)
class ScorerConfig(PartTable):
    """What is worth asking. ``range`` and ``needs`` are for a score of one's own, ``module:callable``."""

    registry: ClassVar[Registry] = SCORERS
    name: str = key(WORD, "random")
    range: tuple[float, ...] | None = key(listed(number(-1e30, 1e30), least=2, most=2, such_as="[0.0, 1.0]"), None)
    needs: Literal["proba", "draws", "embedding"] | None = key(choice(*_NEEDS), None)


@dataclass(frozen=True, kw_only=True)
class SelectorConfig(PartTable):
    """Who is asked. What a query may cost is ``selection_epsilon`` in [plan]."""

    registry: ClassVar[Registry] = SELECTORS
    name: str = key(WORD, "random")

    @property
    def reads_private(self) -> bool:
        """Whether it reads the records of [private]: built-in parts alone, whose price the plan of public data has."""
        return self.origin is None and self.part is not None and "private" in self.part.reads


def _base(value: Any) -> Any:
    """The name of a feature map, or a table with its name and options."""
    table = {"name": value} if isinstance(value, str) else value
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise Wrong("it names no feature map", "Write base = 'bins', or base = { name = 'bins', edges = 8 }")
    try:
        part = FEATURES.get(table["name"])
        checked = part.checked({name: option for name, option in table.items() if name != "name"})
    except BadInput as error:
        raise Wrong(f"{error.asked}: {error.fact}", error.remedy) from None
    return {"name": part.name, **checked}


@dataclass(frozen=True, kw_only=True)
class FeaturesConfig(PartTable):
    """A public function of one record alone, whose values the model learns from instead of the record.

    public   a table of public rows, for maps that are fitted: it is read once, and what was fitted is stored
    base     of random-fourier: the map that it is on top of, by its name or as a table with its options
    quantiles_epsilon, quantile_bins   of bins: edges are private quantiles, for this price, found on so many bins
    cache    whether features of the pool are kept on this host's disk; left out: by size
    """

    registry: ClassVar[Registry] = FEATURES
    name: str = key(part_name(*FEATURES.names()), add="name = 'scattering'")
    public: str | None = key(_PATH, None)
    base: Mapping[str, Any] | None = key(_base, None)
    quantiles_epsilon: Decimal | None = key(exact(zero=False, such_as="'0.1'"), None)
    quantile_bins: int | None = key(whole(2, 4096), None)
    drawn: bool = field(default=False, compare=False, repr=False)
    """Whether ``fitted`` has the private quantiles. Before the first question it has edges of the bounds."""
    cache: bool | None = key(truth, None)
    fitted: FeatureMap | None = field(default=None, compare=False, repr=False)
    """The map itself, once the records are known; of a campaign that exists the stored one."""

    @property
    def lowest(self) -> Part | None:
        """The part that takes the record itself."""
        return self.part if self.base is None else FEATURES.find(self.base["name"])

    def build(self, **records: Any) -> FeatureMap:
        """The map. ``records``: what is declared of them, and public rows, as a `FeatureRequest` has it."""
        base = None
        if self.base is not None:
            options = {name: value for name, value in self.base.items() if name != "name"}
            base = FEATURES.get(self.base["name"]).build(FeatureRequest(options=options, **records))
        built: FeatureMap = self.declared.build(FeatureRequest(options=self.options, base=base, **records))
        return built

    def encoder_from(self, directory: Path) -> Path | str | None:
        """Where the encoder is, seen from the file's folder, or ``module:callable``; None where the map has none."""
        named = (self.base or self.options).get("encoder")
        return encoder_place(directory, named) if isinstance(named, str) else None

    def located(self, feature_map: FeatureMap, directory: Path) -> FeatureMap:
        """A stored map, which has no path, with its encoder where the file says."""
        place = self.encoder_from(directory)
        return feature_map if place is None else feature_map.located(place)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """``name`` of a model, or ``module:callable``; its ``options``; ``init``: a file of public pre-trained weights.

    ``seed`` draws the first weights; it is public. ``encoder``: of a transformer on a pool of texts, the
    folder of the public encoder whose tokens it takes; ``max_length``: the most tokens of a text.
    """

    name: str = key(WORD, add="name = 'linear'")
    options: Mapping[str, Any] = key(options, {})
    init: str | None = key(text(what="a path"), None)
    dropout: float = key(number(0, 0.999, such_as="0.1"), 0.0)
    seed: int = key(whole(0, MOST_SEED), 0)
    encoder: str | None = key(text(what="a path"), None)
    max_length: int | None = key(whole(3, 100_000), None)


@dataclass(frozen=True, kw_only=True)
class AugmentConfig(PartTable):
    """One random change of a view: a built-in one, or your own, ``module:callable``."""

    registry: ClassVar[Registry] = AUGMENTATIONS
    name: str = key(named(*AUGMENTATIONS.names()), add="name = 'flip'")


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """How the model is trained: choices of `discreet.trainers.dp_sgd.Settings`, under the same names.

    ``settings``: ``auto``, by which `discreet.trainers.dp_sgd.automatic_settings` chooses learning rate, clip and
    average of one linear layer from public numbers, where the file gives no learning rate; or ``default``.
    ``class_weights``: declared numbers, one a class, that a record's loss is multiplied by, divided by the largest.
    Counting labels to find them would have to be paid for.
    """

    settings: Literal["auto", "default"] = key(choice("auto", "default"), "auto")
    optimizer: str = key(WORD, "sgd")
    learning_rate: float | None = key(_POSITIVE, None)
    optimizer_options: Mapping[str, Any] = key(options, {})
    schedule: str = key(WORD, "constant")
    clip: float | None = key(_POSITIVE, None)
    adaptive_clip: float | None = key(_POSITIVE, None)
    ema: float | None = key(number(0, 1, open_ends=True, such_as="0.99"), None)
    micro_batch: int = key(_ROWS, 256)
    augment: tuple[AugmentConfig, ...] = key(
        listed(record(AugmentConfig), most=10, such_as="[{ name = 'shift', pixels = 2 }]"), ()
    )
    views: int = key(_ROWS, 1)
    person_clip: Literal["each", "joint"] = key(choice("each", "joint"), "each")
    loss: str | None = key(WORD, None)
    class_weights: tuple[float, ...] | None = key(listed(_POSITIVE, least=1, such_as="[1.0, 5.0]"), None)
    device: str = key(WORD, "auto")
    engine: Literal["auto", "compiled", "reference"] = key(choice("auto", "compiled", "reference"), "auto")
    checkpoint_every: int = key(_ROWS, 50)
