"""Frozen records that are passed around and stored. Each says who may see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Self

Value = str | tuple[str, ...] | None
"""Of an answer: a class, several of them (or none: an empty tuple) for multi-label tasks, or None for a skip."""


@dataclass(frozen=True, kw_only=True)
class NoisyHistogram:
    """Scores counted on a fixed grid, with the noise that was paid for. Audience: world.

    range     of the score: the ends of the grid
    counts    by bin, from the bottom up; noise may bring one below 0. A score at the bottom, as a null has, is in none
    epsilon   what it cost every record that it counted
    every     of so many records one was counted, and stands for them
    """

    range: tuple[float, float]
    counts: tuple[int, ...]
    epsilon: Decimal
    every: int = 1

    def to_json(self) -> dict[str, Any]:
        """A form that reads back to an equal value."""
        return {
            "range": list(self.range),
            "counts": list(self.counts),
            "epsilon": str(self.epsilon),
            "every": self.every,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        bottom, top = form["range"]
        return cls(
            range=(float(bottom), float(top)),
            counts=tuple(int(count) for count in form["counts"]),
            epsilon=Decimal(form["epsilon"]),
            every=int(form["every"]),
        )


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Who is asked, in the random order in which they are shown. Audience: annotator; ``above`` is for the owner alone.

    ids         the user's own ids
    mechanism   how they were chosen
    private     False: chosen by looking, at no price anybody could state (`ExactTopK`); never to be shown as private
    simulation  drawn from a seed: proves nothing about people
    epsilon     what the choice cost a record that was in the pool, taken by itself; on a path it costs less
    threshold   the public threshold, if there was one
    above       the ids that were asked from above it: their own rate of training is lower. Owner only
    dropped     how many more were drawn than asked for, where that may be told
    histogram   in which a private threshold was found, as it was paid for and released: public

    With ``mechanism="hidden-threshold"`` the promise is that ids, and how many there are, stay with owner and
    annotators: they must never be shown to the world, in any later record of the campaign either.
    """

    ids: tuple[str, ...]
    mechanism: str
    private: bool = True
    simulation: bool = False
    epsilon: Decimal = Decimal(0)
    threshold: float | None = None
    above: frozenset[str] | None = field(default=None, repr=False)
    dropped: int | None = None
    histogram: NoisyHistogram | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True)
class Question:
    """One record that somebody is to label. Audience: annotator.

    id       of the question; public, says nothing of the record
    record   the record's own id
    phase    of the campaign that asks: 0 for the initial records
    place    where it stands in the random order in which questions are shown
    """

    id: str
    record: str
    phase: int
    place: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an annotator said to a question. Audience: owner.

    ``at``: when it was given, with its time zone; None: when it is told.
    """

    question_id: str
    value: Value = field(repr=False)
    annotator: str = ""
    at: datetime | None = None


PERSON, HANDED_OUT, PROGRAM = "annotator", "hand-out", "program"
"""Kinds of audience: a named annotator; a file or list that was handed to people who are not known here; a function."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """That a question is about to be shown. ``audience``: the annotator's name, the file's, the function's."""

    question_id: str
    audience: str
    kind: str = PERSON


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """That a record was shown to somebody, and when first. Audience: owner, and an auditor."""

    question_id: str
    record: str
    phase: int
    kind: str
    audience: str
    at: datetime
