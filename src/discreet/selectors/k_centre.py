"""k-centre (CoreSet) by the exponential mechanism in sequence: k records, each likelier the farther it is from its
nearest centre. Centres are the labelled records and those drawn so far.

Guarantee (docs/proofs/k-centre.md): embeddings are clipped to a declared radius R, and a null stays in its slot at the
origin. One record moves every distance to the nearest centre by at most R, up and down, so draw j is
exp(eps_j distance / (2 R)), with a range of losses of eps_j, for *every* record: pooled, drawn or labelled. Nothing is
saved by being asked once: a drawn record goes on to repel others. All of them pay all k draws, in every query.

delta = 0: eps_j = epsilon / k. delta > 0: the largest eps_j with which k draws cost epsilon at delta by RDP.

``anchored``: the origin counts as a centre. Then a null is at distance 0 and as a centre changes nothing; a record can
only raise its own distance before it is drawn and only lower others' after: one way at a time, and the 2 goes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from discreet.checks import number, truth
from discreet.errors import BadInput
from discreet.noise import exponential, random_places
from discreet.parts import Option, Part
from discreet.privacy.accounting.rdp import ORDERS, rdp_epsilon
from discreet.privacy.budget import Number, Unit, exact_decimal, exact_times, float_below, rounded_up, share_of
from discreet.privacy.events import BoundedRange, Event, Repeated
from discreet.privacy.ledger import Receipt
from discreet.records import Selection
from discreet.selectors.selection_inputs import (
    DELTA,
    Floats,
    SelectorRequest,
    chosen,
    one_receipt,
    pure_price,
    some_of,
    whole,
)

MOST_DIMENSIONS = 10**6
REACH = 1 + 1e-9
"""Distances are sums in floating point. Over at most a million dimensions they, and the clipping before them, are off
by less than this share of the radius; what they may be off by is paid for (docs/proofs/k-centre.md)."""
_LEAST = Decimal("1e-7")
_MOST = 1024 * 10**9
_ROWS = 4096


@dataclass(frozen=True, kw_only=True)
class KCentreSelector:
    """``epsilon`` at ``delta`` for all k draws of one query. ``radius``: what embeddings are clipped to, declared."""

    epsilon: Number
    delta: Number = 0
    radius: float = 1.0
    anchored: bool = False
    name = "k-centre"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_decimal(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", exact_decimal(self.delta, "delta"))
        if not 0 <= exact_decimal(self.delta, "delta") < 1:
            raise BadInput(f"k-centre with delta={self.delta}", "it must be at least 0 and below 1", "Try 1e-6")
        if isinstance(self.radius, bool) or not isinstance(self.radius, (int, float)):
            raise BadInput("k-centre with that radius", "it is not a number", "Declare one, such as 1.0")
        if not 1e-100 <= self.radius <= 1e100:
            raise BadInput(f"k-centre with radius={self.radius}", "it must be positive and at most 1e100", "Try 1.0")

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """k draws of a bounded range, for everybody whose record is read: the pool, and the labelled ones."""
        draws = max(min(whole(k), pool_size), 1)
        total, delta = exact_decimal(self.epsilon, "epsilon"), exact_decimal(self.delta, "delta")
        each = epsilon_per_draw(total, delta, draws)
        if each < _LEAST:
            raise BadInput(
                f"k-centre with {draws} draws for epsilon={total}",
                f"less than {_LEAST} is left for a draw",
                "Give more, ask fewer, or choose at random",
            )
        return (Repeated(event=BoundedRange(epsilon=each), count=draws),)

    def select(
        self,
        *,
        ids: Any,
        scores: Any,
        k: int,
        receipt: Receipt | Sequence[Receipt],
        phase: int = 0,
        centres: Any = None,
    ) -> Selection:
        """k of ``ids``, far from each other and from ``centres``.

        ``scores`` are embeddings, (n, d); ``centres`` those of labelled records, (m, d), a null in its slot as well.
        """
        names, count = some_of(ids, k)
        points = embedded(scores, len(names), self.radius)
        known = np.empty((0, points.shape[1])) if centres is None else embedded(centres, None, self.radius)
        if known.shape[1] != points.shape[1]:
            raise BadInput("centres", "they have another dimension than the pool", "Embed both by the same model")
        paid = one_receipt(receipt)
        if min(charge.count for charge in paid.entry.charges) < count:
            raise BadInput(
                "a k-centre selection", "its receipt has fewer draws than records to ask", "Charge its price"
            )
        places = self._drawn(points, known, count, paid)
        order = random_places(count, count, where=paid)
        return Selection(
            ids=chosen(names, places[order]),
            mechanism=self.name,
            simulation=paid.simulation,
            epsilon=pure_price(paid),
        )

    def _drawn(self, points: Floats, known: Floats, count: int, paid: Receipt) -> Any:
        reach, monotone = self._moves(paid.unit)
        nearest = self._before_any_centre(points)
        for centre in known:
            nearest = np.minimum(nearest, distances(points, centre))
        left, places = np.arange(len(points)), []
        for _ in range(count):
            position = exponential(nearest[left], sensitivity=reach, receipt=paid, monotone=monotone)
            places.append(left[position])
            left = np.delete(left, position)
            nearest = np.minimum(nearest, distances(points, points[places[-1]]))
        return np.array(places, dtype=np.int64)

    def _moves(self, unit: Unit) -> tuple[float, bool]:
        """How far a unit moves a distance to the nearest centre, and whether all of them one way.

        A person's record may move together with a centre that is that person's too: by the whole range, both ways.
        """
        if unit == "person":
            return (1 if self.anchored else 2) * self.radius * REACH, False
        return self.radius * REACH, self.anchored

    def _before_any_centre(self, points: Floats) -> Floats:
        """From the origin, where it is a centre; else everybody is as far as can be."""
        if self.anchored:
            return distances(points, np.zeros(points.shape[1]))
        return np.full(len(points), 2.0 * self.radius)


@functools.lru_cache(maxsize=256)
def epsilon_per_draw(total: Decimal, delta: Decimal, draws: int) -> Decimal:
    """The largest epsilon, to nine places, of which ``draws`` bounded ranges cost ``total`` at ``delta``.

    At least total / draws. The search ends on the side that keeps the guarantee, at orders that a filter may fix.
    """
    share = share_of(total, draws)
    if delta == 0 or share <= 0:
        return share
    chance = float_below(delta)

    def fits(billionths: int) -> bool:
        price = Repeated(event=BoundedRange(epsilon=f"{billionths}e-9"), count=draws)
        # a ledger adds with a rounding of its own, which must not tip the claim over
        return Decimal(repr(rounded_up(rdp_epsilon(price, chance, ORDERS) * (1 + 1e-12)))) <= total

    safe = int(exact_times(share, 10**9))
    unsafe = 2 * safe
    while unsafe < _MOST and fits(unsafe):
        safe, unsafe = unsafe, 2 * unsafe
    while unsafe - safe > 1:
        middle = (safe + unsafe) // 2
        safe, unsafe = (middle, unsafe) if fits(middle) else (safe, middle)
    return Decimal(f"{safe}e-9")


def embedded(values: Any, rows: int | None, radius: float) -> Floats:
    """(n, d), every row clipped to ``radius`` by itself; one that is not finite is a null, at the origin."""
    try:
        points = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadInput("embeddings", "they are not numbers", "Give (n, d), one row a record") from None
    if points.ndim != 2 or rows not in (None, len(points)) or not 1 <= points.shape[1] <= MOST_DIMENSIONS:
        raise BadInput("embeddings", "there is not one row of numbers for each record", "Give (n, d), in their order")
    for start in range(0, len(points), _ROWS):
        points[start : start + _ROWS] = _clipped(points[start : start + _ROWS], radius)
    return points


def _clipped(points: Floats, radius: float) -> Floats:
    finite = np.where(np.isfinite(points).all(axis=1, keepdims=True), points, 0.0)
    largest = np.abs(finite).max(axis=1, keepdims=True)
    shapes = finite / np.where(largest > 0, largest, 1.0)  # squares of what is very large would overflow
    lengths = np.sqrt(np.einsum("ij,ij->i", shapes, shapes))[:, None]
    with np.errstate(over="ignore"):
        beyond = largest * lengths > radius
    return np.where(beyond, shapes * (radius / np.where(beyond, lengths, 1.0)), finite)


def distances(points: Floats, centre: Floats) -> Floats:
    """From each point to ``centre``, by differences (inner products would cancel), a piece at a time."""
    lengths = np.empty(len(points))
    for start in range(0, len(points), _ROWS):
        apart = points[start : start + _ROWS] - centre
        lengths[start : start + _ROWS] = np.sqrt(np.einsum("ij,ij->i", apart, apart))
    return lengths


def _built(request: SelectorRequest) -> KCentreSelector:
    radius, anchored = request.options.get("radius", 1.0), request.options.get("anchored", False)
    return KCentreSelector(epsilon=request.epsilon, delta=request.delta, radius=radius, anchored=anchored)


PARTS = (
    Part(
        kind="selector",
        name="k-centre",
        summary="CoreSet by the exponential mechanism: a share in every query, also after it was asked",
        build=_built,
        options=(
            DELTA,
            Option(
                name="radius",
                check=number(1e-100, 1e100),
                type="number",
                default="1",
                meaning="what embeddings are clipped to",
            ),
            Option(
                name="anchored",
                check=truth,
                type="boolean",
                default="false",
                meaning="the origin counts as a centre",
            ),
        ),
        prices=("paper",),
        mechanism="k-centre",
        reads=("embeddings", "centres"),
        units=("record",),
    ),
)
