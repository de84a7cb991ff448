"""NearPrivate: which uncertain public records lie where uncertain private records are. It pays for looking.

    1. components of the private embeddings, from a noisy second moment (Gaussian)      -> event 1
    2. the ``uncertain`` most uncertain public records, projected; the score of the last of them is the threshold
    3. each private record that scores at least the threshold counts for the public record nearest to it
    4. counts with discrete Laplace noise of scale 1/``support_epsilon``                -> event 2
    5. the public records with the largest noisy counts are labelled: free, as is every later look at the counts

Guarantee (zero-out; docs/proofs/near-private.md): whether a private record counts, and where, depends on it and on
public things alone, so one record changes one count by one: sensitivity 1. The paper takes the k most uncertain private
records instead; there one record in pushes another out, which is 2 (docs/errata.md). A null, and a record whose score
is at the bottom or whose embedding is not finite, counts nowhere. Both events join every path that trained.

Symbols: ``uncertain`` k, ``components`` p, ``support_epsilon`` eps_support, ``noise_multiplier`` of DP-PCA.

Where rows lie among components, in whole numbers: a record's nearest neighbour is a function of that record alone.

Matrix products in floating point round by the shape of the block and the place of a row in it. A record that comes or
goes would move the others' last digits, and once in a while their nearest neighbour: more than the one count that is
paid for. So coordinates are whole numbers of 2^-24 of the norm bound. With |x|, |v| <= 2^24 every partial sum of a
product is a whole number below 2^53, which double precision holds exactly, in any order, with any library.

Guarantee (docs/proofs/near-private.md): `coordinates` and `nearest` treat each row by itself, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.checks import exact, number
from discreet.components import ROWS, Floats, checked_radius, into_ball, private_components, shape_of
from discreet.errors import BadInput
from discreet.noise import discrete_laplace, random_places
from discreet.parts import Option, Part
from discreet.privacy.budget import Number, exact_decimal
from discreet.privacy.events import DiscreteLaplace, Event, Gaussian
from discreet.privacy.ledger import Receipt
from discreet.records import Selection
from discreet.selectors.public_selectors import (
    COMPONENTS,
    COMPONENTS_OPTION,
    UNCERTAIN,
    checked_public,
    finite_lengths,
    in_pieces,
    looked_at,
    most_uncertain,
)
from discreet.selectors.selection_inputs import SelectorRequest, pure_price, several

STEPS = float(1 << 24)
MOST_NUMBERS = 10**8
"""Of components: below, what their rounding adds to a length is less than a thousandth."""
BLOCK_ROWS, BLOCK_POINTS = 512, 2048
"""A block of products that a processor's cache holds."""
Places = NDArray[np.int64]


def whole_components(components: Floats) -> Floats:
    """Orthonormal rows in whole steps, none longer than it was."""
    if components.size > MOST_NUMBERS:
        raise BadInput(
            f"components of {components.size} numbers", f"there may be {MOST_NUMBERS} at most", "Take fewer components"
        )
    return np.asarray(np.trunc(components * (STEPS * (1 - 2.0**-20))))


def coordinates(rows: Any, components: Floats, norm: float) -> Floats:
    """(n, p) whole numbers: rows, brought into the ball of ``norm``, along `whole_components`."""
    inside = np.trunc(into_ball(rows, norm) * (STEPS / norm))
    return np.asarray(np.trunc(inside @ components.T / STEPS))


def nearest(queries: Floats, points: Floats) -> Places:
    """The place of each query's nearest point; of equally near ones, the first. Both are `coordinates`."""
    closest = np.zeros(len(queries), dtype=np.int64)
    if not len(points):
        raise BadInput("nearest neighbours", "there are no points", "Give at least one")
    # |b - a|^2 - |a|^2 = (-2a, 1) (b, |b|^2): one product, in whole numbers below 2^51
    left = np.hstack([-2.0 * queries, np.ones((len(queries), 1))])
    right = np.ascontiguousarray(np.hstack([points, (points * points).sum(axis=1, keepdims=True)]))
    block = np.empty((min(BLOCK_ROWS, len(left)), min(BLOCK_POINTS, len(right))))
    for start in range(0, len(left), BLOCK_ROWS):
        piece = left[start : start + BLOCK_ROWS]
        best = np.full(len(piece), np.inf)
        for first in range(0, len(right), BLOCK_POINTS):
            part = right[first : first + BLOCK_POINTS]
            apart = block[: len(piece), : len(part)]
            if apart.flags.c_contiguous:
                np.matmul(piece, part.T, out=apart)
            else:
                apart = piece @ part.T
            position = apart.argmin(axis=1)
            least = apart[np.arange(len(piece)), position]
            closer = least < best
            best[closer] = least[closer]
            closest[start : start + BLOCK_ROWS][closer] = position[closer] + first
    return closest


SHARE_INSIDE = 0.9
"""Of the public candidates, so many keep their length where no norm is declared."""


@dataclass(frozen=True, kw_only=True)
class Support:
    """Noisy counts of uncertain private records near each candidate, largest first. Audience: public; paid for.

    ids         of public records
    counts      theirs; noise may bring one below 0
    threshold   the score from which a private record counted; public
    norm        what embeddings were clipped to; public
    """

    ids: tuple[str, ...] = field(repr=False)
    counts: tuple[int, ...] = field(repr=False)
    threshold: float
    norm: float
    simulation: bool


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Candidates:
    """The public records that are looked at, most uncertain first: places among all, lengths, and the threshold."""

    names: Sequence[str]
    places: NDArray[np.int64]
    lengths: Floats
    threshold: float
    width: int


@dataclass(frozen=True, kw_only=True)
class NearPrivate:
    """``norm``: what embeddings are clipped to; None: the length that nine in ten of the public candidates keep.

    ``bottom``: of the score, which a null has. A person's records would count more than once: for the unit person the
    caller gives each person's highest-scoring record.
    """

    support_epsilon: Number
    noise_multiplier: float
    uncertain: int | None = None
    components: int = COMPONENTS
    norm: float | None = None
    bottom: float = 0.0
    name = "near-private"

    def __post_init__(self) -> None:
        object.__setattr__(self, "support_epsilon", exact_decimal(self.support_epsilon, "support_epsilon"))
        if self.norm is not None:
            checked_radius(self.norm)
        if isinstance(self.components, bool) or not isinstance(self.components, int) or self.components < 1:
            raise BadInput(f"{self.components} components", "it is not a whole number from 1", "Try 32")

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """Components, then counts: whatever k is."""
        return (
            Gaussian(noise_multiplier=self.noise_multiplier),
            DiscreteLaplace(epsilon=exact_decimal(self.support_epsilon, "support_epsilon")),
        )

    def select(
        self,
        *,
        ids: Any,
        scores: Any,
        k: int,
        receipt: Receipt | Sequence[Receipt],
        phase: int = 0,
        embeddings: Any = None,
        private_scores: Any = None,
        private_embeddings: Any = None,
    ) -> Selection:
        """k of ``ids``, those with the most support, in random order."""
        support = self.support(
            ids=ids,
            scores=scores,
            k=k,
            receipt=receipt,
            embeddings=embeddings,
            private_scores=private_scores,
            private_embeddings=private_embeddings,
        )
        paid = several(receipt)
        best = support.ids[: min(k, len(support.ids))]
        order = random_places(len(best), len(best), where=paid[1])
        return Selection(
            ids=tuple(best[position] for position in order.tolist()),
            mechanism=self.name,
            simulation=support.simulation,
            epsilon=pure_price(*paid),
            threshold=support.threshold,
        )

    def support(
        self,
        *,
        ids: Any,
        scores: Any,
        k: int,
        receipt: Receipt | Sequence[Receipt],
        embeddings: Any,
        private_scores: Any,
        private_embeddings: Any,
        candidates: Candidates | None = None,
    ) -> Support:
        """The noisy counts. ``private_scores``: (m,), ``private_embeddings``: (m, d), a null in its slot as well; m is
        public. Embeddings are arrays or anything with a shape and slices, read a piece at a time. ``candidates``: of
        the same public records, if they are known already.
        """
        seen = candidates or self.candidates(ids=ids, scores=scores, k=k, embeddings=embeddings)
        places, width = seen.places, seen.width
        values = _private_scores(private_scores, private_embeddings, width)
        paid = several(receipt)
        if len(paid) != 2:
            raise BadInput(
                "a selection near private records", f"it has {len(paid)} receipts, not 2", "Charge its price"
            )
        norm = self.norm if self.norm is not None else public_norm(seen.lengths)
        axes = private_components(private_embeddings, count=min(self.components, width), norm=norm, receipt=paid[0])
        steps = whole_components(axes.components)
        counted = (values >= seen.threshold) & (values > self.bottom)
        points = np.empty((len(places), len(steps)))
        for some, rows in in_pieces(embeddings, places):
            points[some] = coordinates(rows, steps, norm)
        counts = counts_near(points, private_embeddings, counted, steps, norm)
        noisy = discrete_laplace(counts, receipt=paid[1])
        best = np.argsort(-noisy, kind="stable")  # of equal counts, the most uncertain first
        return Support(
            ids=tuple(seen.names[position] for position in places[best].tolist()),
            counts=tuple(int(count) for count in noisy[best]),
            threshold=seen.threshold,
            norm=norm,
            simulation=paid[1].simulation,
        )

    def candidates(self, *, ids: Any, scores: Any, k: int, embeddings: Any) -> Candidates:
        """Whom `support` will look at. Reads public records alone: a caller finds out here, before paying, that there
        is nobody.
        """
        names, values, count = checked_public(ids, scores, embeddings, k)
        places = most_uncertain(values, looked_at(self.uncertain, count, len(names)))
        width = shape_of(embeddings, "embeddings of public records")[1]
        places, lengths = finite_lengths(embeddings, places)
        if not len(places):
            raise BadInput("support near private records", "no public record has a score and an embedding", "Add some")
        return Candidates(names=names, places=places, lengths=lengths, threshold=float(values[places[-1]]), width=width)


def counts_near(
    points: Floats, private_embeddings: Any, counted: NDArray[np.bool_], components: Floats, norm: float
) -> NDArray[np.int64]:
    """How many of the private records that count are nearest to each of ``points``. Private."""
    counts = np.zeros(len(points), dtype=np.int64)
    for start in range(0, len(counted), ROWS):
        rows = counted[start : start + ROWS]
        if not rows.any():
            continue
        piece = np.asarray(private_embeddings[start : start + len(rows)], dtype=np.float64)[rows]
        piece = piece[np.isfinite(piece).all(axis=1)]
        counts += np.bincount(nearest(coordinates(piece, components, norm), points), minlength=len(points))
    return counts


def public_norm(lengths: Floats) -> float:
    """The length that nine in ten of public rows keep; 1, where they are all zero."""
    length = float(np.quantile(lengths, SHARE_INSIDE))
    return min(max(length, 1e-90), 1e90) if length > 0 else 1.0


def _private_scores(scores: Any, embeddings: Any, width: int) -> Floats:
    """As they are; NaN scores nothing. How many there are is public."""
    what = "private records"
    try:
        values = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"scores of {what}", "they are not numbers", "Give one number a record") from None
    if embeddings is None or values.ndim != 1 or shape_of(embeddings, f"embeddings of {what}") != (len(values), width):
        raise BadInput(
            what,
            "there is not a score and an embedding, as long as a public one, for each",
            "Give both in one order",
        )
    values[np.isnan(values)] = -np.inf
    return values


def _built(request: SelectorRequest) -> NearPrivate:
    """``epsilon`` pays for the counts. Of the options only those that the plan does not say already."""
    options = {name: value for name, value in request.options.items() if name in ("uncertain", "components", "norm")}
    return NearPrivate(
        support_epsilon=request.epsilon,
        noise_multiplier=request.noise_multiplier,
        bottom=request.range[0],
        **options,
    )


PARTS = (
    Part(
        kind="selector",
        name="near-private",
        summary="public records near uncertain private ones: its components and its counts, "
        "once, before the first question",
        build=_built,
        options=(
            UNCERTAIN,
            COMPONENTS_OPTION,
            Option(
                name="support_epsilon",
                check=exact(zero=False, such_as="'0.5'"),
                type="decimal",
                default="",
                meaning="the price of its counts",
            ),
            Option(
                name="components_noise",
                check=number(1e-9, 1e9),
                type="number",
                default="what the budget leaves",
                meaning="the noise multiplier of its components",
            ),
            Option(
                name="norm",
                check=number(1e-90, 1e90),
                type="number",
                default="by public records",
                meaning="what embeddings are clipped to",
            ),
        ),
        reads=("scores", "embeddings", "private"),
        recipes=("public-data",),
        units=("record",),
    ),
)
