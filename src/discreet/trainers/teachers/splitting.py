"""Which teacher learns from which unit: a keyed hash of the unit's id, and nothing else.

Guarantee: all records of a unit are with one teacher, whatever else is in the data, and no unit is with two. The split
tells nothing: it is a function of ids, which are public, and of a secret key (docs/proofs/keyed-hashing.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.keyed import SecretKey
from discreet.privacy.exact import exact_minus, exact_times, share_of

MOST_TEACHERS = 100_000


def split(units: Sequence[str], *, teachers: int, key: SecretKey) -> NDArray[np.int64]:
    """The teacher, from 0, of each of ``units`` (the unit's id of each record)."""
    if type(teachers) is not int or not 2 <= teachers <= MOST_TEACHERS:
        raise BadInput(
            f"{teachers} teachers", f"it is no whole number from 2 to {MOST_TEACHERS}", "Give one, such as 250"
        )
    if not all(isinstance(unit, str) for unit in units):
        raise BadInput(
            "splitting units among teachers", "an id is not text", "Give every record its unit's id, as text"
        )
    each = share_of(Decimal(1), teachers, places=18)
    last = exact_minus(Decimal(1), exact_times(each, teachers - 1))
    return key.derive("teachers").shards(units, [each] * (teachers - 1) + [last])
