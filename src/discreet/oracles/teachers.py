"""PATE aggregation: how teachers' votes become answers. Each mechanism is charged before anything is drawn.

NoisyMaximum     GNMax (Gaussian noisy max) or LNMax (Laplace noisy max): the class with the most noisy votes; every
                 question costs the same
ConfidentMaximum Confident-GNMax: a noisy check first, whether the largest count is large enough; only then GNMax
StableAnswer     sparse vector: the winner itself where it is stable, at no further cost; None where it is not

Guarantee: data-independent. What the charges of a price keep, these keep, whatever the votes are, for questions that
may depend on earlier answers; zero-out relation, both directions (docs/proofs/teachers.md). Which questions were
answered, and the answers, are released; counts, leads and noisy counts are not.

`TeacherOracle` answers questions about public records by votes, for a price that was fixed beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise import SparseVector, gaussian, noisy_winner
from discreet.planning.pate import ConfidentPrice, NoisyMaxPrice, StablePrice, VotePrice
from discreet.planning.pate.pricing import WHO
from discreet.privacy.events import DiscreteLaplace, Event
from discreet.privacy.ledger import Ledger, Receipt
from discreet.records import Answer, Question, Votes

Integers = NDArray[np.int64]
Places = list[int | None]
"""The place of a class for each question; None: no answer."""


class Charges(Protocol):
    """Where answers are charged: a `discreet.privacy.ledger.Ledger`, or the sealed phase of a campaign."""

    def charge(self, *, event: Event, count: int = 1, who: str, why: Any) -> Receipt:
        """Durable when it returns."""


class Aggregator(Protocol):
    """Answers questions from their votes."""

    @property
    def left(self) -> int:
        """How many more questions may be asked. Follows from public things and released answers."""

    def answer(self, counts: Integers) -> Places:
        """An answer for each row of ``counts``, at most `left` of them; fewer, if it must stop on the way."""


class NoisyMaximum:
    """GNMax (Gaussian noisy max) or LNMax (Laplace noisy max), as the price says. Every question has an answer."""

    def __init__(self, price: NoisyMaxPrice, ledger: Charges, who: str) -> None:
        self._price, self._ledger, self._who = price, ledger, who
        self._asked = 0

    @property
    def left(self) -> int:
        """What is left of the cap."""
        return self._price.answers - self._asked

    def answer(self, counts: Integers) -> Places:
        """Charge all of them, then draw."""
        event, _ = self._price.charges[0]
        draws = 2 if isinstance(event, DiscreteLaplace) else 1
        self._asked += len(counts)
        receipt = self._ledger.charge(event=event, count=draws * len(counts), who=self._who, why="answers")
        return [noisy_winner(row, receipt=receipt) for row in counts]


class ConfidentMaximum:
    """Confident-GNMax. Questions whose noisy largest count is below the least have no answer and cost a check only."""

    def __init__(self, price: ConfidentPrice, ledger: Charges, who: str) -> None:
        self._price, self._ledger, self._who = price, ledger, who
        self._checked = self._answered = 0

    @property
    def left(self) -> int:
        """Checks that are left; none when all answers are given."""
        return 0 if self._answered == self._price.answers else self._price.checks - self._checked

    def answer(self, counts: Integers) -> Places:
        """Check all, then answer those that passed, as far as answers are left."""
        (check, _), (event, _) = self._price.charges
        self._checked += len(counts)
        receipt = self._ledger.charge(event=check, count=len(counts), who=self._who, why="answers (checks)")
        tops = counts.max(axis=1).astype(np.float64)
        noisy = [gaussian(float(top), sensitivity=1.0, receipt=receipt) for top in tops]
        passed = [row for row, top in enumerate(noisy) if top >= self._price.least]
        passed = passed[: self._price.answers - self._answered]
        answers: Places = [None] * len(counts)
        if passed:
            self._answered += len(passed)
            receipt = self._ledger.charge(event=event, count=len(passed), who=self._who, why="answers")
            for row in passed:
                answers[row] = noisy_winner(counts[row], receipt=receipt)
        return answers


class StableAnswer:
    """Sparse vector (Algorithm 2): winners of stable questions as they are, until T questions were unstable."""

    def __init__(self, price: StablePrice, ledger: Charges, who: str) -> None:
        self._price, self._ledger, self._who = price, ledger, who
        self._asked = self._unstable = 0
        self._epochs: SparseVector | None = None

    @property
    def left(self) -> int:
        """What is left of the questions; none after the last unstable one."""
        return 0 if self._unstable == self._price.unstable else self._price.answers - self._asked

    def answer(self, counts: Integers) -> Places:
        """One after the other, up to the last unstable one."""
        epochs = self._begun()
        answers: Places = []
        for row, distance in zip(counts, distances(counts), strict=True):
            if not self.left:
                break
            self._asked += 1
            unstable = epochs.above(-float(distance), -self._price.threshold)
            self._unstable += unstable
            answers.append(None if unstable else int(row.argmax()))
        return answers

    def _begun(self) -> SparseVector:
        """All epochs, and the chance of a mistake, are charged at the first question; the chance once in a campaign."""
        if self._epochs is None:
            (epoch, count), (mistake, once) = self._price.charges
            if once:
                self._ledger.charge(event=mistake, who=self._who, why="answers (chance of a mistake)")
            receipt = self._ledger.charge(event=epoch, count=count, who=self._who, why="answers (unstable)")
            self._epochs = SparseVector(receipt=receipt, sensitivity=1.0)
        return self._epochs


def distances(counts: Integers) -> Integers:
    """How many teachers could change their vote without changing the winner: max(0, ceil(lead/2) - 1)."""
    ordered = np.sort(counts, axis=1)
    leads = ordered[:, -1] - ordered[:, -2]
    return np.asarray(np.maximum(0, -(-leads // 2) - 1), dtype=np.int64)


_AGGREGATORS: dict[type, Callable[[Any, Charges, str], Aggregator]] = {
    NoisyMaxPrice: NoisyMaximum,
    ConfidentPrice: ConfidentMaximum,
    StablePrice: StableAnswer,
}


def build_aggregator(price: VotePrice, ledger: Charges, who: str) -> Aggregator:
    """The aggregator that ``price`` is for."""
    if type(price) not in _AGGREGATORS:
        raise BadInput("an aggregator", f"a {type(price).__name__} is not a price of answers", "Use price_answers")
    return _AGGREGATORS[type(price)](price, ledger, who)


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
        self._row = {name: row for row, name in enumerate(votes.ids)}
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
            answers = self._aggregator.answer(self._votes.counts[rows])
            for name, answer in zip(new, answers, strict=False):  # what came after the last unstable one was not asked
                self._answers[name] = None if answer is None else self._votes.classes[answer]
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
