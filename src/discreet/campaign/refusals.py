"""What a campaign refuses before it goes on: another plan than it has in hand, records that changed, open questions.

Guarantee: nothing here charges or draws; a refusal leaves the campaign as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from discreet.campaign.assignment import Assignment, answering
from discreet.campaign.recipe import Answering
from discreet.campaign.replanning import replannings
from discreet.campaign.told import HOUSE, IMPORTED
from discreet.campaign.view import CampaignView
from discreet.campaign.withdrawing import manifest_key, nulled
from discreet.errors import NotNow, PoolChanged
from discreet.pools import VerifiedPool, macs_at
from discreet.records import Answer, Question
from discreet.storage import WithdrawnRecord


class RefusingCampaign(CampaignView):
    """A campaign that can tell whether it may go on."""

    def check_partial(self) -> None:
        """Refuse to train with missing labels where selection is hidden, whether or not any is missing."""
        if self.hides_asked:
            raise NotNow(
                f"training {self.name} with missing labels (partial)",
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
                f"handing out all questions of {self.name} together",
                f"its selection is hidden, and {len(assignment.now.names)} annotators share the questions",
                "Ask for each of them by name (discreet ask --annotator NAME), or let all of them answer every "
                "question ([oracle] per_question)",
            )

    def _check_annotator(self, annotator: str) -> None:
        """Where selection is hidden: refuse somebody who has no share of the questions."""
        assignment = self.assignment()
        if assignment is None:
            return
        if assignment.now.names and annotator not in assignment.now.names:
            raise NotNow(
                f"questions of {self.name} for {annotator}",
                "its selection is hidden, and they are not one of its declared annotators",
                f"Declare them: discreet user add {annotator} --role annotator",
            )
        if not assignment.now.names and self._too_many(assignment, self.standing.phase, {annotator}):
            raise self._undeclared(f"questions of {self.name} for {annotator}", "None was handed out")

    def _check_voices(self, answers: Sequence[Answer], questions: Iterable[Question]) -> None:
        """Where selection is hidden: refuse new answers of people who were not to answer. What was told stays told."""
        assignment = self.assignment()
        if assignment is None:
            return
        asked, voices = {one.id: one for one in questions}, self.store.voices()
        new = [
            one
            for one in answers
            if one.annotator not in (IMPORTED, HOUSE) and one.annotator not in voices.get(one.question_id, set())
        ]
        strange = sum(not assignment.counts(asked[one.question_id], one.annotator) for one in new)
        if strange:
            raise NotNow(
                f"telling {len(answers)} answers of {self.name}",
                f"its selection is hidden, and {strange} of them are of people who were not asked these questions",
                "Ask for every annotator by name (discreet ask --annotator NAME) and tell under the same name "
                "(--annotator); none of these answers was stored",
            )
        people: dict[int, set[str]] = {}
        for one in new:
            people.setdefault(asked[one.question_id].phase, set()).add(one.annotator)
        if any(self._too_many(assignment, phase, names) for phase, names in people.items()):
            raise self._undeclared(f"telling {len(answers)} answers of {self.name}", "None of them was stored")

    def _too_many(self, assignment: Assignment, phase: int, more: Set[str] = frozenset()) -> bool:
        """Whether more people answer in a phase than answer a question, and nobody declared them.

        Simulated annotators are drawn by a hash of the record.
        """
        team = assignment.team(phase)
        if self.simulation or team.names:
            return False
        return len(answering(self.store.questions(phase), self.store.voices()) | more) > team.per_question

    def _undeclared(self, asked: str, end: str) -> NotNow:
        return NotNow(
            asked,
            "its selection is hidden, more people answer in this phase than answer a question, and they are not "
            "declared: so who answers which would depend on what else is asked",
            f"Declare all of them (discreet user add NAME --role annotator) and ask for each by name. {end}",
        )

    def _check_answered(self, phase: int, *, partial: bool, assignment: Assignment | None) -> None:
        if isinstance(self.recipe, Answering) and not self.answered:
            raise NotNow(
                f"training phase {phase}",
                "the house did not answer its questions yet, and nobody else does",
                "Let it answer first (discreet ask, or answer())",
            )
        mine = [question for question in self.open(assignment) if question.phase == phase]
        if mine and not partial:
            remedy = "Tell their answers (a skip is one)"
            raise NotNow(
                f"training phase {phase}",
                "some of its questions are open",  # how many is the owner's: see status
                remedy if self.hides_asked else f"{remedy}, or train with partial=True (--partial)",
            )
        if assignment is not None and self._too_many(assignment, phase):
            raise self._undeclared(f"training phase {phase}", "Nothing was charged")

    def _check_can_withdraw(self) -> None:
        """Only records of a private pool can be taken back."""
        if self.recipe.released:
            raise NotNow(
                f"withdrawing from {self.name}",
                "its texts were released, which cannot be taken back, and nothing reads the log any more",
                "Remove the rows from your log: the next campaign will not count them",
            )
        if isinstance(self.recipe, Answering):
            raise NotNow(
                f"withdrawing from {self.name}",
                "its questions are about public records; private ones are in votes that were counted at its creation",
                "Take their records out of [private] and create a campaign of another name; what was paid stays paid",
            )

    def _follow(self) -> list[WithdrawnRecord]:
        """The pool as other processes left it: with nulls for what was withdrawn meanwhile, which is returned."""
        gone = self.store.withdrawn()
        erased = {one.id for one in gone if one.erased and one.place < len(self.pool)}
        if erased != self.pool.withdrawn:
            self.pool = nulled(self.store, self.pool, most=len(self.pool))
        return gone

    def _check_plan(self) -> None:
        """A process that has the old plan in hand must not go on by it."""
        if len(replannings(self.store.transitions())) != self._replanned:
            raise NotNow(f"going on with {self.name}", "another process re-planned it", "Load the campaign again")

    def _check_whole(self) -> None:
        """A query that is begun without the newest records could not be gone on with by a process that has them."""
        enrolled = sum(cohort.size for cohort in self.store.pool_cohorts())
        if enrolled != len(self.pool):
            raise PoolChanged(
                f"asking in {self.name}",
                f"{enrolled} records are enrolled, and this process has {len(self.pool)}",
                "Load the campaign again",
            )

    def _verified_pool(self) -> VerifiedPool:
        """The pool, each record compared with its enrolled code when it is read."""
        marked = [one.id for one in self.store.withdrawn() if not one.erased]  # gone from the file already, perhaps
        return VerifiedPool(self.pool, manifest_key(self.store), self.store.macs, besides=marked)

    def _check_verified(self, pool: VerifiedPool) -> None:
        """Refuse to charge for a query if any enrolled record changed, whether it was asked before or not."""
        pool.check(name=self.name, progress=lambda done, whole: self.watch("checking", done, whole))

    def _check_records(self, ids: Iterable[str]) -> None:
        """Refuse records that are not what they were when they were enrolled."""
        wanted = [one for one in ids if one not in self.pool.withdrawn]
        key = manifest_key(self.store)
        stored = self.store.macs_of(wanted)
        now = macs_at(self.pool, key, self.pool.places(wanted))
        if any(stored.get(name) != code for name, code in now):
            raise PoolChanged(  # how many are used, or changed, is the owner's
                f"using records of {self.name}",
                "some of them are not what they were when they were enrolled",
                "Restore them; discreet pool check looks at all of them",
            )
