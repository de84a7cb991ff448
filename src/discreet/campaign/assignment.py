"""Hidden selection: which annotators answer which question, by a keyed ranking of their names for every record.

Guarantee: whose answers make a record's label depends on the record's id, a secret key and the annotators that the
owner declared, and on nothing else: not on who came first, how many were asked, or what was answered before. So a
record that joins or leaves the pool changes no other record's annotators (docs/proofs/hidden-selection.md).

Every record ranks all annotators by a keyed hash (rendezvous hashing), and the first of them answer. An annotator who
joins takes their own share and moves nothing else; the share of one who leaves goes to the next in each ranking, all of
it, also what they had answered. What a phase was trained on is fixed with its labels (`facts`).

Where no annotators are declared there is nothing to rank: then everybody who answers answers every question, and there
are at most as many as answer one. Audience: owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from discreet.campaign.standing import TRAINING
from discreet.campaign.told import HOUSE, IMPORTED
from discreet.noise import SecretKey
from discreet.oracles.fair_coins import chance
from discreet.records import Answer, Question
from discreet.storage import CampaignStore, Transition

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
        before = {one.phase: team_of(one) or anybody for one in store.transitions() if one.kind == TRAINING}
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
        found = self.known.get((question.record, team))
        if found is None:
            ranked = sorted(team.names, key=lambda name: (chance(self.key, _USE, question.record, name), name))
            found = self.known[question.record, team] = frozenset(ranked[: team.per_question])
        return found

    def counts(self, question: Question, annotator: str) -> bool:
        """Whether an answer counts. Labels that were there before the campaign do."""
        people = self.people(question)
        return people is None or annotator in people or annotator in (IMPORTED, HOUSE)

    def counted(self, questions: Iterable[Question], answers: Iterable[Answer]) -> list[Answer]:
        """Answers of those who were to answer."""
        asked = {one.id: one for one in questions}
        return [
            one for one in answers if one.question_id in asked and self.counts(asked[one.question_id], one.annotator)
        ]

    def open(self, questions: Iterable[Question], voices: Mapping[str, Set[str]]) -> list[Question]:
        """Questions that some of those who were to answer have not answered; an imported label is enough."""
        return [one for one in questions if not self._closed(one, voices.get(one.id, set()))]

    def _closed(self, question: Question, voices: Set[str]) -> bool:
        mine = sum(self.counts(question, one) for one in voices)
        return IMPORTED in voices or mine >= self.team(question.phase).per_question

    def facts(self) -> dict[str, Any]:
        """What is recorded with the labels of a phase."""
        return {ANNOTATORS: list(self.now.names), PER_QUESTION: self.now.per_question}


def team_of(step: Transition) -> Team | None:
    """The team that was recorded with the labels of a phase; None: it was trained before that was done."""
    if ANNOTATORS not in step.facts:
        return None
    names = tuple(str(one) for one in step.facts[ANNOTATORS])
    return Team(names=names, per_question=int(step.facts[PER_QUESTION]))


def answering(questions: Iterable[Question], voices: Mapping[str, Set[str]]) -> set[str]:
    """Everybody who answered one of ``questions``; answers without a name are all of one, unnamed annotator."""
    return {name for one in questions for name in voices.get(one.id, set())} - {IMPORTED, HOUSE}
