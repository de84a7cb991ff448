"""A phase whose draws can be replayed after a crash: its key is kept in a file until the phase ends.

A crash in the middle of a phase leaves entries that were charged and, perhaps, outputs that were seen. Drawing again
would be a second release. Instead the phase is done again from the start with the key it began with: each charge finds
the entry it made the first time, and every draw is the same draw. When the phase ends the key is destroyed.

Guarantee: charges of a redo must equal those of the first run, in their order; one that differs is refused. A redo
repeats the same *noise*, and equal noise on two different values shows their difference: so each draw is refused if it
is about to hide something else than the first time (other records, labels, code), by a masked sketch in the journal
beside the key. A caller who can name its inputs is told sooner (`discreet.noise.seeds.same_inputs`).

A simulation needs no key file: its seed repeats the draws, and `charge_once` finds the entry that is already in the
ledger. A production ledger used directly cannot resume: a second run is a second charge.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from discreet.errors import BadInput, LedgerUnavailable
from discreet.noise.keys import destroy, read_secret, was_destroyed, write_secret
from discreet.noise.sources import Call, Source, Streams, label_of
from discreet.noise.stream import Floats, Stream, Words
from discreet.privacy.budget import Unit
from discreet.privacy.events import Event
from discreet.privacy.files import write_whole
from discreet.privacy.ledger import ChargeReason, Entry, Ledger, Receipt, Request
from discreet.privacy.ledger.charges import request
from discreet.privacy.plan import TrainingPhase

T = TypeVar("T")


def _fingerprint(key: bytes) -> str:
    return f"key-{hashlib.sha256(b'fingerprint' + key).hexdigest()[:16]}"


def sealed_with(directory: Path, *, ledger: Ledger, phase: int) -> str | None:
    """The fingerprint of the key that a phase was sealed with, as its entries have it; None if it is not there."""
    path = _place(directory, ledger=ledger, phase=phase)
    if not path.exists() or was_destroyed(path):
        return None
    return _fingerprint(read_secret(path, "phase")["key"])


def _place(directory: Path, *, ledger: Ledger, phase: int) -> Path:
    return directory / f"phase-{phase}-{ledger.id[:8]}.key"


class ReplayKey(Source):
    """A source whose key is in a file."""

    repeats = True

    def __init__(self, path: Path, *, ledger: Ledger, phase: int) -> None:
        self.path, self.simulation = path, ledger.simulation
        if was_destroyed(path):
            path.unlink()
        journal = path.with_suffix(".draws")
        if path.exists():
            stored = read_secret(path, "phase")
            if not journal.exists():
                raise LedgerUnavailable(
                    f"going on with {path.name}",
                    f"{journal.name}, which says what was drawn with it, is missing",
                    "Restore it; without it the same noise could hide something else",
                )
            if stored.get("ledger") != ledger.id or stored.get("phase") != phase:
                raise BadInput(f"reading {path.name}", "it is the key of another ledger or phase", "Check the path")
            self._key: bytes = stored["key"]
        else:
            self._key = os.urandom(32)
            write_whole(journal, "")
            journal.chmod(0o600)
            write_secret(path, "phase", key=self._key, ledger=ledger.id, phase=phase)
        self._draws = DrawJournal(journal)
        self.fingerprint = _fingerprint(self._key)

    def perform(self, call: Call, sampler: Callable[[Streams], T]) -> T:
        """Draw from the sealed key and the entry that pays; the same draw has the same parameters and hides the same
        value, or is refused.
        """
        self._draws.check(call)
        if call.inputs is not None:
            self._draws.check_value(call, *self._sketched(call))
        return sampler(lambda part: Stream(self._key, label_of(call.ticket, part)))

    def _sketched(self, call: Call) -> tuple[Floats, Words]:
        """Two secret combinations of what is about to be hidden, and the words that mask them in the journal."""
        values = np.asarray(call.inputs, dtype=np.float64).ravel()
        label = label_of(call.ticket, call.parameters.get("asked", 0))
        words = Stream(self._key, b"sketch\0" + label).words(6)
        weights = np.random.Generator(np.random.PCG64([int(word) for word in words[:4]]))
        return np.array([weights.random(values.size) @ values for _ in range(2)]), words[4:]

    def remember(self, entry: Entry, digest: str) -> None:
        """Bind ``digest`` of the inputs of ``entry``'s draws to this key; refuse another one from then on."""
        self._draws.check_inputs(entry, digest)

    def __repr__(self) -> str:
        """Never the key."""
        return "ReplayKey(...)"


class DrawJournal:
    """What was drawn with a sealed key, in hashes and masked numbers: lines in a file beside the key.

    Equal noise at two scales would give the value away, and other noise would be a second release, so a redo that draws
    by another mechanism, for other groups or with other parameters is refused. The file survives the process; but for
    the inputs a phase is bound to it is not synced, so after a power failure its last lines may be missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        data = path.read_bytes() if path.exists() else b""
        *rows, torn = data.decode("ascii", errors="replace").split("\n")
        written = [row for row in rows if row and "\0" not in row]  # what never reached the disk reads as zeros
        if not all(map(_ROW.fullmatch, written)):
            raise LedgerUnavailable(
                f"reading {path.name}",
                "a line that says what was drawn is damaged",
                "Restore it; without it the same noise could hide something else",
            )
        self._known = dict(row.split(" ") for row in written)
        if torn:
            os.truncate(path, data.rfind(b"\n") + 1)

    def check(self, call: Call) -> None:
        """Remember this draw, or refuse it if another was made in its place."""
        ticket, query = call.ticket, call.parameters.get("asked", 0)
        groups = [charge.who for charge in ticket.entry.charges] if ticket.who == "*" else [ticket.who]
        rows: list[tuple[str, int, Any]] = [(group, 0, (call.mechanism, ticket.who)) for group in groups]
        rows.append((ticket.who, 1 + query, (call.mechanism, sorted(call.parameters.items()))))
        drawn = []
        for group, part, fact in rows:
            name = _digest(repr((ticket.entry.hash, ticket.slot, group, ticket.index, part)))
            if self._known.setdefault(name, _digest(repr(fact))) != _digest(repr(fact)):
                raise LedgerUnavailable(
                    f"repeating a {call.mechanism} draw",
                    "it was made for other groups, by another mechanism or with other parameters before",
                    "Run the same code again, or end the phase and charge anew",
                )
            drawn.append(f"{name} {self._known[name]}")
        self._write("\n".join(drawn))

    def check_value(self, call: Call, sketch: Floats, mask: Words) -> None:
        """Remember (masked) what this draw hides, or refuse it if it is not what it hid before, up to rounding."""
        ticket, query = call.ticket, call.parameters.get("asked", 0)
        name = _digest(repr((ticket.entry.hash, ticket.slot, ticket.who, ticket.index, "value", query)))
        if name not in self._known:
            self._known[name] = (sketch.view(np.uint64) ^ mask).astype(">u8").tobytes().hex()
            self._write(f"{name} {self._known[name]}")
            return
        stored = np.frombuffer(bytes.fromhex(self._known[name]), dtype=">u8").astype(np.uint64)
        before = (stored ^ mask).view(np.float64)
        if not (np.abs(before - sketch) <= _ROUNDING * call.sensitivity + 1e-12 * np.abs(sketch)).all():
            raise LedgerUnavailable(
                f"repeating a {call.mechanism} draw",
                "it hid something else before, and equal noise would show the difference",
                "Go on with the same records, labels and code; other ones need a charge of their own",
            )

    def check_inputs(self, entry: Entry, digest: str) -> None:
        """Remember what ``entry``'s draws are made for, or refuse if it is something else than before."""
        name, fact = _digest(repr((entry.hash, "inputs"))), _digest(digest)
        if self._known.setdefault(name, fact) != fact:
            raise LedgerUnavailable(
                "repeating draws",
                "they were made for other records, labels, settings or weights before",
                "Go on with the same ones; other ones need a charge of their own",
            )
        self._write(f"{name} {fact}", durable=True)

    def _write(self, rows: str, *, durable: bool = False) -> None:
        with self._path.open("a", encoding="ascii") as file:
            file.write(f"{rows}\n")
            if durable:
                file.flush()
                os.fsync(file.fileno())


_ROW = re.compile(r"[0-9a-f]{24} (?:[0-9a-f]{24}|[0-9a-f]{32})", re.ASCII)
_ROUNDING = 1e-6
"""Of the sensitivity: other threads may add in another order, and nobody learns from so small a difference."""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class SealedPhase:
    """Charges of one phase, repeatable until it ends.

    with SealedPhase(ledger, phase=3, directory=keys) as phase:
        receipt = phase.charge(event=..., who="pool", purpose="threshold")
    """

    def __init__(self, ledger: Ledger, *, phase: int, directory: Path) -> None:
        ChargeReason(phase=phase, purpose="check")
        if ledger.simulation:
            raise BadInput("a sealed phase in a simulation", "a seed repeats its draws by itself", "Use Seeded")
        if not Path(directory).is_dir():
            raise BadInput("a sealed phase", "the directory for its key does not exist", "Create it, for you alone")
        self._ledger, self.phase = ledger, phase
        self.key = ReplayKey(_place(directory, ledger=ledger, phase=phase), ledger=ledger, phase=phase)
        self._earlier = [entry for entry in ledger.entries if entry.key == self.key.fingerprint]
        self._next = 0

    @property
    def unit(self) -> Unit:
        """Whom its ledger protects."""
        return self._ledger.terms.budget.unit

    @property
    def redoing(self) -> bool:
        """Whether the next charge is one that was made before a restart."""
        return self._next < len(self._earlier)

    def charge(self, *, event: Event, count: int = 1, who: str | Sequence[str], purpose: str) -> Receipt:
        """As `Ledger.charge`, or the receipt of the same charge made before a restart."""
        groups = (who,) if isinstance(who, str) else tuple(who)
        return self.charge_together(dict.fromkeys(groups, event), count=count, purpose=purpose)

    def charge_together(self, events: Mapping[str, Event], *, count: int = 1, purpose: str) -> Receipt:
        """As `Ledger.charge_together`, or the receipt of the same charge made before a restart."""
        return self.charge_requested(request(events, count=count, why=ChargeReason(phase=self.phase, purpose=purpose)))

    def charge_requested(self, wanted: Request) -> Receipt:
        """The same for a request in which groups may be charged different numbers of times."""
        if wanted.why.phase != self.phase:
            raise BadInput(
                f"charging phase {wanted.why.phase}",
                f"the sealed phase is number {self.phase}",
                "Seal the one you charge",
            )
        if not self.redoing:
            return self._ledger.charge_all([wanted], source=self.key)[0]
        entry = self._earlier[self._next]
        if entry.public != (wanted.why, wanted.charges):
            raise LedgerUnavailable(
                f"repeating {wanted.why.purpose} in phase {self.phase}",
                f"before the restart, charge {self._next + 1} of this phase was another one",
                "Run the same code and plan again, or end the phase and charge anew",
            )
        self._next += 1
        return self._ledger.reissue(entry, source=self.key)

    def end(self) -> None:
        """Destroy the key: nobody can repeat or reconstruct these draws any more."""
        destroy(self.key.path)
        self.key.path.with_suffix(".draws").unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        """End the phase if it was completed; keep the key for a redo if it was not."""
        if kind is None:
            self.end()


# -- charges that a redo finds again


def charge_once(where: Ledger | SealedPhase, wanted: Sequence[Request]) -> list[Receipt]:
    """A receipt for each request, durable when this returns; after a restart, the same ones again.

    All requests or none, but for a sealed phase, which makes them one after the other and goes on where it was.
    """
    if isinstance(where, SealedPhase):
        return [where.charge_requested(request) for request in wanted]
    earlier = [_earlier(where, request) for request in wanted]
    missing = [request for request, entry in zip(wanted, earlier, strict=True) if entry is None]
    fresh = iter(where.charge_all(missing) if missing else [])
    return [where.reissue(entry, source=where.source) if entry and where.source else next(fresh) for entry in earlier]


def _earlier(ledger: Ledger, wanted: Request) -> Entry | None:
    """In a simulation: the entry of the same charge, made before this ledger was opened with the same seed."""
    if not ledger.simulation or ledger.source is None or not ledger.source.fingerprint:
        return None
    key = ledger.source.fingerprint
    same = (entry for entry in ledger.earlier if entry.public == (wanted.why, wanted.charges) and entry.key == key)
    return next(same, None)


TRAINING = "training"


def charge_training(where: Ledger | SealedPhase, phase: TrainingPhase) -> list[Receipt]:
    """A receipt for every stage of ``phase``: charged before any of it is done (`charge_once`)."""
    return charge_once(
        where,
        [
            request(
                stage.events,
                count=stage.steps,
                why=ChargeReason(phase=phase.number, purpose=f"{TRAINING} stage {number}"),
            )
            for number, stage in enumerate(phase.stages)
        ],
    )
