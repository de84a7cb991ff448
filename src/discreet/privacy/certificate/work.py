"""How much there is to compute before a certificate or a ledger is verified.

Guarantee: the estimate is a function of the events, so the same file is refused or taken on every machine; no loss
distribution is made for it. It errs on the side of more: measured times were a tenth of it to all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from discreet.errors import TooMuchWork
from discreet.privacy.accounting.pld import CERTIFICATE_INTERVAL, pld_seconds
from discreet.privacy.events import Event
from discreet.privacy.ledger import Ledger
from discreet.privacy.trajectories import Trajectory

MOST_SECONDS = 300.0
"""Of one core, as estimated. The certificate of a plan with twenty queries takes 120."""
SECONDS_READ = 5e-5
"""An event, from its stored form to a value and back."""
_SECONDS_RDP, _ORDERS = 4e-3, 250
"""Divergences of one event at so many orders, with what refines them."""


def check_work(seconds: float, asked: str, most_seconds: float) -> None:
    """Refuse what is estimated to take longer."""
    if not seconds <= most_seconds:
        raise TooMuchWork(
            asked,
            f"it cannot be checked within the limit: about {seconds:.0f} seconds are needed, {most_seconds:g} are "
            "allowed",
            "If you trust who sent it, raise the limit: discreet verify --max-seconds",
        )


def path_seconds(
    paths: Iterable[Trajectory], interval: Callable[[Trajectory], float] | None, *, orders: int = _ORDERS
) -> float:
    """About how long it takes to price ``paths``: by RDP, and by PLD at each one's ``interval`` where there is one."""
    seconds, known = 0.0, set[tuple[Event, int, float]]()
    for path in paths:
        parts = len(path.training) + len(path.blocks)
        seconds += parts * _SECONDS_RDP * max(1.0, orders / _ORDERS)
        if interval is not None:
            seconds += pld_seconds(path.trained, interval(path), known)
            seconds += sum(pld_seconds(block.event, CERTIFICATE_INTERVAL, known) for block in path.blocks)
    return seconds


def ledger_seconds(ledger: Ledger) -> float:
    """About how long it takes to compute again what a committed ledger promised when it was opened."""
    terms = ledger.opening.terms
    if terms.mode == "adaptive":
        return 0.0
    limit = float(terms.accounted.epsilon)
    by_pld = terms.accountant == "pld"
    return path_seconds(terms.trajectories(), (lambda path: path.interval(limit)) if by_pld else None)
