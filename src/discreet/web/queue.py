"""One annotator's questions: the next one, an answer, a skip, back to what was said, and how far they are.

Guarantee: a question is reached only by whom it was assigned to, and that is stored before anything of its record is
read for them (`Campaign.next_for`). Whoever else asks, or asks for what does not exist, hears the same. What others
said is never read here. Nothing here asks a query, trains, or costs anything.

Undo goes back to the last answer, and from there further; the answer stands until another one is given, and the former
one stays in the history. Audience: the annotator.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from discreet.campaign import Campaign
from discreet.errors import BadInput, NotNow, PoolChanged
from discreet.records import Answer, Question, Value
from discreet.web.access import Visitor
from discreet.web.showing import View, is_picture, picture_of, view_of

ENOUGH = "You were shown as many records as one person may see here. Thank you."
CHANGED = "Records of your next questions were changed since they were enrolled. Tell the owner."


class NoSuchQuestion(BadInput):
    """It is not there, or somebody else's."""

    def __init__(self) -> None:
        super().__init__("a question", "there is none of this name for you", "Take the next one")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How many questions this annotator answered, and how many they can be shown yet, at most: whatever others do."""

    answered: int
    left: int


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A question as it is shown. ``said``: what this annotator answered before, if they did."""

    question_id: str
    view: View = field(repr=False)
    again: bool = False
    said: Value = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Queue:
    """Of one annotator in one campaign."""

    visitor: Visitor

    @property
    def annotator(self) -> str:
        """Their name."""
        return self.visitor.user.name

    def upcoming(self) -> Sheet | None:
        """The question that is shown now: the one that waits for an answer, or a new one. None: there is none."""
        campaign = self.visitor.campaign
        found = campaign.next_for(self.annotator)
        return None if found is None else self._sheet(campaign, found)

    def following(self) -> tuple[Sheet | None, str]:
        """The same after an answer, which is stored whatever comes now: no question then, and why."""
        try:
            return self.upcoming(), ""
        except NotNow:
            return None, ENOUGH
        except PoolChanged:
            return None, CHANGED

    def sheet(self, question_id: str) -> Sheet:
        """A question that was assigned before, with what was said to it."""
        campaign = self.visitor.campaign
        question = self._mine(campaign, question_id)
        said = {one.question_id: one for one in campaign.store.answers_of(self.annotator)}
        campaign.check_record(question)
        return self._sheet(campaign, question, said.get(question_id))

    def answer(self, question_id: str, value: Value) -> None:
        """Store an answer, or None for a skip. Given again, another one is a correction."""
        campaign = self.visitor.campaign
        self._mine(campaign, question_id)
        campaign.tell([Answer(question_id=question_id, value=value, annotator=self.annotator)])

    def before(self, question_id: str | None = None) -> Sheet | None:
        """What was answered last before ``question_id``; None: nothing."""
        campaign = self.visitor.campaign
        gone = campaign.withdrawn_questions()
        said = [one for one in campaign.store.answers_of(self.annotator) if one.question_id not in gone]
        places = [place for place, one in enumerate(said) if one.question_id == question_id]
        earlier = said[: places[0]] if places else said
        if not earlier:
            return None
        question = self._mine(campaign, earlier[-1].question_id)
        campaign.check_record(question)
        return self._sheet(campaign, question, earlier[-1])

    def progress(self) -> Progress:
        """How far this annotator is."""
        answered, left = self.visitor.campaign.left_for(self.annotator)
        return Progress(answered=answered, left=left)

    def picture(self, question_id: str) -> bytes:
        """The picture of a question, as PNG."""
        campaign = self.visitor.campaign
        question = self._mine(campaign, question_id)
        with self.visitor.hosted.reading:
            if not is_picture(campaign.pool):
                raise NoSuchQuestion
            return picture_of(campaign.pool, question.record)

    def _mine(self, campaign: Campaign, question_id: str) -> Question:
        question = campaign.store.assigned(self.annotator, question_id)
        if question is None:
            raise NoSuchQuestion
        return question

    def _sheet(self, campaign: Campaign, question: Question, said: Answer | None = None) -> Sheet:
        with self.visitor.hosted.reading:
            view = view_of(campaign.pool, question.record)
        value = None if said is None else said.value
        return Sheet(question_id=question.id, view=view, again=said is not None, said=value)
