"""Tables of a campaign's file that say what may be lost and how it is spent: budget, recipe, plan, score, selection,
model, training. What there is to learn from is in `discreet.config.data_tables`.

Names of scores, selectors, models and optimizers are words here: the rooms that have them know them, and point at the
line by `CampaignConfig.error`. Schedules, accountants and prices of selection are known below, so they are checked.
"""

# ruff: noqa: RUF009 - `key` is dataclasses.field with a check
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, get_args

from discreet.config.data_tables import MOST_SEED
from discreet.config.keys import key
from discreet.config.table_reading import record
from discreet.config.values import choice, day, either, exact, listed, number, options, place, text, truth, whole
from discreet.privacy.budget import Budget, Unit
from discreet.privacy.plan import Accountant, Schedule
from discreet.privacy.selection_terms import SelectionKind

RECIPES = ("private-pool", "public-data", "crowd", "teachers", "stream")
MOST_QUERIES = 100
_WORD = text(what="a word", most=200)
_POSITIVE = number(1e-9, 1e9)
_ROWS = whole(most=10**6)
_PRICE = exact(zero=True, such_as="'2'")
_NEEDS = ("proba", "draws", "embedding")


def _view(value: Any) -> Any:
    return place(value) if isinstance(value, str) and ":" in value else choice("shift", "flip")(value)


@dataclass(frozen=True, kw_only=True)
class BudgetConfig:
    """What is promised, in exact decimals.

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
    """How the loop is wired: one of `RECIPES`."""

    name: str = key(choice(*RECIPES), add="name = 'private-pool'")


@dataclass(frozen=True, kw_only=True)
class PlanConfig:
    """What `discreet.planning.PlanRequest` asks for, but for the budget and the size of the pool. All public.

    In a file ``queries`` may be one number, with ``phases`` of them; here it is always a tuple. Sizes count units:
    records, or persons where those are protected. ``releases``: of a hidden selection, when each phase becomes public.
    """

    initial: int = key(whole(0), add="initial = 1000, the records of phase 0")
    queries: tuple[int, ...] = key(listed(whole(), most=MOST_QUERIES, such_as="[500, 500]"), ())
    batch: int = key(whole(), add="batch = 256, the expected number in a step")
    epochs: int = key(whole(most=10**6), add="epochs = 10, a phase")
    schedule: Schedule = key(choice(*get_args(Schedule)), "step-amplification")
    accountant: Accountant = key(choice(*get_args(Accountant)), "pld")
    selection: SelectionKind = key(choice(*get_args(SelectionKind)), "one-sided")
    selection_epsilon: Decimal = key(_PRICE, Decimal(0))
    missed: tuple[Decimal, ...] | None = key(listed(_PRICE, most=MOST_QUERIES, such_as="['0.2', '0.2']"), None)
    shards: str | tuple[Decimal, ...] = key(
        either(choice("even"), str, listed(exact(zero=False), least=1, most=MOST_QUERIES, such_as="['0.6', '0.4']")),
        "even",
    )
    individual_rates: bool = key(truth, False)
    high_share: float | None = key(number(0, 1, open_ends=True, such_as="0.5"), None)
    reads_training_data: bool = key(truth, False)
    whole_batches: bool = key(truth, False)
    releases: tuple[str, ...] | None = key(
        listed(day, least=1, most=MOST_QUERIES + 1, such_as="['2027-01-15', '2027-02-15']"), None
    )


@dataclass(frozen=True, kw_only=True)
class ScorerConfig:
    """What is worth asking. ``range`` and ``needs`` are for a score of one's own, ``module:callable``."""

    name: str = key(_WORD, "random")
    clip: float | None = key(_POSITIVE, None)
    draws: int | None = key(whole(2, 10_000), None)
    range: tuple[float, ...] | None = key(listed(number(-1e30, 1e30), least=2, most=2, such_as="[0.0, 1.0]"), None)
    needs: Literal["proba", "draws", "embedding"] | None = key(choice(*_NEEDS), None)


@dataclass(frozen=True, kw_only=True)
class SelectorConfig:
    """Who is asked. What a query may cost is ``selection_epsilon`` in [plan].

    threshold_epsilon, threshold    the price of a private threshold for each query, or a declared one, which is free
    share_above, bins               the share of the pool above a private threshold; the grid it is found on
    clip, subsample, delta          of noisy top-k: what scores are clipped at; the share looked at; of Gaussian noise
    radius, anchored                of k-centre
    uncertain, each, components     among public records: how many of the most uncertain are looked at; how many are
                                    taken of a cluster; of how many components
    support_epsilon                 of near-private: the price of its counts
    components_noise, norm          of near-private: the noise of its components (None: what the budget leaves), and
                                    what embeddings are clipped to (None: by public records)
    """

    name: str = key(_WORD, "random")
    threshold_epsilon: Decimal | None = key(exact(zero=False, such_as="'0.05'"), None)
    threshold: float | None = key(number(-1e30, 1e30), None)
    share_above: float | None = key(number(0, 1, open_ends=True, such_as="0.2"), None)
    bins: int | None = key(whole(2, 4096), None)
    clip: float | None = key(_POSITIVE, None)
    subsample: float | None = key(number(1e-9, 1, such_as="0.7"), None)
    delta: Decimal | None = key(exact(zero=True, below=1, such_as="'1e-7'"), None)
    radius: float | None = key(number(1e-100, 1e100), None)
    anchored: bool | None = key(truth, None)
    uncertain: int | None = key(whole(), None)
    each: int | None = key(whole(most=10**6), None)
    components: int | None = key(whole(most=10**5), None)
    support_epsilon: Decimal | None = key(exact(zero=False, such_as="'0.5'"), None)
    components_noise: float | None = key(_POSITIVE, None)
    norm: float | None = key(number(1e-90, 1e90), None)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """``name`` of a model, or ``module:callable``; its ``options``; ``init``: a file of public pre-trained weights.

    ``seed`` draws the first weights; it is public. ``encoder``: of a pool of texts, the folder of a public encoder
    whose vectors (or tokens, for a transformer) the model takes; ``max_length``: the most tokens of a text.
    """

    name: str = key(_WORD, add="name = 'linear'")
    options: Mapping[str, Any] = key(options, {})
    init: str | None = key(text(what="a path"), None)
    dropout: float = key(number(0, 0.999, such_as="0.1"), 0.0)
    seed: int = key(whole(0, MOST_SEED), 0)
    encoder: str | None = key(text(what="a path"), None)
    max_length: int | None = key(whole(3, 100_000), None)


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """One random change of a view: ``shift`` (by up to ``pixels``, filled with ``fill``), ``flip``, or your own."""

    name: str = key(_view, add="name = 'flip'")
    pixels: int | None = key(whole(most=1000), None)
    fill: float | None = key(number(-1e30, 1e30, such_as="0.0"), None)


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """How the model is trained: choices of `discreet.trainers.dp_sgd.Settings`, under the same names.

    ``class_weights``: declared numbers, one a class, that a record's loss is multiplied by. Counting labels to find
    them would have to be paid for.
    """

    optimizer: str = key(_WORD, "sgd")
    learning_rate: float = key(_POSITIVE, 0.5)
    optimizer_options: Mapping[str, Any] = key(options, {})
    schedule: str = key(_WORD, "constant")
    clip: float = key(_POSITIVE, 1.0)
    adaptive_clip: float | None = key(_POSITIVE, None)
    ema: float | None = key(number(0, 1, open_ends=True, such_as="0.99"), None)
    micro_batch: int = key(_ROWS, 256)
    augment: tuple[AugmentConfig, ...] = key(
        listed(record(AugmentConfig), most=10, such_as="[{ name = 'shift', pixels = 2 }]"), ()
    )
    views: int = key(_ROWS, 1)
    person_clip: Literal["each", "joint"] = key(choice("each", "joint"), "each")
    loss: str | None = key(_WORD, None)
    class_weights: tuple[float, ...] | None = key(listed(_POSITIVE, least=1, such_as="[1.0, 5.0]"), None)
    device: str = key(_WORD, "auto")
    engine: Literal["auto", "compiled", "reference"] = key(choice("auto", "compiled", "reference"), "auto")
    checkpoint_every: int = key(_ROWS, 50)
