"""Top-k selection by Laplace or Gaussian noise, and the exponential mechanism in sequence.

The k largest of noisy scores (DP-AL's selection, and its baselines): Laplace, clipped or not, and Gaussian, on all
records or on a subsample.

Guarantee: only the asked set leaves; one record is one score, so a query costs what one noisy number costs. Laplace is
one-sided (docs/proofs/one-sided-selection.md), Gaussian is not: every record pays every query.

On a subsample, a record that is not drawn scores as a null does and still competes. Leaving it out instead would need
another, larger price: that it was chosen would tell that it was drawn.

The exponential mechanism in sequence: k records, one after the other, each likelier the higher it scores.

Guarantee: draw j is epsilon / k-DP given the ones before (a record changes its own score alone, and upward, so the
mechanism is monotone), and k draws add up to epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.checks import number
from discreet.errors import BadInput
from discreet.noise import (
    exponential,
    gaussian_top,
    laplace_top,
    poisson_mask,
    random_places,
)
from discreet.parts import Option, Part
from discreet.planning.calibration import gaussian_query
from discreet.privacy.budget import Number, exact_decimal, share_of
from discreet.privacy.events import Event, Gaussian, Laplace, PoissonSampledGaussian, Pure, Repeated
from discreet.privacy.ledger import Receipt
from discreet.records import Selection
from discreet.scorers.score import declared_range
from discreet.selectors.selection_inputs import DELTA, SelectorRequest, checked, chosen, one_receipt, pure_price


@dataclass(frozen=True, kw_only=True)
class LaplaceTopK:
    """Noise of scale (top - bottom) / epsilon. ``range`` is the score's; one that is clipped has a smaller one."""

    epsilon: Number
    range: tuple[float, float] = (0.0, 1.0)
    name: str = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "range", declared_range(self.range))
        object.__setattr__(self, "epsilon", exact_decimal(self.epsilon, "epsilon"))

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """Laplace noise, once."""
        return (Laplace(epsilon=self.epsilon),)

    def select(
        self, *, ids: Any, scores: Any, k: int, receipt: Receipt | Sequence[Receipt], phase: int = 0
    ) -> Selection:
        """About the k largest."""
        names, values, count = checked(ids, scores, k, self.range)
        paid = one_receipt(receipt)
        bottom, top = self.range
        places = laplace_top(values - bottom, count, sensitivity=top - bottom, receipt=paid)
        return _shown(names, places, paid, self.name)


@dataclass(frozen=True, kw_only=True)
class GaussianTopK:
    """Noise of ``noise_multiplier`` times (top - bottom), on all records or on a random ``subsample`` of them."""

    noise_multiplier: float
    range: tuple[float, float] = (0.0, 1.0)
    subsample: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "range", declared_range(self.range))
        if not 0 < self.subsample <= 1:
            raise BadInput(f"a subsample of {self.subsample}", "a share is above 0 and at most 1", "Try 0.7")

    @property
    def name(self) -> str:
        """``gaussian`` or ``subsampled-gaussian``."""
        return "gaussian" if self.subsample == 1 else "subsampled-gaussian"

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """One Gaussian, amplified by the subsample."""
        if self.subsample == 1:
            return (Gaussian(noise_multiplier=self.noise_multiplier),)
        return (PoissonSampledGaussian(sampling_rate=self.subsample, noise_multiplier=self.noise_multiplier),)

    def select(
        self, *, ids: Any, scores: Any, k: int, receipt: Receipt | Sequence[Receipt], phase: int = 0
    ) -> Selection:
        """About the k largest."""
        names, values, count = checked(ids, scores, k, self.range)
        paid = one_receipt(receipt)
        bottom, top = self.range
        raised = values - bottom
        if self.subsample < 1:
            raised = np.where(poisson_mask(len(names), receipt=paid), raised, 0.0)
        places = gaussian_top(raised, count, sensitivity=top - bottom, receipt=paid)
        return _shown(names, places, paid, self.name)


def _shown(names: Sequence[str], places: Any, paid: Receipt, name: str) -> Selection:
    order = random_places(len(places), len(places), where=paid)
    return Selection(
        ids=chosen(names, places[order]), mechanism=name, simulation=paid.simulation, epsilon=pure_price(paid)
    )


@dataclass(frozen=True, kw_only=True)
class ExponentialSelector:
    """``epsilon`` for all k draws together."""

    epsilon: Number
    range: tuple[float, float] = (0.0, 1.0)
    name = "exponential"

    def __post_init__(self) -> None:
        object.__setattr__(self, "range", declared_range(self.range))
        object.__setattr__(self, "epsilon", exact_decimal(self.epsilon, "epsilon"))

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """k draws of epsilon / k."""
        draws = max(min(k, pool_size), 1)
        return (Repeated(event=Pure(epsilon=share_of(exact_decimal(self.epsilon, "epsilon"), draws)), count=draws),)

    def select(
        self, *, ids: Any, scores: Any, k: int, receipt: Receipt | Sequence[Receipt], phase: int = 0
    ) -> Selection:
        """k records; every draw is one of the receipt's."""
        names, values, count = checked(ids, scores, k, self.range)
        paid = one_receipt(receipt)
        if paid.charge_of().count < count:
            raise BadInput(
                "an exponential selection", "its receipt has fewer draws than records to ask", "Charge its price"
            )
        bottom, top = self.range
        left, places = np.arange(len(names)), []
        for _ in range(count):
            position = exponential(values[left] - bottom, sensitivity=top - bottom, receipt=paid, monotone=True)
            places.append(left[position])
            left = np.delete(left, position)
        order = random_places(count, count, where=paid)
        return Selection(
            ids=chosen(names, np.array(places, dtype=np.int64)[order]),
            mechanism=self.name,
            simulation=paid.simulation,
            epsilon=pure_price(paid),
        )


PAPER_CLIP, PAPER_SUBSAMPLE = 0.8, 0.7
_TOLERANCE = 1e-4


def _clipped(request: SelectorRequest) -> LaplaceTopK:
    """A campaign clips at a share of the range, a single query at a score."""
    (bottom, top), clip = request.range, request.options.get("clip")
    if request.plan is not None:
        top = bottom + (clip or request.usual_clip) * (top - bottom)
    else:
        top = min(top, bottom + (PAPER_CLIP * (top - bottom) if clip is None else clip - bottom))
    return LaplaceTopK(epsilon=request.epsilon, range=(bottom, top), name="clipped-laplace")


def _gaussian(request: SelectorRequest) -> GaussianTopK:
    if request.plan is None:
        return _calibrated(request, 1.0)
    event = request.plan.selection.query_event(request.query)
    assert isinstance(event, (Gaussian, PoissonSampledGaussian))
    share = event.sampling_rate if isinstance(event, PoissonSampledGaussian) else 1.0
    return GaussianTopK(noise_multiplier=event.noise_multiplier, range=request.range, subsample=share)


def _subsampled(request: SelectorRequest) -> GaussianTopK:
    share = request.options.get("subsample", PAPER_SUBSAMPLE)
    return _gaussian(request) if request.plan is not None else _calibrated(request, share)


def _calibrated(request: SelectorRequest, rate: float) -> GaussianTopK:
    """The least noise whose epsilon, by privacy loss distributions in both directions, is at most that of the query."""
    if not 0 < request.delta < 1:
        raise BadInput("a Gaussian selection", "it has no epsilon at delta 0", "Give delta, such as 1e-6")
    query = gaussian_query(request.epsilon, request.delta, 1, rate=rate, tolerance=_TOLERANCE)
    assert isinstance(query, (Gaussian, PoissonSampledGaussian))
    return GaussianTopK(noise_multiplier=query.noise_multiplier, range=request.range, subsample=rate)


CLIP = Option(
    name="clip",
    check=number(1e-9, 1e9),
    type="number",
    default="the paper's",
    meaning="what scores are clipped at, as a share of their range",
)
SUBSAMPLE = Option(
    name="subsample",
    check=number(1e-9, 1, such_as="0.7"),
    type="number",
    default="the paper's",
    meaning="the share of the pool that is looked at",
)
PARTS = (
    Part(
        kind="selector",
        name="laplace",
        summary="noisy top-k: a share in every query until it is asked",
        build=lambda request: LaplaceTopK(epsilon=request.epsilon, range=request.range),
        prices=("paper",),
        mechanism="laplace",
        one_query=True,
    ),
    Part(
        kind="selector",
        name="clipped-laplace",
        summary="noisy top-k of clipped scores: a share in every query until it is asked",
        build=_clipped,
        options=(CLIP,),
        prices=("paper",),
        mechanism="laplace",
        one_query=True,
    ),
    Part(
        kind="selector",
        name="exponential",
        summary="the exponential mechanism in sequence: a share in every query until it is asked",
        build=lambda request: ExponentialSelector(epsilon=request.epsilon, range=request.range),
        prices=("paper",),
        mechanism="exponential",
        one_query=True,
    ),
    Part(
        kind="selector",
        name="gaussian",
        summary="noisy top-k with Gaussian noise: all queries, as [one block](../proofs/apart.md)",
        build=_gaussian,
        options=(DELTA,),
        prices=("separate-budget",),
        mechanism="gaussian",
        one_query=True,
    ),
    Part(
        kind="selector",
        name="subsampled-gaussian",
        summary="the same on a random share of the pool: all queries, as [one block](../proofs/apart.md)",
        build=_subsampled,
        options=(DELTA, SUBSAMPLE),
        prices=("separate-budget",),
        mechanism="subsampled-gaussian",
        one_query=True,
    ),
)
