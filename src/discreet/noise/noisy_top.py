"""The k largest of noisy scores (noisy top-k), which stay hidden: only the indices of the k leave.

`laplace_top`: discrete Laplace noise on a lattice, exact. `gaussian_top`: Gaussian noise, as `gaussian` draws it. One
record is one score, so whatever k is, the price is that of one noisy number (docs/proofs/noisy-top.md). Large arrays of
floats are read where they are: neither copied nor changed.

Of many scores `lazy_top` draws only the noise that can still matter. Each record's noise is a function of a uniform
number U of its own, and falls with it. A level is guessed from a sample of the scores, such that about k noisy scores
are above it (`Levels`). Records far below it need U < 2^-j to get there: the gaps between those that have it are drawn,
a number for each of them instead of one for everybody. Of the near ones a byte of U is drawn; most bytes already say
that the noisy score is below the level, or above a second one. Only the rest draw on.

Guarantee: the indices are the same function of independent uniform numbers as if all of them had been drawn in full, so
they have the same distribution, whatever the scores and the levels are. A bad guess costs time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.additive_noise import Lattice, one_multiplier
from discreet.noise.coins import MASK, masked_groups
from discreet.noise.inversion import Bytes, GaussianScoreNoise, LaplaceScoreNoise, Noise, fallen_far
from discreet.noise.replay_key import ReplayKey
from discreet.noise.sources import OperatingSystem, Seeded, Streams, positive, private_floats, release, score_epsilon
from discreet.noise.stream import ONE, Floats, Integers, Stream
from discreet.privacy.ledger.receipts import Receipt

Places = NDArray[np.int64]
Scores = NDArray[Any]
"""Finite floats, of 32 or 64 bits."""

MOST_HALVINGS = 8
"""So that "U is below 2^-j" is about the first byte of U."""
_SAMPLE = 1 << 14
_FARTHEST = 1 << 60
"""In steps. The lattice ends at 2^61, where scores are no longer as far apart as they look."""
_ALL_COST, _NEAR_COST, _FALLEN_COST = 13.0, 35.0, 130.0
"""Nanoseconds for a record if all are near, for a near one of some, and for a far one that falls: measured. What they
are moves work, not results."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Levels:
    """In steps: about k noisy scores, and some more, are above ``low``; less some, above ``high`` (None: unknown).

    A record whose score is not above ``cut`` is far: it reaches ``low`` only with a U below 2^-``halvings``. With 0
    halvings everybody is near.
    """

    low: int
    high: int | None
    halvings: int = 0
    cut: Any = -math.inf


def heights(scores: Scores, lattice: Lattice) -> Integers:
    """Scores in steps."""
    return lattice.floored(scores.astype(np.float64, copy=False))


def guessed_levels(scores: Scores, count: int, lattice: Lattice, noise: Noise, stream: Stream) -> Levels:
    """Levels around the ``count``-th largest, four and a half deviations apart from where it is expected."""
    size = scores.size
    taken = min(size, _SAMPLE)
    offsets = (stream.words(taken) % np.uint64(size)).astype(np.int64)
    sample = heights(scores[(np.arange(taken) * size + offsets) // taken], lattice) / noise.unit
    weight = size / taken + 1
    spare = 4.5 * math.sqrt(weight * count) + 12 * weight
    low = _within(_level(sample, (count + spare) / size, noise, up=False) * noise.unit)
    high = None
    if count > spare:
        high = max(low, _within(_level(sample, (count - spare) / size, noise, up=True) * noise.unit))
    halvings = _cheapest(low / noise.unit - sample, noise)
    return Levels(low=low, high=high, halvings=halvings, cut=_cut(low, halvings, lattice, noise, scores.dtype))


def _within(level: float) -> int:
    return min(max(math.floor(level), -_FARTHEST), _FARTHEST)


def _level(sample: Floats, share: float, noise: Noise, *, up: bool) -> float:
    """Where about ``share`` of noisy scores are above, in units, rounded up or down."""
    below, above = float(sample.min()) - 64, float(sample.max()) + 64
    while above - below > 0.01:
        middle = (below + above) / 2
        if noise.tail(middle - sample).mean() >= share:
            below = middle
        else:
            above = middle
    return above if up else below


def _cheapest(distances: Floats, noise: Noise) -> int:
    """The number of halvings that seems to cost least."""
    costs = [_ALL_COST]
    for halvings in range(1, MOST_HALVINGS + 1):
        near = float(np.mean(distances < noise.distance(halvings)))
        costs.append(_NEAR_COST * near + _FALLEN_COST * 2.0**-halvings)
    return int(np.argmin(costs))


def _cut(low: int, halvings: int, lattice: Lattice, noise: Noise, kind: np.dtype[Any]) -> Any:
    """A score up to which a record is far, as a float of the scores' own kind, rounded down."""
    if not halvings:
        return kind.type(-math.inf)
    with np.errstate(all="ignore"):
        exact = (low - (noise.distance(halvings) + 0.01) * noise.unit) * lattice.step  # 0.01: more than all rounding
        cut = kind.type(exact)
        return cut if float(cut) <= exact else np.nextafter(cut, kind.type(-math.inf))


# -- lazy top-k

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
    further, beyond = streams(_FURTHER), streams(_BEYOND)
    noisy[: near.size] += _in_pieces(near.size, lambda piece: noise.drawn(first[piece], further))
    noisy[near.size :] += _in_pieces(
        far.size, lambda piece: noise.drawn_beyond(levels.halvings, piece.stop - piece.start, beyond)
    )
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
    certain_places, open_, firsts = list[Places](), list[Places](), list[Bytes]()
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
            certain_places.append(near[left[certain]] + start)
            open_.append(near[left[~certain]] + start)
            firsts.append(first[~certain])
    nobody = np.empty(0, dtype=np.int64)
    return (
        np.concatenate([nobody, *certain_places]),
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


def _in_pieces(size: int, draw: Callable[[slice], Integers]) -> Integers:
    """Noise for so many records, in pieces that stay in the processor's cache."""
    steps = np.empty(size, dtype=np.int64)
    for start in range(0, size, _BLOCK):
        piece = slice(start, min(start + _BLOCK, size))
        steps[piece] = draw(piece)
    return steps


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


# -- the mechanisms

MANY = 1 << 16
"""Scores from which on noise is drawn lazily."""
_MOST_SCALE = 1 << 32
"""Of a larger scale, which hides everything, floats decide too few whole numbers."""


def laplace_top(scores: Any, count: int, *, sensitivity: float, receipt: Receipt, who: str | None = None) -> Places:
    """The places, in order, of the ``count`` largest scores with Laplace noise of scale sensitivity / epsilon."""
    epsilon = score_epsilon(receipt, "Laplace", who)
    reach, values = positive(sensitivity, "sensitivity"), _one_each(scores, count, receipt)
    lattice = Lattice.under(reach / float(epsilon), "Laplace")
    scale = math.ceil(lattice.steps_l1(reach, 1) / epsilon)
    lattice.check_noise(scale, "Laplace")

    def sampler(streams: Streams) -> Places:
        if values.size >= MANY and scale <= _MOST_SCALE:
            noise = LaplaceScoreNoise(scale=scale)
            return lazy_top(values, count, lattice=lattice, noise=noise, streams=streams)
        return largest(heights(values, lattice) + streams(0).discrete_laplace(scale, 1, values.size), count)

    return release(
        receipt,
        "laplace-top",
        sampler,
        inputs=values,
        measure="l1",
        sensitivity=reach,
        parameters={"sensitivity": reach, "epsilon": epsilon, "count": count, "size": values.size},
        who=who,
    )


def gaussian_top(scores: Any, count: int, *, sensitivity: float, receipt: Receipt, who: str | None = None) -> Places:
    """The places, in order, of the ``count`` largest scores with Gaussian noise of the multiplier that was charged."""
    sigma = one_multiplier(receipt, who)
    reach, values = positive(sensitivity, "sensitivity"), _one_each(scores, count, receipt)
    lattice = Lattice.under(sigma * reach, "Gaussian")
    steps = sigma * lattice.steps_l2(reach, 1)
    lattice.check_noise(steps, "Gaussian")

    def sampler(streams: Streams) -> Places:
        if values.size >= MANY:
            return lazy_top(values, count, lattice=lattice, noise=GaussianScoreNoise(steps=steps), streams=streams)
        drawn = np.rint(streams(0).normals(values.size) * steps).astype(np.int64)
        return largest(heights(values, lattice) + drawn, count)

    return release(
        receipt,
        "gaussian-top",
        sampler,
        inputs=values,
        measure="l1",
        sensitivity=reach,
        parameters={"sensitivity": reach, "noise_multiplier": sigma, "count": count, "size": values.size},
        who=who,
        after=(MASK, masked_groups(receipt, who)),
    )


def _one_each(scores: Any, count: int, receipt: Receipt) -> Scores:
    """Finite floats: the caller's own array if it is large and already that, and nobody keeps it; else a copy."""
    values: Scores | None = None
    borrowed = isinstance(receipt.source, (OperatingSystem, Seeded, ReplayKey))
    if borrowed and type(scores) is np.ndarray and scores.size >= MANY and scores.dtype in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            sums = [scores[start : start + _BLOCK].sum() for start in range(0, len(scores), _BLOCK)]
        if np.isfinite(sums).all():  # one that is not finite makes its sum so; a sum that overflows is only copied
            values = scores
    if values is None:
        values = private_floats(scores)
    if values.ndim != 1:
        raise BadInput("the largest of noisy scores", "they are not one number a record", "Give a list of scores")
    if type(count) is not int or count < 0:
        raise BadInput(f"the {count} largest of noisy scores", "it is not a whole number", "Give 0 or more")
    return values
