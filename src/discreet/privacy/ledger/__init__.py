"""The ledger: what was spent, on whom, why and when; and the receipts without which nothing is drawn."""

from discreet.privacy.ledger.charges import Charge, ChargeReason, PathBalance, Price, Request, request
from discreet.privacy.ledger.entries import Entry
from discreet.privacy.ledger.ledger import Ledger
from discreet.privacy.ledger.paths import Line, Path, PathSegment
from discreet.privacy.ledger.plan_terms import terms_of
from discreet.privacy.ledger.receipts import Receipt
from discreet.privacy.ledger.sinks import FileSink, MemorySink, Sink
from discreet.privacy.ledger.terms import Terms, adaptive, committed

__all__ = [
    "Charge",
    "ChargeReason",
    "Entry",
    "FileSink",
    "Ledger",
    "Line",
    "MemorySink",
    "Path",
    "PathBalance",
    "PathSegment",
    "Price",
    "Receipt",
    "Request",
    "Sink",
    "Terms",
    "adaptive",
    "committed",
    "request",
    "terms_of",
]
