"""From the texts of a batch to codes of values and of units; a dictionary is normalised and coded once.

Private, all of it: codes are keyed, but whoever has the key can try texts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.gates.normalising import Normaliser, offsets_of, raw_bytes
from discreet.noise.unit_words import Codes, UnitWords

Places = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Coder:
    """Codes of one release. One thread's own: it remembers the dictionary it saw last."""

    def __init__(self, words: UnitWords, normaliser: Normaliser) -> None:
        self._words, self._normaliser = words, normaliser
        self._last: tuple[Any, Any, Codes, Mask] | None = None

    def counted(self, texts: Any, places: Places) -> tuple[Codes, Places]:
        """The values at some places of a batch, and how often each; a value may come more than once."""
        if is_coded(texts):
            codes, usable, _ = self._entries(texts.dictionary)
            fell = np.bincount(np.take(indices_of(texts), places), minlength=len(codes) + 1)[: len(codes)]
            found = np.flatnonzero(usable & (fell > 0))
            return np.take(codes, found, axis=0), fell[found]
        codes, usable, _ = self._plain(texts.take(places))
        codes = codes if usable.all() else np.compress(usable, codes, axis=0)
        return codes, np.ones(len(codes), dtype=np.int64)

    def each(self, texts: Any) -> tuple[Codes, Mask]:
        """A code for each text of a batch; and where there is a value at all."""
        if is_coded(texts):
            codes, usable, _ = self._entries(texts.dictionary)
            at = indices_of(texts)
            return np.take(_one_more(codes), at, axis=0), np.take(np.append(usable, False), at)
        codes, usable, _ = self._plain(texts)
        return codes, usable

    def forms(self, texts: Any, places: Places | None) -> tuple[Codes, Any]:
        """Codes and normalised texts: of the dictionary's entries, or of the texts at some places, or of all."""
        if is_coded(texts):
            codes, usable, forms = self._entries(texts.dictionary)
        else:
            codes, usable, forms = self._plain(texts if places is None else texts.take(places))
        if usable.all():
            return codes, forms
        found = np.flatnonzero(usable)
        return np.take(codes, found, axis=0), forms.take(found)

    def units(self, units: Any) -> tuple[Codes, Mask]:
        """A code for each unit of a batch; and where one is named."""
        if is_coded(units):
            named = lengths_of(units.dictionary) > 0
            codes, at = self._unit_codes(units.dictionary), indices_of(units)
            return np.take(_one_more(codes), at, axis=0), np.take(np.append(named, False), at)
        return self._unit_codes(units), lengths_of(units) > 0

    def _entries(self, entries: Any) -> tuple[Codes, Mask, Any]:
        if self._last is None or not _same_buffers(self._last[0], entries):
            codes, usable, forms = self._plain(entries)
            self._last = (entries, forms, codes, usable)
        _, forms, codes, usable = self._last
        return codes, usable, forms

    def _plain(self, texts: Any) -> tuple[Codes, Mask, Any]:
        there = None if not texts.null_count else np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
        forms = self._normaliser.texts(texts if there is None else texts.drop_null())
        if there is not None:
            places = np.full(len(texts), -1)
            places[there] = np.arange(there.size)
            import pyarrow

            forms = forms.take(pyarrow.array(places, mask=places < 0))
        codes = self._words.value_codes(np.frombuffer(raw_bytes(forms), dtype=np.uint8), offsets_of(forms))
        usable = np.ones(len(forms), dtype=bool)
        return codes, usable if not forms.null_count else forms.is_valid().to_numpy(zero_copy_only=False), forms

    def _unit_codes(self, units: Any) -> Codes:
        return self._words.unit_codes(np.frombuffer(raw_bytes(units), dtype=np.uint8), offsets_of(units))


def is_coded(column: Any) -> bool:
    """Whether a column is a dictionary and numbers of its entries."""
    import pyarrow

    return bool(pyarrow.types.is_dictionary(column.type))


def indices_of(column: Any) -> NDArray[np.integer[Any]]:
    """The numbers of a coded column; one past the last entry where it is missing."""
    indices = column.indices
    if indices.null_count:
        import pyarrow

        indices = indices.cast(pyarrow.int64()).fill_null(len(column.dictionary))
    return np.asarray(indices.to_numpy(zero_copy_only=False))


def lengths_of(texts: Any) -> NDArray[np.int64]:
    """In bytes; 0 where one is missing."""
    lengths: NDArray[np.int64] = np.diff(offsets_of(texts))
    if texts.null_count:
        lengths[~texts.is_valid().to_numpy(zero_copy_only=False)] = 0
    return lengths


def missing(texts: Any) -> int:
    """How many are missing or empty, as they stand."""
    if not is_coded(texts):
        return int((lengths_of(texts) == 0).sum())
    empty = lengths_of(texts.dictionary) == 0
    if not empty.any():
        return int(texts.indices.null_count)
    return int(np.append(empty, True)[indices_of(texts)].sum())


def _one_more(codes: Codes) -> Codes:
    return np.concatenate([codes, np.zeros((1, 2), dtype=np.uint64)])


def _same_buffers(one: Any, other: Any) -> bool:
    """Whether two arrays are the same memory, which is kept for as long as the first is."""
    if one is other:
        return True
    if len(one) != len(other) or one.type != other.type or one.offset != other.offset:
        return False
    return _addresses(one) == _addresses(other)


def _addresses(array: Any) -> list[int | None]:
    return [None if buffer is None else buffer.address for buffer in array.buffers()]
