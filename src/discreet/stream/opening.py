"""How a learner is paid for: a receipt that was charged, a ledger that is charged now, or a simulation."""

from __future__ import annotations

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import SealedPhase, Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, MemorySink, Receipt
from discreet.stream.settings import StreamSettings
from discreet.stream.terms import ARRIVING, ASKED, COUNTED, charge_stream, stream_price, stream_terms


def paid_receipt(settings: StreamSettings, receipt: Receipt | None, ledger: Ledger | SealedPhase | None) -> Receipt:
    """The receipt of a stream with these settings."""
    if (receipt is None) == (ledger is None):
        raise BadInput("a stream learner", "exactly one of receipt and ledger pays for it", "Give one of them")
    if receipt is None:
        assert ledger is not None
        return charge_stream(ledger, asking=settings.asking, noise=settings.noise, drift=settings.drift)
    if type(receipt) is not Receipt:
        raise ReceiptRefused("a stream learner", "there is no receipt for it", "Use charge_stream")
    wanted = {ARRIVING: settings.asking.price(), ASKED: settings.noise.event()}
    if settings.drift is not None:
        wanted[COUNTED] = settings.drift.event()
    if {charge.who: charge.event for charge in receipt.entry.charges} != wanted:
        raise ReceiptRefused(
            "a stream learner", "its receipt was charged for something else", "Charge with the same settings"
        )
    return receipt


def simulated_receipt(settings: StreamSettings, *, seed: int, delta: str = "1e-6") -> Receipt:
    """Of a ledger in memory whose draws come from ``seed``, with a budget of exactly what the stream costs."""
    parts = {"asking": settings.asking, "noise": settings.noise, "drift": settings.drift}
    pure = settings.noise.event().pure_epsilon() is not None
    price = stream_price(delta=0 if pure else delta, **parts)  # type: ignore[arg-type]
    terms = stream_terms(Budget(epsilon=price.epsilon, delta=price.delta), **parts)  # type: ignore[arg-type]
    ledger = Ledger.create(MemorySink(), terms, source=Seeded(seed))
    return charge_stream(ledger, **parts)  # type: ignore[arg-type]
