"""Features of a campaign's pool that are computed once: kept on this host's disk, read back for the same record alone.

A query or a training reads the rows that are kept, computes the others, and keeps them, a block at a time. So work that
was interrupted or killed goes on where it was. A process that only shows a campaign reads rows and keeps none.

Guarantee: what is read does not depend on whether it was kept. A row is bound to its map and to the keyed code that its
record was enrolled by (`discreet.storage.cached_rows`); a record that changed, one that is about to be erased, and one
of another pool are computed as without a cache. A null is a flag. An encoder's vectors are those of the first time:
computed again beside other texts they could differ in their last bits.

Left to itself, a cache is kept where it takes at most `MOST_BYTES` and half of the free disk: below, reading is cheaper
than computing twice; above, the disk is the owner's to give (``cache = true``).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.campaign.withdrawal import manifest_key
from discreet.config import CampaignConfig
from discreet.errors import BadInput
from discreet.pools import Pool, VerifiedPool
from discreet.pools.manifest import MAC_BYTES, codes_of
from discreet.pools.rows import Mask, Places
from discreet.storage import CampaignStore
from discreet.storage.cached_rows import CachedRows, remove_rows, slot_bytes
from discreet.storage.disk import disk_refusals

MOST_BYTES = 8 << 30
BLOCK = 1024
"""Records that are computed and kept at a time: what a process that is killed loses."""
_TRIAL, _LARGEST_TRIAL, _LONG_ENOUGH = 64, 1024, 0.2

Read = Callable[[Any], tuple[NDArray[Any], Mask]]


class Reader(Protocol):
    """What makes rows of features of records."""

    @property
    def reads(self) -> str:
        """Which kind of records."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """The shape of a row."""

    @property
    def identity(self) -> str | None:
        """Of everything that a row depends on beside its record; None: rows are not worth keeping."""

    def rows(self, records: Any, cached: PoolCache | None = None) -> Any:
        """Rows that are read when they are asked for: an array, or a table of arrays. ``cached``: those of a pool."""

    def made_up(self, count: int) -> Any:
        """Rows of made-up records."""


class FeatureCache:
    """Of one campaign. ``wanted``: as its file says; None: by size."""

    def __init__(self, store: CampaignStore, wanted: bool | None) -> None:
        self._store, self._wanted = store, wanted
        self._ids: list[str] = []

    def of_pool(self, reader: Reader, pool: Pool, *, working: bool) -> PoolCache | None:
        """The rows of ``pool``; None if nothing is kept of it. ``working``: whether this process has the campaign to
        itself, so that nothing is being erased meanwhile.
        """
        identity = None if self._wanted is False else reader.identity
        if identity is None:
            if working:
                self.remove()
            return None
        if not isinstance(pool, VerifiedPool) and not self._is_enrolled(pool):
            return None
        file = self.file_of(identity, reader.inputs)
        keeps = working and self._has_room(file, len(pool))
        if keeps:
            with disk_refusals(self._store.asked("keeping features")):
                file.remove_others()
        return PoolCache(self._store, file, reader, pool, keeps=keeps)

    def file_of(self, identity: str, inputs: tuple[int, ...]) -> CachedRows:
        """Where rows of a map are kept."""
        key = manifest_key(self._store).derive(f"features/{identity}")
        return CachedRows(self._store.directory, key, width=prod(inputs))

    def remove(self) -> None:
        """Erase everything that is kept."""
        with disk_refusals(self._store.asked("removing features")):
            remove_rows(self._store.directory)

    def keeps(self, file: CachedRows, count: int) -> bool:
        """Whether rows of so many records are kept, if the disk has room."""
        return self._wanted is True or (self._wanted is None and count * file.slot <= MOST_BYTES)

    def _has_room(self, file: CachedRows, count: int) -> bool:
        """Whether to keep rows of so many records; a refusal where the owner wants it and the disk is too small."""
        if not self.keeps(file, count):
            return False
        needed, free = max(count * file.slot - file.on_disk, 0), free_bytes(self._store.directory)
        if self._wanted:
            check_room(needed, free)
            return True
        return 2 * needed <= free

    def _is_enrolled(self, pool: Pool) -> bool:
        if pool.ids != self._ids:
            self._ids = self._store.ids()
        return pool.ids == self._ids


class PoolCache:
    """The kept rows of one pool."""

    def __init__(self, store: CampaignStore, file: CachedRows, reader: Reader, pool: Pool, *, keeps: bool) -> None:
        self._store, self._file, self._reader, self._pool, self._keeps = store, file, reader, pool, keeps
        self._key = manifest_key(store)

    def readable(self, places: Places, records: Any, present: Mask, read: Read) -> tuple[NDArray[Any], Mask]:
        """The features of records that were read at places, nulls as zeros, and which are none. Audience: owner.

        present   which of the records are no nulls
        read      computes features
        """
        codes = self._codes(places, records)
        codes[~present] = 0
        with disk_refusals(self._store.asked("reading features")):
            rows, fine, valid = self._file.read(places, codes)
        missing = np.flatnonzero(present & ~valid)
        for start in range(0, len(missing), BLOCK):
            some = missing[start : start + BLOCK]
            values, good = read(records if len(some) == len(places) else _at(records, some))
            values[~good] = 0
            rows[some], fine[some] = values.reshape(len(some), -1), good
            if self._keeps and (known := some[codes[some].any(axis=1)]).size:
                with disk_refusals(self._store.asked("keeping features")):
                    self._file.write(places[known], codes[known], rows[known], fine[known])
        return rows.reshape(len(places), *self._reader.inputs), fine

    def _codes(self, places: Places, records: Any) -> NDArray[np.uint8]:
        """By which the records were enrolled; zeros of one that is another now."""
        pool = self._pool
        if isinstance(pool, VerifiedPool):
            return pool.codes(places)
        numbers = None if pool.x is None else records if self._reader.reads != "texts" else np.asarray(pool.x[places])
        texts = None if pool.text is None else records if self._reader.reads == "texts" else pool.text[places]
        names = [pool.ids[position] for position in places.tolist()]
        enrolled = self._store.macs_of(names)
        codes = np.zeros((len(places), MAC_BYTES), dtype=np.uint8)
        for row, code in enumerate(codes_of(pool, self._key, places.tolist(), numbers, texts)):
            if enrolled.get(names[row]) == code:
                codes[row] = np.frombuffer(code, dtype=np.uint8)
        return codes


def _at(records: Any, rows: Places) -> Any:
    return records[rows] if hasattr(records, "shape") else [records[row] for row in rows.tolist()]


# -- what it takes, for the owner


def free_bytes(directory: Path) -> int:
    """Of the disk that a directory is on, or will be."""
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def check_disk(config: CampaignConfig, width: int, count: int) -> None:
    """Refuse to keep so many rows, before there is a campaign, where its disk is too small."""
    directory = config.storage_directory() or Path(config.storage_url().removeprefix("sqlite:///"))
    check_room(count * slot_bytes(width), free_bytes(directory))


def check_room(needed: int, free: int) -> None:
    """Refuse to keep more than the disk has room for."""
    if needed > free:
        raise BadInput(
            "keeping features on the disk",
            f"they take {in_words(needed)}, and {in_words(free)} are free where the campaign is stored",
            "Make room, or write cache = false in [features] to compute them each time",
        )


def in_words(size: int) -> str:
    """1.2 GB."""
    for unit, name in ((10**9, "GB"), (10**6, "MB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{max(size, 1000) / 1000:.3g} kB"


def seconds_of(reader: Reader, shape: Sequence[int], count: int) -> float:
    """About how long features of so many records take here, by those of made-up ones."""
    size = _TRIAL
    while True:
        records: Any = ["word " * 40] * size if reader.reads == "texts" else np.zeros((size, *shape), np.float32)
        begun = time.perf_counter()
        reader.rows(records)[:]
        taken = time.perf_counter() - begun
        if taken > _LONG_ENOUGH or size >= _LARGEST_TRIAL:
            return taken / size * count
        size *= 2


def announced(cache: FeatureCache, reader: Reader, pool: Pool) -> tuple[dict[str, Any], list[str]]:
    """What computing and keeping a pool's features takes: public facts, and a line for `init`."""
    if reader.identity is None:
        return {}, []
    file, count = cache.file_of(reader.identity, reader.inputs), len(pool)
    keeps, size = cache.keeps(file, count), count * file.slot
    seconds = seconds_of(reader, () if pool.x is None else pool.x.shape[1:], count)
    facts = {"kept": keeps, "bytes": size if keeps else 0, "seconds": round(seconds, 1)}
    once = f"computed once, and kept in {in_words(size)} on this disk" if keeps else "computed again by each query"
    words = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    return {"features": facts}, [f"features of {count} records: about {words} on this machine, {once}"]
