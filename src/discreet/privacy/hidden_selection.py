"""Hidden selection: committed numbers of slots, and planned release dates.

A hidden selection (docs/proofs/hidden-selection.md) asks everybody above a noisy threshold, so how many are asked
depends on private records. Nothing that is released may tell: a cohort has a committed number of slots, and what nobody
fills is nulls. More are asked than there are slots with probability at most ``chance``, whatever the records are.

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
from typing import Any, Self

from discreet.errors import BadInput, InvalidPlan
from discreet.privacy.budget import exact_decimal, float_below, json_number

BINS = 64
"""Counts of the histogram in which a hidden threshold is found, unless the plan says otherwise."""
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
