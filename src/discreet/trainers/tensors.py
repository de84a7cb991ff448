"""Arrays as torch takes them, and torch's generators, filled with all bits of a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.seeds import SEED_BYTES, derived_seed


def tensor_of(rows: NDArray[Any], device: torch.device) -> torch.Tensor:
    """Records as a model takes them: floats in single precision, anything else as it is."""
    with np.errstate(all="ignore"):  # a warning would tell how large a value is
        plain = rows.astype(np.float32) if rows.dtype.kind == "f" else rows.astype(rows.dtype.newbyteorder("="))
    return torch.from_numpy(np.ascontiguousarray(plain)).to(device)


def row_of(rows: Any, row: int) -> Any:
    """One row, still with its axis."""
    return each_part(lambda part: part[row : row + 1], rows)


def each_part(function: Callable[[Any], Any], rows: Any) -> Any:
    """``function`` of rows, or of every part of rows that are a table."""
    return {name: function(part) for name, part in rows.items()} if isinstance(rows, dict) else function(rows)


# torch's generators, filled with all bits of a seed.
#
# torch's CPU generator is a Mersenne Twister (mt19937). `manual_seed` keeps 32 bits of its argument: seeds that agree
# in these give the same draws, among 100,000 streams some coincide, and all of them can be tried. So its whole state,
# 624 words, is filled with SHAKE-128 of the seed. Its first 623 words of output are then an invertible function of
# hashed bits. Generators of other devices (Philox) take 64 bits of the seed.
#
# The layout of the state is torch's own and not documented: before the first use a state of known words is filled in,
# and torch must draw what numpy's mt19937 draws from these words. If it does not, nothing is seeded.

_WORDS, _HEADER = 624, 24
"""Words of the state, and the bytes before them: the seed, two counters, the next word's place."""
_TRIED = 2 * _WORDS + 3
"""Draws that are compared: more than one state gives."""


def seeded_generator(seed: int) -> torch.Generator:
    """A CPU generator of its own that draws from all bits of ``seed``."""
    generator = torch.Generator()
    _fill(generator, b"generator", seed)
    return generator


def seed_global(seed: int, device: torch.device) -> None:
    """Seed torch's global generators for the CPU and for ``device``; they draw otherwise than `seeded_generator` of the
    same seed. Call it inside `torch.random.fork_rng`.

    `torch.manual_seed` would format the stack for every kind of device that there could be, which takes longer than a
    small micro-batch.
    """
    _fill(torch.default_generator, b"global", seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(derived_seed(seed, "device generator", bits=63))


def _fill(generator: torch.Generator, use: bytes, seed: int) -> None:
    check_generators()
    content = b"discreet torch " + use + b"\0" + seed.to_bytes(SEED_BYTES, "little", signed=True)
    _put(generator, hashlib.shake_128(content).digest(4 * _WORDS))


def _put(generator: torch.Generator, words: bytes) -> None:
    state = _fresh_state().copy()
    state[_HEADER : _HEADER + 8 * _WORDS].view("<u8")[:] = np.frombuffer(words, dtype="<u4")
    generator.set_state(torch.from_numpy(state))


@cache
def _fresh_state() -> NDArray[Any]:
    """The state of a generator that has drawn nothing."""
    return torch.Generator().manual_seed(0).get_state().numpy()


@cache
def check_generators() -> None:
    """Refuse a torch whose generator is not a Mersenne Twister with its words where they are put. Call it before a
    charge.
    """
    words = hashlib.shake_128(b"a state of known words").digest(4 * _WORDS)
    key = np.frombuffer(words, dtype="<u4").astype(np.uint32)
    expected = np.random.MT19937()
    expected.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": _WORDS}}
    generator = torch.Generator()
    try:
        _put(generator, words)
        drawn = torch.empty(_TRIED, dtype=torch.int32).random_(generator=generator).numpy()
        same = np.array_equal(drawn, expected.random_raw(_TRIED) & np.uint64(2**31 - 1))
    except (RuntimeError, TypeError, ValueError):
        same = False
    if not same:
        raise BadInput(
            f"drawing with torch {torch.__version__}",
            "its generator cannot be filled with all bits of a secret seed",
            "Install a version of torch that this version of discreet was tested with",
        )
