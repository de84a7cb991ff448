"""Hidden threshold: everybody above a noisy threshold is asked, and nobody but owner and annotators learns whom.

Guarantee (docs/proofs/hidden-selection.md): the noisy histogram in which the threshold is found costs
``threshold_epsilon`` to every record that it counts, and nothing else is paid for, *because the asked set is not
released*: neither ids, nor how many, nor anything that is computed from them but the models that are trained with
padded cohorts. Where others see the questions, use `ThresholdSelector`.

What that needs, and what is done for it: whether a record is asked depends on its own score, the noisy counts and its
own coin. So nobody is displaced: no truncation to k, no topping up. Nothing here depends on the number of ids: records
that were asked earlier stay in their places with a score at the bottom, as nulls have, and are counted no more
(`without_asked`).

From noisy counts the bin is found in which the k-th score lies. Above it everybody is asked, in it each by a secret
coin whose chance makes k the expected number, below it nobody, nor anybody at the bottom. More than ``slots`` are asked
with a probability that the plan has paid for; then some are dropped at random.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise import discrete_laplace, numerator, random_coins, random_places
from discreet.parts import Part
from discreet.privacy.budget import BINS, Number, exact_decimal
from discreet.privacy.events import DiscreteLaplace, Event
from discreet.privacy.ledger import Receipt
from discreet.privacy.plan import Plan
from discreet.privacy.selection_terms import MOST_BINS
from discreet.records import Selection
from discreet.scorers.score import declared_range
from discreet.selectors.selection_inputs import BINS as BINS_OPTION
from discreet.selectors.selection_inputs import (
    THRESHOLD_EPSILON,
    Floats,
    SelectorRequest,
    checked,
    chosen,
    histogram_of,
    one_receipt,
    pure_price,
    tails_of,
    whole,
)


@dataclass(frozen=True, kw_only=True)
class HiddenThresholdSelector:
    """``slots``: of the cohort that the asked enter, as its plan has committed; see `of_plan`.

    Its selections are for owner and annotators alone: **their ids, and their number, must never be shown to the
    public**.
    """

    threshold_epsilon: Number
    slots: int
    range: tuple[float, float] = (0.0, 1.0)
    bins: int = BINS
    name = "hidden-threshold"
    hides_asked = True
    """For the contract of selectors: what it releases is its threshold."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "range", declared_range(self.range))
        object.__setattr__(self, "threshold_epsilon", exact_decimal(self.threshold_epsilon, "threshold_epsilon"))
        if exact_decimal(self.threshold_epsilon, "threshold_epsilon") <= 0:
            raise BadInput("a hidden threshold", "nothing pays for it", "Give threshold_epsilon, such as 0.05")
        if type(self.bins) is not int or not 2 <= self.bins <= MOST_BINS:
            raise BadInput(f"{self.bins} bins", f"a grid has 2 to {MOST_BINS}", f"Try {BINS}")
        if type(self.slots) is not int or self.slots < 1:
            raise BadInput("the slots of a hidden selection", "they are no whole number from 1", "Use of_plan")

    @classmethod
    def of_plan(cls, plan: Plan, query: int, *, range: tuple[float, float] = (0.0, 1.0)) -> Self:  # noqa: A002
        """The selector of query ``query`` (1..T) of a plan with hidden selection."""
        terms = plan.selection
        if terms.hidden is None:
            raise BadInput(
                f"a hidden threshold for a plan with {terms.kind} selection",
                "the plan has no slots for it",
                "Plan with selection='hidden'",
            )
        if type(query) is not int or not 1 <= query <= terms.queries:
            raise BadInput(f"query {query}", f"the plan has {terms.queries} queries", "Count from 1")
        slots = terms.hidden.slots[query - 1]
        return cls(threshold_epsilon=terms.threshold_epsilon, slots=slots, range=range, bins=terms.hidden.bins)

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """The histogram."""
        return (DiscreteLaplace(epsilon=self.threshold_epsilon),)

    def select(
        self, *, ids: Any, scores: Any, k: int, receipt: Receipt | Sequence[Receipt], phase: int = 0
    ) -> Selection:
        """About k records. ``ids``: the whole pool, those who were asked earlier at the bottom of the range."""
        wanted = whole(k)
        if wanted > self.slots:
            raise BadInput(f"asking {wanted} records", f"their cohort has {self.slots} slots", "Use the plan's sizes")
        names, values, _ = checked(ids, scores, k, self.range)
        paid = one_receipt(receipt)
        where = self.bins_of(values)
        noisy = self.noisy_counts(where, paid)
        edge, share = edge_of(tails_of(noisy, np.inf), wanted)
        fell = random_coins(len(names), numerator(float(share), up=False), where=paid)
        asked = (where > edge) | ((where == edge) & fell)
        mixed = random_places(len(names), len(names), where=paid)  # of all, so that it tells nothing of how many
        places = mixed[asked[mixed]][: self.slots]
        bottom, top = self.range
        return Selection(
            ids=chosen(names, places),
            mechanism=self.name,
            simulation=paid.simulation,
            epsilon=pure_price(paid),
            threshold=float(bottom + (top - bottom) * int(edge) / self.bins),
            histogram=histogram_of(noisy, self.range, self.threshold_epsilon),
        )

    def bins_of(self, values: Floats) -> NDArray[np.int64]:
        """The bin of each score; -1 at the bottom, where a null is, which is not counted and never asked."""
        bottom, top = self.range
        with np.errstate(all="ignore"):  # a warning would tell how large a score is
            raised = (values - bottom) * (self.bins / (top - bottom))
        bins = np.minimum(raised, self.bins - 1).astype(np.int64)
        return np.asarray(np.where(values > bottom, bins, -1))

    def noisy_counts(self, where: NDArray[np.int64], paid: Receipt) -> Floats:
        """About how many are in each bin."""
        counts = np.bincount(where[where >= 0], minlength=self.bins)
        return np.asarray(discrete_laplace(counts, receipt=paid), dtype=np.float64)


def edge_of(tails: Floats, k: int) -> tuple[Any, Any]:
    """The bin in which the k-th score lies, by noisy tails (along the last axis), and the share of it that is asked.

    Where there are not so many: the lowest bin, and all of it.
    """
    bounded = np.concatenate([tails, np.zeros((*tails.shape[:-1], 1))], axis=-1)
    edge = np.count_nonzero(bounded > k, axis=-1) - 1 if k else np.full(tails.shape[:-1], tails.shape[-1])
    position = np.clip(edge, 0, tails.shape[-1] - 1)[..., None]  # tails never rise
    here, above = (np.take_along_axis(bounded, position + up, axis=-1)[..., 0] for up in (0, 1))
    share = np.where(edge < 0, 1.0, (k - above) / np.where(here > k, here - above, 1.0))
    return np.maximum(edge, 0), np.where(k > 0, share, 0.0)


def without_asked(
    ids: Sequence[str],
    scores: Any,
    asked: Iterable[str],
    *,
    range: tuple[float, float] = (0.0, 1.0),  # noqa: A002
) -> Floats:
    """A copy of ``scores`` with those who were ``asked`` earlier at the bottom, in their places. Owner only."""
    values, gone = np.array(scores, dtype=np.float64), set(asked)
    values[[position for position, name in enumerate(ids) if name in gone]] = declared_range(range)[0]
    return values


def _built(request: SelectorRequest) -> HiddenThresholdSelector:
    if request.plan is None:
        raise BadInput(
            "the mechanism hidden-threshold",
            "its price holds while nobody but owner and annotators sees whom it asks, and here that is shown",
            "Choose threshold-response; plan a hidden selection with `discreet plan --selection hidden`",
        )
    return HiddenThresholdSelector.of_plan(request.plan, request.query, range=request.range)


PARTS = (
    Part(
        kind="selector",
        name="hidden-threshold",
        summary="hidden selection: thresholds alone; asked sets stay with owner and annotators",
        build=_built,
        options=(THRESHOLD_EPSILON, BINS_OPTION),
        prices=("hidden",),
    ),
)
