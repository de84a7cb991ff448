"""The ledger: what was spent, on whom, why and when; and the receipts without which nothing is drawn."""

from discreet.privacy.ledger.entries import Charge, Entry, Why
from discreet.privacy.ledger.file_sink import FileSink
from discreet.privacy.ledger.ledger import Ledger
from discreet.privacy.ledger.paths import Line, Path, Stay
from discreet.privacy.ledger.plan_terms import terms_of
from discreet.privacy.ledger.receipts import Receipt
from discreet.privacy.ledger.requests import Price, Request, Total
from discreet.privacy.ledger.sinks import MemorySink, Sink
from discreet.privacy.ledger.terms import Terms, adaptive, committed

__all__ = [
    "Charge",
    "Entry",
    "FileSink",
    "Ledger",
    "Line",
    "MemorySink",
    "Path",
    "Price",
    "Receipt",
    "Request",
    "Sink",
    "Stay",
    "Terms",
    "Total",
    "Why",
    "adaptive",
    "committed",
    "terms_of",
]
