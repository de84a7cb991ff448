"""The runs that one receipt for a `Tuned` charge pays for: how many, with which settings, and their randomness.

`tuned_runs` draws the number of runs K and a setting for each, once a receipt, before any run is done.
`TunedRuns.ledger` opens a run: a ledger of its own, committed to exactly what a run of that setting was priced as, so
that a run cannot do more than the charge says, nor be done twice, nor number K + 1 at all.

Guarantee: every draw of a run comes from the source of the receipt, at a place of its own. With a sealed key a redo
after a crash has the same K, the same settings and the same noise, and is refused if it is about to hide something
else.

K, the settings of the runs and all of their outputs but the best are secret (docs/proofs/private-tuning.md):
`TunedRuns` shows none of them in its repr, and it is not public how many runs there were, or how long they took.

`run_count` draws K from the distributions of `discreet.privacy.tuned` by integer arithmetic alone: exactly what was
priced (docs/proofs/private-tuning.md, "Drawing K").

Negative binomial: walk k = 1, 2, ... A coin of gamma stops the walk at k, which is the number. If it does not stop, a
coin of (k + eta) / (k + 1) lets it go on to k + 1; else everything begins anew. A walk ends at k with probability
proportional to gamma (1-gamma)^(k-1) times the product of the second coins: the law.

Poisson: the sum of n numbers of rate t = rate / n <= 1/2. One of them: k with probability 2^-(k+1), kept with
probability (2t)^k / k! by k coins of 2t/i.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil, ldexp
from typing import TypeVar

import numpy as np

from discreet.errors import BadInput, ReceiptRefused, UnsupportedEvent
from discreet.noise.sources import Call, Source, Streams, paid_events, release
from discreet.noise.stream import Stream
from discreet.privacy.accounting.rdp import rdp_epsilon
from discreet.privacy.budget import Budget, Unit, float_below, rounded_up
from discreet.privacy.event_forms import flatten
from discreet.privacy.events import Event
from discreet.privacy.ledger import Ledger, Line, MemorySink, Path, PathSegment, Terms, committed
from discreet.privacy.ledger.receipts import Receipt, Ticket
from discreet.privacy.tuned import NegativeBinomialRuns, PoissonRuns, RunLaw, Tuned

T = TypeVar("T")
RUNS = "runs"
_RUN_DELTA = Decimal("1e-6")
"""A run's own ledger holds it to its events; what delta its epsilon is written at is no promise to anybody."""


class RunSource(Source):
    """The randomness of one run: the receipt's own source, at places that no other run has."""

    def __init__(self, receipt: Receipt, number: int) -> None:
        assert isinstance(receipt.source, Source)  # checked when the runs were drawn
        self._receipt, self._number, self._source = receipt, number, receipt.source
        self.simulation = receipt.simulation

    def perform(self, call: Call, sampler: Callable[[Streams], T]) -> T:
        """Draw from the source of the receipt that paid for all runs."""
        self._receipt.check()
        inner = call.ticket
        ticket = Ticket(
            ledger=self._receipt.ledger_id,
            entry=self._receipt.entry,
            slot=f"run {self._number} entry {inner.entry.sequence} {inner.slot}",
            who=inner.who,
            index=inner.index,
        )
        return self._source.perform(replace(call, ticket=ticket), sampler)

    def __repr__(self) -> str:
        """Neither which run it is nor of how many."""
        return "RunSource()"


class TunedRuns:
    """K runs, each with the number of its setting. Audience: nobody; only the best run's output is released."""

    def __init__(self, receipt: Receipt, choices: tuple[int, ...]) -> None:
        self._receipt, self.choices = receipt, choices

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<TunedRuns of {self._receipt!r}>"

    def ledger(self, number: int, events: Mapping[str, Event], *, unit: Unit) -> Ledger:
        """The ledger of run ``number`` (0 is the first): it pays for ``events``, by group, once.

        Each event must be one of those its group was charged for; the groups must be all of them.
        """
        if type(number) is not int or not 0 <= number < len(self.choices):
            raise BadInput("a run of a search", "there is no such run", "Take the runs in their order")
        for charge in self._receipt.entry.charges:
            assert isinstance(charge.event, Tuned)  # checked when the runs were drawn
            if events.get(charge.who) not in charge.event.events:
                raise ReceiptRefused(
                    f"a run of a search, for {charge.who}",
                    "it is not one of the runs that were charged for",
                    "Run what was priced, or charge what is run",
                )
        if len(events) != len(self._receipt.entry.charges):
            raise ReceiptRefused("a run of a search", "it names a group that was not charged", "Charge it, too")
        self._receipt.take(f"run {number}")  # a second time would put equal noise on other values
        return Ledger.create(MemorySink(), _terms(events, unit), source=RunSource(self._receipt, number))


def tuned_runs(receipt: Receipt, *, settings: int) -> TunedRuns:
    """How many runs there are, and which of ``settings`` (a public number) each has, all equally likely."""
    events = [event for event in paid_events(receipt, (Tuned,), "run count") if isinstance(event, Tuned)]
    law = events[0].runs
    if any(event.runs != law for event in events):
        raise ReceiptRefused(
            "drawing the number of runs",
            "groups were charged for different laws of it",
            "Charge all groups the same law",
        )
    if any(charge.count != 1 for charge in receipt.entry.charges):
        raise ReceiptRefused(
            "drawing the number of runs", "several searches were charged at once", "Charge each search by itself"
        )  # runs of two searches would share their places, and so their noise
    if type(settings) is not int or settings < 1:
        raise BadInput("a search", "the number of its settings is not a whole number from 1", "Count them")

    def sampler(streams: Streams) -> tuple[int, ...]:
        count = run_count(streams(0), law)
        return tuple(streams(1).below(np.full(count, settings, dtype=np.int64)).tolist())

    choices = release(
        receipt,
        "tuned-runs",
        sampler,
        inputs=None,
        measure="none",
        sensitivity=0.0,
        parameters={"law": repr(law), "settings": settings},
        slot=RUNS,
    )
    return TunedRuns(receipt, choices)


def _terms(events: Mapping[str, Event], unit: Unit) -> Terms:
    lines = [Line(who=who, event=part, count=n) for who, event in events.items() for part, n in flatten(event)]
    prices = [_price(event) for event in events.values()]
    budget = Budget(epsilon=max(*prices, Decimal("1e-9")), delta=_RUN_DELTA, unit=unit)
    paths = [Path(name=who, stays=(PathSegment(who=who),)) for who in events]
    return committed(budget, lines, paths=paths, accountant="rdp")


def _price(event: Event) -> Decimal:
    """As the ledger will find it: one rounding up more, so that it always fits."""
    pure = event.pure_epsilon()
    by_rdp = Decimal(repr(rounded_up(rounded_up(rdp_epsilon(event, float_below(_RUN_DELTA))), 8)))
    return by_rdp if pure is None else max(pure, by_rdp)


# -- the number of runs

_AT_ONCE = 512


def run_count(stream: Stream, law: RunLaw) -> int:
    """A number of runs, from 1."""
    if isinstance(law, NegativeBinomialRuns):
        return _negative_binomial(_Words(stream), law)
    if isinstance(law, PoissonRuns):
        return _poisson(_Words(stream), law)
    raise UnsupportedEvent("drawing a number of runs", "there is no exact sampler for this law", "Use another law")


class _Words:
    """Random words one by one, made many at once."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._ready = stream, list[int]()

    def coin(self, over: int, under: int) -> bool:
        """Falls with probability over / under, exactly; ``under`` is at most 2^63."""
        limit = (1 << 64) - (1 << 64) % under  # words from here on would favour small results
        while (word := self._next()) >= limit:
            pass
        return word % under < over

    def _next(self) -> int:
        if not self._ready:
            self._ready = np.asarray(self._stream.words(_AT_ONCE)).tolist()[::-1]
        return self._ready.pop()


def _negative_binomial(words: _Words, law: NegativeBinomialRuns) -> int:
    stop, certain = int(ldexp(law.gamma, 63)), 1 << 63
    over, under = Fraction(law.eta).as_integer_ratio()
    while True:
        count = 1
        while not words.coin(stop, certain):
            if not words.coin(count * under + over, (count + 1) * under):
                break
            count += 1
        else:
            return count


def _poisson(words: _Words, law: PoissonRuns) -> int:
    rate = Fraction(law.rate)
    parts = ceil(2 * rate)
    over, under = (2 * rate / parts).as_integer_ratio()
    while True:
        total = sum(_small_poisson(words, over, under) for _ in range(parts))
        if total:
            return total


def _small_poisson(words: _Words, over: int, under: int) -> int:
    """A Poisson number of rate t = over / under / 2 <= 1/2."""
    while True:
        count = 0
        while words.coin(1, 2):
            count += 1
        if all(words.coin(over, under * factor) for factor in range(1, count + 1)):
            return count
