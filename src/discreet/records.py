"""Frozen records that are passed around and stored. Each says who may see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Self

from discreet.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Value = str | tuple[str, ...] | None
"""Of an answer: a class, several of them (or none: an empty tuple) for multi-label tasks, or None for a skip."""


@dataclass(frozen=True, kw_only=True)
class NoisyHistogram:
    """Scores counted on a fixed grid, with the noise that was paid for. Audience: public.

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

    With ``mechanism="hidden-threshold"`` the guarantee is that ids, and how many there are, stay with owner and
    annotators: they must never be shown to the public, in any later record of the campaign either.
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Votes:
    """How many of ``teachers`` teachers vote for each class, for each public record. Audience: owner, unpaid for.

    ids       of the public records, the user's own
    classes   the names of the columns
    counts    (records, classes), whole numbers; each row sums to ``teachers``
    unit      whose records are with one teacher: a ledger that protects another unit does not answer from them

    One unit of the private data is with one teacher, and moves at most one vote a row. Once there are votes, the
    private data is not needed any more.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    counts: NDArray[np.int64] = field(repr=False)
    teachers: int
    unit: Literal["record", "person"] = "record"

    def __post_init__(self) -> None:
        shape = (len(self.ids), len(self.classes))
        if self.counts.shape != shape or self.counts.dtype.kind not in "iu" or len(set(self.ids)) != len(self.ids):
            raise BadInput("votes", f"they are not whole numbers of the shape {shape}, a row an id", "Count them again")
        if self.unit not in ("record", "person"):
            raise BadInput("votes", f"they do not know the unit {self.unit}", "Say record or person")
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            raise BadInput("votes", "there are fewer than two classes, or one of them twice", "Declare the classes")
        if self.counts.size and ((self.counts < 0).any() or (self.counts.sum(axis=1) != self.teachers).any()):
            raise BadInput("votes", "a row is not one vote a teacher", "Let every teacher vote on every record")

    def __repr__(self) -> str:
        """Public facts only."""
        return f"Votes(records={len(self.ids)}, classes={len(self.classes)}, teachers={self.teachers})"
