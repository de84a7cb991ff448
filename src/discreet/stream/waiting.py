"""What is between a question and an update: asked records whose label has not come, and the sum of what came.

Both are private, and nobody's but the owner's. A record leaves the first when its label comes and enters the second
once: so it teaches in one update, whenever that is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.stream.losses import FINE

Floats = NDArray[np.float64]
Key = str | int
"""A record's own id, or its number where none was given."""
_EXACT = 1 << 12
"""So many products of 41 bits add up exactly in a float."""


class Waiting:
    """Asked records by their keys, oldest first: their number, and the record in steps (None: a null)."""

    def __init__(self, patience: int | None) -> None:
        self._patience = patience
        self.rows: dict[Key, tuple[int, Floats | None]] = {}
        self.last: Key | None = None

    def add(self, key: Key, number: int, record: Floats | None) -> None:
        """A record was asked."""
        self.forget(number)
        self.rows[key] = number, record
        self.last = key

    def check(self, key: Key) -> None:
        """Refuse a key that is waited for already."""
        if key in self.rows:
            raise BadInput("a record's id", "a record with this id was asked and has no label yet", "Give each its own")

    def take(self, key: Key, now: int) -> tuple[int, Floats | None] | None:
        """The record of ``key``, which is not waited for any more; None if it was not, or no longer."""
        found = self.rows.pop(key, None)
        if key == self.last:
            self.last = None
        if found is None or (self._patience is not None and found[0] < now - self._patience):
            return None
        return found

    def forget(self, now: int) -> None:
        """Drop those whose time is over when so many arrived."""
        while self.rows and self._patience is not None:
            oldest = next(iter(self.rows))
            if self.rows[oldest][0] >= now - self._patience:
                return
            del self.rows[oldest]

    def to_json(self, size: int) -> dict[str, Any]:
        """JSON values and arrays."""
        records = [record for _, record in self.rows.values()]
        return {
            "keys": list(self.rows),
            "numbers": np.array([number for number, _ in self.rows.values()], dtype=np.int64),
            "nulls": np.array([record is None for record in records], dtype=bool),
            "records": np.array([np.zeros(size) if r is None else r for r in records]).reshape(-1, size),
            "last": self.last,
        }

    def read(self, form: dict[str, Any]) -> None:
        """The inverse of `to_json`."""
        parts: Iterable[Any] = zip(form["keys"], form["numbers"], form["nulls"], form["records"], strict=True)
        self.rows = {
            key: (int(number), None if null else np.array(record, dtype=np.float64))
            for key, number, null, record in parts
        }
        self.last = form["last"]


class Sums:
    """The sum of coefficients times records, as whole numbers of 2^-16 steps."""

    def __init__(self, rows: int, size: int) -> None:
        self.whole = np.zeros((rows, size), dtype=np.int64)
        self._row = self.whole[0]

    def clear(self) -> None:
        """Nothing came yet."""
        self.whole[:] = 0

    def add(self, record: Floats, coefficient: float) -> None:
        """One record, of one coefficient."""
        if coefficient:
            self._row += (record * (coefficient * FINE)).astype(np.int64)

    def add_many(self, records: Floats, coefficients: Floats) -> None:
        """Records with a coefficient, or a row of them, each."""
        for start in range(0, len(records), _EXACT):
            part = coefficients[start : start + _EXACT] * FINE
            product = part.T @ records[start : start + _EXACT]
            self.whole += product.reshape(self.whole.shape).astype(np.int64)

    def real(self, step: float) -> Floats:
        """The sum itself, flat, of records in steps of ``step``."""
        return self.whole.ravel().astype(np.float64) * (step / FINE)
