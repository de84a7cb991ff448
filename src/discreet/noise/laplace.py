"""Laplace noise on real values, and its exact integer form on counts.

Guarantee (docs/proofs/laplace.md): values whose neighbours differ by at most ``sensitivity`` in L1 are released with
exactly the epsilon that was charged, floating point included: real values are hidden on a lattice by the integer
sampler, and every rounding of a scale is upward.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.noise.door import paid_epsilon, paid_event, positive, private_floats, release, same_shape
from discreet.noise.lattice import Lattice
from discreet.noise.sources import Streams
from discreet.noise.stream import Floats, Integers
from discreet.privacy.events import DiscreteLaplace, Laplace, Pure
from discreet.privacy.ledger.receipts import Receipt

_MOST_COUNT = 1 << 61


def laplace(value: Any, *, sensitivity: float, receipt: Receipt, who: str | None = None) -> Any:
    """``value`` with Laplace noise of scale sensitivity / epsilon; epsilon is what the receipt was charged for."""
    epsilon = paid_epsilon(receipt, (Laplace, Pure), "Laplace", who)
    reach, values = positive(sensitivity, "sensitivity"), private_floats(value)
    lattice = Lattice.under(reach / float(epsilon), "Laplace")
    steps = lattice.steps_l1(reach, values.size)
    scale = math.ceil(steps / epsilon)
    lattice.check_noise(scale, "Laplace")

    def sampler(streams: Streams) -> Floats:
        noise = streams(0).discrete_laplace(scale, 1, values.size).reshape(values.shape)
        return lattice.plus(values, noise)

    result = release(
        receipt,
        "laplace",
        sampler,
        inputs=values,
        measure="l1",
        sensitivity=reach,
        parameters={"sensitivity": reach, "epsilon": epsilon, "shape": values.shape},
        who=who,
    )
    return same_shape(result, value)


def _whole(counts: Any) -> Integers:
    """Private whole numbers within +-2^61; one beyond is moved there, for an error would tell that it was there."""
    values = counts if isinstance(counts, np.ndarray) else np.array(counts, dtype=object)
    if values.dtype == object and all(type(v) is int or isinstance(v, np.integer) for v in values.ravel().tolist()):
        clipped = [min(max(int(v), -_MOST_COUNT), _MOST_COUNT) for v in values.ravel().tolist()]
        values = np.array(clipped, dtype=np.int64).reshape(values.shape)
    if values.dtype.kind not in "iu":
        raise BadInput("counts to hide", "they are not whole numbers", "Give integers, or use laplace for real values")
    if values.dtype.kind == "u":
        return np.asarray(np.minimum(values, _MOST_COUNT).astype(np.int64))
    return np.asarray(np.clip(values.astype(np.int64), -_MOST_COUNT, _MOST_COUNT))


def discrete_laplace(counts: Any, *, receipt: Receipt, who: str | None = None) -> Any:
    """Whole ``counts`` with two-sided geometric noise; epsilon and sensitivity are what the receipt was charged for."""
    epsilon = paid_epsilon(receipt, (DiscreteLaplace,), "discrete Laplace", who)
    reach = paid_event(receipt, DiscreteLaplace, "discrete Laplace", who).sensitivity
    values = _whole(counts)
    scale = reach / epsilon
    if scale > 2**40:
        raise BadInput("discrete Laplace noise", "its scale is above 2^40", "Charge more")

    def sampler(streams: Streams) -> Integers:
        noise = streams(0).discrete_laplace(scale.numerator, scale.denominator, values.size)
        return np.asarray(values + noise.reshape(values.shape).astype(np.int64))

    result = release(
        receipt,
        "discrete-laplace",
        sampler,
        inputs=values,
        measure="l1",
        sensitivity=reach,
        parameters={"sensitivity": reach, "epsilon": epsilon, "shape": values.shape},
        who=who,
    )
    return int(result) if np.ndim(counts) == 0 else result
