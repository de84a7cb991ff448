"""Inputs of a selection: what a selector is built for, ids and scores, checked, and the receipts that pay for it.

Ids are public; an error never says anything of scores. A selection is charged before anything is drawn, one receipt for
each part of its price.

Partitions of a pool: shards, by a keyed hash of ids, and the cohorts of a plan that selected records enter. The cut is
secret chance on public ids, so it costs nothing; and since nobody meets two queries, a shard needs no caps on misses.
Where a plan has individual rates, a record that was asked from below the threshold enters the cohort of those who lost
nothing forward, and one from above the other. Audience: owner, as `Selection.above` is; which cohort a record is in
must not leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_UP, Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.checks import exact
from discreet.checks import whole as whole_number
from discreet.errors import BadInput, DiscreetError
from discreet.noise import SealedPhase, SecretKey, Source, charge_once
from discreet.parts import Option
from discreet.privacy.budget import Number, exact_decimal, exact_minus, exact_sum
from discreet.privacy.events import Event, Repeated
from discreet.privacy.ledger import ChargeReason, Ledger, Receipt
from discreet.privacy.ledger.charges import Charge, request
from discreet.privacy.plan import Cohort, Plan
from discreet.records import NoisyHistogram, Selection
from discreet.roles import Selector

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SelectorRequest:
    """What a selector is built for: one query, what it may cost, and the range of its scores.

    epsilon, delta     of the query: what one is asked to cost, or what the plan pays for each
    plan, query        of a campaign: the plan, and the number of the query in it, from 1; without a plan a query stands
                       by itself
    options            of the part, as it declares them
    usual_clip         the share of its range at which a score is usually clipped
    noise_multiplier   of components that the plan pays for
    """

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)
    range: tuple[float, float] = (0.0, 1.0)
    options: Mapping[str, Any] = field(default_factory=dict)
    source: Source | None = None
    seed: int = 0
    plan: Plan | None = None
    query: int = 0
    usual_clip: float = 1.0
    noise_multiplier: float = 0.0


def checked(ids: Any, scores: Any, k: Any, limits: tuple[float, float] | None) -> tuple[Sequence[str], Floats, int]:
    """Ids as they are, scores in their range (what is no number is at the bottom, as a null is), and at most all of
    them.
    """
    names, count = some_of(ids, k)
    if limits is None:
        return names, np.zeros(len(names)), count
    try:
        values = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("scores", "they are not numbers", "Give one number a record") from None
    if values.shape != (len(names),):
        raise BadInput("scores", "there is not one for each id", "Give ids and scores in the same order")
    bottom, top = limits
    np.fmax(values, bottom, out=values)  # the bottom also where there is no number
    return names, np.minimum(values, top, out=values), count


def some_of(ids: Any, k: Any) -> tuple[Sequence[str], int]:
    """Ids as they are, and how many of them are asked: k, at most all."""
    names = _names(ids)
    return names, min(whole(k), len(names))


def whole(k: Any) -> int:
    """How many are to be asked."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 0:
        raise BadInput(f"asking {k} records", "it is not a whole number", "Give 0 or more")
    return int(k)


def _names(ids: Any) -> Sequence[str]:
    names: Sequence[str] = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    if not all(type(name) is str for name in names):
        raise BadInput("ids", "they are not all text", "Use your own ids, as strings")
    if len(set(names)) != len(names):
        raise BadInput("ids", "one of them occurs twice", "Give every record an id of its own")
    return names


def chosen(ids: Sequence[str], places: NDArray[np.int64]) -> tuple[str, ...]:
    """Ids at places."""
    return tuple(ids[position] for position in places.tolist())


def several(receipt: Receipt | Sequence[Receipt]) -> list[Receipt]:
    """Receipts, in the order of the price."""
    return [receipt] if isinstance(receipt, Receipt) else list(receipt)


def one_receipt(receipt: Receipt | Sequence[Receipt]) -> Receipt:
    """The one there is."""
    receipts = several(receipt)
    if len(receipts) != 1:
        raise BadInput("a selection", f"it has {len(receipts)} receipts, and is paid by one", "Charge its price")
    return receipts[0]


def pure_price(*paid: Receipt) -> Decimal:
    """What the charges cost, taken by themselves; infinite where there is no epsilon at delta 0.

    Groups that one receipt charges are served by the same draws, so a record pays the dearest of them, not their sum.
    """
    return exact_sum(max(_pure(charge) for charge in receipt.entry.charges) for receipt in paid)


def _pure(charge: Charge) -> Decimal:
    epsilon = Repeated(event=charge.event, count=charge.count).pure_epsilon()
    return Decimal("Infinity") if epsilon is None else epsilon


def charge_selection(
    where: Ledger | SealedPhase,
    selector: Selector,
    *,
    k: int,
    pool_size: int,
    who: str | Sequence[str],
    why: ChargeReason | str,
) -> list[Receipt]:
    """A receipt for each part of the price, durable when this returns; after a restart, the same ones again
    (`discreet.noise.charge_once`).

    ``who``: the pool; and, for a selector that reads labelled records too, every group of theirs.
    """
    groups = [who] if isinstance(who, str) else list(who)
    wanted = [
        request(dict.fromkeys(groups, event), count=count, why=why)
        for event, count in counted_events(selector.price(k, pool_size))
    ]
    return charge_once(where, wanted) if wanted else []


def counted_events(price: Sequence[Event]) -> list[tuple[Event, int]]:
    """Each event of a price, and how often it is charged."""
    return [(event.event, event.count) if isinstance(event, Repeated) else (event, 1) for event in price]


def check_chosen(selection: Selection, names: Sequence[str], most: int) -> None:
    """Refuse, before anybody sees it, a selection of other records than were given, of one twice, or of too many."""
    ids = set(selection.ids)
    if not len(ids) == len(selection.ids) == len(ids.intersection(names)) <= most:
        fact = "it is not of distinct records of the pool, at most as many as were asked for; nobody was told"
        raise DiscreetError(f"a selection by {selection.mechanism}", fact, "Ask the authors of the selector")


DELTA = Option(
    name="delta",
    check=exact(zero=True, below=1, such_as="'1e-7'"),
    type="decimal",
    default="half of delta",
    meaning="the part of delta that pays for all queries; 0 for `k-centre` in a campaign",
)

THRESHOLD_EPSILON = Option(
    name="threshold_epsilon",
    check=exact(zero=False, such_as="'0.05'"),
    type="decimal",
    meaning="what finding a threshold costs in each phase",
)
BINS = Option(
    name="bins", check=whole_number(2, 4096), type="whole number", default="64", meaning="the grid on which it is found"
)


def histogram_of(noisy: Floats, limits: tuple[float, float], epsilon: Number, *, every: int = 1) -> NoisyHistogram:
    """What was released to find a threshold."""
    counts = tuple(int(count) for count in noisy.tolist())
    return NoisyHistogram(range=limits, counts=counts, epsilon=exact_decimal(epsilon, "threshold_epsilon"), every=every)


def tails_of(counts: NDArray[np.float64], pool: Any) -> NDArray[np.float64]:
    """About how many are at each edge or above, along the last axis: sums of noisy counts, which never fall as the edge
    does.

    Counts below 0 stay in the sums. Raising each of them to 0 would make empty bins at the top look full, so that too
    few would be asked.
    """
    sums = np.maximum.accumulate(np.cumsum(counts[..., ::-1], axis=-1), axis=-1)[..., ::-1]
    return np.asarray(np.clip(sums, 0.0, pool))


MOST_SHARDS = 10_000


def even_shares(count: int) -> tuple[Decimal, ...]:
    """Shares that sum to exactly 1."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_SHARDS:
        raise BadInput(f"{count} shards", f"it must be a whole number from 1 to {MOST_SHARDS}", "Give one a query")
    each = (Decimal(1) / count).quantize(Decimal("1e-12"), rounding=ROUND_UP)
    return (*(each,) * (count - 1), exact_minus(Decimal(1), each * (count - 1)))


def in_shard(ids: Sequence[str], number: int, count: int, key: SecretKey) -> NDArray[np.int64]:
    """The places of the ids that are in shard ``number``, from 1."""
    if not 1 <= number <= count:
        raise BadInput(f"shard {number} of {count}", "there is none of that number", f"Choose 1 to {count}")
    return np.flatnonzero(key.shards(ids, even_shares(count)) == number - 1)


def into_cohorts(plan: Plan, query: int, selection: Selection) -> dict[str, tuple[str, ...]]:
    """Ids by the label of the cohort they enter, for query number ``query`` (1..T)."""
    cohorts = [cohort for cohort in plan.cohorts if cohort.phase == query]
    if type(query) is not int or query < 1 or not cohorts:
        raise BadInput(f"the cohorts of query {query}", f"the plan has {len(plan.phases) - 1} queries", "Count from 1")
    parted = any(cohort.part for cohort in cohorts)
    if parted and selection.above is None:
        raise BadInput(
            f"individual rates for a selection by {selection.mechanism}",
            "nothing says who was asked from above a threshold",
            "Select by threshold response, or plan without individual rates",
        )
    return {
        cohort.label: tuple(name for name in selection.ids if _enters(cohort, name, selection)) for cohort in cohorts
    }


def _enters(cohort: Cohort, name: str, selection: Selection) -> bool:
    return cohort.part is None or (name in (selection.above or ())) == (cohort.part == "high")
