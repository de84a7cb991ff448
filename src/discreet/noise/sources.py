"""Where randomness comes from. A ledger has one source; receipts carry it to the mechanisms.

OperatingSystem   the default: a key from the operating system, new in every process, expanded by a counter
Seeded            for simulations: anybody who knows the seed knows the draws, so every artefact says "simulation"
RecordingSource         passes calls on and keeps them: mechanism, parameters, private inputs, output (tests only)
ReplayingSource         gives back recorded outputs, so that a run on a neighbour goes the same way (tests only)

`discreet.noise.replay_key` adds keys that survive a crash.

Every mechanism draws through `release`, which takes one draw off a receipt before anything is drawn. The order of the
checks makes a refused call cost nothing: the receipt is real and usable, it pays for this kind of mechanism, the
arguments make sense. Then the draw is taken, and then noise is drawn.
"""

from __future__ import annotations

import copy
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise.stream import Floats, Stream
from discreet.privacy.events import Event, Laplace, Pure, ThresholdResponse
from discreet.privacy.ledger.entries import Entry
from discreet.privacy.ledger.receipts import Receipt, Ticket

T = TypeVar("T")
E = TypeVar("E", bound=Event)
RELEASE = "release"
Streams = Callable[[int], Stream]
"""Opens the numbered part of a draw: a draw with several parts repeats each by its number."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One use of a mechanism. ``parameters`` are public; ``inputs`` is what noise is about to hide.

    ``measure`` names the distance in which inputs of neighbours differ by at most ``sensitivity``.
    """

    mechanism: str
    ticket: Ticket
    parameters: Mapping[str, Any]
    inputs: Any
    measure: str
    sensitivity: float

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<Call {self.mechanism} on receipt {self.ticket.entry.sequence}>"


class Source(ABC):
    """A source of randomness."""

    simulation: bool = False
    fingerprint: str = ""
    repeats: bool = False
    """Whether its key outlives the process, so that draws may be made again."""
    watches: bool = False
    """Whether it must see each draw by itself, also of one that has no end (`discreet.noise.indexed_noise`)."""

    def remember(self, entry: Entry, digest: str) -> None:  # noqa: B027 - most keys have nothing to remember
        """Bind the (keyed) digest of what ``entry``'s draws are made for, where draws may be made again."""

    @abstractmethod
    def perform(self, call: Call, sampler: Callable[[Streams], T]) -> T:
        """The mechanism's output; ``sampler`` computes it from streams."""

    def free(self, label: str) -> Stream:
        """A stream for what reads no private data and costs nothing, such as asking at random. Fresh each time, but for
        a seed.
        """
        return Stream(os.urandom(32), label.encode())


class OperatingSystem(Source):
    """A fresh key of the operating system's entropy, in every process its own."""

    def __init__(self) -> None:
        self._key, self._process = os.urandom(32), os.getpid()

    def perform(self, call: Call, sampler: Callable[[Streams], T]) -> T:
        """Draw from this process's key."""
        if os.getpid() != self._process:  # a forked child must not repeat its parent's draws
            self._key, self._process = os.urandom(32), os.getpid()
        return sampler(lambda part: Stream(self._key, label_of(call.ticket, part)))

    def __repr__(self) -> str:
        """Never the key."""
        return "OperatingSystem()"


class Seeded(Source):
    """The same draws for the same seed, charges and order. For simulations only."""

    simulation = True

    def __init__(self, seed: int) -> None:
        if type(seed) is not int:
            raise BadInput("a simulation seed", "it is not a whole number", "Give a seed such as 7")
        self.seed = seed
        self._key = hashlib.sha256(f"discreet simulation {seed}".encode()).digest()
        self.fingerprint = f"seed-{hashlib.sha256(self._key).hexdigest()[:16]}"

    def perform(self, call: Call, sampler: Callable[[Streams], T]) -> T:
        """Draw from the seed and the entry's number, so that two runs agree though their ledgers have other ids."""
        return sampler(lambda part: Stream(self._key, place_of(call.ticket, part)))

    def free(self, label: str) -> Stream:
        """The same for the same seed and label."""
        return Stream(self._key, f"free\0{label}".encode())

    def __repr__(self) -> str:
        """The seed is public."""
        return f"Seeded({self.seed})"


def source_of(seed: int | None) -> Source:
    """The noise of the operating system; with a seed, that of a simulation."""
    return OperatingSystem() if seed is None else Seeded(seed)


@dataclass
class Tape:
    """Calls with their outputs, in the order they happened."""

    calls: list[tuple[Call, Any]] = field(default_factory=list)


class RecordingSource(Source):
    """Passes calls on to ``inner`` and keeps them on a tape, private inputs and all: its ledgers are simulations."""

    simulation = True
    watches = True

    def __init__(self, inner: Source) -> None:
        self.inner, self.tape = inner, Tape()
        self.fingerprint = inner.fingerprint

    def perform(self, call: Call, sampler: Callable[[Streams], T]) -> T:
        """Draw, and remember."""
        output = self.inner.perform(call, sampler)
        self.tape.calls.append((call, copy.deepcopy(output)))
        return output


class ReplayingSource(Source):
    """Gives back the outputs of ``tape`` and keeps the calls it was asked for. Its ledgers are simulations."""

    simulation = True
    watches = True

    def __init__(self, tape: Tape) -> None:
        self._outputs = [output for _, output in tape.calls]
        self.calls: list[Call] = []

    def perform(self, call: Call, sampler: Callable[[Streams], T]) -> T:
        """The recorded output of the call at this place."""
        self.calls.append(call)
        if len(self.calls) > len(self._outputs):
            raise ReceiptRefused(
                "replaying a run", "it makes more releases than the recorded one", "Its control flow reads data"
            )
        output: T = copy.deepcopy(self._outputs[len(self.calls) - 1])
        return output


def place_of(ticket: Ticket, part: int) -> bytes:
    """A draw by its place: entry number, kind, group, index, part."""
    return "\0".join([str(ticket.entry.sequence), ticket.slot, ticket.who, str(ticket.index), str(part)]).encode()


def label_of(ticket: Ticket, part: int) -> bytes:
    """A draw by its place and by the very entry that pays for it: another ledger or entry draws otherwise."""
    return f"{ticket.ledger}\0{ticket.entry.hash}\0".encode() + place_of(ticket, part)


# -- drawing against a receipt


def paid_events(
    receipt: Receipt, kinds: tuple[type[Event], ...], mechanism: str, who: str | None = None
) -> tuple[Event, ...]:
    """The events ``receipt`` paid for, all of one of ``kinds``; refuses anything that is not a usable receipt."""
    if type(receipt) is not Receipt:
        raise ReceiptRefused(
            f"drawing {mechanism} noise", "there is no receipt for it", "Charge the ledger first and pass its receipt"
        )
    receipt.check()
    if not isinstance(receipt.source, Source):
        raise ReceiptRefused(
            f"drawing {mechanism} noise",
            "the ledger was opened without a source of randomness",
            "Open it with discreet.noise.OperatingSystem()",
        )
    events = receipt.events(who)
    for event in events:
        if not isinstance(event, kinds):
            wanted = " or ".join(kind.kind for kind in kinds)
            raise ReceiptRefused(
                f"drawing {mechanism} noise on receipt {receipt.entry.sequence}",
                f"it was charged for {event.kind}, not for {wanted}",
                "Charge the event that is drawn",
            )
    return events


def paid_event(receipt: Receipt, kind: type[E], mechanism: str, who: str | None = None) -> E:
    """As `paid_events`, where all groups that are served at once were charged the same event."""
    first, *others = paid_events(receipt, (kind,), mechanism, who)
    if any(other != first for other in others):
        raise ReceiptRefused(
            f"one draw of {mechanism} noise on receipt {receipt.entry.sequence}",
            "its groups were charged for different events",
            "Serve each group by itself, or charge all of them the same",
        )
    assert isinstance(first, kind)  # checked above
    return first


def paid_epsilon(receipt: Receipt, kinds: tuple[type[Event], ...], mechanism: str, who: str | None = None) -> Fraction:
    """The exact, positive epsilon of the pure event that was charged."""
    kind = next((k for k in kinds if type(receipt) is Receipt and isinstance(receipt.events(who)[0], k)), kinds[0])
    epsilon = paid_event(receipt, kind, mechanism, who).pure_epsilon()
    assert epsilon is not None  # kinds are pure
    if epsilon == 0:
        raise BadInput(f"{mechanism} noise at epsilon=0", "no finite noise hides everything", "Charge more than 0")
    return Fraction(epsilon)


def score_epsilon(receipt: Receipt, mechanism: str, who: str | None = None) -> Fraction:
    """What may be spent on being asked and on being missed, whichever is less: noise on a score pays both alike."""
    epsilons: list[Decimal] = []
    for event in paid_events(receipt, (Laplace, Pure, ThresholdResponse), mechanism, who):
        pure = min(event.asked, event.missed) if isinstance(event, ThresholdResponse) else event.pure_epsilon()
        assert pure is not None  # kinds are pure
        epsilons.append(pure)
    if min(epsilons) == 0:
        raise BadInput(f"{mechanism} noise at epsilon=0", "no finite noise hides everything", "Charge more than 0")
    return Fraction(min(epsilons))


def release(
    receipt: Receipt,
    mechanism: str,
    sampler: Callable[[Streams], T],
    *,
    inputs: Any,
    measure: str,
    sensitivity: float,
    parameters: Mapping[str, Any] | None = None,
    who: str | None = None,
    slot: str = RELEASE,
    after: tuple[str, Sequence[str]] = ("", ()),
    ticket: Ticket | None = None,
) -> T:
    """Take a draw off ``receipt`` and let its source make the output."""
    taken = receipt.take(slot, who, after=after) if ticket is None else ticket
    call = Call(
        mechanism=mechanism,
        ticket=taken,
        parameters=dict(parameters or {}),
        inputs=inputs,
        measure=measure,
        sensitivity=sensitivity,
    )
    source = receipt.source
    assert isinstance(source, Source)  # checked by paid_event
    return source.perform(call, sampler)


def positive(value: Any, what: str) -> float:
    """A declared, public, positive number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise BadInput(f"{what}", "it is not a number", "Declare a positive number")
    if not (np.isfinite(value) and value > 0):
        raise BadInput(f"{what}={value}", "it must be positive and finite", "Declare a positive number")
    return float(value)


def private_floats(value: Any) -> Floats:
    """Private values as floats. One that is not finite counts as 0: an error would say that it was there."""
    try:
        values = np.array(value, dtype=np.float64)
    except OverflowError:  # a whole number beyond any float, which is as good as infinite
        values = np.vectorize(_float_or_nan, otypes=[np.float64])(np.array(value, dtype=object))
    except (TypeError, ValueError):
        raise BadInput("a value to hide", "it is not an array of numbers", "Give a number or an array") from None
    values[~np.isfinite(values)] = 0.0
    return values


def _float_or_nan(value: Any) -> float:
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return np.nan


def same_shape(result: Floats, value: Any) -> Any:
    """``result`` as a plain float where a plain number came in."""
    return float(result) if np.ndim(value) == 0 else result
