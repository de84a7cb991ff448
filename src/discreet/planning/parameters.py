"""The parameters of a plan. Each is declared here once: its type, its default, the check of its values, its meaning.

`PlanTable` is the table [plan] of a campaign's file. `PlanParameters` adds what other tables say: the budget, the pool,
the selector. The command line, the file, Python and the reference page read these fields. The presets are the settings
of the DP-AL paper.

Every number here is public: planned sizes, never counted ones. Sizes count records, or persons where those are
protected.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, get_args

from discreet.checks import choice, day, either, exact, key, listed, number, truth, whole
from discreet.errors import BadInput
from discreet.privacy.budget import BINS, Accountant, Budget, Schedule, SelectionKind, exact_decimal

# ruff: noqa: RUF009 - `key` is dataclasses.field with a check

MOST_QUERIES = 100
Mechanism = Literal["laplace", "exponential", "k-centre", "gaussian", "subsampled-gaussian"]
"""What a query is whose price every record of the pool pays."""
GAUSSIAN = ("gaussian", "subsampled-gaussian")
SCOUT_EPOCHS = 0.3
"""How many epochs a scout trains, as a share of those of the last phase."""
_PRICE = exact(zero=True, such_as="'2'")


@dataclass(frozen=True, kw_only=True)
class PlanTable:
    """What the table [plan] says. In a file ``queries`` may be one number, with ``phases`` of them; here it is a tuple.

    Without ``batch`` or ``epochs`` a campaign has those of `discreet.trainers.dp_sgd.automatic_settings`.

    Without ``missed``, the caps on misses are the largest that cost nothing: they sum to at most eps_a before the
    last query, so backward is never worse than forward, and the last one takes what a never-asked record may still
    lose. With a pool size they are shared out by what each query needs; with individual rates too, where records
    asked from below do pay for misses, they are what each query needs and a fifth more.
    """

    initial: int = key(
        whole(0),
        add="initial = 1000, the records of phase 0",
        meaning="Records labelled before the first training phase.",
    )
    queries: tuple[int, ...] = key(
        listed(whole(), most=MOST_QUERIES, such_as="[500, 500]"),
        (),
        meaning="Labels asked for after each phase.",
    )
    batch: int | None = key(
        whole(),
        None,
        meaning="Expected batch, b. Public; never recomputed. With scout: at most, in each phase.",
    )
    epochs: int | None = key(
        whole(most=10**6),
        None,
        meaning="Epochs per phase of the naive schedule, e.",
    )
    schedule: Schedule = key(
        choice(*get_args(Schedule)),
        "step-amplification",
        meaning="naive, step-amplification, noise-reduction, continual or scout.",
    )
    scout_epsilon: Decimal | None = key(
        exact(zero=False, such_as="'2'"),
        None,
        meaning="With scout: what each model that only chooses costs by itself; default: three tenths of epsilon, of "
        "several divided by the root of their number.",
    )
    scout_epochs: int | None = key(
        whole(most=10**6),
        None,
        meaning="With scout: epochs of each model that only chooses; default: three tenths of epochs.",
    )
    accountant: Accountant = key(choice(*get_args(Accountant)), "pld", meaning="pld (the claim) or rdp (fast, looser).")
    selection: SelectionKind = key(
        choice(*get_args(SelectionKind)),
        "one-sided",
        meaning="How asking is priced: one-sided (default), shards, paper, separate-budget, or hidden.",
    )
    selection_epsilon: Decimal = key(
        _PRICE, Decimal(0), meaning="What being asked may cost (0: records are asked at random)."
    )
    missed: tuple[Decimal, ...] | None = key(
        listed(_PRICE, most=MOST_QUERIES, such_as="['0.2', '0.2']"),
        None,
        meaning="Caps on what each miss may cost (eps_n per query); default: the free ones.",
    )
    shards: str | tuple[Decimal, ...] = key(
        either(choice("even"), str, listed(exact(zero=False), least=1, most=MOST_QUERIES, such_as="['0.6', '0.4']")),
        "even",
        meaning="Shares of the pool each query sees: even, or 0.6,0.2,.. summing to 1.",
    )
    individual_rates: bool = key(truth, False, meaning="Records asked from below the threshold get their own rate.")
    high_share: float | None = key(
        number(0, 1, open_ends=True, such_as="0.5"),
        None,
        meaning="Expected share of a cohort asked from above; default from the pool size.",
    )
    reads_training_data: bool = key(truth, False, meaning="Scores read training records: everyone pays every query.")
    whole_batches: bool = key(truth, False, meaning="Naive rates as 1/floor(|D|/b), as the DP-AL paper counts.")
    releases: tuple[str, ...] | None = key(
        listed(day, least=1, most=MOST_QUERIES + 1, such_as="['2027-01-15', '2027-02-15']"),
        None,
        meaning="With hidden: the day on which each phase becomes public, 2027-01-15,2027-02-15; none: time is not "
        "covered.",
    )


@dataclass(frozen=True, kw_only=True)
class PlanParameters(PlanTable):
    """All that a plan is made from. Decimals may be given as numbers or as text; they are taken exactly as written.

    A hidden selection has no caps on misses. Its cohorts get slots, for which it keeps a part of delta.

    Gaussian mechanisms have a separate budget, with ``selection_delta`` for all queries together; ``accountant`` finds
    their noise. ``bins``: the grid on which a hidden selection finds its thresholds. ``quantile_cells``: how many cells
    of the histograms for private quantiles a unit is counted in.
    """

    budget: Budget
    batch: int = key(
        whole(),
        add="batch = 256, the expected number in a step",
        meaning="Expected batch, b. Public; never recomputed. With scout: at most, in each phase.",
    )
    epochs: int = key(
        whole(most=10**6), add="epochs = 10, a phase", meaning="Epochs per phase of the naive schedule, e."
    )
    threshold_epsilon: Decimal = key(
        _PRICE, Decimal(0), meaning="Price of each private threshold; 0 when thresholds are public."
    )
    mechanism: Mechanism = key(
        choice(*get_args(Mechanism)),
        "laplace",
        meaning="With paper: laplace, exponential, k-centre; separate-budget: gaussian, subsampled-gaussian.",
    )
    subsample: float | None = key(
        number(1e-9, 1), None, meaning="Share of the pool that a subsampled-gaussian query looks at."
    )
    selection_delta: Decimal | None = key(
        _PRICE, None, meaning="With separate-budget: the part of delta for queries; half of it by default."
    )
    pool_size: int | None = key(
        whole(), None, meaning="Records (or persons) in the pool: checks delta, sizes and shards."
    )
    quantiles_epsilon: Decimal = key(
        _PRICE, Decimal(0), meaning="Price of private quantiles for the edges of features, paid by every record once."
    )
    bins: int = field(default=BINS)
    quantile_cells: int = field(default=1)

    @property
    def caps(self) -> tuple[Decimal, ...]:
        """The caps on misses as they were asked for; none, if they were left out."""
        return tuple(exact_decimal(cap, "cap on misses") for cap in self.missed or ())


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What one row of the DP-AL paper's Table 3 says about planning."""

    initial: int = 10_000
    queries: tuple[int, ...] = (10_000, 3_000, 1_000, 1_000)
    batch: int = 4096
    epochs: int = 30
    delta: str = "4e-5"
    pool_size: int
    epsilon: str = "8"
    selection_epsilon: str = "2"


PRESETS: dict[str, Preset] = {
    "dpal-cifar10": Preset(pool_size=40_000),
    "dpal-cifar10-equivariant": Preset(epochs=60, pool_size=40_000),
    "dpal-bloodcell": Preset(
        initial=1_024, queries=(1_024, 300, 100, 52), batch=512, epochs=21, delta="4e-4", pool_size=11_959
    ),
    "dpal-retinaloct": Preset(pool_size=97_477),
    "dpal-chexpert": Preset(pool_size=223_582),
    "dpal-snli": Preset(
        initial=20_000, queries=(20_000, 6_000, 2_000, 2_000), epochs=15, delta="2e-5", pool_size=550_152
    ),
}


def preset(name: str) -> Preset:
    """The preset of this name."""
    if name not in PRESETS:
        raise BadInput(f"preset {name}", "there is no such preset", f"Choose one of {', '.join(PRESETS)}")
    return PRESETS[name]
