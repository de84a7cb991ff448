"""Answers as people give them, the labels that follow, and under hidden selection who answers which question.

A label depends on the answers to its own question and on public things. Where several people answer, they vote; a coin
of that record's id decides ties, not its place among the asked, which others may move.

Guarantee of hidden selection: whose answers make a record's label depends on the record's id, a secret key and the
annotators that the owner declared, and on nothing else. So a record that joins or leaves the pool changes no other
record's annotators (docs/proofs/hidden-selection.md). Every record ranks all annotators by a keyed hash (rendezvous
hashing), and the first of them answer. An annotator who joins takes their own share and moves nothing else; the share
of one who leaves goes to the next in each ranking, also what they had answered. What a phase was trained on is fixed
with its labels (`Assignment.facts`). Where no annotators are declared, everybody answers every question. Audience:
owner.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from discreet.campaign.state import TRAINING
from discreet.errors import BadInput, InvalidStore
from discreet.noise import SecretKey
from discreet.oracles import majority
from discreet.oracles.answers import chance
from discreet.records import Answer, Question, Value
from discreet.storage import CampaignStore, Transition

Given = Mapping[str, Any] | Iterable[Answer]
IMPORTED, INTERNAL = "imported", "teachers"
"""Who gave the labels that were there before the campaign."""


def as_answers(answers: Given, questions: Sequence[Question], *, annotator: str = "") -> list[Answer]:
    """Answers to ``questions``: as they are, or from a mapping of question ids or record ids to labels."""
    if not isinstance(answers, Mapping):
        if not isinstance(answers, Iterable):
            raise BadInput("answers", f"they are a {type(answers).__name__}", "Give labels by id, or a list of Answer")
        return list(answers)
    ids = {question.id for question in questions}
    by_record = {question.record: question.id for question in questions}
    named = []
    for name, value in answers.items():
        if name in ids and by_record.get(name, name) != name:
            raise BadInput(
                "answers", "a name is that of a question and of another record", "Name questions by their id"
            )
        known = name if name in ids else by_record.get(name, name)
        named.append(Answer(question_id=known, value=_answer_value(value), annotator=annotator))
    return named


def _answer_value(value: Any) -> Value:
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(value)
    raise BadInput("an answer", f"it is a {type(value).__name__}", "Give a declared class, several of them, or None")


def labels_of(questions: Iterable[Question], answers: Iterable[Answer], key: SecretKey) -> dict[str, Value]:
    """By record: what its annotators say; records nobody labelled are left out. What was imported counts until somebody
    says something else.
    """
    given, asked = list(answers), list(questions)
    corrected = {one.question_id for one in given if one.annotator != IMPORTED and one.value is not None}
    counted = (one for one in given if one.annotator != IMPORTED or one.question_id not in corrected)
    decided = majority(counted, key=key, coins={one.id: one.record for one in asked})
    labels = ((question.record, decided.get(question.id)) for question in asked)
    return {record: value for record, value in labels if value is not None}


def to_bytes(values: Mapping[str, Value] | Mapping[str, float]) -> bytes:
    """A stored form of labels, or of how far they are trusted, by record: the same values are the same bytes."""
    return json.dumps(values, ensure_ascii=False, sort_keys=True).encode()


def labels_from_bytes(content: bytes) -> dict[str, Value]:
    """Labels that `to_bytes` stored."""
    try:
        form = json.loads(content)
        return {name: tuple(value) if isinstance(value, list) else str(value) for name, value in form.items()}
    except (ValueError, AttributeError, TypeError):
        raise InvalidStore("reading the labels of a phase", "they are not in their form", "Restore the file") from None


def trust_from_bytes(content: bytes) -> dict[str, float]:
    """How far labels are trusted, as `to_bytes` stored it."""
    try:
        return {str(name): float(value) for name, value in json.loads(content).items()}
    except (ValueError, AttributeError, TypeError):
        raise InvalidStore("reading how far labels are trusted", "it is not in its form", "Restore the file") from None


ANNOTATORS, PER_QUESTION = "annotators", "per_question"
_USE = "annotators"


@dataclass(frozen=True, kw_only=True)
class Team:
    """Declared annotators, by name, and how many of them answer a question."""

    names: tuple[str, ...]
    per_question: int

    @property
    def shared(self) -> bool:
        """Whether a question goes to some of them only."""
        return len(self.names) > self.per_question


Rankings = dict[tuple[str, Team], frozenset[str]]
"""Who answers, by record and team."""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Who answers what.

    now      the team of phases that are not trained yet
    before   of the others, by phase
    known    rankings that were computed before
    """

    key: SecretKey = field(repr=False)
    now: Team
    before: Mapping[int, Team]
    known: Rankings = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls, store: CampaignStore, key: SecretKey, *, per_question: int, known: Rankings | None = None
    ) -> Assignment:
        """As the store has it at this moment. ``key``: of the campaign's votes."""
        names = tuple(one.name for one in store.users.everybody() if one.role == "annotator" and one.active)
        anybody = Team(names=(), per_question=per_question)  # of phases that were trained before teams were recorded
        before = {step.phase: team_of(step) or anybody for step in store.transitions() if step.kind == TRAINING}
        now = Team(names=names, per_question=per_question)
        return cls(key=key.derive(_USE), now=now, before=before, known={} if known is None else known)

    def team(self, phase: int) -> Team:
        """Of a phase."""
        return self.before.get(phase, self.now)

    def people(self, question: Question) -> frozenset[str] | None:
        """Whose answers count; None: anybody's, for nobody is declared."""
        team = self.team(question.phase)
        if not team.shared:
            return frozenset(team.names) or None
        people = self.known.get((question.record, team))
        if people is None:
            ranked = sorted(team.names, key=lambda name: (chance(self.key, _USE, question.record, name), name))
            people = self.known[question.record, team] = frozenset(ranked[: team.per_question])
        return people

    def counts(self, question: Question, annotator: str) -> bool:
        """Whether an answer counts. Labels that were there before the campaign do."""
        people = self.people(question)
        return people is None or annotator in people or annotator in (IMPORTED, INTERNAL)

    def counted(self, questions: Iterable[Question], answers: Iterable[Answer]) -> list[Answer]:
        """Answers of those who were to answer."""
        asked = {question.id: question for question in questions}
        return [
            answer
            for answer in answers
            if answer.question_id in asked and self.counts(asked[answer.question_id], answer.annotator)
        ]

    def open(self, questions: Iterable[Question], voices: Mapping[str, Set[str]]) -> list[Question]:
        """Questions that some of those who were to answer have not answered; an imported label is enough."""
        return [question for question in questions if not self._closed(question, voices.get(question.id, set()))]

    def _closed(self, question: Question, voices: Set[str]) -> bool:
        counted = sum(self.counts(question, annotator) for annotator in voices)
        return IMPORTED in voices or counted >= self.team(question.phase).per_question

    def facts(self) -> dict[str, Any]:
        """What is recorded with the labels of a phase."""
        return {ANNOTATORS: list(self.now.names), PER_QUESTION: self.now.per_question}


def team_of(step: Transition) -> Team | None:
    """The team that was recorded with the labels of a phase; None: it was trained before that was done."""
    if ANNOTATORS not in step.facts:
        return None
    names = tuple(str(name) for name in step.facts[ANNOTATORS])
    return Team(names=names, per_question=int(step.facts[PER_QUESTION]))


def answering(questions: Iterable[Question], voices: Mapping[str, Set[str]]) -> set[str]:
    """Everybody who answered one of ``questions``; answers without a name are all of one, unnamed annotator."""
    return {name for question in questions for name in voices.get(question.id, set())} - {IMPORTED, INTERNAL}


def question_of(answer: Any) -> Any:
    """Of an answer; what is no answer is refused elsewhere."""
    return getattr(answer, "question_id", None)
