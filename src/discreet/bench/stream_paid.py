"""Components that are paid for: of records that came before the stream, and never arrive in it.

Those records pay for a noisy second moment, the stream's records for the stream, out of one ledger: the claim is the
worse of the two, and each may use the whole budget. No public record is looked at but for step size and lambda, which
are those that were found for public components.
"""

from __future__ import annotations

from functools import lru_cache

from discreet.bench.stream_methods import StreamMethod, StreamProblem
from discreet.bench.stream_runs import Part
from discreet.bench.stream_sets import StreamSet
from discreet.errors import BadInput
from discreet.noise import Seeded
from discreet.privacy.events import Gaussian
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.stream import charge_preparation, stream_terms
from discreet.stream.preparation import Preparation
from discreet.stream.private_components import private_components, second_moment_event

NORM = 1.0
"""Records are brought to this length before their second moment is taken."""


def paid_part(problem: StreamProblem, method: StreamMethod, data: StreamSet, seed: int) -> tuple[Part, Ledger]:
    """The stream of a seed, by components that its last records pay for, and the ledger that holds both."""
    if not method.gaussian:
        raise BadInput(f"paid components with {method.name}", "its budget has no delta for them", "Use Gaussian noise")
    if problem.paid + problem.arrivals > len(data.places):
        raise BadInput(f"{problem.paid} held-out records", f"{len(data.places)} are all there are", "Take fewer")
    event = _event(method.total, method.delta)
    terms = stream_terms(
        method.budget(), asking=method.rule(), noise=method.noise(), preparation=[event], prepared="held-out"
    )
    ledger = Ledger.create(MemorySink(), terms, source=Seeded(seed))
    plain = Preparation(inputs=data.preparation.inputs)
    held_out = plain.scaled(data.last(seed, problem.paid))
    receipt = charge_preparation(ledger, event, purpose="second moment")
    found = private_components(held_out, count=problem.components, norm=NORM, receipt=receipt)
    made = plain.with_components(found.components, origin="paid")
    return _part(data, made, seed, problem.arrivals), ledger


def _part(data: StreamSet, made: Preparation, seed: int, arrivals: int) -> Part:
    x, y = data.with_preparation(made).stream(seed, arrivals)
    return Part(x=x, y=y, test_x=made.rows(data.test_raw), test_y=data.test_y)


@lru_cache(maxsize=8)
def _event(epsilon: str, delta: str) -> Gaussian:
    """The least noise with which one second moment keeps the budget, by PLD."""
    from discreet.privacy.accounting.pld import pld_epsilons

    low, high = 0.05, 1000.0
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        fits = max(pld_epsilons(second_moment_event(middle), float(delta), interval=1e-4)) <= float(epsilon)
        low, high = (low, middle) if fits else (middle, high)
    return second_moment_event(high)
