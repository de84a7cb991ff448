"""What single annotators are offered of a campaign: their next question, how far they are, and what is passed over.

Guarantee: who is shown a question is stored before its record is looked at. A record that is not what it was when it
was enrolled is shown to nobody; its question waits, and does not keep its annotator from the others. What others
answered does not enter what somebody is told of their own progress.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import timedelta

from discreet.campaign.refusals import RefusingCampaign
from discreet.campaign.told import IMPORTED
from discreet.errors import NotNow, PoolChanged
from discreet.records import PERSON, Question, Shown

HOLD = timedelta(hours=24)
"""How long somebody who was shown a question keeps a place among those who answer it."""
PASSED_OVER = 3
"""Questions whose records changed, at most, before an annotator is told to wait: each of them counts as shown."""


class AnnotatedCampaign(RefusingCampaign):
    """A campaign whose published questions are handed out one by one."""

    def left_for(self, annotator: str) -> tuple[int, int]:
        """How many questions somebody answered, and how many they can be shown yet, at most. Audience: annotator."""
        if self.hides_asked:
            left = 0 if self.done else len(self._share_of(annotator, self.open()))
            return len(self.store.answers_of(annotator)), left
        answered, left = self.store.left(
            annotator, places=self._per_question, enough=IMPORTED, most=self._per_annotator
        )
        return answered, 0 if self.done else left

    def changed_in_queues(self) -> list[str]:
        """Questions that somebody was to be shown and that are passed over, for their records are not what they were
        when they were enrolled. Records are to be restored or withdrawn: no phase is trained before. Audience: owner.
        """
        if self.done:
            return []
        waiting = self.store.waiting_questions(places=self._per_question, enough=IMPORTED)
        return [one.id for one in waiting if self._changed(one)]

    def check_record(self, question: Question) -> None:
        """Refuse a question whose record is not what it was when it was enrolled (`PoolChanged`)."""
        self._check_records([question.record])

    def check_room(self) -> None:
        """Refuse, before a query is charged, one whose questions would all be shown to people who may not be shown so
        many: for oracles that show everything to everybody.
        """
        if self._per_annotator is None or self.standing.step != "ask":
            return
        shown = Counter(one.audience for one in self.exposures() if one.kind == PERSON)
        planned = self.recipe.labels_planned(self.standing.phase)
        if planned + max(shown.values(), default=0) > self._per_annotator:
            raise NotNow(
                f"asking in {self.name}",
                f"everybody is shown every question, and [oracle] per_annotator = {self._per_annotator} is less",
                "Allow more, or hand questions out one by one; nothing was charged",
            )

    def _check_room_of(self, annotator: str) -> None:
        """The same of one person, who has nothing left to answer."""
        if self._per_annotator is None or self.standing.step != "ask":
            return
        mine = {one.question_id for one in self.exposures(annotator) if one.kind == PERSON}
        if len(mine) >= self._per_annotator and mine.isdisjoint(one.id for one in self.open()):
            raise NotNow(
                f"showing {annotator} more questions",
                f"they were shown {len(mine)}, and [oracle] per_annotator is {self._per_annotator}",
                "Let somebody else answer; nothing was charged",
            )

    def _share_of(self, annotator: str, open_now: Sequence[Question]) -> list[Question]:
        """Where selection is hidden: the open questions that somebody is to answer and has not, in their order.

        Nobody else is ever handed them, however long they wait. None for who is not declared, where others are, and for
        one more than answer a question, where nobody is.
        """
        assignment = self.assignment()
        assert assignment is not None
        now = self.standing.phase
        if annotator not in assignment.now.names and (
            assignment.now.names or self._too_many(assignment, now, {annotator})
        ):
            return []
        said = {one.question_id for one in self.store.answers_of(annotator)}
        mine = [one for one in open_now if one.phase == now and one.id not in said]
        return [one for one in mine if assignment.counts(one, annotator)]

    def _next_of(self, annotator: str, besides: Collection[str]) -> Question | None:
        """The question that somebody is handed out next; it is stored as shown."""
        if not self.hides_asked:
            return self.store.next_question(
                annotator,
                places=self._per_question,
                most=self._per_annotator,
                hold=HOLD,
                enough=IMPORTED,
                besides=besides,
            )
        found = next((one for one in self._share_of(annotator, self.open()) if one.id not in besides), None)
        if found is not None:
            self.store.show([Shown(question_id=found.id, audience=annotator)])
        return found

    def _handed_out(self, annotator: str) -> Question | None:
        """The next question of one person whose record is as it was; it is stored as shown."""
        passed: list[Question] = []
        while True:
            found = self._next_of(annotator, [one.id for one in passed])
            if found is None:
                for one in passed:  # there are questions for them, and this is why they see none
                    self.check_record(one)
                return None
            if not self._changed(found):
                return found
            if len(passed) == PASSED_OVER:
                self.check_record(found)
            passed.append(found)

    def _changed(self, question: Question) -> bool:
        try:
            self._check_records([question.record])
        except PoolChanged:
            return True
        return False
