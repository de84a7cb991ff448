"""The k largest of many noisy scores, drawing only the noise that can still matter.

Each record's noise is a function of a uniform number U of its own, and falls with it. A level is guessed from a sample
of the scores, such that about k noisy scores are above it. Records far below it need U < 2^-j to get there: who has
that is told by the gaps between them, a number for each of them instead of one for everybody. Of the near ones a byte
of U is drawn; most bytes already say that the noisy score is below the level, or above a second one. Only the rest
draw on.

Guarantee (docs/proofs/noisy-top.md): the places are the same function of independent uniform numbers as if all of them
had been drawn in full, so they have the same distribution, whatever the scores and the levels are. A bad guess costs
time.
"""

from __future__ import annotations

import numpy as np

from discreet.noise.inversion import Bytes, Noise, fallen_far
from discreet.noise.lattice import Lattice
from discreet.noise.lazy_levels import Levels, Places, Scores, guessed_levels, heights
from discreet.noise.sources import Streams
from discreet.noise.stream import ONE, Floats, Integers, Stream

_BLOCK = 1 << 15
_SAMPLED, _FALLEN, _BEYOND, _BYTES, _FURTHER, _REST, _OTHERS = range(7)
"""Parts of a draw: places of the sample; far records with a small U, and the rest of their bits; first bytes of near
ones, and the rest of their bits; first bytes and the rest of the bits, for all others."""


def lazy_top(scores: Scores, count: int, *, lattice: Lattice, noise: Noise, streams: Streams) -> Places:
    """The places, in order, of the ``count`` largest noisy scores; of equal ones, the first."""
    if count == 0 or count >= scores.size:
        return np.arange(min(count, scores.size))
    levels = guessed_levels(scores, count, lattice, noise, streams(_SAMPLED))
    sure, near, first = sieved(scores, levels, lattice, noise, streams(_BYTES))
    far = fallen_of_the_far(scores, levels, streams(_FALLEN))
    places = np.concatenate([near, far])
    noisy = heights(scores[places], lattice)
    noisy[: near.size] += _of_near(noise, first, streams(_FURTHER))
    noisy[near.size :] += _of_far(noise, levels.halvings, far.size, streams(_BEYOND))
    above = sure.size + (0 if levels.high is None else int(np.count_nonzero(noisy >= levels.high)))
    reached = np.flatnonzero(noisy >= levels.low)
    if not above <= count <= sure.size + reached.size:
        return _all_drawn(scores, count, levels, (places, noisy), lattice, noise, streams)
    reached = reached[np.argsort(places[reached])]  # of equal ones the first is taken
    return np.sort(np.concatenate([sure, places[reached[largest(noisy[reached], count - sure.size)]]]))


def largest(values: Integers, count: int) -> Places:
    """The places of the ``count`` largest, in order; of equal ones, the first."""
    if count >= values.size:
        return np.arange(values.size)
    if count == 0:
        return np.empty(0, dtype=np.int64)
    bar = np.partition(values, values.size - count)[values.size - count]
    sure = np.flatnonzero(values > bar)
    return np.sort(np.concatenate([sure, np.flatnonzero(values == bar)[: count - sure.size]]))


def fallen_of_the_far(scores: Scores, levels: Levels, stream: Stream) -> Places:
    """The far records whose U is below 2^-halvings. (Near ones among the fallen have a U of their own.)"""
    if not levels.halvings:
        return np.empty(0, dtype=np.int64)
    fell = fallen_far(stream, ONE >> levels.halvings, scores.size)
    return np.asarray(fell[~(scores[fell] > levels.cut)])


def sieved(
    scores: Scores, levels: Levels, lattice: Lattice, noise: Noise, stream: Stream
) -> tuple[Places, Places, Bytes]:
    """Of the near records: who is surely above both levels, who may be above the low one, and the first bytes of
    these.
    """
    width = 2 * noise.reach * noise.unit / 254
    slope, offset = 1.0 / (lattice.step * width), 128 - levels.low / width
    last, least = _tables(levels, width, noise)
    translation, room = last.tobytes(), np.empty(_BLOCK)
    found, open_, firsts = list[Places](), list[Places](), list[Bytes]()
    with np.errstate(all="ignore"):  # a warning would tell how large a score is
        for start in range(0, scores.size, _BLOCK):
            block = scores[start : start + _BLOCK]
            near = _near(block, levels)
            if not near.size:
                continue
            classes = _classes(block if near.size == block.size else block[near], slope, offset, room[: near.size])
            drawn = _first_bytes(stream, near.size)
            left = np.flatnonzero(drawn <= np.frombuffer(classes.tobytes().translate(translation), dtype=np.uint8))
            first = drawn[left]
            certain = first < least[classes[left]]
            found.append(near[left[certain]] + start)
            open_.append(near[left[~certain]] + start)
            firsts.append(first[~certain])
    nobody = np.empty(0, dtype=np.int64)
    return (
        np.concatenate([nobody, *found]),
        np.concatenate([nobody, *open_]),
        np.concatenate([nobody.astype(np.uint8), *firsts]),
    )


_EVERYBODY = np.arange(_BLOCK)


def _near(block: Scores, levels: Levels) -> Places:
    return np.flatnonzero(block > levels.cut) if levels.halvings else _EVERYBODY[: block.size]


def _classes(scores: Scores, slope: float, offset: float, room: Floats) -> Bytes:
    """Class 128 begins at the low level; each is as wide as the next; the ends take all beyond."""
    np.multiply(scores, slope, out=room, dtype=np.float64)
    np.add(room, offset, out=room)
    return np.clip(room, 0.0, 255.0, out=room).astype(np.uint8)


def _tables(levels: Levels, width: float, noise: Noise) -> tuple[Bytes, Bytes]:
    """For each class the last byte with which a score may still reach the low level, and the number of bytes with which
    it surely reaches the high one. Classes count as wider by one at both ends, which covers every rounding.
    """
    ends = (np.arange(256, dtype=np.float64) - 128) * width
    last = np.floor(256 * (1 + 1e-9) * noise.tail(-(ends + 2 * width) / noise.unit))
    last[255] = 255
    least = np.zeros(256)
    if levels.high is not None:
        least = np.floor(256 * (1 - 1e-9) * noise.tail((levels.high - levels.low - ends + width) / noise.unit))
        least[0] = 0
    return np.clip(last, 0, 255).astype(np.uint8), np.clip(least, 0, 255).astype(np.uint8)


def _first_bytes(stream: Stream, count: int) -> Bytes:
    return stream.words(-(-count // 8)).view(np.uint8)[:count]


def _of_near(noise: Noise, first: Bytes, stream: Stream) -> Integers:
    """Noise after first bytes, in pieces that stay in the processor's cache."""
    found = np.empty(first.size, dtype=np.int64)
    for start in range(0, first.size, _BLOCK):
        found[start : start + _BLOCK] = noise.drawn(first[start : start + _BLOCK], stream)
    return found


def _of_far(noise: Noise, halvings: int, count: int, stream: Stream) -> Integers:
    """Noise of uniform numbers below 2^-halvings, in such pieces."""
    found = np.empty(count, dtype=np.int64)
    for start in range(0, count, _BLOCK):
        piece = found[start : start + _BLOCK]
        piece[:] = noise.drawn_beyond(halvings, piece.size, stream)
    return found


def _all_drawn(
    scores: Scores,
    count: int,
    levels: Levels,
    known: tuple[Places, Integers],
    lattice: Lattice,
    noise: Noise,
    streams: Streams,
) -> Places:
    """Draw on for everybody: near records from their first bytes; far ones that did not fall from a byte that says so.
    Those whose noise is known keep it.
    """
    bytes_, rest, others = streams(_BYTES), streams(_REST), streams(_OTHERS)
    least = 256 >> levels.halvings if levels.halvings else 0
    noisy = np.empty(scores.size, dtype=np.int64)
    for start in range(0, scores.size, _BLOCK):
        block = scores[start : start + _BLOCK]
        first = (least + rest.below(np.full(block.size, 256 - least))).astype(np.uint8)
        near = _near(block, levels)
        first[near] = _first_bytes(bytes_, near.size)
        noisy[start : start + _BLOCK] = heights(block, lattice) + noise.drawn(first, others)
    places, values = known
    noisy[places] = values
    return largest(noisy, count)
