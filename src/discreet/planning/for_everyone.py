"""Terms of queries that every record of the pool pays: pure ones a share each, Gaussian ones together in a block.

Guarantee: the block's noise is found on the safe side, so that all queries cost at most the selection epsilon at their
part of delta, by the plan's accountant (docs/proofs/apart.md).
"""

from __future__ import annotations

import functools
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, Literal, get_args

from discreet.errors import BadInput
from discreet.planning.search import least_noise
from discreet.privacy.events import (
    Block,
    BoundedRange,
    Composed,
    Event,
    Gaussian,
    PoissonSampledGaussian,
    Pure,
    Repeated,
)
from discreet.privacy.exact import MAX_DIGITS, Number, exact_decimal, float_below, share_of
from discreet.privacy.plan import Accountant
from discreet.privacy.selection_terms import SelectionKind, SelectionTerms
from discreet.privacy.trajectories import block_epsilon

Mechanism = Literal["laplace", "exponential", "k-centre", "gaussian", "subsampled-gaussian"]
"""What a query is whose price every record of the pool pays."""
GAUSSIAN = ("gaussian", "subsampled-gaussian")
DEFAULT_SUBSAMPLE = 0.7
"""The DP-AL paper's."""


def terms_for_everyone(
    kind: SelectionKind,
    mechanism: Mechanism,
    queries: tuple[int, ...],
    epsilon: Decimal,
    *,
    delta: Decimal,
    selection_delta: Number | None,
    subsample: float | None,
    accountant: Accountant,
    **others: Any,
) -> SelectionTerms:
    """Terms of ``queries`` by one mechanism. ``delta``: of the whole budget; half of it is the block's by default."""
    _check(kind, mechanism, subsample, selection_delta)
    if epsilon == 0 or not queries:
        return SelectionTerms(kind=kind, queries=len(queries), epsilon=epsilon, **others)
    if mechanism in GAUSSIAN:
        part = _part_of(delta, selection_delta)
        rate = 1.0 if mechanism == "gaussian" else DEFAULT_SUBSAMPLE if subsample is None else subsample
        events = (gaussian_query(epsilon, part, len(queries), rate, accountant),) * len(queries)
        return SelectionTerms(kind=kind, queries=len(queries), epsilon=epsilon, events=events, delta=part, **others)
    events = () if mechanism == "laplace" else tuple(_draws(mechanism, share_of(epsilon, len(queries)), queries))
    return SelectionTerms(kind=kind, queries=len(queries), epsilon=epsilon, events=events, **others)


def _check(kind: SelectionKind, mechanism: Mechanism, subsample: float | None, selection_delta: Number | None) -> None:
    if mechanism not in (known := get_args(Mechanism)):
        raise BadInput(f"selection by {mechanism}", "there is no such mechanism", f"Choose one of {', '.join(known)}")
    if (kind == "apart") != (mechanism in GAUSSIAN):
        raise BadInput(
            f"{mechanism} selection priced as {kind}",
            "Gaussian ones are priced apart, pure ones the paper's way",
            f"Use selection = 'apart' for {' and '.join(GAUSSIAN)}, and only for them",
        )
    if subsample is not None and mechanism != "subsampled-gaussian":
        raise BadInput(f"{mechanism} with a subsample", "it looks at all records", "Drop it")
    if selection_delta is not None and mechanism not in GAUSSIAN:
        raise BadInput(f"{mechanism} with a delta of its own", "its price holds at delta 0", "Drop it")


def _part_of(delta: Decimal, selection_delta: Number | None) -> Decimal:
    if selection_delta is None:
        return Context(prec=MAX_DIGITS - 2, rounding=ROUND_FLOOR).divide(delta, Decimal(2))
    part = exact_decimal(selection_delta, "selection delta")
    if not 0 < part < delta:
        raise BadInput(f"a selection delta of {part}", f"it is no part of delta {delta}", "Leave it out for half of it")
    return part


def _draws(mechanism: Mechanism, share: Decimal, queries: tuple[int, ...]) -> list[Event]:
    """k draws a query, of equal prices that sum to its share."""
    draw = Pure if mechanism == "exponential" else BoundedRange
    return [Repeated(event=draw(epsilon=share_of(share, k)), count=k) for k in queries]


@functools.lru_cache(maxsize=256)
def gaussian_query(epsilon: Decimal, delta: Decimal, queries: int, rate: float, accountant: Accountant) -> Event:
    """The query with least noise of which ``queries`` cost ``epsilon`` at ``delta``."""

    def made(sigma: float) -> Event:
        if rate == 1:
            return Gaussian(noise_multiplier=sigma)
        return PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=sigma)

    def cost(sigma: float) -> float:
        block = Block(event=Composed(events=(made(sigma),) * queries), epsilon=epsilon, delta=delta)
        return block_epsilon(block, by_pld=accountant == "pld")

    sigma = least_noise(cost, float_below(epsilon), start=2.0, tolerance=1e-3, least=1e-1, most=1e5)
    if sigma is None:
        fact = "no sensible noise is that large"
        raise BadInput(f"Gaussian selections for epsilon={epsilon} at delta={delta}", fact, "Give more")
    return made(sigma)
