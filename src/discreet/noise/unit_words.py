"""The coins of a release gate: 64 secret bits for every (unit, value), by AES, many at once.

Definition (docs/reference/release-gate.md; any engine that has AES computes the same bits). Of the release's 32 secret
bytes one AES-256 key is derived for each use. With E the cipher of that use, on blocks of 16 bytes:

    code of a text s      CBC-MAC by E of  [length of s in bytes, 8 bytes][8 zero bytes] s [zeros to a whole block]
    word of a pair        first 8 bytes of  E(E(code of the unit) xor code of the value)
    word of row r         bytes 8 (r mod 2) to 8 (r mod 2) + 7 of  E([number of the file, 8 bytes][r div 2, 8 bytes])

numbers and words with their lowest byte first, texts in UTF-8.

Guarantee: as long as AES-256 cannot be told from a random permutation, words of distinct (unit, value), or of distinct
rows, cannot be told from independent uniform ones (docs/proofs/keyed-hashing.md). Codes of n distinct texts differ, but
for a chance of n^2 / 2^128. Nothing here is drawn: the key was, against a receipt (`release_key`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import MissingExtra
from discreet.noise.keys import SecretKey
from discreet.noise.stream import Words

Codes = NDArray[np.uint64]
"""(n, 2): 16 bytes a text."""
_CHUNK = 1 << 14
"""Blocks at once: what stays in the processor's cache is twice as fast."""
_KEPT = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)


class UnitWords:
    """The words of one release. Safe in several threads; never shows its keys."""

    def __init__(self, key: SecretKey) -> None:
        self._cipher = {use: _aes(key.derive(f"gate/{use}")) for use in ("units", "values", "coins", "caps", "rows")}

    def unit_codes(self, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Codes:
        """A code for each unit: text i is ``data[offsets[i]:offsets[i + 1]]``."""
        return self._codes("units", data, offsets)

    def value_codes(self, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Codes:
        """A code for each value."""
        return self._codes("values", data, offsets)

    def coins(self, units: Codes, values: Codes) -> Words:
        """The word whose size decides whether a unit keeps a value."""
        return self._pairs("coins", units, values)

    def caps(self, units: Codes, values: Codes) -> Words:
        """The word by which a unit's values are ordered where it has too many: unrelated to its coins."""
        return self._pairs("caps", units, values)

    def rows(self, file: int, first: int, count: int) -> Words:
        """The coins of ``count`` rows of a file, from row ``first`` on."""
        return np.concatenate([np.zeros(0, dtype=np.uint64), *(part.copy() for part in self._rows(file, first, count))])

    def fallen_rows(self, file: int, first: int, count: int, coin: int) -> NDArray[np.int64]:
        """Which of ``count`` rows of a file fell, counted from row ``first``: those of `rows` whose upper 63 bits are
        below ``coin``.
        """
        rows, start, size = np.empty(count, dtype=np.int64), 0, 0
        for words in self._rows(file, first, count):
            fell = np.flatnonzero(words < np.uint64(2 * coin))
            np.add(fell, start, out=rows[size : size + fell.size])
            start, size = start + words.size, size + fell.size
        return rows[:size]

    def _rows(self, file: int, first: int, count: int) -> Iterator[Words]:
        """Words of rows, in parts that are each good until the next."""
        encrypt, at, end = _Blocks(self._cipher["rows"]), first // 2, first + count
        block = np.empty((_CHUNK, 2), dtype="<u8")
        block[:, 0] = file
        block[:, 1] = np.arange(at, at + _CHUNK, dtype=np.uint64)
        while 2 * at < end:
            words = encrypt(block[: (end + 1) // 2 - at]).reshape(-1)
            yield words[max(0, first - 2 * at) : end - 2 * at]
            at += _CHUNK
            block[:, 1] += np.uint64(_CHUNK)

    def _pairs(self, use: str, units: Codes, values: Codes) -> Words:
        words = np.empty(len(units), dtype=np.uint64)
        encrypt = _Blocks(self._cipher[use])
        for start in range(0, len(units), _CHUNK):
            part = slice(start, start + _CHUNK)
            state = encrypt(np.ascontiguousarray(units[part], dtype="<u8"))
            words[part] = encrypt(state ^ values[part])[:, 0]
        return words

    def _codes(self, use: str, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Codes:
        codes = np.empty((offsets.size - 1, 2), dtype=np.uint64)
        padded = np.concatenate([data, np.zeros(16, dtype=np.uint8)])
        # every 8 bytes of the texts, at whatever place they begin
        words = np.ndarray(shape=(padded.size - 7,), dtype="<u8", buffer=padded, strides=(1,))
        encrypt = _Blocks(self._cipher[use])
        for start in range(0, len(codes), _CHUNK):
            ends = offsets[start : start + _CHUNK + 1]
            codes[start : start + _CHUNK] = _macs(encrypt, words, ends[:-1], np.diff(ends))
        return codes

    def __repr__(self) -> str:
        """Never a key."""
        return "UnitWords(...)"


class _Blocks:
    """E, on arrays of blocks. One thread's own."""

    def __init__(self, cipher: Any) -> None:
        self._encryptor = cipher.encryptor()
        self._out = bytearray(16 * _CHUNK + 15)

    def __call__(self, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """(n, 2) words, n up to a chunk; the result is good until the next call."""
        self._encryptor.update_into(blocks.reshape(-1).view(np.uint8).data, self._out)
        return np.frombuffer(self._out, dtype="<u8", count=blocks.size).reshape(-1, 2)


def _macs(
    encrypt: _Blocks, words: NDArray[np.uint64], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """CBC-MAC of the texts at ``starts``, their lengths first, so that no text's blocks begin another's."""
    state = _after_lengths(encrypt, lengths)
    going, done = np.flatnonzero(lengths > 0), 0
    if going.size == lengths.size:  # the first block of all, without picking any out
        state = encrypt(_blocks_at(words, starts, lengths) ^ state).copy()
        going, done = np.flatnonzero(lengths > 16), 16
    while going.size:
        left = lengths[going] - done
        state[going] = encrypt(_blocks_at(words, starts[going] + done, left) ^ np.take(state, going, axis=0))
        done += 16
        going = going[left > 16]
    return state


def _after_lengths(encrypt: _Blocks, lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """E of the first blocks: there are few lengths, if texts are not very long."""
    longest = int(lengths.max(initial=0)) + 1
    few = longest <= min(_CHUNK, max(64, lengths.size))
    block = np.zeros((longest if few else lengths.size, 2), dtype="<u8")
    block[:, 0] = np.arange(longest) if few else lengths
    state = encrypt(block)
    return np.take(state, lengths, axis=0) if few else state.copy()


def _blocks_at(words: NDArray[np.uint64], at: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The next 16 bytes of texts of which ``left`` are left, or as many as there are, and zeros."""
    block = np.empty((at.size, 2), dtype="<u8")
    block[:, 0] = words[at]  # np.take would copy the view, every word of it
    block[:, 1] = words[np.minimum(at + 8, words.size - 1)]
    if left.min() < 16:
        block[:, 1] &= _KEPT[np.clip(left - 8, 0, 8)]
    if left.min() < 8:
        block[:, 0] &= _KEPT[np.minimum(left, 8)]
    return block


def require_aes() -> None:
    """Refuse, before anything is charged, where the coins could not be tossed."""
    _aes(SecretKey(bytes(32)))


def _aes(key: SecretKey) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        raise MissingExtra(
            "the coins of a release", "the `cryptography` package is not installed", "pip install 'discreet[gate]'"
        ) from None
    return Cipher(algorithms.AES(key.reveal()), modes.ECB())  # each block is an input of the PRF
