"""The k largest of noisy scores, which stay hidden: only the places of the k leave.

`laplace_top`: discrete Laplace noise on a lattice, exact. `gaussian_top`: Gaussian noise, as `gaussian` draws it. One
record is one score, so whatever k is, the price is that of one noisy number (docs/proofs/noisy-top.md).
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.coins import MASK, masked_groups
from discreet.noise.door import paid_events, positive, private_floats, release
from discreet.noise.gaussian import one_multiplier
from discreet.noise.lattice import Lattice
from discreet.noise.sources import Streams
from discreet.noise.stream import Floats, Integers
from discreet.privacy.events import Laplace, Pure, ThresholdResponse
from discreet.privacy.ledger.receipts import Receipt

Places = NDArray[np.int64]


def laplace_top(scores: Any, count: int, *, sensitivity: float, receipt: Receipt, who: str | None = None) -> Places:
    """The places, in order, of the ``count`` largest scores with Laplace noise of scale sensitivity / epsilon."""
    epsilon = _epsilon(receipt, who)
    reach, values = positive(sensitivity, "sensitivity"), _one_each(scores, count)
    lattice = Lattice.under(reach / float(epsilon), "Laplace")
    scale = math.ceil(lattice.steps_l1(reach, 1) / epsilon)
    lattice.check_noise(scale, "Laplace")

    def sampler(streams: Streams) -> Places:
        return largest(lattice.floored(values) + streams(0).discrete_laplace(scale, 1, values.size), count)

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
    reach, values = positive(sensitivity, "sensitivity"), _one_each(scores, count)
    lattice = Lattice.under(sigma * reach, "Gaussian")
    steps = sigma * lattice.steps_l2(reach, 1)
    lattice.check_noise(steps, "Gaussian")

    def sampler(streams: Streams) -> Places:
        noise = np.rint(streams(0).normals(values.size) * steps).astype(np.int64)
        return largest(lattice.floored(values) + noise, count)

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


def largest(values: Integers, count: int) -> Places:
    """The places of the ``count`` largest, in order; of equal ones, the first."""
    if count >= values.size:
        return np.arange(values.size)
    if count == 0:
        return np.empty(0, dtype=np.int64)
    bar = np.partition(values, values.size - count)[values.size - count]
    sure = np.flatnonzero(values > bar)
    return np.sort(np.concatenate([sure, np.flatnonzero(values == bar)[: count - sure.size]]))


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


def _one_each(scores: Any, count: int) -> Floats:
    values = private_floats(scores)
    if values.ndim != 1:
        raise BadInput("the largest of noisy scores", "they are not one number a record", "Give a list of scores")
    if type(count) is not int or count < 0:
        raise BadInput(f"the {count} largest of noisy scores", "it is not a whole number", "Give 0 or more")
    return values
