"""A pool cut once by the keyed hash of ids into disjoint parts: each record meets one query.

The cut is secret chance on public ids, so it costs nothing; and since nobody meets two queries, a shard needs no caps
on misses. A number of one means: no cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_UP, Decimal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise import SecretKey
from discreet.privacy.exact import exact_minus

MOST_SHARDS = 10_000


def even_shares(count: int) -> tuple[Decimal, ...]:
    """Shares that sum to exactly 1."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_SHARDS:
        raise BadInput(f"{count} shards", f"it must be a whole number from 1 to {MOST_SHARDS}", "Give one a query")
    each = (Decimal(1) / count).quantize(Decimal("1e-12"), rounding=ROUND_UP)
    return (*(each,) * (count - 1), exact_minus(Decimal(1), each * (count - 1)))


def in_shard(ids: Sequence[str], number: int, count: int, key: SecretKey) -> NDArray[np.int64]:
    """The places of the ids that are in shard ``number``, from 1."""
    if not 1 <= number <= count:
        raise BadInput(f"shard {number} of {count}", "there is none of that number", f"Choose 1 to {count}")
    return np.flatnonzero(key.shards(ids, even_shares(count)) == number - 1)
