"""A stream of random words, and the exact integer samplers built on it.

Word k of the stream (key, label) is word k mod 512 of SHAKE-128(key, label, k div 512): a counter-based generator
whose unpredictability is that of the hash. Any part of any stream can be made again from the key, which is what lets a
redo repeat its draws; without the key nobody can.

Guarantee: `below`, `bernoulli`, `bernoulli_exp` and `discrete_laplace` have exactly the distribution they name, by
integer arithmetic alone (Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", 2020). No
rounding can leak. `normals`, `exponentials` are floats, good to their last bits: see docs/pitfalls.md.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Integers = NDArray[Any]
Floats = NDArray[np.float64]

BLOCK_WORDS = 512
ONE = 1 << 63
"""Probabilities are whole numerators over this."""
_CHUNK, _COINS = 1 << 14, 1 << 20
_ROOM = np.uint64(1 << 52)
_INT64_SCALE = 1 << 52
"""Up to this scale products with the small counters of the samplers stay below 2^63."""


class Stream:
    """The random words of one key and label, from the first."""

    def __init__(self, key: bytes, label: bytes) -> None:
        self._prefix = len(key).to_bytes(2, "little") + key + len(label).to_bytes(4, "little") + label
        self._block = 0
        self._rest: Words = np.empty(0, dtype=np.uint64)

    def words(self, count: int) -> Words:
        """The next ``count`` words of 64 bits."""
        if count <= self._rest.size:
            taken, self._rest = self._rest[:count], self._rest[count:]
            return taken
        missing = count - self._rest.size
        blocks = -(-missing // BLOCK_WORDS)
        fresh = np.frombuffer(b"".join(map(self.block, range(self._block, self._block + blocks))), dtype="<u8")
        self._block += blocks
        taken, self._rest = np.concatenate([self._rest, fresh[:missing]]), fresh[missing:]
        return taken

    def block(self, block: int) -> bytes:
        """512 words by the number of their block, as bytes; what was taken in order stays as it is."""
        return hashlib.shake_128(self._prefix + block.to_bytes(8, "little")).digest(8 * BLOCK_WORDS)

    # -- exact

    def below(self, bounds: Integers) -> Integers:
        """A uniform whole number in [0, bound) for every bound, by rejection."""
        if bounds.dtype == object:
            return np.array([self._big_below(int(bound)) for bound in bounds], dtype=object)
        limits = bounds.astype(np.uint64)
        unfair = (np.uint64(0) - limits) % limits  # 2^64 mod bound: the words below it would favour small results
        drawn = self.words(limits.size).copy()
        while (again := drawn < unfair).any():
            drawn[again] = self.words(int(again.sum()))
        return np.asarray((drawn % limits).astype(np.int64))

    def _big_below(self, bound: int) -> int:
        bits = bound.bit_length()
        while True:
            drawn = int.from_bytes(self.words(-(-bits // 64)).tobytes(), "little") & ((1 << bits) - 1)
            if drawn < bound:
                return drawn

    def bernoulli(self, numerators: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Coins that fall with probability numerator / 2^63, exactly."""
        return np.asarray((self.words(numerators.size) >> np.uint64(1)) < numerators)

    def fallen(self, numerator: int, count: int) -> NDArray[np.int64]:
        """The places, in order, of the coins that fall among ``count`` of probability numerator / 2^63, exactly.

        For 2^-(j+1) < p <= 2^-j: j random bits a coin, all ones with probability 2^-j, taken 64 coins at a time; those
        that are left fall with probability 2^j p. That is j / 64 words a coin, and less for a small p: words in which
        nothing is left take no more bits. (docs/proofs/coins.md)
        """
        if numerator > ONE >> 1:
            up = np.ones(count, dtype=bool)
            up[self.fallen(ONE - numerator, count)] = False
            return np.flatnonzero(up)
        if numerator == 0:
            return np.empty(0, dtype=np.int64)
        halvings = 63 - (numerator - 1).bit_length()
        parts = []
        for start in range(0, count, _COINS):
            left = self._all_ones(halvings, min(_COINS, count - start))
            fell = self.bernoulli(np.full(left.size, numerator << halvings, dtype=np.uint64))
            parts.append(left[fell] + start)
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def _all_ones(self, bits: int, count: int) -> NDArray[np.int64]:
        """Places among ``count`` whose ``bits`` random bits are all ones."""
        places, words = np.arange(-(-count // 64)), self.words(-(-count // 64))
        for _ in range(bits - 1):
            alive = words != 0
            if not alive.all():
                places, words = places[alive], words[alive]
            words = words & self.words(words.size)
        rows, columns = np.nonzero(np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little"))
        positions = places[rows] * 64 + columns
        return np.asarray(positions[positions < count])

    def bernoulli_exp(self, over: Integers, under: Integers) -> NDArray[np.bool_]:
        """Coins that fall with probability exp(-over / under), exactly, for over >= 0."""
        units, part = over // under, over % under
        falls = np.ones(over.size, dtype=bool)
        active = np.flatnonzero(units > 0)
        while active.size:  # one coin of exp(-1) for each whole unit; most fail soon
            head = self._exp_of_fraction(np.ones_like(under[active]), np.ones_like(under[active]))
            falls[active] = head
            units[active] -= 1
            active = active[head & (units[active] > 0).astype(bool)]
        alive = np.flatnonzero(falls)
        falls[alive] = self._exp_of_fraction(part[alive], under[alive])
        return falls

    def _exp_of_fraction(self, over: Integers, under: Integers) -> NDArray[np.bool_]:
        """exp(-x) for x = over / under in [0, 1]: draw coins of x/1, x/2, x/3 ... until one fails; an odd number of
        draws has probability 1 - x + x^2/2! - ... (von Neumann).
        """
        odd = np.ones(over.size, dtype=bool)
        active, step = np.arange(over.size), 1
        while active.size:
            went_on = (self.below(under[active] * step) < over[active]).astype(bool)
            odd[active] ^= went_on
            active, step = active[went_on], step + 1
        return odd

    def discrete_laplace(self, over: int, under: int, count: int) -> Integers:
        """Whole numbers k with probability proportional to exp(-|k| under / over)."""
        kind: Any = np.int64 if max(over, under) <= _INT64_SCALE else object
        drawn = np.empty(count, dtype=kind)
        missing = np.arange(count)
        while missing.size:
            values, accepted = self._laplace_trial(over, under, missing.size, kind)
            drawn[missing[accepted]] = values[accepted]
            missing = missing[~accepted]
        return drawn

    def _laplace_trial(self, over: int, under: int, count: int, kind: Any) -> tuple[Integers, NDArray[np.bool_]]:
        bound = np.full(count, over, dtype=kind)
        fine = self.below(bound)
        accepted = self.bernoulli_exp(fine, bound)
        coarse = np.zeros(count, dtype=kind)
        active = np.flatnonzero(accepted)
        while active.size:
            ones = np.ones(active.size, dtype=np.int64)
            active = active[self._exp_of_fraction(ones, ones)]
            coarse[active] += 1
        size = (fine + bound * coarse) // under
        minus = self.bernoulli(np.full(count, ONE >> 1, dtype=np.uint64))
        accepted &= ~(minus & (size == 0).astype(bool))  # zero has one sign
        return np.where(minus, -size, size), accepted

    # -- floats

    def normals(self, count: int) -> Floats:
        """Standard Gaussians: a sign, and the inverse distribution at a tail of 63 bits; of 127 bits, where the tail is
        small, so that far out there are still many words for every value. Tails reach 13 sigma.
        """
        from scipy.special import ndtri

        normals = np.empty(count)
        for start in range(0, count, _CHUNK):  # in pieces that stay in the processor's cache
            drawn = self.words(min(_CHUNK, count - start))
            tail = self._tails(drawn >> np.uint64(1))
            piece = ndtri(tail, out=normals[start : start + tail.size])
            piece *= 2.0 * (drawn & np.uint64(1)).astype(np.float64) - 1.0
        return normals

    def normals_at(self, tails: Words, plus: NDArray[np.bool_]) -> Floats:
        """Standard Gaussians of these signs and tails of 63 bits, as `normals` makes them of words of its own."""
        from scipy.special import ndtri

        normals = np.empty(tails.size)
        for start in range(0, tails.size, _CHUNK):
            piece = ndtri(self._tails(tails[start : start + _CHUNK]), out=normals[start : start + _CHUNK])
            piece *= np.where(plus[start : start + _CHUNK], -1.0, 1.0)
        return normals

    def exponentials(self, count: int) -> Floats:
        """Standard exponentials."""
        return np.asarray(-np.log(self._tails(self.words(count))))

    def _tails(self, words: Words) -> Floats:
        """(word + fraction) / 2^64, the fraction drawn where a float has room for it and 1/2 elsewhere."""
        tails = words.astype(np.float64)
        small = np.flatnonzero(words < _ROOM)
        tails += 0.5
        if small.size:
            fraction = (self.words(small.size).astype(np.float64) + 0.5) * 2.0**-64
            tails[small] = words[small].astype(np.float64) + fraction
        tails *= 2.0**-64
        return tails
