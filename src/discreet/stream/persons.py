"""Of each person so many records are looked at; those that come later are nulls.

Guarantee: which records are looked at depends on how many of the person's arrived before them, and on nothing in any
record: it is the same when all of a person's records are nulls. A record beyond the cap is decided as a null is (asked
with the lowest chance, taught nothing), so nothing of it is ever released. What that makes of the price:
docs/proofs/streams.md, "Persons".

A cap on *asked* records alone would not do: who is never asked would be missed without end, and each miss costs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from discreet.errors import BadInput

Person = str | bytes
"""A person's name, or a code that stands for it."""


class Persons:
    """How many records of each person were looked at."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.counts: dict[Person, int] = {}

    @property
    def capped(self) -> bool:
        """Whether persons are protected."""
        return self._most is not None

    def check(self, person: Hashable | None) -> None:
        """Refuse a record without its person, where persons are protected; and a person, where they are not."""
        if self._most is None:
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
        assert self._most is not None
        count = self.counts.get(person, 0)
        if count >= self._most:
            return False
        self.counts[person] = count + 1
        return True

    def lay(self, counts: Mapping[Any, int]) -> None:
        """Know these persons, and no others."""
        self.counts = dict(counts)

    def to_json(self) -> dict[str, Any]:
        """Persons and their counts, as lists."""
        return {"persons": list(self.counts), "records": list(self.counts.values())}

    def read(self, form: Mapping[str, Any]) -> None:
        """The inverse of `to_json`."""
        self.counts = dict(zip(form["persons"], form["records"], strict=True))
