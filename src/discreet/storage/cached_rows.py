"""Rows of features on the disk, a slot a record, so that each is computed once. Audience: owner.

A file of a campaign and one feature map, mode 0600, beside the campaign's keys on this host: never in a database, and
neither moved nor copied with a campaign. Losing it costs time alone.

Guarantee: a row is read only for the record that it was computed from, by the map that it was computed by. A slot holds
the keyed code of its record's content (`discreet.pools.manifest`), a flag (1: features, 2: the map says that the record
is a null), the row, and a keyed checksum of these. The checksum's keys and the file's name are derived from the
campaign's manifest key and the hash of the map. So another map, another campaign, a record that changed, a slot that
was never written, or written by half, a file that was cut short or damaged: all of these read as "not there", and the
row is computed again. Of wrong slots at most one in 2^32 is taken for a right one, whatever is wrong with it:

    checksums = k0 + sum of ki wi,   l0 + sum of li (wi >> 32)   mod 2^64, over words wi of 64 bits; odd secret ki, li

A word that differs in its lower half changes wi, any other one wi >> 32, by a number that ends in less than 32 zeros.
A random odd factor brings that to a given value mod 2^64 with probability 2^-32 at most.
This answers accidents, not people who may write in this directory: they can read the keys, too, and forge anything.

Slots stand by themselves. So a crash needs no repair, the work goes on where it was, and any number of processes may
read and write at once. Files are read and written by position: a mapping of a file that another process cuts short, or
of a full disk, would end the process.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.noise import SecretKey
from discreet.noise.keys import destroy
from discreet.privacy.files import sync_directory
from discreet.storage.disk import make_private

DIRECTORY = "features"
"""Of a campaign's directory."""
CODE_WORDS = 2
_FEATURES, _NULL = 1, 2
_SUMS = 2
_HEAD = _SUMS + 1 + CODE_WORDS
_CHUNK = 1 << 20
"""Bytes that are read and checked at a time: they stay in the processor's cache."""
_HALF = np.uint64(32)

Places = NDArray[np.int64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.uint8]
"""(n, 16): a record each; zeros: of no record."""


def slot_bytes(width: int) -> int:
    """Bytes that a record of so many features takes."""
    return 8 * (_HEAD + (width + 1) // 2)


class CachedRows:
    """The slots of one map in ``directory``, a campaign's. ``width``: numbers in a row."""

    def __init__(self, directory: Path, key: SecretKey, *, width: int) -> None:
        self.width, self.slot = width, slot_bytes(width)
        self._words = self.slot // 8
        self.path = directory / DIRECTORY / f"{key.fingerprint}-{self.slot}.rows"
        count = 1 + self._words - _SUMS
        stream = hashlib.shake_256(key.derive("checksums of slots").reveal()).digest(8 * _SUMS * count)
        self._keys = np.frombuffer(stream, dtype="<u8").astype(np.uint64).reshape(_SUMS, count) | np.uint64(1)

    @property
    def on_disk(self) -> int:
        """Bytes that the file takes now."""
        return self.path.stat().st_blocks * 512 if self.path.exists() else 0

    def read(self, places: Places, codes: Codes) -> tuple[NDArray[np.float32], Mask, Mask]:
        """Rows at places, zeros where there is none; which are features; and which are there at all, for these codes.
        All may be written to.
        """
        rows = np.empty((len(places), self.width), dtype=np.float32)
        fine, valid = np.zeros(len(places), dtype=np.bool_), np.zeros(len(places), dtype=np.bool_)
        wanted = np.ascontiguousarray(codes).view(np.uint64)
        if wanted.any() and self.path.exists():
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                buffer = np.empty((self._step, self._words), dtype=np.uint64)
                for some in self._chunks(len(places)):
                    slots = buffer[: len(places[some])]
                    _fill(file, slots, places[some])
                    right = (self._sums(slots) == slots[:, :_SUMS]).all(axis=1)
                    right &= (slots[:, _SUMS + 1 : _HEAD] == wanted[some]).all(axis=1) & wanted[some].any(axis=1)
                    valid[some], fine[some] = right, right & (slots[:, _SUMS] == _FEATURES)
                    rows[some] = slots[:, _HEAD:].view(np.float32)[:, : self.width]
            finally:
                os.close(file)
        if not fine.all():
            rows[~fine] = 0
        return rows, fine, valid

    def write(self, places: Places, codes: Codes, rows: Any, fine: Mask) -> None:
        """Keep rows, and whether each is features. Not synced: a slot that a crash loses is computed again."""
        make_private(self.path.parent)
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for some in self._chunks(len(places)):
                slots = np.zeros((len(places[some]), self._words), dtype=np.uint64)
                slots[:, _SUMS] = np.where(fine[some], _FEATURES, _NULL)
                slots[:, _SUMS + 1 : _HEAD] = np.ascontiguousarray(codes[some]).view(np.uint64)
                slots[:, _HEAD:].view(np.float32)[:, : self.width] = rows[some].reshape(len(slots), -1)
                slots[:, :_SUMS] = self._sums(slots)
                for first, last in _runs(places[some]):
                    _write_all(file, slots[first:last], int(places[some][first]) * self.slot)
        finally:
            os.close(file)

    def remove_others(self) -> None:
        """Erase files of other maps, which nobody reads any more."""
        for path in self.path.parent.glob("*"):
            if path != self.path:
                destroy(path)

    @property
    def _step(self) -> int:
        return max(1, _CHUNK // self.slot)

    def _chunks(self, count: int) -> Iterator[slice]:
        for first in range(0, count, self._step):
            yield slice(first, min(first + self._step, count))

    def _sums(self, slots: NDArray[np.uint64]) -> NDArray[np.uint64]:
        words = slots[:, _SUMS:]
        keys, upper_keys = self._keys
        sums = np.empty((len(slots), _SUMS), dtype=np.uint64)
        np.einsum("ij,j->i", words, keys[1:], out=sums[:, 0])
        np.einsum("ij,j->i", words >> _HALF, upper_keys[1:], out=sums[:, 1])
        sums += self._keys[:, 0]
        return sums


def _runs(places: Places) -> Iterator[tuple[int, int]]:
    """Where places follow one another: first and last of them."""
    ends = np.flatnonzero(np.diff(places) != 1) + 1
    starts = [0, *ends.tolist()]
    for first, last in zip(starts, [*starts[1:], len(places)], strict=True):
        if first < last:
            yield first, last


def _fill(file: int, slots: NDArray[np.uint64], places: Places) -> None:
    """Slots at places; zeros beyond the end of the file."""
    width = slots.shape[1] * 8
    for first, last in _runs(places):
        content = slots[first:last].data.cast("B")
        count = os.preadv(file, [content], int(places[first]) * width)
        slots[first:last].reshape(-1).view(np.uint8)[count:] = 0


def _write_all(file: int, content: NDArray[Any], offset: int) -> None:
    rest = np.ascontiguousarray(content).data.cast("B")
    while rest:
        written = os.pwrite(file, rest, offset)
        rest, offset = rest[written:], offset + written


def erase_rows(directory: Path, places: Sequence[int]) -> None:
    """Overwrite the slots at places in every file of a campaign's ``directory``; synced when it returns."""
    for path in (directory / DIRECTORY).glob("*") if places else ():
        size = path.stem.rpartition("-")[2]
        if path.suffix != ".rows" or not size.isdecimal():
            destroy(path)  # not ours: nobody knows where a record is in it
            continue
        slot, end = int(size), path.stat().st_size
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            for offset in (position * slot for position in places):
                if offset < end:
                    _write_all(file, np.zeros(min(slot, end - offset), dtype=np.uint8), offset)
            os.fsync(file)
        finally:
            os.close(file)


def remove_rows(directory: Path) -> None:
    """Overwrite and remove all files of a campaign's ``directory``; durable when it returns."""
    folder = directory / DIRECTORY
    if not folder.is_dir():
        return
    for path in folder.glob("*"):
        destroy(path)
    shutil.rmtree(folder, ignore_errors=True)
    sync_directory(directory)
