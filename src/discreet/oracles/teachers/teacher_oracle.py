"""Teachers as an oracle: questions about public records, answered by votes, for a price that was fixed beforehand.

The same record is answered once: asked again, it is told again, and nothing is charged. Answers are public: they are
paid for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet.errors import BadInput
from discreet.oracles.teachers.aggregators import build_aggregator
from discreet.planning.teachers import VotePrice
from discreet.planning.teachers.pricing import WHO
from discreet.privacy.ledger import Ledger
from discreet.records import Answer, Question, Votes

ANNOTATOR = "teachers"


class TeacherOracle:
    """Answers from ``votes`` as ``price`` says, charging ``ledger`` (made with ``price.terms()``) before each draw."""

    def __init__(self, votes: Votes, *, price: VotePrice, ledger: Ledger, who: str = WHO) -> None:
        if price.teachers != votes.teachers or price.classes != len(votes.classes):
            raise BadInput(
                f"answers of {votes.teachers} teachers for {len(votes.classes)} classes",
                f"their price was made for {price.teachers} teachers and {price.classes} classes",
                "Price them as they are",
            )
        protected = ledger.terms.budget.unit
        if votes.unit != protected:
            raise BadInput(
                f"answers from votes of which a {votes.unit} moves one",
                f"the ledger protects a {protected}",
                f"Train teachers with units of each {protected}, or keep a ledger of the other unit",
            )
        self._votes, self._aggregator = votes, build_aggregator(price, ledger, who)
        self._row = {name: place for place, name in enumerate(votes.ids)}
        self._answers: dict[str, str | None] = {}
        self._asked: set[str] = set()
        self._ready: list[Answer] = []
        self.simulation = ledger.simulation

    @property
    def left(self) -> int:
        """How many more questions may be asked. Public."""
        return self._aggregator.left

    @property
    def answers(self) -> dict[str, str | None]:
        """Every record that was asked about, with its answer; None: none was given. Public, paid for."""
        return dict(self._answers)

    def answer(self, ids: Sequence[str]) -> list[str | None]:
        """A class for each of ``ids``, or None. New ones are paid for; all of them, or none if they are too many."""
        new = [name for name in dict.fromkeys(ids) if name not in self._answers]
        strange = sum(name not in self._row for name in new)
        if strange:
            raise BadInput(
                f"{len(new)} questions to teachers",
                f"they did not vote on {strange} of them",
                "Ask about public records",
            )
        if len(new) > self.left:
            raise BadInput(
                f"{len(new)} questions to teachers",
                f"{self.left} are left of what was priced",
                "Ask less, or price more",
            )
        if new:
            rows = np.array([self._row[name] for name in new], dtype=np.int64)
            found = self._aggregator.answer(self._votes.counts[rows])
            for name, place in zip(new, found, strict=False):  # what came after the last unstable one was not asked
                self._answers[name] = None if place is None else self._votes.classes[place]
        return [self._answers.get(name) for name in ids]

    def ask(self, questions: Sequence[Question]) -> None:
        """Answer questions about public records; all of them, or none."""
        new = {question.id: question for question in questions if question.id not in self._asked}
        values = self.answer([question.record for question in new.values()])
        self._asked |= set(new)
        self._ready += [
            Answer(question_id=name, value=value, annotator=ANNOTATOR) for name, value in zip(new, values, strict=True)
        ]

    def collect(self) -> list[Answer]:
        """Answers since the last time. A question without an answer is a skip."""
        ready, self._ready = self._ready, []
        return ready

    def __repr__(self) -> str:
        """Public facts only."""
        return f"TeacherOracle(teachers={self._votes.teachers}, asked={len(self._answers)}, left={self.left})"
