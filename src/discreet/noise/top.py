"""The k largest of noisy scores, which stay hidden: only the places of the k leave.

`laplace_top`: discrete Laplace noise on a lattice, exact. `gaussian_top`: Gaussian noise, as `gaussian` draws it. One
record is one score, so whatever k is, the price is that of one noisy number (docs/proofs/noisy-top.md).

Of many scores only the noise that can still matter is drawn, with the same distribution (`discreet.noise.lazy_top`).
Large arrays of floats are read where they are: neither copied nor changed.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.noise.coins import MASK, masked_groups
from discreet.noise.door import paid_events, positive, private_floats, release
from discreet.noise.gaussian import one_multiplier
from discreet.noise.inversion import GaussianNoise, LaplaceNoise
from discreet.noise.lattice import Lattice
from discreet.noise.lazy_levels import Places, Scores, heights
from discreet.noise.lazy_top import largest, lazy_top
from discreet.noise.sealed import SealedKey
from discreet.noise.sources import OperatingSystem, Seeded, Streams
from discreet.privacy.events import Laplace, Pure, ThresholdResponse
from discreet.privacy.ledger.receipts import Receipt

MANY = 1 << 16
"""Scores from which on noise is drawn lazily."""
_PIECE = 1 << 15
_MOST_SCALE = 1 << 32
"""Of a larger scale, which hides everything, floats decide too few whole numbers."""


def laplace_top(scores: Any, count: int, *, sensitivity: float, receipt: Receipt, who: str | None = None) -> Places:
    """The places, in order, of the ``count`` largest scores with Laplace noise of scale sensitivity / epsilon."""
    epsilon = _epsilon(receipt, who)
    reach, values = positive(sensitivity, "sensitivity"), _one_each(scores, count, receipt)
    lattice = Lattice.under(reach / float(epsilon), "Laplace")
    scale = math.ceil(lattice.steps_l1(reach, 1) / epsilon)
    lattice.check_noise(scale, "Laplace")

    def sampler(streams: Streams) -> Places:
        if values.size >= MANY and scale <= _MOST_SCALE:
            noise = LaplaceNoise(scale=scale)
            return lazy_top(values, count, lattice=lattice, noise=noise, streams=streams)
        return largest(heights(values, lattice) + streams(0).discrete_laplace(scale, 1, values.size), count)

    return release(
        receipt,
        "laplace-top",
        sampler,
        inputs=values,
        measure="l1",
        sensitivity=reach,
        parameters={"sensitivity": reach, "epsilon": epsilon, "count": count, "size": values.size},
        who=who,
    )


def gaussian_top(scores: Any, count: int, *, sensitivity: float, receipt: Receipt, who: str | None = None) -> Places:
    """The places, in order, of the ``count`` largest scores with Gaussian noise of the multiplier that was charged."""
    sigma = one_multiplier(receipt, who)
    reach, values = positive(sensitivity, "sensitivity"), _one_each(scores, count, receipt)
    lattice = Lattice.under(sigma * reach, "Gaussian")
    steps = sigma * lattice.steps_l2(reach, 1)
    lattice.check_noise(steps, "Gaussian")

    def sampler(streams: Streams) -> Places:
        if values.size >= MANY:
            return lazy_top(values, count, lattice=lattice, noise=GaussianNoise(steps=steps), streams=streams)
        drawn = np.rint(streams(0).normals(values.size) * steps).astype(np.int64)
        return largest(heights(values, lattice) + drawn, count)

    return release(
        receipt,
        "gaussian-top",
        sampler,
        inputs=values,
        measure="l1",
        sensitivity=reach,
        parameters={"sensitivity": reach, "noise_multiplier": sigma, "count": count, "size": values.size},
        who=who,
        after=(MASK, masked_groups(receipt, who)),
    )


def _epsilon(receipt: Receipt, who: str | None) -> Fraction:
    """What may be spent on being asked and on being missed: noise pays both alike."""
    found = []
    for event in paid_events(receipt, (Laplace, Pure, ThresholdResponse), "Laplace", who):
        pure = min(event.asked, event.missed) if isinstance(event, ThresholdResponse) else event.pure_epsilon()
        assert pure is not None  # kinds are pure
        found.append(pure)
    epsilon: Decimal = min(found)
    if epsilon == 0:
        raise BadInput("Laplace noise at epsilon=0", "no finite noise hides everything", "Charge more than 0")
    return Fraction(epsilon)


def _one_each(scores: Any, count: int, receipt: Receipt) -> Scores:
    values = _finite_floats(scores, receipt)
    if values.ndim != 1:
        raise BadInput("the largest of noisy scores", "they are not one number a record", "Give a list of scores")
    if type(count) is not int or count < 0:
        raise BadInput(f"the {count} largest of noisy scores", "it is not a whole number", "Give 0 or more")
    return values


def _finite_floats(scores: Any, receipt: Receipt) -> Scores:
    """Finite floats: the caller's own array if it is large and already that, and nobody keeps it; else a copy."""
    borrowed = isinstance(receipt.source, (OperatingSystem, Seeded, SealedKey))
    if borrowed and type(scores) is np.ndarray and scores.size >= MANY and scores.dtype in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            sums = [scores[start : start + _PIECE].sum() for start in range(0, len(scores), _PIECE)]
        if np.isfinite(sums).all():  # one that is not finite makes its sum so; a sum that overflows is only copied
            return scores
    return private_floats(scores)
