"""How a learner is paid for: a receipt that was charged, a ledger that is charged now, or a simulation."""

from __future__ import annotations

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import SealedPhase, Seeded
from discreet.privacy.budget import Budget, Unit
from discreet.privacy.ledger import Ledger, MemorySink, Receipt
from discreet.stream.settings import StreamSettings
from discreet.stream.terms import charge_stream, stream_charges, stream_price, stream_terms


def paid_receipt(settings: StreamSettings, receipt: Receipt | None, ledger: Ledger | SealedPhase | None) -> Receipt:
    """The receipt of a stream with these settings."""
    if (receipt is None) == (ledger is None):
        raise BadInput("a stream learner", "exactly one of receipt and ledger pays for it", "Give one of them")
    if receipt is None:
        assert ledger is not None
        _check_unit(settings, ledger.unit if isinstance(ledger, SealedPhase) else ledger.terms.budget.unit)
        return charge_stream(ledger, **settings.paid)
    if type(receipt) is not Receipt:
        raise ReceiptRefused("a stream learner", "there is no receipt for it", "Use charge_stream")
    _check_unit(settings, receipt.unit)
    if {*receipt.entry.charges} != {*stream_charges(**settings.paid)}:
        raise ReceiptRefused(
            "a stream learner", "its receipt was charged for something else", "Charge with the same settings"
        )
    return receipt


def _check_unit(settings: StreamSettings, unit: Unit) -> None:
    if unit != settings.unit:
        raise ReceiptRefused(
            f"a stream learner for the unit {settings.unit}",
            f"its ledger protects the unit {unit}",
            "Set person_records to protect persons, and nothing to protect records",
        )


def simulated_receipt(settings: StreamSettings, *, seed: int, delta: str = "1e-6") -> Receipt:
    """Of a ledger in memory whose draws come from ``seed``, with a budget of exactly what the stream costs."""
    parts = settings.paid
    pure = settings.noise.event().pure_epsilon() is not None
    price = stream_price(delta=0 if pure else delta, **parts)
    terms = stream_terms(Budget(epsilon=price.epsilon, delta=price.delta, unit=settings.unit), **parts)
    ledger = Ledger.create(MemorySink(), terms, source=Seeded(seed))
    return charge_stream(ledger, **parts)
