"""A keyed manifest: sixteen bytes a record, by which its owner notices that it was changed, removed or added.

Guarantee: whoever lacks the key learns nothing of a record from its code, and cannot test a guess: BLAKE2b, keyed, is a
pseudorandom function. A plain hash would confirm a guess ("is it this scan?"). Assumption: the key is in a file of mode
0600, apart from the manifest. Two manifests under one key tell which records are the same in both; use a key a pool.

Audience: owner. What differs is a fact of the records; nobody else is told which, or how many.

A code is made of what a model could read of a record, not of the file: id, person, type, shape, numbers (scaled as
declared), text; each with its length before it, so that no two records run into each other. A pool that is stored as
another kind of file keeps its codes; one whose center is declared anew does not. A broken record is zeros here, too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.noise.keys import read_secret, write_secret
from discreet.pools.pool import Pool
from discreet.pools.rows import Places, Span, places_of

ROWS = 1024
MAC_BYTES = 16
_PURPOSE = "manifest"
Progress = Callable[[int, int], None]
"""Records done, and all."""


class ManifestKey:
    """32 secret bytes. They never appear in a repr, an error or a log."""

    __slots__ = ("_bytes",)

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes) or len(secret) != 32:
            raise BadInput("a manifest key", "it is not 32 bytes", "Use ManifestKey.fresh()")
        self._bytes = secret

    @classmethod
    def fresh(cls) -> ManifestKey:
        """A new key of the operating system's entropy."""
        return cls(os.urandom(32))

    @classmethod
    def read(cls, path: Path | str) -> ManifestKey:
        """A key that `write` stored."""
        return cls(read_secret(Path(path), _PURPOSE)["key"])

    def write(self, path: Path | str) -> None:
        """Store the key, readable by its owner alone; an existing file is never overwritten."""
        write_secret(Path(path), _PURPOSE, key=self._bytes)

    @property
    def fingerprint(self) -> str:
        """Names the key without giving it away; kept beside a manifest, it tells a wrong key from a changed pool."""
        return hashlib.blake2b(b"", key=self._bytes, digest_size=8, person=b"fingerprint").hexdigest()

    def withdrawn_id(self, name: str) -> str:
        """What takes the place of a withdrawn record's id: knows it again, and gives it to nobody without the key."""
        return f"withdrawn-{self._code(name, b'withdrawn id').hex()}"

    def person_code(self, name: str) -> bytes:
        """The same for the person of a withdrawn record."""
        return self._code(name, b"withdrawn person")

    def _code(self, name: str, use: bytes) -> bytes:
        text = name.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, key=self._bytes, digest_size=MAC_BYTES, person=use).digest()

    def hasher(self) -> Any:
        """A keyed hash to be copied for each record."""
        return hashlib.blake2b(key=self._bytes, digest_size=MAC_BYTES, person=_PURPOSE.encode())

    def __repr__(self) -> str:
        """Never the bytes."""
        return "ManifestKey(...)"

    def __reduce_ex__(self, protocol: object) -> str:
        """Keys are written with `write`, to a file of their owner, or not at all."""
        raise TypeError("a manifest key is not pickled; use write()")


def macs(
    pool: Pool, key: ManifestKey, *, rows: int = ROWS, progress: Progress | None = None
) -> Iterator[tuple[str, bytes]]:
    """The id and the code of every record, in the pool's order; records are read ``rows`` at a time."""
    size = len(pool)
    for first in range(0, size, rows):
        last = min(first + rows, size)
        yield from _codes(pool, key, slice(first, last))
        if progress is not None:
            progress(last, size)


def macs_at(pool: Pool, key: ManifestKey, places: Places, *, rows: int = ROWS) -> Iterator[tuple[str, bytes]]:
    """The same of the records at ``places``, in that order."""
    for first in range(0, len(places), rows):
        yield from _codes(pool, key, places[first : first + rows])


def _codes(pool: Pool, key: ManifestKey, span: Span) -> Iterator[tuple[str, bytes]]:
    places = places_of(span).tolist()
    numbers = None if pool.x is None else pool.x[span]
    texts = None if pool.text is None else pool.text[span]
    return zip((pool.ids[at] for at in places), codes_of(pool, key, places, numbers, texts), strict=True)


def codes_of(
    pool: Pool, key: ManifestKey, places: Iterable[int], numbers: Any, texts: Sequence[str] | None
) -> Iterator[bytes]:
    """Codes of the records at ``places`` by what was read of them: their numbers and texts, None where there are
    none.
    """
    start = key.hasher()
    start.update(_framed(_kind(pool)))
    plain = None if numbers is None else _as_bytes(numbers)
    for row, position in enumerate(places):
        code = start.copy()
        code.update(_framed(pool.ids[position].encode()))
        code.update(_optional(None if pool.persons is None else pool.persons[position]))
        code.update(_optional(None if texts is None else texts[row]))
        if plain is not None:
            code.update(plain[row])
        yield code.digest()


@dataclass(frozen=True, kw_only=True)
class Differences:
    """Ids of records that are not what they were. Audience: owner. The repr has the counts alone."""

    changed: tuple[str, ...] = field(repr=False)
    missing: tuple[str, ...] = field(repr=False)
    added: tuple[str, ...] = field(repr=False)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.changed or self.missing or self.added)

    def __repr__(self) -> str:
        """Counts, no ids."""
        return f"<Differences: {len(self.changed)} changed, {len(self.missing)} missing, {len(self.added)} added>"


def compare(
    stored: Mapping[str, bytes] | Iterable[tuple[str, bytes]],
    pool: Pool,
    key: ManifestKey,
    *,
    progress: Progress | None = None,
) -> Differences:
    """What became of the records of a stored manifest. Withdrawn ones are not looked at."""
    known = dict(stored)
    changed, added, seen = [], [], set()
    for name, code in macs(pool, key, progress=progress):
        if name in pool.withdrawn:
            continue
        if name not in known:
            added.append(name)
            continue
        seen.add(name)
        if known[name] != code:
            changed.append(name)
    missing = tuple(name for name in known if name not in seen)
    return Differences(changed=tuple(changed), missing=missing, added=tuple(added))


def _kind(pool: Pool) -> bytes:
    """What all records share: whether there are numbers, and of which type and shape."""
    if pool.x is None:
        return b""
    sizes = ",".join(str(int(size)) for size in pool.x.shape[1:])
    return f"{np.dtype(pool.x.dtype).newbyteorder('<').str}({sizes})".encode()


def _as_bytes(numbers: Any) -> Any:
    """The bytes of each record, little-endian."""
    values = np.asarray(numbers)
    ordered = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return ordered.reshape(len(values), -1).view(np.uint8)


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "little") + part


def _optional(part: str | None) -> bytes:
    return b"\0" if part is None else b"\1" + _framed(part.encode("utf-8", "surrogatepass"))
