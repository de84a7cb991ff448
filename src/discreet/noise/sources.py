"""Where randomness comes from. A ledger has one source; receipts carry it to the mechanisms.

OperatingSystem   the default: a key from the operating system, new in every process, expanded by a counter
Seeded            for simulations: anybody who knows the seed knows the draws, so every artefact says "simulation"
Recording         passes calls on and keeps them: mechanism, parameters, private inputs, output (tests only)
Replaying         gives back recorded outputs, so that a run on a neighbour goes the same way (tests only)

`discreet.noise.sealed` adds keys that survive a crash.
"""

from __future__ import annotations

import copy
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise.stream import Stream
from discreet.privacy.ledger.entries import Entry
from discreet.privacy.ledger.receipts import Ticket

T = TypeVar("T")
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
    """Whether it must see each draw by itself, also of one that has no end (`discreet.noise.endless`)."""

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


@dataclass
class Tape:
    """Calls with their outputs, in the order they happened."""

    calls: list[tuple[Call, Any]] = field(default_factory=list)


class Recording(Source):
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


class Replaying(Source):
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
