"""Mechanisms as frozen values: what was (or will be) done to a record, with every parameter its price depends on.

Guarantee: an event holds public numbers only. Accountants interpret it; a ledger is a composition of events.
Noise multipliers are noise scale over sensitivity, so an event needs no clip norm. All events are stated for the
zero-out relation with sensitivity 1 after that division.

Symbols: ``noise_multiplier`` sigma, ``sampling_rate`` q, ``asked`` eps_a, ``missed`` eps_n.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

from discreet.errors import InvalidEvent
from discreet.privacy.budget import Number, exact_decimal, exact_sum, exact_times

LARGEST = 1e100
MOST = 10**15
"""Numbers beyond these are mistakes, and would overflow what is computed from them."""
MOST_SCALE = 2**40
"""Of discrete Laplace noise that is drawn."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """A mechanism. ``kind`` and ``version`` name its stored form in the closed registry."""

    kind: ClassVar[str]
    version: ClassVar[int] = 1

    def pure_epsilon(self) -> Decimal | None:
        """The exact epsilon at delta 0, or None for a mechanism that has none."""
        return None


def _positive(event: Event, name: str) -> None:
    value = getattr(event, name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidEvent(f"{event.kind}.{name}", f"a {type(value).__name__} is not a number", "Give a positive float")
    if not 0 < value <= LARGEST:
        raise InvalidEvent(f"{event.kind}.{name}", "it must be positive and at most 1e100", "Give a positive float")
    object.__setattr__(event, name, float(value))


def _set_losses(event: Event, **losses: Number) -> None:
    """Set exact decimals, from 0."""
    for name, value in losses.items():
        loss = exact_decimal(value, f"{event.kind}.{name}", InvalidEvent)
        if loss < 0:
            raise InvalidEvent(f"{event.kind}.{name}={loss}", "a loss cannot be negative", "Give 0 or more")
        object.__setattr__(event, name, loss)


def _count(event: Event, name: str, least: int = 1) -> None:
    value = getattr(event, name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise InvalidEvent(f"{event.kind}.{name}", f"it must be a whole number from {least} to 10^15", "Count again")


@dataclass(frozen=True, kw_only=True)
class Gaussian(Event):
    """A sum of sensitivity 1 with Gaussian noise of standard deviation ``noise_multiplier``."""

    kind: ClassVar[str] = "gaussian"
    noise_multiplier: float

    def __post_init__(self) -> None:
        _positive(self, "noise_multiplier")


@dataclass(frozen=True, kw_only=True)
class PoissonSampledGaussian(Event):
    """One DP-SGD step: the record enters with probability ``sampling_rate``, then Gaussian noise on the sum."""

    kind: ClassVar[str] = "poisson-sampled-gaussian"
    sampling_rate: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        _positive(self, "noise_multiplier")
        _positive(self, "sampling_rate")
        if self.sampling_rate > 1:
            raise InvalidEvent(f"{self.kind}.sampling_rate", "a probability is at most 1", "Lower the rate")


@dataclass(frozen=True, kw_only=True, init=False)
class PureEvent(Event):
    """A mechanism that is ``epsilon``-DP at delta 0, with no other parameter."""

    epsilon: Decimal

    def __init__(self, *, epsilon: Number) -> None:
        _set_losses(self, epsilon=epsilon)

    def pure_epsilon(self) -> Decimal:
        """epsilon itself."""
        return self.epsilon


@dataclass(frozen=True, kw_only=True, init=False)
class Laplace(PureEvent):
    """Laplace noise of scale sensitivity / ``epsilon``."""

    kind: ClassVar[str] = "laplace"


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(Event):
    """Two-sided geometric noise on an integer count: P[k] proportional to exp(-epsilon |k| / sensitivity)."""

    kind: ClassVar[str] = "discrete-laplace"
    epsilon: Decimal
    sensitivity: int = 1

    def __init__(self, *, epsilon: Number, sensitivity: int = 1) -> None:
        _set_losses(self, epsilon=epsilon)
        object.__setattr__(self, "sensitivity", sensitivity)
        _count(self, "sensitivity")

    def pure_epsilon(self) -> Decimal:
        """epsilon itself."""
        return self.epsilon

    @property
    def can_be_drawn(self) -> bool:
        """Whether its scale is one that noise is drawn at."""
        return self.sensitivity <= Fraction(self.epsilon) * MOST_SCALE


@dataclass(frozen=True, kw_only=True, init=False)
class Pure(PureEvent):
    """Any epsilon-DP mechanism about which nothing else is known."""

    kind: ClassVar[str] = "pure"


@dataclass(frozen=True, kw_only=True)
class Stated(Event):
    """Any mechanism of which nothing is known but that it is (``epsilon``, ``delta``)-DP, such as a model of somebody
    else's that says so.

    The pair of two-valued outputs with that promise dominates it (Kairouz, Oh and Viswanath 2015), so it composes in a
    loss distribution. The statement is taken at its word.
    """

    kind: ClassVar[str] = "stated"
    epsilon: Decimal
    delta: Decimal

    def __init__(self, *, epsilon: Number, delta: Number) -> None:
        _set_losses(self, epsilon=epsilon, delta=delta)
        if self.delta >= 1:
            raise InvalidEvent(f"{self.kind}.delta", "it is no probability below 1", "Give what was stated")

    def pure_epsilon(self) -> Decimal | None:
        """epsilon, where delta is 0."""
        return self.epsilon if self.delta == 0 else None


@dataclass(frozen=True, kw_only=True, init=False)
class BoundedRange(PureEvent):
    """A mechanism whose loss log(P/Q), over all outputs, lies in an interval of width ``epsilon``.

    The exponential mechanism is one, and so is any choice by weights that a record changes by factors between f and
    f e^epsilon. It is epsilon-DP, and many of them cost less than their sum: half the spread of an arbitrary
    epsilon-DP mechanism (docs/proofs/bounded-range.md).
    """

    kind: ClassVar[str] = "bounded-range"


@dataclass(frozen=True, kw_only=True)
class ThresholdResponse(Event):
    """One question "is this record asked?" whose only output is the asked set, the null answering as the lowest.

    Caps committed before data is touched: forward, being asked costs at most ``asked`` and being missed nothing;
    backward, being missed costs at most ``missed`` and being asked nothing. The saving exists only on a path
    (`discreet.privacy.trajectories.Branch`); taken by itself the event is max(asked, missed)-DP.
    """

    kind: ClassVar[str] = "threshold-response"
    asked: Decimal
    missed: Decimal

    def __init__(self, *, asked: Number, missed: Number) -> None:
        _set_losses(self, asked=asked, missed=missed)

    def pure_epsilon(self) -> Decimal:
        """The worse of the two caps."""
        return max(self.asked, self.missed)


@dataclass(frozen=True, kw_only=True)
class PmfFamily(Event):
    """A mechanism given by its output distributions with and without the record, one pair per public index n.

    The index is unknown to the record's owner, so the price is the worst over the family *at every epsilon*: the
    worst n moves under composition. ``present[i]`` and ``absent[i]`` are probabilities on a common support.
    """

    kind: ClassVar[str] = "pmf-family"
    present: tuple[tuple[float, ...], ...]
    absent: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if not self.present or len(self.present) != len(self.absent):
            raise InvalidEvent(self.kind, "it needs as many present as absent distributions", "Pair them")
        for left, right in zip(self.present, self.absent, strict=True):
            _check_pmf(self.kind, left)
            _check_pmf(self.kind, right)
            if len(left) != len(right):
                raise InvalidEvent(self.kind, "a pair has two supports", "Pad with zeros")
        object.__setattr__(self, "present", tuple(tuple(map(float, row)) for row in self.present))
        object.__setattr__(self, "absent", tuple(tuple(map(float, row)) for row in self.absent))


def _check_pmf(kind: str, row: tuple[float, ...]) -> None:
    numbers = all(isinstance(p, (int, float)) and not isinstance(p, bool) for p in row)
    if not row or not numbers or not all(0 <= p <= 1 for p in row):
        raise InvalidEvent(kind, "a probability is missing or outside [0, 1]", "Give probabilities")
    if abs(math.fsum(row) - 1) > 1e-12:  # rounding, no more: an outcome that is left out would be free
        raise InvalidEvent(kind, "a distribution does not sum to 1", "Give all outcomes, the unseen one too")


@dataclass(frozen=True, kw_only=True)
class Repeated(Event):
    """``event`` done ``count`` times with parameters fixed beforehand."""

    kind: ClassVar[str] = "repeated"
    event: Event
    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.event, Event):
            raise InvalidEvent(self.kind, "what is repeated is not an event", "Give an event")
        _count(self, "count", least=0)

    def pure_epsilon(self) -> Decimal | None:
        """The exact product, where the part is pure."""
        each = self.event.pure_epsilon()
        return None if each is None else exact_times(each, self.count)


@dataclass(frozen=True, kw_only=True)
class BlockEvent(Event):
    """All of ``event``, claimed as one: ``epsilon`` at ``delta``, fixed before any of it is done.

    For what a record meets before its branch and what is not pure, such as Gaussian selections. A path pays it whole,
    however much of it the record met (docs/proofs/apart.md). Accountants of training do not take it.
    """

    kind: ClassVar[str] = "block"
    event: Event
    epsilon: Decimal
    delta: Decimal

    def __init__(self, *, event: Event, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "event", event)
        _set_losses(self, epsilon=epsilon, delta=delta)
        if not isinstance(event, Event) or isinstance(event, BlockEvent) or not 0 < self.delta < 1:
            raise InvalidEvent(self.kind, "it is not of events, or its delta is no probability", "Plan it again")


@dataclass(frozen=True, kw_only=True)
class Composed(Event):
    """Several events, each with parameters fixed beforehand, all touching the same record."""

    kind: ClassVar[str] = "composed"
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.events, tuple) or not all(isinstance(e, Event) for e in self.events):
            raise InvalidEvent(self.kind, "its parts are not a tuple of events", "Give events")

    def pure_epsilon(self) -> Decimal | None:
        """The exact sum, where every part is pure."""
        parts = [event.pure_epsilon() for event in self.events]
        return None if None in parts else exact_sum(p for p in parts if p is not None)


MOST_K = 10**6
MOST_VALUES = 10**6
PLAIN = "nfkc,case,whitespace"
"""The normalisation that is taken where nothing else is said."""
_STEPS = re.compile(r"[A-Za-z0-9_.:,-]{1,200}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class ReleaseGate(Event):
    """What may be shown to a crowd: values that at least ``k`` units kept, each with probability ``beta``.

    Each unit (a person, or a row where no person is known) brings at most ``values`` values. For every value a unit
    brings a coin of ``beta`` is tossed, and a value is shown, once, if at least ``k`` coins fell for it; with
    ``counts``, beside how many fell. `discreet.privacy.accounting.release_gate` prices it, at the worst number of other
    units. ``normalisation`` says what texts were brought to before they were counted: part of what was released, and no
    part of the price. Li, Qardaji and Su, "On Sampling, Anonymization, and Differential Privacy", 2012.
    """

    kind: ClassVar[str] = "release-gate"
    k: int
    beta: float
    values: int = 1
    counts: bool = False
    normalisation: str = PLAIN

    def __post_init__(self) -> None:
        for name, largest in (("k", MOST_K), ("values", MOST_VALUES)):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= largest:
                raise InvalidEvent(
                    f"{self.kind}.{name}", f"it must be a whole number from 1 to {largest}", "Count again"
                )
        beta = self.beta
        if isinstance(beta, bool) or not isinstance(beta, (int, float)) or not 0 < beta < 1:
            raise InvalidEvent(f"{self.kind}.beta", "it must be above 0 and below 1: a coin hides", "Lower beta")
        if type(self.counts) is not bool:
            raise InvalidEvent(f"{self.kind}.counts", "it must be true or false", "Say whether counts are shown")
        if not isinstance(self.normalisation, str) or not _STEPS.fullmatch(self.normalisation):
            raise InvalidEvent(
                f"{self.kind}.normalisation", "it does not name steps, with commas between", f"Write it like {PLAIN}"
            )
        object.__setattr__(self, "beta", float(beta))
