"""Whole numbers by inversion: few coins among many, and the noise of one record.

Inversion gives floor(-scale ln U - shift) for a uniform real U, of which only the bits that matter are drawn.
`fallen_far`: the gaps between coins that fall are geometric, so few coins among many cost a word for each that falls.
`LaplaceScoreNoise`, `GaussianScoreNoise`: the noise of a record, from a byte of its own and a word drawn only if
needed.
These distributions are exact if numpy's logarithm is good to 2^-48 of its value. A floating-point logarithm decides
only where it is far enough from a whole number; elsewhere the bits of U go on and decimals of growing precision decide.
Gaussian noise is that of `Stream.normals`, to the bit (docs/proofs/noisy-top.md, docs/proofs/coins.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache, partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.noise.stream import ONE, Floats, Integers, Stream, Words

Bytes = NDArray[np.uint8]
Constants = Callable[[int], tuple[Decimal, Decimal]]
"""Scale and shift to so many digits, and more."""

_DOUBT = 2.0**-44
"""In scales: a float closer than this to a whole number decides nothing. Its error is smaller: |ln| <= 11.1, 2^-48 of
that, and less than 2^-46 from roundings and from the bits that are not there."""
_SHORT = np.uint64(1 << 48)
"""A word below this, with nothing before it, has too few bits for a float to decide."""
_BATCH = 1 << 14
_TOP_BIT = np.uint8(128)


def settled(bits: int, count: int, more: Callable[[], int], constants: Constants) -> int:
    """floor(-scale ln U - shift) where U begins with these ``count`` bits and goes on with words from ``more``."""
    while True:
        context = Context(prec=60 + count // 2)
        scale, shift = constants(context.prec)
        slack = Decimal(1).scaleb(25 - context.prec)  # far above the rounding of a few correctly rounded steps
        if bits:
            logs = (context.ln(context.divide(Decimal(bits + bit), Decimal(1 << count))) for bit in (0, 1))
            highest, least = (context.subtract(context.minus(context.multiply(scale, log)), shift) for log in logs)
            floor = _floor(context.add(highest, slack))
            if floor == _floor(context.subtract(least, slack)):
                return floor
        bits, count = bits << 64 | more(), count + 64


def _floor(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_FLOOR))


# -- few coins among many


def fallen_far(stream: Stream, numerator: int, count: int) -> NDArray[np.int64]:
    """As `Stream.fallen`, with the same distribution from other words: one for each coin that falls."""
    if numerator > ONE >> 1:
        up = np.ones(count, dtype=bool)
        up[fallen_far(stream, ONE - numerator, count)] = False
        return np.flatnonzero(up)
    if numerator == 0 or count == 0:
        return np.empty(0, dtype=np.int64)
    gaps, parts, last, reached = _Gaps(numerator), list[NDArray[np.int64]](), -1, True
    while reached:
        wanted = min(_BATCH, int((count - last) * (numerator / ONE) * 1.05) + 16)
        ends = gaps.drawn(stream, wanted, count) + 1
        ends[0] += last
        ends = np.cumsum(ends)
        inside = int(np.searchsorted(ends, count))
        parts.append(ends[:inside])
        last, reached = int(ends[-1]), inside == wanted
    return np.concatenate(parts)


@lru_cache(maxsize=64)
def _of_gaps(numerator: int, digits: int) -> tuple[Decimal, Decimal]:
    """-1 / ln(1 - p), and no shift. The logarithm of 1 - p may begin 19 digits after the point."""
    context = Context(prec=digits + 40)
    return context.divide(Decimal(-1), context.ln(context.divide(Decimal(ONE - numerator), Decimal(ONE)))), Decimal(0)


@lru_cache(maxsize=64)
def _of_laplace(scale: int, digits: int) -> tuple[Decimal, Decimal]:
    """The scale, and itself times ln(1 + e^(-1/scale))."""
    context = Context(prec=digits + 10)
    one_more = context.add(Decimal(1), context.exp(context.divide(Decimal(-1), Decimal(scale))))
    return Decimal(scale), context.multiply(Decimal(scale), context.ln(one_more))


class _Gaps:
    """How many coins of probability p = numerator / 2^63 do not fall before one does: floor(ln U / ln(1 - p))."""

    def __init__(self, numerator: int) -> None:
        self._constants = partial(_of_gaps, numerator)
        self._scale = float(self._constants(60)[0])

    def drawn(self, stream: Stream, count: int, longest: int) -> NDArray[np.int64]:
        """Gaps; of one longer than ``most``, that it is."""
        words = stream.words(count)
        sizes = np.log((words.astype(np.float64) + 0.5) * 2.0**-64) * -self._scale
        np.minimum(sizes, longest + 1.0, out=sizes)  # so far out a float need not be near
        doubt = _DOUBT * self._scale
        gaps = np.floor(sizes - doubt)
        unsure = np.flatnonzero((gaps != np.floor(sizes + doubt)) & (sizes - doubt < longest) | (words < _SHORT))
        lengths = np.maximum(gaps, 0).astype(np.int64)
        for position in unsure.tolist():
            lengths[position] = min(settled(int(words[position]), 64, partial(_next, stream), self._constants), longest)
        return np.minimum(lengths, longest, out=lengths)


def _next(stream: Stream) -> int:
    return int(stream.words(1)[0])


# -- the noise of one record


class Noise(Protocol):
    """A distribution that falls with the byte that a uniform number begins with: byte 0 is the highest noise."""

    @property
    def unit(self) -> float:
        """Its scale, in steps."""

    @property
    def reach(self) -> float:
        """Units from the centre beyond which a tail is below 1/256."""

    def tail(self, units: Floats) -> Floats:
        """P[noise >= units], to 1e-9 and a step."""

    def distance(self, halvings: int) -> float:
        """The units d with tail(d) = 2^-halvings, to 1e-9 and a step."""

    def drawn(self, first: Bytes, stream: Stream) -> Integers:
        """Whole numbers of steps, given the first byte of each."""

    def drawn_beyond(self, halvings: int, count: int, stream: Stream) -> Integers:
        """As many whole numbers of steps, given that their uniform numbers are below 2^-halvings: one or more."""


@dataclass(frozen=True, kw_only=True)
class LaplaceScoreNoise:
    """Discrete Laplace: a fair sign and floor(-scale ln U - scale ln(1 + e^(-1/scale))) for a uniform U below 1/2."""

    scale: int
    reach = 6.0

    @property
    def unit(self) -> float:
        """Its scale."""
        return float(self.scale)

    def tail(self, units: Floats) -> Floats:
        """Of the continuous one: a step is nothing beside its scale."""
        half = 0.5 * np.exp(-np.abs(units))
        return np.where(units >= 0, half, 1.0 - half)

    def distance(self, halvings: int) -> float:
        """Exactly, but for a step."""
        return (halvings - 1) * math.log(2)

    def drawn(self, first: Bytes, stream: Stream) -> Integers:
        """Exactly."""
        plus, head, words = _folded(first, stream.words(first.size))
        sizes = self._sizes(words, stream, 8, head)
        return np.where(plus, sizes, -sizes)

    def drawn_beyond(self, halvings: int, count: int, stream: Stream) -> Integers:
        """Exactly."""
        return self._sizes(stream.words(count), stream, halvings, None)

    def _sizes(self, words: Words, stream: Stream, before: int, head: Bytes | None) -> Integers:
        """Of U that begins with ``before`` bits, which are 0 or ``head``, and goes on with words."""
        scale, shift = (float(part) for part in _of_laplace(self.scale, 60))
        sizes = words.astype(np.float64)
        sizes += 0.5
        sizes *= 2.0**-64
        if head is not None:
            sizes += head
        np.log(sizes, out=sizes)
        sizes *= -scale
        sizes += before * math.log(2) * scale - shift
        floors, doubt = np.floor(sizes), _DOUBT * scale
        unsure = (sizes - floors < doubt) | (sizes - floors > 1 - doubt)
        unsure |= words < _SHORT if head is None else (words < _SHORT) & (head == 0)
        steps = floors.astype(np.int64)
        for position in np.flatnonzero(unsure).tolist():
            bits = int(words[position]) | (0 if head is None else int(head[position]) << 64)
            steps[position] = settled(bits, 64 + before, partial(_next, stream), partial(_of_laplace, self.scale))
        return steps


@dataclass(frozen=True, kw_only=True)
class GaussianScoreNoise:
    """Normals as `Stream.normals` makes them, times ``steps``, rounded to whole numbers."""

    steps: float
    reach = 3.0

    @property
    def unit(self) -> float:
        """Its standard deviation."""
        return self.steps

    def tail(self, units: Floats) -> Floats:
        """Of a normal."""
        from scipy.special import ndtr

        return np.asarray(ndtr(-units))

    def distance(self, halvings: int) -> float:
        """By the inverse of the normal distribution."""
        from scipy.special import ndtri

        return float(-ndtri(2.0**-halvings))

    def drawn(self, first: Bytes, stream: Stream) -> Integers:
        """A sign, seven bits of the tail from the byte and 56 from a word."""
        plus, head, words = _folded(first, stream.words(first.size))
        tails = (head.astype(np.uint64) << np.uint64(56)) | (words >> np.uint64(8))
        return self._rounded(stream.normals_at(tails, plus))

    def drawn_beyond(self, halvings: int, count: int, stream: Stream) -> Integers:
        """A plus, and a tail that begins with zeros."""
        tails = stream.words(count) >> np.uint64(halvings)
        return self._rounded(stream.normals_at(tails, np.ones(count, dtype=bool)))

    def _rounded(self, normals: Floats) -> Integers:
        return np.asarray(np.rint(normals * self.steps).astype(np.int64))


def _folded(first: Bytes, words: Words) -> tuple[NDArray[np.bool_], Bytes, Words]:
    """A sign, and how far out on its side: U below a half and 1 - U are the same distance from their ends."""
    plus = first < _TOP_BIT
    return plus, np.where(plus, first, ~first), np.where(plus, words, ~words)
