"""How far single precision may carry two neighbours' sums apart (docs/proofs/clipping-engine.md).

Lengths and sums are taken in single precision over a bounded number of terms and in double precision beyond:

- a sum of n vectors of length C, in any order, is off by at most u C (1 + 2 + ... + n): blocks of `BLOCK` units, and
  `BLOCKS` of them. That is worst case, for each of the neighbours;
- a length is off by at most `TERMS` u of itself. Worst case, too;
- where the places of a unit are added without being written out, errors are taken to be independent of each other. The
  bound is then for sums of `PLACES` places, of units that are lengthened by `hidden_share` of their spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

SINGLE = 2.0**-24
"""u: half a unit in the last place of single precision."""
LOST = 2.0**-126
"""What a product may lose that is too small for single precision, with or without numbers below its normal ones."""
BLOCK, BLOCKS, PLACES, TERMS = 256, 8, 2048, 4096
_GHOSTS = 2.0**-9


def margin(units: int) -> float:
    """What single precision may add to a unit's C, as a share of it, in micro-batches of ``units`` units."""
    block, blocks = min(units, BLOCK), min(math.ceil(units / BLOCK), BLOCKS)
    sums = block * (block + 1) / 2 + block * blocks * (blocks + 1) / 2
    return 2 * SINGLE * sums + TERMS * SINGLE + _GHOSTS


def hidden_share(terms: int, places: int) -> float:
    """What rounding may hide of a squared length, as a share of T^2, T = sum_l |a_l| |b_l| over ``places``; inner
    products have ``terms`` terms.
    """
    return SINGLE * (8 + 4 * math.sqrt(terms) / places)


@contextmanager
def single_precision() -> Iterator[None]:
    """Products are rounded as is said here, also where a program asked torch for shorter and faster ones."""
    backends: Any = torch.backends
    places = [backends.mkldnn.matmul, backends.mkldnn.conv, backends.cuda.matmul, backends.cudnn.conv]
    asked = [place.fp32_precision for place in places]
    for place in places:
        place.fp32_precision = "ieee"
    try:
        yield
    finally:
        for place, precision in zip(places, asked, strict=True):
            place.fp32_precision = precision
