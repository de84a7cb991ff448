"""Constants from records that are nobody's secret: centers, scales, and principal components of a public sample.

Guarantee: the result is a function of the sample that was given. Whether that sample is public is the owner's word; a
part of the private records is not public because it is small. Where there is no public sample, declare the constants,
or pay (`discreet.stream.private_components`).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.components import leading
from discreet.errors import BadInput

Floats = NDArray[np.float64]
By = Literal["deviation", "range"]


def constants_of(sample: Any, *, by: By = "deviation") -> tuple[Floats, Floats]:
    """A center and a scale for each input, of (n, inputs) public numbers.

    ``deviation``: mean and standard deviation; ``range``: the least value, and the distance to the largest. An input
    that is the same everywhere in the sample has scale 1.
    """
    rows = _checked(sample, "constants")
    if by == "deviation":
        center, scale = rows.mean(axis=0), rows.std(axis=0)
    elif by == "range":
        center, scale = rows.min(axis=0), np.ptp(rows, axis=0)
    else:
        raise BadInput(f"constants by {by}", "there is no such way", "Choose deviation or range")
    return center, np.where(scale > 1e-12 * np.maximum(np.abs(center), 1.0), scale, 1.0)


def components_of(sample: Any, count: int) -> Floats:
    """(count, inputs): the directions in which the sample, as it is, is largest; each with a sign that is fixed.

    Not centered here: center the sample by `Preparation.scaled` first, for principal components in the usual sense.
    """
    rows = _checked(sample, "components")
    return leading(rows.T @ rows / len(rows), count)


def _checked(sample: Any, what: str) -> Floats:
    try:
        rows = np.asarray(sample, dtype=np.float64)
    except (TypeError, ValueError):
        rows = np.empty(0)
    if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all():
        raise BadInput(
            f"{what} of a public sample", "it is not rows of finite numbers, two at least", "Give (n, inputs)"
        )
    return rows
