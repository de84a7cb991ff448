"""Receipts: the only key to the noise room. A ledger issues one when an entry is durable, and nobody else can.

Guarantee: a receipt allows as many releases as its entry was charged for and no more; it belongs to the process and
the open ledger that issued it; it cannot be made by hand, copied or stored. Randomness comes with it: a receipt
carries the ledger's source, so a production ledger cannot be served with simulated noise or the other way round.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from discreet.errors import BadInput, ReceiptRefused
from discreet.privacy.budget import Budget, Unit
from discreet.privacy.events import Event
from discreet.privacy.ledger.charges import Charge
from discreet.privacy.ledger.entries import Entry

_ISSUER = object()


class RandomSource(Protocol):
    """What a ledger must know of a source of randomness. How it draws is the noise room's business."""

    @property
    def simulation(self) -> bool:
        """Whether its draws can be known to others: such a ledger proves nothing about people."""

    @property
    def fingerprint(self) -> str:
        """Names a key that outlives the process, so that the same draws can be made again; empty if there is none."""


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """One draw: which entry pays for it, for whom, of what kind, and the how-manieth it is."""

    ledger: str
    entry: Entry
    slot: str
    who: str
    index: int


class Receipt:
    """Proof that an entry is durable, and a purse of the draws it pays for."""

    __slots__ = ("__weakref__", "_entry", "_ledger", "_lock", "_process", "_source", "_start", "_used")

    def __init__(self, issuer: object, *, ledger: Any, entry: Entry, source: RandomSource | None) -> None:
        if issuer is not _ISSUER:
            raise ReceiptRefused("making a receipt", "only a ledger issues receipts", "Call Ledger.charge")
        self._entry, self._source = entry, source
        self._ledger, self._process = ledger, os.getpid()
        self._start, self._used = 0, dict[tuple[str, str], int]()
        self._lock = threading.Lock()

    @property
    def entry(self) -> Entry:
        """The entry it was issued for."""
        return self._entry

    @property
    def source(self) -> RandomSource | None:
        """Where its draws come from."""
        return self._source

    @property
    def ledger_id(self) -> str:
        """The id of the ledger that issued it."""
        return str(self._ledger.id)

    @property
    def unit(self) -> Unit:
        """Whom its ledger protects."""
        return self.budget.unit

    @property
    def budget(self) -> Budget:
        """What its ledger promises."""
        budget: Budget = self._ledger.terms.budget
        return budget

    @property
    def simulation(self) -> bool:
        """Whether what is drawn with it proves nothing about people."""
        return bool(self._ledger.simulation)

    @property
    def closed(self) -> bool:
        """Whether its ledger is closed: then it is worthless."""
        return bool(self._ledger.closed)

    def charge_of(self, who: str | None = None) -> Charge:
        """The charge to ``who``; without a name, the one charge there is."""
        charges = [charge for charge in self.entry.charges if who in (None, charge.who)]
        if len(charges) != 1:
            raise ReceiptRefused(
                f"using receipt {self.entry.sequence} for {who or 'an unnamed group'}",
                "it does not name one charge of that receipt",
                f"Name one of {', '.join(charge.who for charge in self.entry.charges)}",
            )
        return charges[0]

    def events(self, who: str | None = None) -> tuple[Event, ...]:
        """The events paid for: of one group, or of all."""
        return tuple(c.event for c in self.entry.charges) if who is None else (self.charge_of(who).event,)

    def take(self, slot: str, who: str | None = None, *, after: tuple[str, Sequence[str]] = ("", ())) -> Ticket:
        """Use up one draw of kind ``slot``, for one group or for all at once. Refuses the one too many.

        ``after`` names another kind that must have been drawn first, this time, for each of these groups.
        """
        with self._lock:
            self.check()
            groups = [charge.who for charge in self.entry.charges] if who is None else [self.charge_of(who).who]
            indices = {self.used(slot, group) for group in groups}
            if len(indices) != 1:
                raise ReceiptRefused(
                    f"using receipt {self.entry.sequence} for all its groups",
                    "some of them were already served by themselves",
                    "Serve all at once, or each by itself",
                )
            index = indices.pop()
            if index >= min(self.charge_of(group).count for group in groups):
                raise ReceiptRefused(
                    f"draw {index + 1} on receipt {self.entry.sequence}",
                    f"it is spent: {index} were charged for",
                    "Charge again before drawing again",
                )
            for group in after[1]:
                if self.used(after[0], group) <= index:
                    raise ReceiptRefused(
                        f"draw {index + 1} on receipt {self.entry.sequence}",
                        f"no {after[0]} was drawn for {group} this time, which the charge is for",
                        f"Draw the {after[0]} first",
                    )
            for group in groups:
                self._used[slot, group] = index + 1
            return Ticket(ledger=self.ledger_id, entry=self.entry, slot=slot, who=who or "*", index=index)

    def used(self, slot: str, who: str) -> int:
        """How many draws of kind ``slot`` were taken for ``who``."""
        return self._used.get((slot, who), self._start)

    def advance(self, draws: int) -> None:
        """Skip to draw ``draws`` of every kind: a resumed phase goes on where its checkpoint was made. Only forward."""
        with self._lock:
            self.check()
            behind = max(self._used.values(), default=self._start)
            if type(draws) is not int or not behind <= draws <= min(c.count for c in self.entry.charges):
                raise BadInput(
                    f"advancing receipt {self.entry.sequence}",
                    "it was used further already, or has fewer draws than that",
                    "Advance to a draw that was not made yet",
                )
            self._start, self._used = draws, {}

    def check(self) -> None:
        """Raise `ReceiptRefused` unless this receipt may be used here and now."""
        where = f"using receipt {self.entry.sequence}"
        if os.getpid() != self._process:
            raise ReceiptRefused(
                where, "it was issued to another process, which may use it too", "Charge in the process that draws"
            )
        if self._ledger.closed:
            raise ReceiptRefused(where, "its ledger is closed", "Draw before closing the ledger")
        if not self._ledger.owns(self):
            raise ReceiptRefused(
                where, "its ledger did not issue it, or replaced it by a later one", "Use the receipt `charge` returned"
            )

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<Receipt {self.entry.sequence} of ledger {self.ledger_id[:8]}>"

    def __copy__(self) -> NoReturn:
        """A copy would be a second purse."""
        raise ReceiptRefused("copying a receipt", "a receipt pays once", "Pass the receipt itself")

    def __deepcopy__(self, memo: Any) -> NoReturn:
        """A copy would be a second purse."""
        self.__copy__()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """A stored receipt could be read twice."""
        raise ReceiptRefused("storing a receipt", "a receipt lives in one process", "Use a sealed phase to resume")


def issue(*, ledger: Any, entry: Entry, source: RandomSource | None) -> Receipt:
    """For ledgers only."""
    return Receipt(_ISSUER, ledger=ledger, entry=entry, source=source)
