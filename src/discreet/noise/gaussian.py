"""Gaussian noise, and the Gamma-length noise of a pure promise in L2.

`gaussian`: standard deviation ``noise_multiplier x sensitivity`` on a sum whose neighbours differ by at most
``sensitivity`` in L2; for a DP-SGD step the sensitivity is the clip norm.

`gamma_direction` (Chaudhuri, Monteleoni and Sarwate 2011): density proportional to exp(-epsilon |z| / sensitivity),
drawn as a length from Gamma(d, sensitivity / epsilon) in a uniform direction. Pure epsilon.

Both floor the value to a lattice first and add a whole number of steps (docs/proofs/gaussian.md), so there are no holes
that depend on the value. The steps themselves are rounded floats: the tail ends at 13 sigma, and each step has its
probability to about one part in 10^7 (docs/proofs/gaussian.md, docs/pitfalls.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise.coins import MASK, masked_groups
from discreet.noise.door import paid_epsilon, paid_events, positive, private_floats, release, same_shape
from discreet.noise.lattice import Lattice
from discreet.noise.sources import Streams
from discreet.noise.stream import Floats
from discreet.privacy.events import Gaussian, PoissonSampledGaussian, Pure
from discreet.privacy.ledger.receipts import Receipt


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
