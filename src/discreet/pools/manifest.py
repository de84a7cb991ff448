"""A keyed manifest: sixteen bytes a record, by which its owner notices that it was changed, removed or added.

Guarantee: whoever lacks the key learns nothing of a record from its code, and cannot test a guess: BLAKE2b, keyed, is a
pseudorandom function. A plain hash would confirm a guess ("is it this scan?"). Assumption: the key is in a file of mode
0600, apart from the manifest. Two manifests under one key tell which records are the same in both; use a key a pool.

Audience: owner. What differs is a fact of the records; nobody else is told which, or how many.

A code is made of what a model could read of a record, not of the file: id, person, type, shape, numbers (scaled as
declared), text; each with its length before it, so that no two records run into each other. A pool that is stored as
another kind of file keeps its codes; one whose center is declared anew does not. A broken record is zeros here, too.

Verified pools
--------------
A pool whose records are compared with their enrolled codes whenever they are read: one that changed is a null.

Guarantee: what is read of a record is what was enrolled, or zeros and an empty text, and then the record is `broken`.
The code is made of the very numbers that are handed on, so nothing can change between the comparison and the use.
`check` refuses, before anything is charged, a pool in which any record changed; it reads only the records that were not
read before it, so a pass that scores the pool pays for most of it. Memory: two bits and sixteen bytes a record.
Withdrawn records are not compared.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, PoolChanged
from discreet.noise.keys import SecretKey, read_secret, write_secret
from discreet.pools.pool import Pool
from discreet.pools.rows import Mask, Places, RecordArray, Span, Texts, places_of, readable_rows, span_of

ROWS = 1024
MAC_BYTES = 16
_PURPOSE = "manifest"
Progress = Callable[[int, int], None]
"""Records done, and all."""
Stored = Callable[[], Iterable[tuple[str, bytes]]]
"""Gives the id and the code of every enrolled record, in the order of enrolment."""


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

    def derive(self, use: str) -> SecretKey:
        """Another key, for one use."""
        return SecretKey(self._bytes).derive(f"manifest/{use}")

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
    pool: Pool, key: ManifestKey, *, places: Places | None = None, rows: int = ROWS, progress: Progress | None = None
) -> Iterator[tuple[str, bytes]]:
    """The id and the code of every record, in the pool's order, or of those at ``places``, in theirs; records are read
    ``rows`` at a time.
    """
    size = len(pool) if places is None else len(places)
    for first in range(0, size, rows):
        last = min(first + rows, size)
        span: Span = slice(first, last) if places is None else places[first:last]
        positions = places_of(span).tolist()
        codes = codes_of(pool, key, positions, _numbers(pool, span), _texts(pool, span))
        yield from zip((pool.ids[position] for position in positions), codes, strict=True)
        if progress is not None:
            progress(last, size)


def _numbers(pool: Pool, span: Span) -> Any:
    """Of the records of a span as they are now, if they have some."""
    return None if pool.x is None else np.asarray(pool.x[span])


def _texts(pool: Pool, span: Span) -> Any:
    """Of the records of a span as they are now, if they have some."""
    return None if pool.text is None else pool.text[span]


def codes_of(
    pool: Pool, key: ManifestKey, places: Iterable[int], numbers: Any, texts: Sequence[str] | None
) -> Iterator[bytes]:
    """Codes of the records at ``places`` by what was read of them: numbers and texts, None where there are none."""
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


class VerifiedPool(Pool):
    """``pool``, verified as it is read.

    key      of the manifest
    stored   codes as they were enrolled
    besides  ids of records that are not compared, such as those that are about to be erased
    """

    def __init__(self, pool: Pool, key: ManifestKey, stored: Stored, *, besides: Iterable[str] = ()) -> None:
        comparison = Comparison(pool, key, stored, frozenset(besides) | pool.withdrawn)
        object.__setattr__(self, "_whole", pool)
        object.__setattr__(self, "_comparison", comparison)
        super().__init__(
            ids=pool.ids,
            x=None if pool.x is None else VerifiedRows(pool.x, comparison),
            text=None if pool.text is None else VerifiedTexts(pool.text, comparison),
            persons=pool.persons,
            declared=pool.declared,
        )

    _whole: Pool
    _comparison: Comparison

    @property
    def withdrawn(self) -> frozenset[str]:
        """Codes of the records that were withdrawn."""
        return self._whole.withdrawn

    def withdrew(self, name: str) -> bool:
        """Whether the record of this id was withdrawn."""
        return self._whole.withdrew(name)

    def broken(self, places: Any) -> Mask:
        """Those that could not be read, and those that changed. Audience: owner."""
        span = span_of(places, len(self))
        return self._whole.broken(span) | self._comparison.changed_in(span)

    def public(self) -> dict[str, Any]:
        """As of the pool."""
        return self._whole.public()

    def codes(self, places: Places) -> NDArray[np.uint8]:
        """Enrolled codes of records that were read; zeros of those that changed, or were not compared."""
        return self._comparison.codes(places)

    def check(self, *, name: str, progress: Progress | None = None) -> None:
        """Refuse a pool in which a record is not what it was when it was enrolled (`PoolChanged`)."""
        if self._comparison.changed_in(slice(0, len(self)), progress).any():
            raise PoolChanged(  # how many, and which, is the owner's
                f"using records of {name}",
                "some of them are not what they were when they were enrolled",
                "Restore them; discreet pool check looks at all of them. Nothing was charged",
            )


class Comparison:
    """Enrolled codes by place, which records were compared with theirs, and which differed."""

    def __init__(self, pool: Pool, key: ManifestKey, stored: Stored, besides: frozenset[str]) -> None:
        self._pool, self._key, self._stored, self._besides = pool, key, stored, besides
        self._codes: NDArray[np.uint8] | None = None
        self._seen = np.zeros(len(pool), dtype=bool)
        self._changed = np.zeros(len(pool), dtype=bool)

    def same(self, span: Span, *, numbers: Any = None, texts: Sequence[str] | None = None) -> Mask:
        """Which records of a span are as they were enrolled; ``numbers``, ``texts``: what was read of them before."""
        codes, places = self._enrolled(), places_of(span)
        numbers = _numbers(self._pool, span) if numbers is None else numbers
        texts = _texts(self._pool, span) if texts is None else texts
        digests = codes_of(self._pool, self._key, places.tolist(), numbers, texts)
        now = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(len(places), MAC_BYTES)
        same: Mask = (now == codes[places]).all(axis=1)
        if self._besides:
            same |= np.array([self._pool.ids[position] in self._besides for position in places.tolist()], dtype=bool)
        self._seen[places] = True
        self._changed[places[~same]] = True
        return same

    def codes(self, places: Places) -> NDArray[np.uint8]:
        """Of records that were compared and are as they were enrolled; zeros of others."""
        codes = self._enrolled()[places]
        strange = self._changed[places] | ~self._seen[places]
        if self._besides:
            strange |= np.array([self._pool.ids[place] in self._besides for place in places.tolist()], dtype=bool)
        codes[strange] = 0
        return codes

    def changed_in(self, span: Span, progress: Progress | None = None) -> Mask:
        """Which records of a span differ. Those that nobody read yet are read."""
        places = places_of(span)
        self._read(places[~self._seen[places]], progress)
        return self._changed[places]

    def _read(self, places: NDArray[np.int64], progress: Progress | None = None) -> None:
        for first in range(0, len(places), ROWS):
            some = places[first : first + ROWS]
            contiguous = int(some[-1]) - int(some[0]) + 1 == len(some)
            span: Span = slice(int(some[0]), int(some[-1]) + 1) if contiguous else some
            self.same(span)
            if progress is not None:
                progress(len(self._pool) * min(first + ROWS, len(places)) // len(places), len(self._pool))

    def _enrolled(self) -> NDArray[np.uint8]:
        """Codes by place; zeros of a record that is not enrolled, which no code is."""
        if self._codes is None:
            codes, ids, position = bytearray(len(self._pool) * MAC_BYTES), self._pool.ids, 0
            for name, code in self._stored():
                while position < len(ids) and ids[position] != name:
                    position += 1
                if position == len(ids):
                    break
                codes[position * MAC_BYTES : (position + 1) * MAC_BYTES] = code
                position += 1
            self._codes = np.frombuffer(bytes(codes), dtype=np.uint8).reshape(len(ids), MAC_BYTES)
        return self._codes


class VerifiedRows(RecordArray):
    """StoredRows; zeros where a record changed."""

    def __init__(self, rows: Any, comparison: Comparison) -> None:
        super().__init__(shape=tuple(rows.shape), dtype=rows.dtype)
        self._rows, self._comparison = rows, comparison

    def readable(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """The records of a span and which of them could be read and are as they were. Audience: owner."""
        rows, fine = readable_rows(self._rows, span)
        same = self._comparison.same(span, numbers=rows)
        if not same.all():
            rows = np.array(rows)
            rows[~same] = 0
        return rows, fine & same


class VerifiedTexts(Texts):
    """Texts; empty where a record changed."""

    def __init__(self, texts: Any, comparison: Comparison) -> None:
        super().__init__(len(texts))
        self._texts, self._comparison = texts, comparison

    def readable(self, span: Span) -> tuple[list[str], Mask]:
        """The texts of a span and which of them could be read and are as they were. Audience: owner."""
        texts, fine = self._texts.readable(span)
        same = self._comparison.same(span, texts=texts)
        return [text if ok else "" for text, ok in zip(texts, same.tolist(), strict=True)], np.asarray(fine) & same
