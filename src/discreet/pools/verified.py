"""A pool whose records are compared with their enrolled codes whenever they are read: one that changed is a null.

Guarantee: what is read of a record is what was enrolled, or zeros and an empty text, and then the record is `broken`.
The code is made of the very numbers that are handed on, so nothing can change between the comparison and the use.
`check` refuses, before anything is charged, a pool in which any record changed; it reads only the records that were not
read before it, so a pass that scores the pool pays for most of it. Memory: two bits and sixteen bytes a record.

Withdrawn records are not compared. Audience: owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import PoolChanged
from discreet.pools.manifest import MAC_BYTES, ROWS, ManifestKey, Progress, codes_of
from discreet.pools.pool import Pool
from discreet.pools.rows import Mask, RecordArray, Span, Texts, places_of, readable_rows, span_of


class VerifiedPool(Pool):
    """``pool``, verified as it is read.

    key      of the manifest
    stored   gives the id and the code of every enrolled record, in the order of enrolment
    besides  ids of records that are not compared, such as those that are about to be erased
    """

    def __init__(
        self,
        pool: Pool,
        key: ManifestKey,
        stored: Callable[[], Iterable[tuple[str, bytes]]],
        *,
        besides: Iterable[str] = (),
    ) -> None:
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

    def check(self, *, name: str, progress: Progress | None = None) -> None:
        """Refuse a pool in which a record is not what it was when it was enrolled (`PoolChanged`)."""
        self._comparison.finish(progress)
        if self._comparison.any_changed:
            raise PoolChanged(  # how many, and which, is the owner's
                f"using records of {name}",
                "some of them are not what they were when they were enrolled",
                "Restore them; discreet pool check looks at all of them. Nothing was charged",
            )


class Comparison:
    """Enrolled codes by place, which records were compared with theirs, and which differed."""

    def __init__(
        self,
        pool: Pool,
        key: ManifestKey,
        stored: Callable[[], Iterable[tuple[str, bytes]]],
        besides: frozenset[str],
    ) -> None:
        self._pool, self._key, self._stored, self._besides = pool, key, stored, besides
        self._codes: NDArray[np.uint8] | None = None
        self._seen = np.zeros(len(pool), dtype=bool)
        self._changed = np.zeros(len(pool), dtype=bool)

    @property
    def any_changed(self) -> bool:
        """Whether a record differed when it was read."""
        return bool(self._changed.any())

    def same(self, span: Span, numbers: Any, texts: Sequence[str] | None) -> Mask:
        """Which records of a span are as they were enrolled, by what was read of them."""
        codes, places = self._enrolled(), places_of(span)
        digests = codes_of(self._pool, self._key, places.tolist(), numbers, texts)
        now = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(len(places), MAC_BYTES)
        same: Mask = (now == codes[places]).all(axis=1)
        if self._besides:
            same |= np.array([self._pool.ids[position] in self._besides for position in places.tolist()], dtype=bool)
        self._seen[places] = True
        self._changed[places[~same]] = True
        return same

    def changed_in(self, span: Span) -> Mask:
        """Which records of a span differ. Those that nobody read yet are read."""
        places = places_of(span)
        self._read(places[~self._seen[places]])
        return self._changed[places]

    def finish(self, progress: Progress | None = None) -> None:
        """Compare the records that nobody read yet."""
        self._read(np.flatnonzero(~self._seen), progress)

    def _read(self, places: NDArray[np.int64], progress: Progress | None = None) -> None:
        for first in range(0, len(places), ROWS):
            some = places[first : first + ROWS]
            contiguous = int(some[-1]) - int(some[0]) + 1 == len(some)
            span: Span = slice(int(some[0]), int(some[-1]) + 1) if contiguous else some
            self.same(span, self.numbers(span), self.texts(span))
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

    def numbers(self, span: Span) -> Any:
        """Numbers of a span as they are now, if records have some."""
        return None if self._pool.x is None else np.asarray(self._pool.x[span])

    def texts(self, span: Span) -> Any:
        """Texts of a span as they are now, if records have some."""
        return None if self._pool.text is None else self._pool.text[span]


class VerifiedRows(RecordArray):
    """StoredRows; zeros where a record changed."""

    def __init__(self, rows: Any, comparison: Comparison) -> None:
        super().__init__(shape=tuple(rows.shape), dtype=rows.dtype)
        self._rows, self._comparison = rows, comparison

    def readable(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """The records of a span and which of them could be read and are as they were. Audience: owner."""
        rows, fine = readable_rows(self._rows, span)
        same = self._comparison.same(span, rows, self._comparison.texts(span))
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
        same = self._comparison.same(span, self._comparison.numbers(span), texts)
        return [text if ok else "" for text, ok in zip(texts, same.tolist(), strict=True)], np.asarray(fine) & same
