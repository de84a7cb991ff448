"""Who is asked: a record's distance to the boundary gives its chance, and its null has the lowest one.

A rule maps (record, public model, public slab) to a chance in [low, high], whole numerators over 2^63. Only the ask bit
is released, and the null answers with ``low``: so being asked costs ln(high/low) forward, being missed
ln((1 - low)/(1 - high)) backward, and nothing else (docs/proofs/streams.md). `price` says both caps; coins keep them
exactly, because high is rounded down and low up.

OneSidedAsking      two chances, from what being asked and being missed may cost; the default
BernoulliAsking     the paper's: e^eps/(1+e^eps) inside the slab, the complement outside
ExponentialAsking   inside as above, outside falling with the distance. form="ours" holds for every slab;
                    form="paper" is the paper's, exp(-max(b,d) eps/(M-b)), refused where it costs more than eps
AskEverything       asks everybody, and so costs nothing

Symbols: d distance, b width of the slab, M radius of the records, eps_a ``asked``, eps_n ``missed``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from discreet.errors import BadInput
from discreet.noise import highest, numerator
from discreet.noise.stream import ONE, Floats, Words
from discreet.privacy.budget import Number, exact_decimal, rounded_up
from discreet.privacy.events import ThresholdResponse
from discreet.stream.parts import StreamPart, part_from_json, set_fields
from discreet.stream.schedules import Slab

_ROOM = 1e-9
"""Computed prices are rounded up by more than any rounding in them."""


_NOTHING = 1e-300


@dataclass(frozen=True)
class Ends:
    """The null's chance and the highest one, as numerators over 2^63."""

    low: int
    high: int


class Asking(StreamPart):
    """A rule of asking. Everything it holds is public."""

    group = "rule"

    two_valued = True
    """Whether a record has one of the two ends: inside the slab the high one, outside the low one."""
    follows_slab = False
    """Whether the ends depend on the width of the slab."""

    @abstractmethod
    def price(self) -> ThresholdResponse:
        """What being asked and being missed cost at most, whatever the slab."""

    def ends(self, width: float = 0.0, radius: float = 1.0) -> Ends:
        """The null's chance and the highest one, while the slab has this width: by default the widest gap that the
        price allows, the same for every slab.
        """
        price = self.price()
        return self._ends(widest_low(float(price.asked), float(price.missed)))

    def _ends(self, low: float) -> Ends:
        """With this chance of the null, rounded up."""
        price, null = self.price(), numerator(low, up=True)
        return Ends(null, highest(null, asked=price.asked, missed=price.missed))

    def chances(self, distances: Floats, widths: Floats, radius: float, ends: Ends) -> Words:
        """The chance of each record, from its distance and the width of the slab on its side. A null has a distance
        that is no number. ``ends``: what `ends` says now.
        """
        with np.errstate(invalid="ignore"):
            inside = distances <= widths
        return np.where(inside, np.uint64(ends.high), np.uint64(ends.low))

    def chance(self, distance: float, width: float, radius: float, ends: Ends) -> int:
        """As `chances`, of one record that is no null."""
        return ends.high if distance <= width else ends.low

    def check(self, slab: Slab, *, classes: int, radius: float) -> None:
        """Refuse a slab with which the rule costs more than its price."""


@dataclass(frozen=True, kw_only=True)
class OneSidedAsking(Asking):
    """Two chances: high inside the slab, low outside it and for the null.

    asked    what being asked may cost, forward
    missed   what being missed may cost, backward; a record that is missed teaches nothing, so this may be as much as
             being asked and taught cost together
    low      the chance outside; by default the one with the widest gap. A smaller one asks for fewer labels, with the
             same e^asked between inside and outside, and makes being missed cheaper. With asked=0 everybody is asked
             with this chance, at no cost
    """

    name = "one-sided"

    asked: Decimal
    missed: Decimal
    low: float | None = None

    def __init__(self, *, asked: Number, missed: Number | None = None, low: float | None = None) -> None:
        cost = exact_decimal(asked, "asked")
        if cost < 0 or (missed is None and low is None):
            raise BadInput("a rule of asking", "asked is below 0, or neither missed nor low is given", "Give one")
        if low is not None and not 0 < low < 1:
            raise BadInput(f"asking with chance {low}", "it is not between 0 and 1", "Give a chance such as 0.05")
        missing = _missed_cost(cost, low) if missed is None else exact_decimal(missed, "missed")
        set_fields(self, asked=cost, missed=missing, low=None if low is None else float(low))
        if self.missed < 0 or (self.missed == 0 and low is None):
            raise BadInput(
                "a rule of asking", "being missed may cost nothing, so nobody can be asked", "Give missed > 0"
            )
        if low is None and cost == 0:
            raise BadInput("asking at asked=0", "everybody has the same chance, and it is not given", "Give low")

    def price(self) -> ThresholdResponse:
        """The two caps."""
        return ThresholdResponse(asked=self.asked, missed=self.missed)

    def ends(self, width: float = 0.0, radius: float = 1.0) -> Ends:
        """The same for every slab."""
        return super().ends() if self.low is None else self._ends(self.low)


@dataclass(frozen=True, kw_only=True)
class BernoulliAsking(Asking):
    """The paper's randomized response: e^eps/(1+e^eps) inside the slab, the complement outside."""

    name = "bernoulli"

    epsilon: Decimal

    def __init__(self, *, epsilon: Number) -> None:
        set_fields(self, epsilon=_positive(epsilon))

    def price(self) -> ThresholdResponse:
        """eps each way."""
        return ThresholdResponse(asked=self.epsilon, missed=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ExponentialAsking(Asking):
    """Inside the slab the highest chance, outside falling exponentially with the distance.

    epsilon  what being asked may cost
    form     "ours": p_max exp(-(max(b,d)-b) eps/(M-b)), right for every slab;
             "paper": exp(-max(b,d) eps/(M-b)), which needs b >= M L/(eps+L), L = ln(1+e^-eps)
    missed   of ours: what being missed may cost; eps by default
    """

    name = "exponential"

    two_valued = False
    form: Literal["ours", "paper"]
    epsilon: Decimal
    missed: Decimal

    def __init__(
        self, *, epsilon: Number, form: Literal["ours", "paper"] = "ours", missed: Number | None = None
    ) -> None:
        if form not in ("ours", "paper") or (form == "paper" and missed is not None):
            raise BadInput("exponential asking", "its form is not ours or paper, or the paper's has no own missed", "")
        cost = _positive(epsilon)
        set_fields(self, form=form, epsilon=cost, missed=cost if missed is None else _positive(missed))

    def price(self) -> ThresholdResponse:
        """eps forward, and the cap on misses backward."""
        return ThresholdResponse(asked=self.epsilon, missed=self.missed)

    def ends(self, width: float = 0.0, radius: float = 1.0) -> Ends:
        """Of ours, the same for every slab; of the paper's, at its distances 0 to M."""
        if self.form == "ours":
            return super().ends()
        top = math.exp(-width * float(self.epsilon) / (radius - width))
        ends = self._ends(min(1.0, top * math.exp(-float(self.epsilon)) * (1 + _ROOM)))
        return Ends(ends.low, min(ends.high, numerator(top, up=False)))

    @property
    def follows_slab(self) -> bool:  # type: ignore[override]
        """The paper's form does."""
        return self.form == "paper"

    def chances(self, distances: Floats, widths: Floats, radius: float, ends: Ends) -> Words:
        """Falling with what the distance is beyond the slab."""
        with np.errstate(all="ignore"):
            beyond = np.maximum(distances - widths, 0.0)
            falling = float(self.epsilon) * beyond / np.maximum(radius - widths, _NOTHING)
            numerators = np.exp(-falling) * float(ends.high)
        numerators[~(numerators >= float(ends.low))] = float(ends.low)  # a null, or beyond the radius
        return np.minimum(np.maximum(numerators.astype(np.uint64), np.uint64(ends.low)), np.uint64(ends.high))

    def chance(self, distance: float, width: float, radius: float, ends: Ends) -> int:
        """Bit for bit as `chances`: by numpy's exponential, not by the C library's."""
        beyond = max(distance - width, 0.0)
        falling = float(self.epsilon) * beyond / max(radius - width, _NOTHING)
        numerator = float(np.exp(-falling)) * float(ends.high)
        return min(max(int(numerator), ends.low), ends.high) if numerator >= float(ends.low) else ends.low

    def check(self, slab: Slab, *, classes: int, radius: float) -> None:
        """The paper's form costs more than eps with a narrow slab, and means nothing with one as wide as the radius."""
        widths = slab.widths(0, classes)
        if self.form == "ours":
            return
        least = slab.narrowest(classes)
        if len(set(widths)) > 1:
            raise BadInput("the paper's exponential form", "its null needs one width on all sides", 'Use form="ours"')
        needed = paper_least_width(float(self.epsilon), radius)
        if not needed <= least or max(widths) >= radius:
            raise BadInput(
                f"the paper's exponential form with a slab of {least:.6g} at epsilon={self.epsilon}",
                f"it costs {paper_cost(float(self.epsilon), least, radius):.4g} there; it needs a width of at least "
                f"{needed:.6g} and below {radius:.6g}",
                'Widen the slab, or use form="ours"',
            )


@dataclass(frozen=True, kw_only=True)
class AskEverything(Asking):
    """Every record is asked, and so would its null be: the ask bits say nothing."""

    name = "everything"

    def price(self) -> ThresholdResponse:
        """Nothing."""
        return ThresholdResponse(asked=0, missed=0)

    def ends(self, width: float = 0.0, radius: float = 1.0) -> Ends:
        """Certainty."""
        return Ends(ONE, ONE)


def widest_low(asked: float, missed: float) -> float:
    """p_lo for which e^asked p_lo = 1 - (1 - p_lo) e^-missed: the widest gap two caps allow."""
    keep = math.exp(-missed)
    return min(1.0, (1 - keep) / (math.exp(min(asked, 700.0)) - keep))


def paper_least_width(epsilon: float, radius: float = 1.0) -> float:
    """The narrowest slab with which the paper's exponential form costs no more than epsilon."""
    log = math.log1p(math.exp(-epsilon))
    return radius * log / (epsilon + log)


def paper_cost(epsilon: float, width: float, radius: float = 1.0) -> float:
    """What the paper's exponential form costs: the worse of being asked and being missed."""
    high = math.exp(-width * epsilon / (radius - width)) if width < radius else 0.0
    if high >= 1.0:
        return math.inf
    return max(epsilon, math.log1p(-high * math.exp(-epsilon)) - math.log1p(-high))


def asking_from_json(form: Mapping[str, Any]) -> Asking:
    """The inverse of `Asking.to_json`."""
    values = dict(form)
    if values.get("form") == "paper":
        values.pop("missed", None)
    kinds = (OneSidedAsking, BernoulliAsking, ExponentialAsking, AskEverything)
    return part_from_json(values, *kinds, what="rule of asking")


def _positive(value: Number) -> Decimal:
    number = exact_decimal(value, "epsilon")
    if number <= 0:
        raise BadInput(f"asking at epsilon={number}", "it must be above 0", "Give what asking may cost, such as 1")
    return number


def _missed_cost(asked: Decimal, low: float | None) -> Decimal:
    """ln((1 - low)/(1 - e^asked low)), rounded up: what being missed costs when the chance outside is ``low``."""
    assert low is not None
    high = low * math.exp(float(asked))
    if high >= 1:
        raise BadInput(
            f"asking with chance {low} outside at asked={asked}",
            "inside it would be above 1",
            "Lower it, or give missed as well",
        )
    return Decimal(repr(rounded_up((math.log1p(-low) - math.log1p(-high)) * (1 + _ROOM))))
