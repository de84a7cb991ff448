"""Tables of a stream's file: what a record is, what may be lost, who is asked, how the model learns, where it is kept.

Numbers of rules, slabs, windows, losses and noise are checked here by themselves; what they cost together is the
stream's business, and its errors point at the line.
"""

# ruff: noqa: RUF009 - `key` is dataclasses.field with a check
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, get_args

from discreet.config.keys import key
from discreet.config.values import Wrong, choice, either, exact, listed, number, shown, text, truth, whole
from discreet.privacy.budget import Budget, Unit

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
_WORD = text(what="a word", most=200)
_WORDS = listed(_WORD, least=1, distinct=True, such_as="['amount', 'hour']")
_CONSTANT = either(listed(number(-1e18, 1e18), least=1, such_as="[0.0, 1.0]"), (list, tuple), number(-1e18, 1e18))
_POSITIVE = number(1e-12, 1e12)
_LOSS = exact(zero=False, such_as="'1'")
_COST = exact(zero=True, such_as="'1'")
_WORD_OF_REDIS = text(what="a name", most=200)


def _choices(value: Any) -> dict[str, tuple[str, ...]]:
    """Columns whose values are declared."""
    if not isinstance(value, dict):
        raise Wrong(f"{shown(value)} is not a table", "Write it like { country = ['de', 'fr'] }")
    found = {}
    for name, words in value.items():
        try:
            found[_WORD(name)] = _WORDS(words)
        except Wrong as wrong:
            raise Wrong(wrong.fact, wrong.remedy, (name, *wrong.at)) from None
    return found


@dataclass(frozen=True, kw_only=True)
class RecordsConfig:
    """What a record is, and how it becomes a vector. Everything is declared: nothing is found by looking.

    columns         with numbers: (value - center) / scale
    choices         columns with declared words: a number for each word
    center, scale   public numbers, one for all columns or one each
    radius          M: a longer vector is cut to it
    preparation     instead of all these: a file that `Preparation.to_json` wrote (constants or components of a public
                    sample)
    id, label       what they are called in a line
    person          the same of the person whose record it is, where persons are protected
    """

    columns: tuple[str, ...] = key(_WORDS, ())
    choices: Mapping[str, tuple[str, ...]] = key(_choices, {})
    center: float | tuple[float, ...] = key(_CONSTANT, 0.0)
    scale: float | tuple[float, ...] = key(_CONSTANT, 1.0)
    radius: float = key(_POSITIVE, 1.0)
    preparation: str | None = key(_PATH, None)
    id: str = key(_WORD, "id")
    label: str = key(_WORD, "label")
    person: str | None = key(_WORD, None)


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
