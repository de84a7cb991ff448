"""The questions of a campaign, who is handed which of them, and the labels that follow; nothing here charges or draws.

Who is shown a question is stored before its record is looked at. What others answered does not enter what somebody is
told of their own progress. A refusal leaves the campaign as it was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

from discreet.campaign.answers import IMPORTED, INTERNAL, Assignment, Rankings, answering, question_of
from discreet.campaign.crash_recovery import secret_key
from discreet.campaign.recipe import Labels, Recipe
from discreet.campaign.state import CampaignState, campaign_state
from discreet.campaign.withdrawal import questions_of
from discreet.errors import NotNow
from discreet.noise import SecretKey
from discreet.records import PERSON, Answer, Question, Shown
from discreet.storage import CampaignStore

_FEW = 4
HOLD = timedelta(hours=24)
"""How long a question is reserved for somebody who was shown it, among those who answer it."""


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The questions of one campaign, in its store.

    per_question    how many people answer a question before it is closed
    per_annotator   the most questions that one of them is shown
    seed            of a simulation
    """

    store: CampaignStore
    recipe: Recipe
    per_question: int
    per_annotator: int | None
    seed: int | None
    rankings: Rankings = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def hides_asked(self) -> bool:
        """Whether selection is hidden: asked sets are not paid for, and never released."""
        return self.recipe.terms().overflow > 0

    @property
    def state(self) -> CampaignState:
        """The phase, and what comes next in it."""
        return campaign_state(self.store.transitions(), self.recipe.phases)

    def key(self) -> SecretKey:
        """Decides ties, each by a coin of its own question."""
        return secret_key(self.store, "votes", self.seed)

    def assignment(self) -> Assignment | None:
        """Who answers which question, where selection is hidden; None: whoever comes next. Audience: owner."""
        if not self.hides_asked:
            return None
        return Assignment.of(self.store, self.key(), per_question=self.per_question, known=self.rankings)

    def open(self, assignment: Assignment | None = None) -> list[Question]:
        """Questions that fewer people than wanted have answered. ``assignment``: as it was read before."""
        withdrawn, assignment = questions_of(self.store), assignment or self.assignment()
        questions, voices = self.store.questions(), self.store.voices()
        if assignment is None:
            still_open = open_questions(questions, voices, self.per_question)
        else:
            still_open = assignment.open(questions, voices)
        return [question for question in still_open if question.id not in withdrawn]

    def questions_of(self, answers: Sequence[Answer]) -> list[Question]:
        """Those that are answered: a page tells one at a time."""
        if len(answers) > _FEW:
            return self.store.questions()
        names = {name for answer in answers if isinstance(name := question_of(answer), str)}
        return [question for name in names if (question := self.store.question(name)) is not None]

    def known_answers(self) -> list[Answer]:
        """Labels that were there before the campaign and are not told yet."""
        if not (known := self.recipe.known_labels()):
            return []
        answered = {answer.question_id for answer in self.store.answers(0) if answer.annotator == IMPORTED}
        return [
            Answer(question_id=question.id, value=known[question.record], annotator=IMPORTED)
            for question in self.store.questions(0)
            if question.id not in answered and question.record in known
        ]

    def seen_by_answering(self, answers: Iterable[Answer]) -> list[Shown]:
        """Who answers has seen the question, whoever handed it to them."""
        named = {
            (answer.question_id, answer.annotator)
            for answer in answers
            if answer.annotator not in ("", IMPORTED, INTERNAL)
        }
        if len(named) <= _FEW:  # mostly stored when it was handed out: one transaction less on a page
            named = {pair for pair in named if not self.store.was_shown(*pair)}
        return [Shown(question_id=question, audience=person) for question, person in sorted(named)]

    def labels(self, assignment: Assignment | None = None) -> Labels:
        """What the annotators say, by record. Audience: owner."""
        questions, answers = self.store.questions(), self.store.answers()
        assignment = assignment or self.assignment()
        if assignment is not None:
            answers = assignment.counted(questions, answers)
        return self.recipe.labels(questions, answers, key=self.key())

    def counts(self) -> dict[str, int]:
        """Asked, labelled, skipped and open questions, and withdrawn records, if there are any. Audience: owner."""
        labels, questions = self.labels().values, self.store.questions()
        still_open, withdrawn = {question.id for question in self.open()}, questions_of(self.store)
        closed = [question for question in questions if question.id not in still_open]
        counts = {
            "asked": len(questions),
            "labelled": len(labels),
            "skipped": sum(question.record not in labels and question.id not in withdrawn for question in closed),
            "open": len(still_open),
        }
        records = len(self.store.withdrawn())  # of the whole pool, asked or not
        return counts | ({"withdrawn": records} if records else {})

    # -- questions handed out to one person

    def assigned(self, annotator: str, questions: Sequence[Question], n: int | None) -> list[Question]:
        """At most ``n`` of ``questions`` that this person is to answer; they are stored as shown."""
        if self.hides_asked:
            share = self._share_of(annotator, questions)[:n]
            self.store.show(
                [Shown(question_id=question.id, audience=annotator) for question in share], cap=self.per_annotator
            )
            return share
        by_id = {question.id: question for question in questions}
        names = self.store.assign(
            annotator, list(by_id), places=self.per_question, n=n, cap=self.per_annotator, hold=HOLD
        )
        return [by_id[name] for name in names]

    def next_of(self, annotator: str, besides: Collection[str]) -> Question | None:
        """The question that somebody is handed out next; it is stored as shown."""
        if not self.hides_asked:
            return self.store.next_question(
                annotator,
                places=self.per_question,
                cap=self.per_annotator,
                hold=HOLD,
                enough=IMPORTED,
                besides=besides,
            )
        share = self._share_of(annotator, self.open())
        question = next((question for question in share if question.id not in besides), None)
        if question is not None:
            self.store.show([Shown(question_id=question.id, audience=annotator)], cap=self.per_annotator)
        return question

    def left_for(self, annotator: str) -> tuple[int, int]:
        """How many questions somebody answered, and how many they can be shown yet, at most. Audience: annotator."""
        over = self.state.step == "done"
        if self.hides_asked:
            left = 0 if over else len(self._share_of(annotator, self.open()))
            return len(self.store.answers_of(annotator)), left
        answered, left = self.store.left(annotator, places=self.per_question, enough=IMPORTED, cap=self.per_annotator)
        return answered, 0 if over else left

    def waiting(self) -> list[Question]:
        """Questions that somebody may be shown next."""
        return self.store.waiting_questions(places=self.per_question, enough=IMPORTED)

    def _share_of(self, annotator: str, questions: Sequence[Question]) -> list[Question]:
        """Where selection is hidden: the open questions that somebody is to answer and has not, in their order.

        Nobody else is ever handed them, however long they wait. None for who is not declared, where others are, and for
        one more than answer a question, where nobody is.
        """
        assignment = self.assignment()
        assert assignment is not None
        phase, names = self.state.phase, assignment.now.names
        if annotator not in names and (names or self._too_many(assignment, phase, {annotator})):
            return []
        answered = {answer.question_id for answer in self.store.answers_of(annotator)}
        return [
            question
            for question in questions
            if question.phase == phase and question.id not in answered and assignment.counts(question, annotator)
        ]

    # -- refusals

    def check_partial(self) -> None:
        """Refuse to train with missing labels where selection is hidden, whether or not any is missing."""
        if self.hides_asked:
            raise NotNow(
                f"training {self.store.name} with missing labels (partial)",
                "its selection is hidden: a record that is asked must not decide whether another one is labelled",
                "Leave partial out, and tell all answers of the phase (SKIP is one) before you train",
            )

    def check_lists(self) -> None:
        """Refuse to hand out the whole list of questions where selection is hidden and annotators share it.

        Whoever splits such a list decides by the records in it who answers which.
        """
        assignment = self.assignment()
        if assignment is not None and assignment.now.shared:
            raise NotNow(
                f"handing out all questions of {self.store.name} together",
                f"its selection is hidden, and {len(assignment.now.names)} annotators share the questions",
                "Ask for each of them by name (discreet ask --annotator NAME), or let all of them answer every "
                "question ([oracle] per_question)",
            )

    def check_room(self) -> None:
        """Refuse, before a query is charged, one whose questions would all be shown to people who may not be shown so
        many: for oracles that show everything to everybody.
        """
        state = self.state
        if self.per_annotator is None or state.step != "ask":
            return
        shown = Counter(exposure.audience for exposure in self.store.exposures(None) if exposure.kind == PERSON)
        if self.recipe.labels_planned(state.phase) + max(shown.values(), default=0) > self.per_annotator:
            raise NotNow(
                f"asking in {self.store.name}",
                f"everybody is shown every question, and [oracle] per_annotator = {self.per_annotator} is less",
                "Allow more, or hand questions out one by one; nothing was charged",
            )

    def check_person(self, annotator: str) -> None:
        """Refuse somebody who has no share of the questions, or was shown as many as they may and answered them."""
        assignment = self.assignment()
        if assignment is not None:
            names, asked = assignment.now.names, f"questions of {self.store.name} for {annotator}"
            if names and annotator not in names:
                raise NotNow(
                    asked,
                    "its selection is hidden, and they are not one of its declared annotators",
                    f"Declare them: discreet user add {annotator} --role annotator",
                )
            if not names and self._too_many(assignment, self.state.phase, {annotator}):
                raise _undeclared(asked, "None was handed out")
        if self.per_annotator is None or self.state.step != "ask":
            return
        shown = {exposure.question_id for exposure in self.store.exposures(annotator) if exposure.kind == PERSON}
        if len(shown) >= self.per_annotator and shown.isdisjoint(question.id for question in self.open()):
            raise NotNow(
                f"showing {annotator} more questions",
                f"they were shown {len(shown)}, and [oracle] per_annotator is {self.per_annotator}",
                "Let somebody else answer; nothing was charged",
            )

    def check_voices(self, answers: Sequence[Answer], questions: Iterable[Question]) -> None:
        """Where selection is hidden: refuse new answers of people who were not to answer. What was told stays told."""
        assignment = self.assignment()
        if assignment is None:
            return
        asked, voices = {question.id: question for question in questions}, self.store.voices()
        new = [
            answer
            for answer in answers
            if answer.annotator not in (IMPORTED, INTERNAL)
            and answer.annotator not in voices.get(answer.question_id, set())
        ]
        strange = sum(not assignment.counts(asked[answer.question_id], answer.annotator) for answer in new)
        if strange:
            raise NotNow(
                f"telling {len(answers)} answers of {self.store.name}",
                f"its selection is hidden, and {strange} of them are of people who were not asked these questions",
                "Ask for every annotator by name (discreet ask --annotator NAME) and tell under the same name "
                "(--annotator); none of these answers was stored",
            )
        people: dict[int, set[str]] = {}
        for answer in new:
            people.setdefault(asked[answer.question_id].phase, set()).add(answer.annotator)
        if any(self._too_many(assignment, phase, names) for phase, names in people.items()):
            raise _undeclared(f"telling {len(answers)} answers of {self.store.name}", "None of them was stored")

    def check_answered(self, phase: int, *, partial: bool, assignment: Assignment | None) -> None:
        """Refuse to train a phase whose questions are open."""
        if not partial and any(question.phase == phase for question in self.open(assignment)):
            remedy = "Tell their answers (a skip is one)"
            raise NotNow(
                f"training phase {phase}",
                "some of its questions are open",  # how many is the owner's: see status
                remedy if self.hides_asked else f"{remedy}, or train with partial=True (--partial)",
            )
        if assignment is not None and self._too_many(assignment, phase):
            raise _undeclared(f"training phase {phase}", "Nothing was charged")

    def _too_many(self, assignment: Assignment, phase: int, more: Set[str] = frozenset()) -> bool:
        """Whether more people answer in a phase than answer a question, and nobody declared them.

        Simulated annotators are drawn by a hash of the record.
        """
        team = assignment.team(phase)
        if self.store.simulation or team.names:
            return False
        return len(answering(self.store.questions(phase), self.store.voices()) | more) > team.per_question


def _undeclared(asked: str, end: str) -> NotNow:
    return NotNow(
        asked,
        "its selection is hidden, more people answer in this phase than answer a question, and they are not "
        "declared: so who answers which would depend on what else is asked",
        f"Declare all of them (discreet user add NAME --role annotator) and ask for each by name. {end}",
    )


def open_questions(questions: Iterable[Question], voices: Mapping[str, Set[str]], per_question: int) -> list[Question]:
    """Those that fewer people than wanted have answered; a skip is an answer, and an imported label is enough.

    ``voices``: who answered, by question.
    """
    people = ((question, voices.get(question.id, set())) for question in questions)
    return [question for question, names in people if IMPORTED not in names and len(names) < per_question]


def named_questions(phase: int, records: Iterable[str], ids: Iterable[str]) -> list[Question]:
    """Their ids say nothing of a record, and are no record's own: a label must not reach another one."""
    lines, prefix = "\n".join(ids), ""  # an id of several lines may lengthen the prefix for nothing
    while re.search(rf"^{prefix}[0-9]+\.[0-9]+$", lines, re.MULTILINE):
        prefix += "q"
    return [
        Question(id=f"{prefix}{phase}.{position}", record=record, phase=phase, place=position)
        for position, record in enumerate(records)
    ]
