"""Losses of a margin z = y <w, x> with a bounded slope and a bounded curvature, as objective perturbation needs them.

    Huber's hinge   0 above 1 + h, a straight line below 1 - h, a parabola between: slope at most 1, curvature 1 / (2h)
    logistic        log(1 + e^-z): slope at most 1, curvature 1/4

The hinge itself has no curvature bound; Huber's is the hinge but for 2h around its corner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SmoothLoss:
    """``slope`` (from -1 to 0) and ``bend`` (from 0 to ``curvature``) at margins. Slopes must be at most 1 in size."""

    name: str
    curvature: float
    slope: Callable[[Any], Floats]
    bend: Callable[[Any], Floats]


def huber_hinge(width: float = 0.5) -> SmoothLoss:
    """``width``: h."""
    if not 1e-6 <= width <= 1e6:
        raise BadInput("the width of Huber's hinge", "it is not from 1e-6 to 1e6", "Give one, such as 0.5")

    def slope(z: Any) -> Floats:
        return np.asarray(np.clip((z - 1 - width) / (2 * width), -1.0, 0.0))

    def bend(z: Any) -> Floats:
        return np.asarray(np.where(np.abs(z - 1) <= width, 1 / (2 * width), 0.0))

    return SmoothLoss(name=f"huber-{width:g}", curvature=1 / (2 * width), slope=slope, bend=bend)


def logistic() -> SmoothLoss:
    """The loss of logistic regression."""
    from scipy.special import expit

    def slope(z: Any) -> Floats:
        return np.asarray(-expit(-np.asarray(z)))

    def bend(z: Any) -> Floats:
        return np.asarray(expit(z) * expit(-np.asarray(z)))

    return SmoothLoss(name="logistic", curvature=0.25, slope=slope, bend=bend)
