"""Records as an array that is read when it is asked: slices, or rows by their positions; a broken record is zeros.

Guarantee: row i is computed from record i and declared constants alone. A record that cannot be read, has another size
or holds a number that is not finite is a null: zeros, and nothing outside tells. `readable` says which they are, for
the owner. Of pictures and arrays, where none of several from the first on can be read it is not a record that is broken
but the reader, and it says so. That is found when a pool is enrolled; rows that were drawn (a cohort, a batch) may all
be nulls. Cells of tables may all be missing: no error tells of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput

SEVERAL = 8
_FAR = 1e30
"""Well inside of what float32 holds."""
Places = NDArray[np.int64]
Span = slice | Places
"""StoredRows by a slice without steps, or by positions that are there."""
Mask = NDArray[np.bool_]
Result = TypeVar("Result")


def span_of(key: Any, count: int) -> Span:
    """What numpy would take for rows: a slice, positions (negative ones from the end), or a mask."""
    if isinstance(key, slice):
        start, stop, step = key.indices(count)
        return slice(start, max(start, stop)) if step == 1 else np.arange(start, stop, step, dtype=np.int64)
    asked = np.asarray(key)
    if asked.dtype == np.bool_ and asked.shape == (count,):
        return np.flatnonzero(asked).astype(np.int64)
    if asked.ndim != 1 or (asked.dtype.kind not in "iu" and asked.size):
        raise BadInput("rows of a pool", "they are asked for by something else than positions", "Give whole numbers")
    places = asked.astype(np.int64)
    places = np.where(places < 0, places + count, places)
    if places.size and (places.min() < 0 or places.max() >= count):
        raise IndexError(f"a position outside a pool of {count} records")
    return places


def places_of(span: Span) -> Places:
    """The positions of a span."""
    return np.arange(span.start, span.stop, dtype=np.int64) if isinstance(span, slice) else span


def length_of(span: Span) -> int:
    """How many rows a span has."""
    return span.stop - span.start if isinstance(span, slice) else len(span)


def shared_out(places: Places, starts: Sequence[int] | Places) -> Iterator[tuple[int, Places, Places]]:
    """For every part that is asked: its number, which of the places are its own, and where they are in it.

    ``starts``: where each part begins, and where the last one ends.
    """
    owner = np.searchsorted(np.asarray(starts[1:]), places, side="right")
    for number in np.unique(owner).tolist():
        chosen = np.flatnonzero(owner == number)
        yield number, chosen, places[chosen] - starts[number]


class RecordArray(ABC):
    """What has a row a record: ``shape``, ``dtype``, a length, slices and rows by positions. Never read whole unless it
    is asked to be (``numpy.asarray``).
    """

    def __init__(self, *, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)

    @property
    def ndim(self) -> int:
        """Axes, the records' own among them."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """One record, or the records of a slice, of positions or of a mask; always a copy."""
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            return np.asarray(self.take(span_of([key], len(self)))[0])
        return self.take(span_of(key, len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All of it, in memory."""
        records = self.take(slice(0, len(self)))
        return records if dtype is None else records.astype(dtype)

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<records: shape {self.shape}, {self.dtype}>"

    @abstractmethod
    def readable(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """The records of a span, broken ones as zeros, and which of them could be read. Audience: owner."""

    def take(self, span: Span) -> NDArray[Any]:
        """The records of a span, broken ones as zeros."""
        return self.readable(span)[0]


def or_none(read: Callable[..., Result], *arguments: Any) -> Result | None:
    """What ``read`` makes of these; None if it fails: what its error says may name a record."""
    try:
        return read(*arguments)
    except Exception:  # noqa: BLE001
        return None


def readable_rows(rows: Any, span: Span) -> tuple[NDArray[Any], Mask]:
    """The records of a span of any rows, and which of them could be read: all, where the rows do not say."""
    if hasattr(rows, "readable"):
        records, fine = rows.readable(span)
        return np.asarray(records), np.asarray(fine)
    return np.asarray(rows[span]), np.ones(length_of(span), dtype=bool)


class PlacedRows(RecordArray):
    """Rows in other places: row i is row ``sources[i]`` of ``rows``; zeros where that is -1, and nothing is read."""

    def __init__(self, rows: Any, sources: Places) -> None:
        super().__init__(shape=(len(sources), *(int(size) for size in rows.shape[1:])), dtype=rows.dtype)
        self._rows, self._sources = rows, sources

    def readable(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """The records of a span and which of them could be read: those without a source are not. Audience: owner."""
        sources = self._sources[span]
        if len(sources) and (sources >= 0).all():
            if hasattr(self._rows, "readable") and (np.diff(sources) == 1).all():  # a slice is read faster
                return readable_rows(self._rows, slice(int(sources[0]), int(sources[-1]) + 1))
            return readable_rows(self._rows, sources)
        records = np.zeros((len(sources), *self.shape[1:]), dtype=self.dtype)
        present = sources >= 0
        fine = present.copy()
        if present.any():
            records[present], fine[present] = readable_rows(self._rows, sources[present])
        return records, fine


class Scaling:
    """``(value - center) / scale``, by declared numbers: one for all, or one a column (channel, for pictures).

    Results are float32. Whole numbers of a byte that are not scaled stay bytes.
    """

    def __init__(self, center: Any, scale: Any, shape: tuple[int, ...]) -> None:
        self.plain = bool(np.all(np.asarray(center) == 0) and np.all(np.asarray(scale) == 1))
        self._center, self._scale = (
            self._along(value, name, shape) for name, value in (("center", center), ("scale", scale))
        )

    @staticmethod
    def _along(value: Any, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        numbers = np.asarray(value, dtype=np.float64)
        if numbers.ndim == 0:
            return numbers
        if len(shape) not in (1, 3) or len(numbers) != shape[0]:
            raise BadInput(
                f"{name} of {len(numbers)} numbers",
                f"records have shape {shape}",
                "Declare one number, or one for each column (for each channel of pictures)",
            )
        return numbers.reshape(-1, *(1 for _ in shape[1:]))

    def dtype_of(self, stored: np.dtype[Any]) -> np.dtype[Any]:
        """What records of a stored type become."""
        return np.dtype(np.uint8 if self.plain and stored in (np.uint8, np.bool_) else np.float32)

    def always_finite(self, stored: np.dtype[Any]) -> bool:
        """Whether a stored type has no value that could become anything but a finite number: bytes, as a rule."""
        if stored.kind not in "biu" or stored.itemsize > 1:
            return False
        return bool((256 + np.abs(self._center).max()) / np.abs(self._scale).min() < _FAR)

    def applied(self, values: NDArray[Any]) -> NDArray[Any]:
        """A new array, scaled. Wide numbers are scaled before they are rounded: 1.7e9 - 1.6e9 keeps its digits."""
        target = self.dtype_of(values.dtype)
        if self.plain:
            with np.errstate(all="ignore"):
                return np.array(values, dtype=target, order="C")
        wide = values.dtype.itemsize > 4 or (values.dtype.kind in "iu" and values.dtype.itemsize > 2)
        kind = np.float64 if wide else np.float32
        with np.errstate(all="ignore"):
            scaled: NDArray[Any] = np.array(values, dtype=kind, order="C")
            if self._center.any():
                np.subtract(scaled, self._center.astype(kind), out=scaled)
            np.divide(scaled, self._scale.astype(kind), out=scaled)
            return scaled.astype(target, copy=False)


class StoredRows(RecordArray):
    """Records of one reader, scaled and with broken ones blanked. A reader gives `stored`."""

    def __init__(self, *, name: str, count: int, shape: tuple[int, ...], stored: Any, scaling: Scaling) -> None:
        super().__init__(shape=(count, *shape), dtype=scaling.dtype_of(np.dtype(stored)))
        self._name, self._scaling = name, scaling

    @abstractmethod
    def stored(self, span: Span) -> tuple[NDArray[Any], Mask | None]:
        """Records as they are stored, and which of them could be read (None: all)."""

    def readable(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """The records of a span and which of them could be read. Audience: owner."""
        stored, fine = self.stored(span)
        values = self._scaling.applied(stored)
        fine = np.ones(len(values), dtype=bool) if fine is None else fine
        if values.dtype.kind == "f" and not self._scaling.always_finite(stored.dtype):
            fine = fine & finite(values)
        if not fine.all():
            refuse_if_none(fine, self._name, span)
            values[~fine] = 0
        return values, fine


def finite(values: NDArray[Any]) -> Mask:
    """Which rows hold finite numbers alone. A row's sum tells, and is quick; if it overflows, each number is asked."""
    flat = values.reshape(len(values), prod(values.shape[1:]))
    with np.errstate(all="ignore"):
        fine: Mask = np.isfinite(np.einsum("ij->i", flat))
    suspects = np.flatnonzero(~fine)
    fine[suspects] = np.isfinite(flat[suspects]).all(axis=1)
    return fine


def refuse_if_none(fine: Mask, name: str, span: Span) -> None:
    """Where none of several records from the first on can be read, it is not they. ``name``: empty of tables, whose
    cells may all be missing.
    """
    if name and isinstance(span, slice) and span.start == 0 and len(fine) >= SEVERAL and not fine.any():
        raise BadInput(
            f"reading records of {name}",
            f"none of {len(fine)} could be read as was declared",
            "Check shape and columns against the file, and the right to read it",
        )


class Texts(ABC, Sequence[str]):
    """A text a record, read when it is asked."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, key: Any) -> Any:
        """One text, or a list of those of a slice, of positions or of a mask."""
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            return self.readable(span_of([key], self._count))[0][0]
        return self.readable(span_of(key, self._count))[0]

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<{self._count} texts>"

    @abstractmethod
    def readable(self, span: Span) -> tuple[list[str], Mask]:
        """The texts of a span and which of them could be read. Audience: owner."""


class StoredTexts(Texts):
    """Texts of one reader; one that is missing or not UTF-8 is empty, and a null. A reader gives `stored`."""

    def __init__(self, *, name: str, count: int) -> None:
        super().__init__(count)
        self._name = name

    @abstractmethod
    def stored(self, span: Span) -> list[str | None]:
        """Texts as they are stored, None where there is none."""

    def readable(self, span: Span) -> tuple[list[str], Mask]:
        """The texts of a span and which of them could be read. Audience: owner."""
        texts = self.stored(span)
        fine = np.array([text is not None for text in texts], dtype=bool)
        refuse_if_none(fine, self._name, span)
        return [text or "" for text in texts], fine


class ListedTexts(StoredTexts):
    """Texts that are in memory."""

    def __init__(self, texts: Sequence[str | None], *, name: str) -> None:
        super().__init__(name=name, count=len(texts))
        self._texts = texts

    def stored(self, span: Span) -> list[str | None]:
        """Texts of the list."""
        return [self._texts[position] for position in places_of(span).tolist()]
