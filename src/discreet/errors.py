"""One tree of errors. Each says what was asked, what is so, and what to do; none carries a record's data.

DiscreetError
├── BadInput (ValueError)              a request that cannot be taken as it stands; exit code 2
│   ├── InvalidBudget                  an epsilon, delta, unit or relation that means nothing
│   ├── InvalidEvent                   a mechanism's parameters, or its stored form
│   ├── InvalidPlan                    a stored plan that is not one
│   ├── InfeasiblePlan                 a plan nobody can make; names the nearest one
│   ├── InvalidLedger                  a stored ledger that is not one, or was changed
│   ├── InvalidCertificate             a stored certificate, key or signature that is not one
│   ├── TooMuchWork                    a certificate or ledger that cannot be checked within the limit of work
│   ├── InvalidCheckpoint              a stored model or checkpoint that is not one, or belongs to something else
│   ├── InvalidConfig                  a campaign's file that cannot be taken as it stands; says which line
│   ├── InvalidStore                   a campaign store that is not one, was changed, or is newer than this program
│   ├── NoSuchCampaign                 a name the store does not know
│   ├── CampaignExists                 a name that is taken
│   ├── NotNow                         a verb that this phase of a campaign does not allow
│   └── PoolChanged                    records of a pool that are missing or not what they were
├── BudgetExceeded (ValueError)        a spend the filter refused; nothing was spent
├── LedgerUnavailable (RuntimeError)   a ledger in use elsewhere, or whose last write is in doubt
├── StoreUnavailable (RuntimeError)    a campaign store that is locked, full, or cannot be reached
├── ServerUnavailable (RuntimeError)   a labelling server that is down, or answers in another way than it should
├── ReceiptRefused (RuntimeError)      a draw without a valid receipt: none, spent, foreign, or for something else
├── ProcessFailed (RuntimeError)       one of several processes failed, ended, or was started with something else
├── UnsupportedEvent (TypeError)       an accountant that cannot price this event
└── MissingExtra (ImportError)         an optional part that is not installed
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches


def alternatives(name: object, known: Iterable[str]) -> str:
    """The remedy for a name that is not known: the nearest one, and all there are."""
    names = list(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6) if isinstance(name, str) else []
    every = f"Choose one of {', '.join(names)}"
    return f"Did you mean {close[0]}? {every}" if close else every


class DiscreetError(Exception):
    """Root of all errors raised on purpose.

    ``asked``, ``fact`` and ``remedy`` are the three parts of the message. Parameters may be echoed in
    them, records never.
    """

    def __init__(self, asked: str, fact: str, remedy: str = "") -> None:
        self.asked, self.fact, self.remedy = asked, fact, remedy
        super().__init__(asked, fact, remedy)

    def __str__(self) -> str:
        message = f"{self.asked}: {self.fact}."
        return f"{message} {self.remedy}." if self.remedy else message


class BadInput(DiscreetError, ValueError):
    """A request that cannot be taken as it stands. Nothing was changed, nothing was charged."""


class InvalidBudget(BadInput):
    """An epsilon, delta, unit or relation that means nothing."""


class InvalidEvent(BadInput):
    """A mechanism's parameters, or the stored form of an event, are not valid."""


class InvalidPlan(BadInput):
    """A stored plan that cannot be read back."""


class InfeasiblePlan(BadInput):
    """No plan gives this guarantee; ``nearest`` maps the parameter to change to the nearest feasible value."""

    def __init__(self, asked: str, fact: str, remedy: str, nearest: dict[str, str]) -> None:
        super().__init__(asked, fact, remedy)
        self.nearest = nearest


class InvalidLedger(BadInput):
    """A stored ledger that cannot be read back, or whose entries do not follow from one another."""


class InvalidCertificate(BadInput):
    """A stored certificate, signing key or signature that cannot be read."""


class TooMuchWork(BadInput):
    """A certificate or ledger that cannot be checked within the limit of work. Nothing is said about its claim."""


class InvalidCheckpoint(BadInput):
    """A stored model or mid-phase checkpoint that cannot be read, or was made for something else."""


class InvalidConfig(BadInput):
    """A campaign's file cannot be taken as it stands. ``line`` is where, if that is known.

    ``others`` is what else is wrong with it: one reading reports everything, a line of the message each.
    """

    def __init__(
        self,
        asked: str,
        fact: str,
        remedy: str = "",
        *,
        line: int | None = None,
        others: tuple[InvalidConfig, ...] = (),
    ) -> None:
        super().__init__(asked, fact, remedy)
        self.line, self.others = line, others

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *map(str, self.others)])


class InvalidStore(BadInput):
    """A campaign store that cannot be read back, or was made by a newer program."""


class NoSuchCampaign(BadInput):
    """The store has no campaign of this name."""


class CampaignExists(BadInput):
    """The store has a campaign of this name already."""


class NotNow(BadInput):
    """A campaign is in a phase that does not allow this verb."""


class PoolChanged(BadInput):
    """Records of a pool are missing, or are not what they were when they were enrolled. Counts are for the owner."""


class BudgetExceeded(DiscreetError, ValueError):
    """A spend that would exceed the budget. It was refused before anything changed.

    ``requested`` is what this spend alone costs, ``remaining`` what was left, ``total`` the whole budget.
    """

    def __init__(self, asked: str, *, requested: Decimal, remaining: Decimal, total: Decimal, reason: str = "") -> None:
        self.requested, self.remaining, self.total = requested, remaining, total
        left = f"needs eps={requested:.6g}; {remaining:.6g} of {total:.6g} remains"
        super().__init__(
            asked,
            f"{reason}: {left}" if reason else left,
            "Ask for less, or raise the budget before the campaign starts",
        )


class LedgerUnavailable(DiscreetError, RuntimeError):
    """The ledger cannot take a charge now: another process holds it, or its last write may not have landed."""


class StoreUnavailable(DiscreetError, RuntimeError):
    """A campaign store is locked by another process, its disk is full, or it cannot be reached. Nothing was lost."""


class ServerUnavailable(DiscreetError, RuntimeError):
    """A server that people label at is down, slow, or answers in a form that is not its own. Nothing was lost here.

    ``status`` is what it answered; None, if it did not, or in another form.
    """

    def __init__(self, asked: str, fact: str, remedy: str = "", *, status: int | None = None) -> None:
        super().__init__(asked, fact, remedy)
        self.status = status


class ReceiptRefused(DiscreetError, RuntimeError):
    """A draw was asked for without a valid receipt. Nothing was drawn."""


class ProcessFailed(DiscreetError, RuntimeError):
    """One of several processes that train together failed, ended, or was started with something else.

    ``rank`` says which; None if they did not find each other. What was charged stays charged.
    """

    def __init__(self, asked: str, fact: str, remedy: str = "", *, rank: int | None = None) -> None:
        super().__init__(asked, fact, remedy)
        self.rank = rank


class UnsupportedEvent(DiscreetError, TypeError):
    """This accountant cannot price this event under this relation."""


class MissingExtra(DiscreetError, ImportError):
    """An optional part of discreet is needed and not installed."""


def require(library: str, *, extra: str, asked: str, name: str = "", of: str = "discreet") -> None:
    """Refuse, before any work, where a library is not installed. ``name``: what it is called, if not as its module;
    ``of``: the package that has the extra.
    """
    from importlib.util import find_spec

    if find_spec(library) is None:
        fact = f"{name or library} is not installed"
        raise MissingExtra(asked, fact, f"Install it: pip install '{of}[{extra}]'")
