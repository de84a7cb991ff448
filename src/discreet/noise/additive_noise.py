"""Additive noise on numbers and vectors: Gaussian, Gamma-length, Laplace and discrete Laplace.

Floating-point noise has holes that depend on the value it is added to (Mironov 2012). Here a value is first floored to
a grid of powers of two (`Lattice`), 2^-28 times as fine as the noise. The noise is a whole number of steps, drawn
without looking at the value, and only their sum leaves. Flooring moves two neighbours apart by less than one step a
coordinate, which the noise pays for: its scale is computed for the widened sensitivity.

`gaussian`: standard deviation ``noise_multiplier x sensitivity`` on a sum whose neighbours differ by at most
``sensitivity`` in L2; for a DP-SGD step the sensitivity is the clip norm.

`gamma_direction` (Chaudhuri, Monteleoni and Sarwate 2011): density proportional to exp(-epsilon |z| / sensitivity),
drawn as a length from Gamma(d, sensitivity / epsilon) in a uniform direction. Pure epsilon. The steps of these two are
rounded floats: the tail ends at 13 sigma, and each step has its probability to about one part in 10^7
(docs/proofs/gaussian.md, docs/pitfalls.md).

`laplace`, `discrete_laplace`: values whose neighbours differ by at most ``sensitivity`` in L1 are released with exactly
the epsilon that was charged, floating point included: the integer sampler draws the steps, and every rounding of a
scale is upward (docs/proofs/laplace.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise.coins import MASK, masked_groups
from discreet.noise.sources import (
    Streams,
    paid_epsilon,
    paid_event,
    paid_events,
    positive,
    private_floats,
    release,
    same_shape,
)
from discreet.noise.stream import Floats, Integers
from discreet.privacy.events import MOST_SCALE, DiscreteLaplace, Gaussian, Laplace, PoissonSampledGaussian, Pure
from discreet.privacy.ledger.receipts import Receipt

FINENESS = 28
"""Finer would cost range: values keep their meaning up to 2^33 (8.6e9) times the scale of their noise."""
_MOST_STEPS = 2.0**61
_MOST_NOISE = 2.0**52


@dataclass(frozen=True)
class Lattice:
    """Multiples of ``step``, a power of two."""

    step: float

    @classmethod
    def under(cls, scale: float, what: str) -> Lattice:
        """A lattice 2^28 times as fine as noise of ``scale``."""
        if not 1e-200 < scale < 1e200:
            raise BadInput(
                f"{what} noise of scale {scale:.3g}", "it is out of any sensible range", "Rescale the values"
            )
        return cls(2.0 ** (math.floor(math.log2(scale)) - FINENESS))

    def floored(self, values: Floats) -> Integers:
        """Values in steps. Division by a power of two is exact; clipping brings no two values further apart."""
        with np.errstate(all="ignore"):  # a warning would tell how large a value is
            steps = values / self.step
        clipped = np.minimum(np.maximum(steps, -_MOST_STEPS), _MOST_STEPS)
        return np.asarray(np.floor(clipped).astype(np.int64))

    def plus(self, values: Floats, noise: Integers) -> Floats:
        """Floored values with ``noise`` steps added, back on the ordinary scale."""
        return np.asarray((self.floored(values) + noise.astype(np.int64, copy=False)) * self.step)

    @staticmethod
    def check_noise(steps: float, what: str) -> None:
        """Refuse noise so large that whole numbers of 64 bits cannot hold its tails."""
        if not steps <= _MOST_NOISE:
            raise BadInput(f"{what} noise", "it is too large for what it hides", "Charge more, or rescale the values")

    def steps_l1(self, sensitivity: float, size: int) -> int:
        """Most steps by which floored vectors differ in sum: one coordinate never more than the rounded-up bound."""
        return math.ceil(sensitivity / self.step) + max(size - 1, 0)

    def steps_l2(self, sensitivity: float, size: int) -> float:
        """Most steps by which floored vectors differ in length."""
        return math.nextafter(sensitivity / self.step + math.sqrt(size), math.inf)


# -- Gaussian and Gamma-length noise


def gaussian(value: Any, *, sensitivity: float, receipt: Receipt, who: str | None = None) -> Any:
    """``value`` with Gaussian noise; the noise multiplier is what the receipt was charged for."""
    sigma = one_multiplier(receipt, who)
    reach, values = positive(sensitivity, "sensitivity"), private_floats(value)
    lattice, steps = gaussian_steps(sigma, reach, values.size)

    def sampler(streams: Streams) -> Floats:
        noise = streams(0).normals(values.size)
        noise *= steps
        return lattice.plus(values, np.rint(noise, out=noise).reshape(values.shape))

    result = release(
        receipt,
        "gaussian",
        sampler,
        inputs=values,
        measure="l2",
        sensitivity=reach,
        parameters={"sensitivity": reach, "noise_multiplier": sigma, "shape": values.shape},
        who=who,
        after=(MASK, masked_groups(receipt, who)),
    )
    return same_shape(result, value)


def gaussian_steps(sigma: float, reach: float, size: int) -> tuple[Lattice, float]:
    """The lattice of Gaussian noise, and its standard deviation in steps."""
    lattice = Lattice.under(sigma * reach, "Gaussian")
    steps = sigma * lattice.steps_l2(reach, size)
    lattice.check_noise(steps, "Gaussian")
    return lattice, steps


def gamma_steps(epsilon: float, reach: float, size: int) -> tuple[Lattice, float]:
    """The lattice of Gamma-length noise, and its scale in steps."""
    lattice = Lattice.under(reach / epsilon, "Gamma-length")
    unit = lattice.steps_l2(reach, size) / epsilon
    lattice.check_noise(unit * size, "Gamma-length")
    return lattice, unit


def one_multiplier(receipt: Receipt, who: str | None) -> float:
    """The noise multiplier that all groups were charged for."""
    sigmas = {
        event.noise_multiplier
        for event in paid_events(receipt, (Gaussian, PoissonSampledGaussian), "Gaussian", who)
        if isinstance(event, (Gaussian, PoissonSampledGaussian))
    }
    if len(sigmas) != 1:
        raise ReceiptRefused(
            f"one Gaussian draw on receipt {receipt.entry.sequence}",
            "its groups were charged for different noise",
            "Charge one noise multiplier for all groups of a sum",
        )
    return sigmas.pop()


def gamma_direction(value: Any, *, sensitivity: float, receipt: Receipt, who: str | None = None) -> Any:
    """The vector ``value`` with noise of Gamma length and uniform direction; epsilon is what was charged."""
    epsilon = float(paid_epsilon(receipt, (Pure,), "Gamma-length", who))
    reach, values = positive(sensitivity, "sensitivity"), private_floats(value)
    if values.ndim != 1 or not values.size:
        raise BadInput("Gamma-length noise", "the value is not a vector", "Give a vector of at least one number")
    lattice, unit = gamma_steps(epsilon, reach, values.size)

    def sampler(streams: Streams) -> Floats:
        length = streams(0).exponentials(values.size).sum()
        direction = streams(1).normals(values.size)
        noise = np.rint(direction * (unit * length / np.linalg.norm(direction)))
        return lattice.plus(values, noise)

    return release(
        receipt,
        "gamma-direction",
        sampler,
        inputs=values,
        measure="l2",
        sensitivity=reach,
        parameters={"sensitivity": reach, "epsilon": epsilon, "shape": values.shape},
        who=who,
    )


# -- Laplace and discrete Laplace noise


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
    if scale > MOST_SCALE:
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
