"""The k largest of noisy scores (DP-AL's selection, and its baselines): Laplace, clipped or not, and Gaussian, on all
records or on a subsample.

Guarantee: only the asked set leaves; one record is one score, so a query costs what one noisy number costs. Laplace is
one-sided (docs/proofs/one-sided-selection.md), Gaussian is not: every record pays every query.

On a subsample, a record that is not drawn scores as a null does and still competes. Leaving it out instead would need
another, larger price: that it was chosen would tell that it was drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.noise import gaussian_top, laplace_top, poisson_mask, random_places
from discreet.privacy.events import Event, Gaussian, Laplace, PoissonSampledGaussian
from discreet.privacy.exact import Number, exact_decimal
from discreet.privacy.ledger import Receipt
from discreet.records import Selection
from discreet.scorers.own import declared_range
from discreet.selectors.candidates import checked, chosen
from discreet.selectors.receipts import one_receipt, pure_price


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
