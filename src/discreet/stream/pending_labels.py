"""Asked records whose label has not come, the sum of the labels that came, and the cap on records of a person.

What is between a question and an update: asked records whose label has not come, and the sum of what came.

Both are private, and nobody's but the owner's. A record leaves the first when its label comes and enters the second
once: so it teaches in one update, whenever that is.

Of each person so many records are looked at; those that come later are nulls.

Guarantee: which records are looked at depends on how many of the person's arrived before them, and on nothing in any
record: it is the same when all of a person's records are nulls. A record beyond the cap is decided as a null is (asked
with the lowest chance, taught nothing), so nothing of it is ever released. What that makes of the price:
docs/proofs/streams.md, "Persons".

A cap on *asked* records alone would not do: who is never asked would be missed without end, and each miss costs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.stream.losses import FINE, Floats

Key = str | int
"""A record's own id, or its number where none was given."""
_EXACT = 1 << 12
"""So many products of 41 bits add up exactly in a float."""


class WaitingRecords:
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
        pending = self.rows.pop(key, None)
        if key == self.last:
            self.last = None
        if pending is None or (self._patience is not None and pending[0] < now - self._patience):
            return None
        return pending

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


class UpdateSum:
    """The sum of coefficients times records, as whole numbers of 2^-16 steps."""

    def __init__(self, rows: int, size: int) -> None:
        self.steps = np.zeros((rows, size), dtype=np.int64)
        self._row = self.steps[0]

    def clear(self) -> None:
        """Nothing came yet."""
        self.steps[:] = 0

    def add(self, record: Floats, coefficient: float) -> None:
        """One record, of one coefficient."""
        if coefficient:
            self._row += (record * (coefficient * FINE)).astype(np.int64)

    def add_many(self, records: Floats, coefficients: Floats) -> None:
        """Records with a coefficient, or a row of them, each."""
        for start in range(0, len(records), _EXACT):
            part = coefficients[start : start + _EXACT] * FINE
            product = part.T @ records[start : start + _EXACT]
            self.steps += product.reshape(self.steps.shape).astype(np.int64)

    def real(self, step: float) -> Floats:
        """The sum itself, flat, of records in steps of ``step``."""
        return self.steps.ravel().astype(np.float64) * (step / FINE)


Person = str | bytes
"""A person's name, or a code that stands for it."""


class PersonCounts:
    """How many records of each person were looked at. ``capped``: whether persons are protected."""

    def __init__(self, limit: int | None) -> None:
        self._limit, self.capped = limit, limit is not None
        self.counts: dict[Person, int] = {}

    def check(self, person: Hashable | None) -> None:
        """Refuse a record without its person, where persons are protected; and a person, where they are not."""
        if not self.capped:
            if person is not None:
                raise BadInput(
                    "a record with its person",
                    "this stream protects records, and a person would lose as many times as much",
                    "Set person_records, and a budget for persons; or leave the person out",
                )
        elif not isinstance(person, (str, bytes)) or not person:
            raise BadInput(
                "a record of a stream for persons", "it does not say whose it is", "Give the person's name, as text"
            )

    def looks_at(self, person: Person) -> bool:
        """Whether one more record of ``person`` is looked at; it counts if so."""
        assert self._limit is not None
        count = self.counts.get(person, 0)
        if count >= self._limit:
            return False
        self.counts[person] = count + 1
        return True

    def to_json(self) -> dict[str, Any]:
        """Persons and their counts, as lists."""
        return {"persons": list(self.counts), "records": list(self.counts.values())}

    def read(self, form: Mapping[str, Any]) -> None:
        """The inverse of `to_json`."""
        self.counts = dict(zip(form["persons"], form["records"], strict=True))
