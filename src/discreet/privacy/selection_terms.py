"""What choosing costs: the selection terms a plan commits to, and the branches they put on each path.

one-sided   asked costs eps_a once, forward; each miss costs its committed cap eps_n,i, backward (T phases cost the
            maximum, not the sum). Holds for rules that release the asked set only, with the null at the bottom.
shards      the pool is cut once by keyed hash; each record meets one query, so there are no earlier misses.
paper       the DP-AL paper's price: every query costs eps_sel / T to every record still in the pool.
separate-budget
            for selections that are not pure (Gaussian): all T queries are one block of (eps_sel, a part of delta),
            which every record of the pool pays whole (docs/proofs/apart.md).
hidden      the asked sets are not released: owner and annotators keep them, and only the thresholds are paid for
            (docs/proofs/hidden-selection.md). Cohorts have committed numbers of slots.

Each private threshold adds ``threshold_epsilon`` for everyone in the pool at that time. Private quantiles of features
are taken once, before the first question: every path pays for them, in both directions.

Hidden selection
----------------
It asks everybody above a noisy threshold, so how many are asked depends on private records. Nothing that is released
may tell: a cohort has a committed number of slots, and what nobody fills is nulls. More are asked than there are slots
with probability at most ``chance``, whatever the records are.

Guarantee: every bound here is on the safe side. With B counts, each with discrete Laplace noise of parameter eps, the
sums from the top are off by less than N at once but for

    inf over 0 < t < eps of  ((cosh eps - 1) / (cosh eps - cosh t))^B e^(-t N)

(Chernoff, and Doob's inequality for the largest of the sums). Then at most M = k + N are asked on average, and M + s or
more of them with probability at most exp(-s^2 / (2 (M + s / 3))) (Bernstein). Each of the two takes half of the chance.

How long labelling takes depends on how many were asked, so what is public changes on planned dates only. A phase is
released at the start of its date (00:00 UTC), and must be trained before that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from decimal import ROUND_FLOOR, Context, Decimal
from itertools import pairwise
from typing import Any, Literal, Self, get_args

from discreet.errors import BadInput, InvalidPlan
from discreet.privacy.budget import BINS, SelectionKind, exact_decimal, exact_sum, float_below, json_number, share_of
from discreet.privacy.event_forms import from_json, to_json
from discreet.privacy.events import BlockEvent, Composed, DiscreteLaplace, Event, Laplace, ThresholdResponse
from discreet.privacy.trajectories import Branch

MOST_BINS = 4096
_SHARE = Decimal(1000)
_MARGIN = 2
"""One for the record in question, which its null does not count, and one for rounding."""

NOT_RELEASED = "asked sets are not released"
"""What a plan, a ledger and a certificate of a hidden selection say of themselves."""


@dataclass(frozen=True, kw_only=True)
class HiddenSlots:
    """Committed slots of every query's cohort. Public.

    slots     of each cohort: filled by the asked, the others with nulls
    bins      counts of each histogram; the slots are enough for these
    overflow  the part of delta that is kept for more being asked than there are slots, in any query
    releases  planned release dates, one a phase (phase 0 has no query); none: time is not covered
    """

    slots: tuple[int, ...]
    bins: int = BINS
    overflow: Decimal
    releases: tuple[date, ...] = ()

    def __post_init__(self) -> None:
        if type(self.bins) is not int or not 2 <= self.bins <= MOST_BINS:
            raise BadInput(f"{self.bins} bins", f"a grid has 2 to {MOST_BINS}", f"Try {BINS}")
        if not all(type(count) is int and count >= 1 for count in self.slots) or not self.slots:
            raise BadInput("the slots of a hidden selection", "they are not whole numbers from 1", "Plan it again")
        if not 0 < self.overflow < 1:
            raise BadInput("the overflow of a hidden selection", "it is not a probability above 0", "Plan it again")
        release_dates(self.releases, phases=len(self.slots) + 1)

    @classmethod
    def of(
        cls,
        queries: tuple[int, ...],
        *,
        threshold_epsilon: Decimal,
        delta: Decimal,
        bins: int = BINS,
        releases: Iterable[str | date] = (),
    ) -> Self:
        """Slots for queries of these sizes, with a part of ``delta`` for what goes beyond them."""
        if not queries or threshold_epsilon <= 0 or delta <= 0:
            raise BadInput(
                "a hidden selection",
                "it has no queries, no threshold epsilon or no delta to keep a part of",
                "Give queries, a threshold epsilon such as 0.05, and a delta",
            )
        dates = release_dates(releases, phases=len(queries) + 1)
        unsized = cls(slots=(1,) * len(queries), bins=bins, overflow=overflow_of(delta), releases=dates)
        return replace(unsized, slots=tuple(unsized.needed(k, threshold_epsilon) for k in queries))

    def are_for(self, sizes: tuple[int, ...], threshold_epsilon: Decimal) -> bool:
        """Whether these are the slots of queries of these sizes, but for what another machine may round otherwise."""
        return len(sizes) == len(self.slots) and all(
            abs(slots - self.needed(k, threshold_epsilon)) <= 1 for slots, k in zip(self.slots, sizes, strict=True)
        )

    def needed(self, k: int, threshold_epsilon: Decimal) -> int:
        """Slots of a query for about ``k``, with its share of the overflow."""
        chance = float_below(self.overflow) / len(self.slots)
        return slots_for(k, threshold_epsilon=threshold_epsilon, bins=self.bins, chance=chance)

    def to_json(self) -> dict[str, Any]:
        """A form that reads back to an equal value."""
        form = {"slots": list(self.slots), "bins": self.bins, "overflow": json_number(self.overflow)}
        return form | ({"releases": [day.isoformat() for day in self.releases]} if self.releases else {})

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        if set(data) - {"releases"} != {"slots", "bins", "overflow"} or not isinstance(data["slots"], list):
            raise InvalidPlan("stored hidden slots", "their keys are not the expected ones", "Restore the file")
        overflow = exact_decimal(data["overflow"], "overflow")
        dates = release_dates(data.get("releases", ()), phases=len(data["slots"]) + 1)
        return cls(slots=tuple(data["slots"]), bins=data["bins"], overflow=overflow, releases=dates)


def overflow_of(delta: Decimal) -> Decimal:
    """The part of ``delta`` that more asked than slots may take, over all queries: a thousandth, rounded down."""
    return Context(prec=3, rounding=ROUND_FLOOR).divide(delta, _SHARE)


def slots_for(k: int, *, threshold_epsilon: Decimal, bins: int, chance: float) -> int:
    """Slots of a cohort for which about ``k`` are asked: more are asked with probability at most ``chance``."""
    mean = k + _noise_bound(float(threshold_epsilon) * (1 - 1e-9), bins, chance / 2)
    spread = -math.log(chance / 2)
    # s^2 - (2/3) L s - 2 L M = 0
    beyond = spread / 3 + math.sqrt(spread**2 / 9 + 2 * spread * mean)
    return math.ceil((mean + beyond) * (1 + 1e-9)) + _MARGIN


def _noise_bound(epsilon: float, bins: int, chance: float) -> float:
    """N: noisy sums from the top are all above the true ones less N, but for ``chance``.

    Any t is a valid bound; the best of a fine grid is hardly above the best of all.
    """
    spread = -math.log(chance)
    return min(_at(epsilon, epsilon * step / 400, bins, spread) for step in range(1, 400))


def _at(epsilon: float, t: float, bins: int, spread: float) -> float:
    # cosh a - cosh b = 2 sinh((a + b) / 2) sinh((a - b) / 2), which does not cancel for small a
    full = 2 * math.sinh(epsilon / 2) ** 2
    left = 2 * math.sinh((epsilon + t) / 2) * math.sinh((epsilon - t) / 2)
    return (bins * math.log(full / left) + spread) / t


TIME_COVERED = "time is covered: phases are released on planned dates"
TIME_NOT_COVERED = "time is not covered"
"""What a certificate of a hidden selection says about time."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def release_date(value: str | date) -> date:
    """A date, or one written as 2027-01-15."""
    if type(value) is date:
        return value
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise BadInput("a release date", "it is not a day of the calendar", "Write it like 2027-01-15")


def release_dates(values: Iterable[str | date], *, phases: int) -> tuple[date, ...]:
    """One date a phase, each later than the one before; or none."""
    dates = tuple(release_date(value) for value in values)
    if dates and len(dates) != phases:
        raise BadInput(
            f"{len(dates)} release dates",
            f"the plan has {phases} phases, and each is released on a date of its own",
            f"Give {phases} dates, or none",
        )
    if any(later <= earlier for earlier, later in pairwise(dates)):
        raise BadInput("release dates", "one is not later than the date before it", "Give them in order")
    return dates


def due_phases(dates: tuple[date, ...], today: date) -> int:
    """How many phases have reached their date."""
    return sum(planned <= today for planned in dates)


Part = Literal["high", "low"]
_WHOSE = {"paper": "the paper's", "separate-budget": "a Gaussian"}


@dataclass(frozen=True, kw_only=True)
class SelectionTerms:
    """Committed prices of T selection queries. Everything here is public and fixed before data is touched.

    ``hidden``: of a hidden selection, its slots; None for the others, whose asked sets are released.
    ``events``: of *paper* and *separate-budget*, what each query does; *paper* without them is Laplace noise.
    ``delta``: of *separate-budget*, the part of delta that its block takes.
    ``quantiles``: the histograms of the whole pool that give features their edges; None: edges are public.
    """

    kind: SelectionKind = "one-sided"
    queries: int = 0
    epsilon: Decimal = Decimal(0)
    threshold_epsilon: Decimal = Decimal(0)
    missed: tuple[Decimal, ...] = ()
    shards: tuple[Decimal, ...] = ()
    high_shares: tuple[float, ...] = ()
    reads_training_data: bool = False
    hidden: HiddenSlots | None = None
    events: tuple[Event, ...] = ()
    delta: Decimal = Decimal(0)
    quantiles: DiscreteLaplace | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(SelectionKind):
            raise BadInput(
                f"selection {self.kind}",
                "there is no such price",
                f"Choose one of {', '.join(get_args(SelectionKind))}",
            )
        if min(self.epsilon, self.threshold_epsilon, *self.missed, Decimal(0)) < 0:
            raise BadInput("a negative selection epsilon", "a loss cannot be negative", "Give 0 for random selection")
        if self.kind == "hidden":
            self._check_hidden()
        elif self.hidden is not None:
            raise BadInput(
                f"{self.kind} selection with slots", "its asked sets are public, and so their sizes", "Drop them"
            )
        elif self.epsilon == 0 and (self.threshold_epsilon > 0 or self.missed or self.high_shares):
            raise BadInput(
                "a threshold price, caps on misses or individual rates without a selection epsilon",
                "records asked at random have none of them",
                "Give a selection epsilon, or drop them",
            )
        if self.reads_training_data and self.kind != "paper":
            raise BadInput(
                f"{self.kind} selection whose scores read training records",
                "one-sided prices hold only for scores of the record alone",
                "Price it the paper's way (selection 'paper'): every record then pays every query",
            )
        if self.kind in ("paper", "separate-budget") and (self.threshold_epsilon > 0 or self.missed):
            raise BadInput(
                f"{_WHOSE[self.kind]} selection with a threshold price or caps on misses",
                "its queries have neither",
                "Drop them, or choose one-sided or shards",
            )
        self._check_counts()
        self._check_events()
        if self.kind not in ("paper", "separate-budget") and self.epsilon > 0 and len(self.missed) != self.queries:
            raise BadInput("selection terms", "they need one cap on misses per query", "Give eps_n for each query")
        if self.kind == "shards" and len(self.shards) != self.queries:
            raise BadInput(
                "selection by shards", f"it needs one shard per query ({self.queries})", "Give one share each"
            )
        if self.shards and (exact_sum(self.shards) != 1 or min(self.shards) <= 0):
            raise BadInput("shards", "their shares must be positive and sum to exactly 1", "Use 'even'")

    def _check_counts(self) -> None:
        """Noise that is never drawn is refused here: later it would be charged first."""
        prices = {"private quantiles": self.quantiles}
        if self.threshold_epsilon > 0:
            prices["private thresholds"] = DiscreteLaplace(epsilon=self.threshold_epsilon)
        for name, event in prices.items():
            if event is not None and not event.can_be_drawn:
                asked = f"{name} for epsilon {event.epsilon}"
                raise BadInput(asked, "their noise would be wider than 2^40", "Give more, such as 0.05")

    def _check_events(self) -> None:
        wanted = self.epsilon > 0 and self.queries > 0 and self.kind == "separate-budget"
        if wanted != (self.delta > 0) or not 0 <= self.delta < 1 or (wanted and not self.events):
            raise BadInput(
                f"selection {self.kind} with delta={self.delta}",
                "a part of delta is for queries with a separate budget, and they need one",
                "Give a delta above 0 with 'separate-budget', and with nothing else",
            )
        if not self.events:
            return
        if self.kind not in ("paper", "separate-budget") or len(self.events) != self.queries:
            raise BadInput(
                f"selection {self.kind} with events", "they are for 'paper' and 'separate-budget', one a query", ""
            )
        prices = [event.pure_epsilon() for event in self.events]
        if self.kind == "paper" and any(price is None or price > self.per_query() for price in prices):
            raise BadInput("the paper's selection", "a query costs more than its share", "Use 'separate-budget'")
        if self.kind == "separate-budget" and any(price is not None for price in prices):
            raise BadInput(
                "a selection with a separate budget", "a query of it is pure", "Price it the paper's way: 'paper'"
            )

    def _check_hidden(self) -> None:
        if self.epsilon > 0 or self.missed or self.high_shares or self.shards:
            raise BadInput(
                "a hidden selection with a selection epsilon, caps on misses, shards or individual rates",
                "whom it asks is not released, so being asked or missed costs nothing",
                "Drop them, and give a threshold epsilon; where asked sets are shown to others, choose one-sided",
            )
        if self.threshold_epsilon == 0:
            raise BadInput(
                "a hidden selection without a threshold epsilon",
                "its thresholds are all that it pays for, and they are found in private scores",
                "Give a threshold epsilon, such as 0.05",
            )
        if self.hidden is None or len(self.hidden.slots) != self.queries:
            raise BadInput("a hidden selection", "it needs a number of slots per query", "Give slots for each query")

    @property
    def is_free(self) -> bool:
        """Whether records are asked without looking at them (at random)."""
        return self.epsilon == 0 and self.kind != "hidden"

    @property
    def overflow(self) -> Decimal:
        """The part of delta that is kept for more being asked than a hidden cohort has slots; 0 for the others."""
        return Decimal(0) if self.hidden is None else self.hidden.overflow

    @property
    def releases(self) -> tuple[date, ...]:
        """Planned release dates of a hidden selection, one a phase; none for the others, or if none are planned."""
        return () if self.hidden is None else self.hidden.releases

    def per_query(self) -> Decimal:
        """What one query costs the paper's way."""
        return share_of(self.epsilon, self.queries) if self.queries else Decimal(0)

    def asked_at(self, query: int, part: Part | None = None) -> tuple[Branch, ...]:
        """Branches of a record asked at ``query`` (1..T), from above or below the threshold where that is kept."""
        return (*self._at_first(), *self._asked_at(query, part))

    def _asked_at(self, query: int, part: Part | None) -> tuple[Branch, ...]:
        if self.is_free:
            return ()
        if self.kind == "separate-budget":
            return self._separate()
        if self.kind == "paper":
            return self._paper(self.queries if self.reads_training_data else query)
        if self.kind == "hidden":  # after its question it is in no histogram
            return self._thresholds(query)
        here = Branch(event=self._response(query), asked=True, below=part == "low")
        if self.kind == "shards":
            return (*self._thresholds(1), here)
        earlier = tuple(Branch(event=self._response(i), asked=False) for i in range(1, query))
        return (*self._thresholds(query), *earlier, here)

    def never_asked(self) -> tuple[Branch, ...]:
        """Branches of a record that stays in the pool to the end."""
        return (*self._at_first(), *self._never_asked())

    def _never_asked(self) -> tuple[Branch, ...]:
        if self.is_free or not self.queries:
            return ()
        if self.kind == "separate-budget":
            return self._separate()
        if self.kind == "paper":
            return self._paper(self.queries)
        if self.kind == "hidden":
            return self._thresholds(self.queries)
        if self.kind == "shards":  # one query, and the path is the worst shard's
            worst = max(range(1, self.queries + 1), key=lambda i: self.missed[i - 1])
            return (*self._thresholds(1), Branch(event=self._response(worst), asked=False))
        misses = (Branch(event=self._response(i), asked=False) for i in range(1, self.queries + 1))
        return (*self._thresholds(self.queries), *misses)

    def initial(self) -> tuple[Branch, ...]:
        """Branches of the initial cohort: private quantiles, and queries whose scores read training records."""
        queries = self._paper(self.queries) if self.reads_training_data and not self.is_free else ()
        return (*self._at_first(), *queries)

    def _at_first(self) -> tuple[Branch, ...]:
        """What every path pays before the first question."""
        return () if self.quantiles is None else (Branch(event=self.quantiles),)

    def query_event(self, query: int) -> Event:
        """What query number ``query`` (1..T) does, where prices are the paper's or in a separate budget."""
        return self.events[query - 1] if self.events else Laplace(epsilon=self.per_query())

    def block(self) -> BlockEvent | None:
        """All queries with a separate budget, as one."""
        if self.kind != "separate-budget" or self.is_free or not self.queries:
            return None
        return BlockEvent(event=Composed(events=self.events), epsilon=self.epsilon, delta=self.delta)

    def _paper(self, count: int) -> tuple[Branch, ...]:
        return tuple(Branch(event=self.query_event(query)) for query in range(1, count + 1))

    def _separate(self) -> tuple[Branch, ...]:
        block = self.block()
        return () if block is None else (Branch(event=block),)

    def _response(self, query: int) -> ThresholdResponse:
        return ThresholdResponse(asked=self.epsilon, missed=self.missed[query - 1])

    def _thresholds(self, count: int) -> tuple[Branch, ...]:
        if self.threshold_epsilon == 0:
            return ()
        return (Branch(event=DiscreteLaplace(epsilon=self.threshold_epsilon)),) * count

    def to_json(self) -> dict[str, Any]:
        """A form that reads back to an equal value."""
        form: dict[str, Any] = {
            "kind": self.kind,
            "queries": self.queries,
            "epsilon": json_number(self.epsilon),
            "threshold_epsilon": json_number(self.threshold_epsilon),
            "missed": [json_number(cap) for cap in self.missed],
            "shards": [json_number(share) for share in self.shards],
            "high_shares": list(self.high_shares),
            "reads_training_data": self.reads_training_data,
        }
        if self.events:
            form["events"] = [to_json(event) for event in self.events]
        if self.delta:
            form["delta"] = json_number(self.delta)
        if self.quantiles is not None:
            form["quantiles"] = to_json(self.quantiles)
        return form if self.hidden is None else form | {"hidden": self.hidden.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        if type(data["queries"]) is not int or not isinstance(data["reads_training_data"], bool):
            raise InvalidPlan("stored selection terms", "their types are wrong", "Restore the file")
        quantiles = from_json(data["quantiles"]) if "quantiles" in data else None
        if not (quantiles is None or isinstance(quantiles, DiscreteLaplace)):
            raise InvalidPlan("stored selection terms", "their quantiles are no discrete Laplace", "Restore the file")
        return cls(
            kind=data["kind"],
            queries=data["queries"],
            epsilon=exact_decimal(data["epsilon"], "epsilon"),
            threshold_epsilon=exact_decimal(data["threshold_epsilon"], "threshold_epsilon"),
            missed=tuple(exact_decimal(cap, "missed") for cap in data["missed"]),
            shards=tuple(exact_decimal(share, "shards") for share in data["shards"]),
            high_shares=tuple(float(share) for share in data["high_shares"]),
            reads_training_data=data["reads_training_data"],
            hidden=HiddenSlots.from_json(data["hidden"]) if "hidden" in data else None,
            events=tuple(from_json(event) for event in data.get("events", ())),
            delta=exact_decimal(data.get("delta", 0), "delta"),
            quantiles=quantiles,
        )
