"""The ledger: charge, then release.

Guarantee: `charge` refuses before anything changes; when it returns, its entry is durable, and its receipt is the only
thing that opens the noise room. An error or interrupt in the middle may waste budget, never hide it: the ledger then
takes no more charges until it is opened again and has read what was really written.
"""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Self

from discreet.errors import BadInput, BudgetExceeded, InvalidLedger, LedgerUnavailable, ReceiptRefused
from discreet.privacy.budget import exact_minus
from discreet.privacy.events import Event
from discreet.privacy.ledger.admission import Balances, ChargeRule, check_amendment
from discreet.privacy.ledger.charges import ChargeReason, PathBalance, Price, Request, request
from discreet.privacy.ledger.entries import (
    RELEASED,
    REPLANNING,
    Entry,
    Opening,
    read_ledger,
    write_line,
    write_opening,
)
from discreet.privacy.ledger.paths import Line
from discreet.privacy.ledger.receipts import RandomSource, Receipt, issue
from discreet.privacy.ledger.sinks import MemorySink, Sink
from discreet.privacy.ledger.terms import Terms

_State = tuple[ChargeRule, Balances, list[list[Entry]]]


class Ledger:
    """An append-only, hash-chained account of everything that touched private data."""

    def __init__(self, sink: Sink, opening: Opening, entries: Sequence[Entry], *, source: RandomSource | None) -> None:
        self._sink, self._opening, self._source = sink, opening, source
        self._entries: list[Entry] = []
        self._terms = opening.terms
        self._rule, self._balances, self._of_path = self._under(opening.terms)
        self._receipts: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._lock, self._process = threading.Lock(), os.getpid()
        self._in_doubt, self._closed = False, False
        self._settled = False  # until this process has appended: another may have died before it was done with the last
        if source is not None and source.simulation != opening.simulation:
            raise BadInput(
                "opening this ledger with that source of randomness",
                "one is a simulation and the other is not",
                "Keep simulations and production in different ledgers",
            )
        for entry in entries:
            if entry.released is not None:
                self._keep(entry, self._balances)
            elif entry.terms is None:
                self._keep(entry, self._admitted(entry))
            else:
                self._admit_amendment(entry, entry.terms)
        self._earlier = {entry.sequence for entry in entries}

    @classmethod
    def create(cls, sink: Sink, terms: Terms, *, source: RandomSource | None = None) -> Self:
        """A new ledger in an empty sink. Committed terms are certified first; nothing is written if they fail."""
        with _closed_on_failure(sink):
            if sink.read():
                raise LedgerUnavailable("creating a ledger", "there is one already", "Open it, or choose another place")
            if terms.continued is not None:
                raise BadInput("creating a ledger", "its terms go on from others", "Amend the ledger that has those")
            terms.check_claim()
            simulation = bool(source and source.simulation)
            line, opening = write_opening(terms, id=secrets.token_hex(16), at=_now(), simulation=simulation)
            sink.append(0, [line])
            return cls(sink, opening, [], source=source)

    @classmethod
    def open(cls, sink: Sink, *, source: RandomSource | None = None) -> Self:
        """The ledger a sink holds; every line is checked, and every charge weighed again.

        To be drawn on (with a ``source``) its committed terms are certified again, too.
        """
        with _closed_on_failure(sink):
            opening, entries = read_ledger(sink.read())
            if source is not None:
                opening.terms.check_claim()
            return cls(sink, opening, entries, source=source)

    # -- what it is

    @property
    def opening(self) -> Opening:
        """Its first line."""
        return self._opening

    @property
    def source(self) -> RandomSource | None:
        """Where its randomness comes from; fixed when it was opened."""
        return self._source

    @property
    def closed(self) -> bool:
        """Whether it takes no more charges and serves no more receipts."""
        return self._closed

    @property
    def id(self) -> str:
        """A random name."""
        return self.opening.id

    @property
    def terms(self) -> Terms:
        """What it promises; after a re-planning, what it promises since then."""
        return self._terms

    @property
    def amendments(self) -> tuple[Entry, ...]:
        """Every re-planning, oldest first."""
        return tuple(entry for entry in self._entries if entry.terms is not None)

    def terms_before(self, amendment: Entry) -> Terms:
        """What it promised until that re-planning."""
        earlier = [entry.terms for entry in self._entries[: amendment.sequence - 1] if entry.terms is not None]
        return earlier[-1] if earlier else self.opening.terms

    @property
    def releases(self) -> tuple[Entry, ...]:
        """Every line that names what was released, oldest first."""
        return tuple(entry for entry in self._entries if entry.released is not None)

    @property
    def simulation(self) -> bool:
        """Whether its noise was simulated: then it proves nothing about people."""
        return self.opening.simulation

    @property
    def head(self) -> str:
        """The hash of the last line: it stands for everything before it."""
        return self._entries[-1].hash if self._entries else self.opening.hash

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every entry, oldest first."""
        return tuple(self._entries)

    @property
    def earlier(self) -> tuple[Entry, ...]:
        """Entries made before this ledger was opened whose draws were not taken up again since."""
        return tuple(entry for entry in self._entries if entry.sequence in self._earlier)

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._entries)

    def before(self, phase: int) -> Ledger:
        """A closed copy that ends before the first entry of ``phase`` or a later one."""
        count = next((number for number, entry in enumerate(self._entries) if entry.why.phase >= phase), len(self))
        with Ledger(MemorySink(), self._opening, self._entries[:count], source=None) as earlier:
            return earlier

    # -- what it does

    def charge(
        self,
        *,
        event: Event,
        count: int = 1,
        who: str | Sequence[str],
        why: ChargeReason | str,
        source: RandomSource | None = None,
    ) -> Receipt:
        """Charge ``count`` of ``event`` to a group, or the same to several; durable when it returns."""
        groups = (who,) if isinstance(who, str) else tuple(who)
        return self.charge_together(dict.fromkeys(groups, event), count=count, why=why, source=source)

    def charge_together(
        self,
        events: Mapping[str, Event],
        *,
        count: int = 1,
        why: ChargeReason | str,
        source: RandomSource | None = None,
    ) -> Receipt:
        """Charge several groups an event each, as one entry: all or none."""
        return self.charge_all([request(events, count=count, why=why)], source=source)[0]

    def charge_all(self, requests: Sequence[Request], *, source: RandomSource | None = None) -> list[Receipt]:
        """Many entries with one durable write, a receipt each: all or none."""
        with self._lock:
            self._check_usable()
            drawn_from = self._usable(source)
            weighed, balances = [], self._balances
            for wanted in requests:
                balances = self._rule.weigh(balances, wanted.charges, wanted.why)
                weighed.append(balances)
            lines, entries, previous = [], list[Entry](), self.head
            for wanted in requests:
                line, entry = write_line(
                    sequence=len(self._entries) + len(entries) + 1,
                    at=self._time(),
                    why=wanted.why,
                    charges=wanted.charges,
                    key=drawn_from.fingerprint if drawn_from else "",
                    previous=previous,
                )
                previous = entry.hash
                lines.append(line)
                entries.append(entry)
            self._in_doubt = True
            self._sink.append(len(self._entries) + 1, lines)
            for entry, after in zip(entries, weighed, strict=True):
                self._keep(entry, after)
            self._in_doubt, self._settled = False, True
            return [self._issue(entry, drawn_from) for entry in entries]

    def amend(self, terms: Terms, *, phase: int) -> Entry:
        """Go on under other terms from ``phase`` on (docs/proofs/replanning.md); durable when it returns.

        Everything that was charged is weighed again under them, and must fit; what they may be, `check_amendment` says.
        Receipts that were issued before are void.
        """
        with self._lock:
            self._check_usable()
            why = ChargeReason(phase=phase, purpose=REPLANNING)
            line, entry = write_line(
                sequence=len(self._entries) + 1, at=_now(), why=why, previous=self.head, terms=terms
            )
            state = self._amended(terms)
            self._in_doubt = True
            self._sink.append(len(self._entries) + 1, [line])
            self._take_over(entry, terms, state)
            self._in_doubt = False
            return entry

    def _time(self) -> str:
        """Of an entry. None where selection is hidden: times would tell how long labelling took."""
        return "" if self._terms.overflow else _now()

    def record_release(self, released: Mapping[str, str], *, phase: int) -> Entry:
        """Name what was released, by SHA-256, after it was drawn and stored; costs nothing, durable when it returns.

        Released files alone: the plain hash of anything else would confirm a guess about it.
        """
        with self._lock:
            self._check_usable()
            why = ChargeReason(phase=phase, purpose=RELEASED)
            line, entry = write_line(
                sequence=len(self._entries) + 1, at=self._time(), why=why, previous=self.head, released=released
            )
            self._in_doubt = True
            self._sink.append(len(self._entries) + 1, [line])
            self._keep(entry, self._balances)
            self._in_doubt = False
            return entry

    def reissue(self, entry: Entry, *, source: RandomSource) -> Receipt:
        """A receipt for an entry made before a restart, so that its draws can be *repeated* from the same key.

        Refused unless ``source`` holds the key the entry was made with: other draws would be a second release.
        """
        with self._lock:
            self._check_usable()
            self._usable(source)
            if not entry.key or entry.key != source.fingerprint or entry not in self._entries[entry.sequence - 1 :][:1]:
                raise ReceiptRefused(
                    f"a new receipt for entry {entry.sequence}",
                    "the entry was not made with this key",
                    "Charge again: fresh draws are a second release",
                )
            if not self._settled:
                self._in_doubt = True
                self._sink.append(len(self._entries) + 1, [])
                self._in_doubt, self._settled = False, True
            self._earlier.discard(entry.sequence)
            return self._issue(entry, source)

    def price(
        self, *, event: Event, count: int = 1, who: str | Sequence[str], why: ChargeReason | str = "pricing"
    ) -> Price:
        """What a charge would cost, without spending anything."""
        groups = (who,) if isinstance(who, str) else tuple(who)
        wanted = request(dict.fromkeys(groups, event), count=count, why=why)
        paths = {number for group in groups for number in self.terms.touched(group, wanted.why.phase)}
        left = min(self._rule.remaining(self._balances.totals[number]) for number in paths)
        try:
            after = self._rule.weigh(self._balances, wanted.charges, wanted.why)
        except BudgetExceeded as refused:
            return Price(
                requested=refused.requested,
                remaining=refused.remaining,
                total=refused.total,
                fits=False,
                refusal=str(refused),
            )
        dearest = max(
            exact_minus(self._rule.epsilon(after.totals[n]), self._rule.epsilon(self._balances.totals[n]))
            for n in paths
        )
        return Price(requested=dearest, remaining=left, total=self.terms.budget.epsilon, fits=True)

    def total(self, path: str) -> PathBalance:
        """Where ``path`` stands now."""
        total = self._balances.totals[self._position(path)]
        return PathBalance(
            path=path,
            entries=total.entries,
            forward=total.forward,
            backward=total.backward,
            epsilon=self._rule.epsilon(total),
            remaining=self._rule.remaining(total),
        )

    def totals(self) -> tuple[PathBalance, ...]:
        """Where every path stands now."""
        return tuple(self.total(path.name) for path in self.terms.paths)

    def entries_of(self, path: str) -> tuple[Entry, ...]:
        """The entries that touched ``path``, oldest first."""
        return tuple(self._of_path[self._position(path)])

    def charged(self) -> tuple[Line, ...]:
        """What was charged, equal charges of a phase added up."""
        counts: dict[tuple[str, int, Event], int] = {}
        for entry in self._entries:
            for charge in entry.charges:
                where = (charge.who, entry.why.phase, charge.event)
                counts[where] = counts.get(where, 0) + charge.count
        return tuple(Line(who=w, phase=p, event=e, count=n) for (w, p, e), n in counts.items())

    def lines_left(self) -> list[tuple[Line, int]]:
        """Committed lines with how much of each is left."""
        return self._rule.lines_left(self._balances)

    def owns(self, receipt: Receipt) -> bool:
        """Whether this ledger issued ``receipt``."""
        return isinstance(receipt, Receipt) and self._receipts.get(receipt.entry.sequence) is receipt

    def close(self) -> None:
        """Let others write. Receipts that were not used are worthless from now on."""
        self._closed = True
        self._sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """Public facts only."""
        kind = "simulation, " if self.simulation else ""
        return f"<Ledger {self.id[:8]}: {kind}{self.terms.mode}, {len(self)} entries>"

    # -- inside

    def _usable(self, source: RandomSource | None) -> RandomSource | None:
        if source is not None and source.simulation != self.simulation:
            raise BadInput(
                "charging with that source of randomness",
                "one of ledger and source is a simulation and the other is not",
                "Keep simulations and production in different ledgers",
            )
        return source or self._source

    def _admitted(self, entry: Entry) -> Balances:
        try:
            return self._rule.weigh(self._balances, entry.charges, entry.why)
        except (BudgetExceeded, BadInput):
            raise InvalidLedger(
                "reading a ledger", f"entry {entry.sequence} is one its terms do not allow", "Find out who wrote it"
            ) from None

    def _under(self, terms: Terms) -> _State:
        """A rule, and where everything charged so far stands under it. Raises what the rule raises."""
        rule = ChargeRule(terms)
        balances, of_path = rule.start, [list[Entry]() for _ in terms.paths]
        for entry in self._entries:
            if entry.charges:
                balances = rule.weigh(balances, entry.charges, entry.why)
            for number in sorted({n for charge in entry.charges for n in terms.touched(charge.who, entry.why.phase)}):
                of_path[number].append(entry)
        return rule, balances, of_path

    def _amended(self, terms: Terms) -> _State:
        check_amendment(self.opening.terms, self._terms, terms, self._entries)
        return self._under(terms)

    def _admit_amendment(self, entry: Entry, terms: Terms) -> None:
        try:
            state = self._amended(terms)
        except (BudgetExceeded, BadInput):
            raise InvalidLedger(
                "reading a ledger", f"line {entry.sequence + 1} re-plans it as nobody may", "Find out who wrote it"
            ) from None
        self._take_over(entry, terms, state)

    def _take_over(self, entry: Entry, terms: Terms, state: _State) -> None:
        self._rule, self._balances, self._of_path = state
        self._terms = terms
        self._receipts.clear()
        self._entries.append(entry)

    def _keep(self, entry: Entry, balances: Balances) -> None:
        for charge in entry.charges:
            for number in self.terms.touched(charge.who, entry.why.phase):
                path_entries = self._of_path[number]
                if not path_entries or path_entries[-1] is not entry:
                    path_entries.append(entry)
        self._balances = balances
        self._entries.append(entry)

    def _issue(self, entry: Entry, source: RandomSource | None) -> Receipt:
        receipt = issue(ledger=self, entry=entry, source=source)
        self._receipts[entry.sequence] = receipt
        return receipt

    def _position(self, path: str) -> int:
        for number, known in enumerate(self.terms.paths):
            if known.name == path:
                return number
        names = ", ".join(known.name for known in self.terms.paths)
        raise BadInput(f"path {path}", "this ledger has no such path", f"Choose one of {names}")

    def _check_usable(self) -> None:
        if self._closed or self._in_doubt or os.getpid() != self._process:
            fact = "its last write was interrupted" if self._in_doubt else "it is closed, or open in another process"
            raise LedgerUnavailable("charging", fact, "Open the ledger again")


@contextmanager
def _closed_on_failure(sink: Sink) -> Iterator[None]:
    """A sink whose ledger could not be made must not stay locked."""
    try:
        yield
    except BaseException:
        sink.close()
        raise


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
