"""Chance that reads no private data: the order in which questions are shown, who is dropped, who is asked at random.

With a receipt it comes from the ledger's source, so that a redo repeats it: one draw of its own kind each time. Without
one it comes from a source, and costs nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.door import release
from discreet.noise.sources import Source, Streams
from discreet.noise.stream import ONE, Stream, Words
from discreet.privacy.ledger.receipts import Receipt


def random_places(size: int, count: int, *, where: Receipt | Source, kind: str = "order") -> NDArray[np.int64]:
    """``count`` of ``size`` places without repetition, in random order; all of them, if there are fewer.

    ``kind``: what they are for. A receipt gives one draw a kind.
    """
    if min(size, count) < 0:
        raise BadInput("places at random", "a number of places is negative", "Give 0 or more")
    if isinstance(where, Source):
        return _drawn(where.free(f"{kind}\0{size}\0{count}"), size, count)

    def sampler(streams: Streams) -> NDArray[np.int64]:
        return _drawn(streams(0), size, count)

    return release(
        where,
        "random-places",
        sampler,
        inputs=None,
        measure="none",
        sensitivity=0.0,
        parameters={"kind": kind},  # how many there are may be private
        slot=kind,
    )


def random_coins(size: int, chance: int, *, where: Receipt, kind: str = "coins") -> NDArray[np.bool_]:
    """``size`` independent coins that fall with probability ``chance`` over 2^63, which is public. They read nothing,
    and are secret: what they decide must not be released (docs/proofs/hidden-selection.md).
    """
    if type(chance) is not int or not 0 <= chance <= ONE or size < 0:
        raise BadInput("coins at random", "their chance is no numerator over 2^63", "Use numerator(p, up=False)")

    def sampler(streams: Streams) -> NDArray[np.bool_]:
        return streams(0).bernoulli(np.full(size, chance, dtype=np.uint64))

    return release(
        where,
        "random-coins",
        sampler,
        inputs=None,
        measure="none",
        sensitivity=0.0,
        parameters={"kind": kind, "chance": chance},
        slot=kind,
    )


def _drawn(stream: Stream, size: int, count: int) -> NDArray[np.int64]:
    """By random words in order; equal words, one pair in 2^64, keep the places' own order."""
    if 8 * count >= size:
        return _in_order(stream.words(size))[:count]
    chosen: dict[int, None] = {}  # few of many: drawn one by one
    while len(chosen) < count:
        for place in stream.below(np.full(count - len(chosen), size, dtype=np.int64)).tolist():
            chosen[place] = None
    return np.fromiter(chosen, dtype=np.int64, count=count)


def _in_order(words: Words) -> NDArray[np.int64]:
    """The stable order, which any order is where no two are equal; that one is found much faster."""
    order = np.argsort(words)
    ranked = words[order]
    return np.argsort(words, kind="stable") if (ranked[1:] == ranked[:-1]).any() else order
