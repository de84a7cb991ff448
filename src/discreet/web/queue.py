"""One annotator's questions: the next one, an answer, a skip, back to what was said, and how far they are.

Guarantee: a question is reached only by whom it was assigned to, and that is stored before anything of its record is
read for them (`Campaign.next_for`). Whoever else asks, or asks for what does not exist, hears the same. What others
said is never read here. Nothing here asks a query, trains, or costs anything.

Undo goes back to the last answer, and from there further; the answer stands until another one is given, and the former
one stays in the history. Audience: the annotator.

What is shown of a record
-------------------------
What an annotator sees of a record: a picture, a text, or a table of named numbers.

Guarantee: what is shown is made of numbers and texts that were read from the pool, of that record alone. A picture is
encoded anew from its pixels, so nothing of a file (its name, its format, what a camera wrote into it) leaves, and there
is one content type. No address that comes from outside names a file.

Numbers are shown as they were before `center` and `scale`. A picture of bytes is shown as it is; where records are
other numbers, black and white are the ends of that record's own range, unless it lies within [0, 1].
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.campaign import Campaign
from discreet.errors import BadInput, NotNow, PoolChanged
from discreet.pools import Pool
from discreet.pools.images import is_picture, png, stored_values
from discreet.records import Answer, Question, Value
from discreet.web.access import Visitor

ENOUGH = "You were shown as many records as one person may see here. Thank you."
CHANGED = "Records of your next questions were changed since they were enrolled. Tell the owner."


class NoSuchQuestion(BadInput):
    """It is not there, or somebody else's."""

    def __init__(self) -> None:
        super().__init__("a question", "there is none of this name for you", "Take the next one")


@dataclass(frozen=True, kw_only=True)
class QuestionsLeft:
    """How many questions this annotator answered, and how many they can be shown yet, at most: whatever others do."""

    answered: int
    left: int


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A question as it is shown. ``value``: what this annotator answered before, if they did."""

    question_id: str
    view: View = field(repr=False)
    again: bool = False
    value: Value = field(default=None, repr=False)


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
        question = campaign.next_for(self.annotator)
        return None if question is None else self._sheet(campaign, question)

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
        answers = {answer.question_id: answer for answer in campaign.store.answers_of(self.annotator)}
        campaign.check_record(question)
        return self._sheet(campaign, question, answers.get(question_id))

    def answer(self, question_id: str, value: Value) -> None:
        """Store an answer, or None for a skip. Given again, another one is a correction."""
        campaign = self.visitor.campaign
        self._mine(campaign, question_id)
        campaign.tell([Answer(question_id=question_id, value=value, annotator=self.annotator)])

    def before(self, question_id: str | None = None) -> Sheet | None:
        """What was answered last before ``question_id``; None: nothing."""
        campaign = self.visitor.campaign
        gone = campaign.withdrawn_questions()
        answers = [answer for answer in campaign.store.answers_of(self.annotator) if answer.question_id not in gone]
        places = [position for position, answer in enumerate(answers) if answer.question_id == question_id]
        earlier = answers[: places[0]] if places else answers
        if not earlier:
            return None
        question = self._mine(campaign, earlier[-1].question_id)
        campaign.check_record(question)
        return self._sheet(campaign, question, earlier[-1])

    def progress(self) -> QuestionsLeft:
        """How far this annotator is."""
        answered, left = self.visitor.campaign.questions.left_for(self.annotator)
        return QuestionsLeft(answered=answered, left=left)

    def picture(self, question_id: str) -> bytes:
        """The picture of a question, as PNG."""
        campaign = self.visitor.campaign
        question = self._mine(campaign, question_id)
        with self.visitor.hosted.reading:
            if campaign.pool.x is None or not is_picture(campaign.pool.x.shape[1:]):
                raise NoSuchQuestion
            return picture_of(campaign.pool, question.record)

    def _mine(self, campaign: Campaign, question_id: str) -> Question:
        question = campaign.store.assigned(self.annotator, question_id)
        if question is None:
            raise NoSuchQuestion
        return question

    def _sheet(self, campaign: Campaign, question: Question, answer: Answer | None = None) -> Sheet:
        with self.visitor.hosted.reading:
            view = view_of(campaign.pool, question.record)
        value = None if answer is None else answer.value
        return Sheet(question_id=question.id, view=view, again=answer is not None, value=value)


# -- what is shown of a record


Kind = Literal["picture", "text", "table", "broken"]
_SMALL = 160
_DIGITS = 6


@dataclass(frozen=True, kw_only=True, repr=False)
class View:
    """Of one record. Audience: its annotator.

    kind     what there is to see; ``broken``: the record cannot be read
    text     of ``text``
    rows     of ``table``: names and numbers as text
    small    of ``picture``: it has so few pixels that they are shown as squares
    address  of ``picture``: a small one itself, as an address that holds it; a large one is fetched (`picture_of`)
    """

    kind: Kind
    text: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    small: bool = False
    address: str = ""


def view_of(pool: Pool, record: str) -> View:
    """What there is to see of ``record``; a picture itself is `picture_of`."""
    places = pool.places([record])
    if bool(pool.broken(places)[0]):
        return View(kind="broken")
    if pool.x is None:
        return View(kind="text", text=str(pool.text[places][0]))  # type: ignore[index]
    text = "" if pool.text is None else str(pool.text[places][0])
    if is_picture(pool.x.shape[1:]):
        small = max(pool.x.shape[-2:]) <= _SMALL
        return View(kind="picture", text=text, small=small, address=_address(pool, record) if small else "")
    if pool.declared.schema is not None:
        return View(kind="table", text=text, rows=tuple(pool.declared.schema.shown(pool.x[places][0]).items()))
    return View(kind="table", text=text, rows=_named(pool, stored_values(pool, pool.x[places])[0]))


def picture_of(pool: Pool, record: str) -> bytes:
    """A record as PNG."""
    assert pool.x is not None
    places = pool.places([record])
    as_they_are = pool.declared.kind == "images" or pool.x.dtype == np.uint8
    return png(_bytes(stored_values(pool, pool.x[places])[0], as_they_are=as_they_are))


def _address(pool: Pool, record: str) -> str:
    """The picture in the page itself: a second request would take as long as the rest of it."""
    return f"data:image/png;base64,{base64.b64encode(picture_of(pool, record)).decode()}"


def _bytes(values: NDArray[Any], *, as_they_are: bool) -> NDArray[np.uint8]:
    if as_they_are:
        exact: NDArray[np.uint8] = np.clip(np.rint(values), 0, 255).astype(np.uint8)
        return exact
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    spread = (high - low) or 1.0
    pixels: NDArray[np.uint8] = np.rint((values - low) * (255 / spread)).astype(np.uint8)
    return pixels


def _named(pool: Pool, values: NDArray[Any]) -> tuple[tuple[str, str], ...]:
    flat, names = values.reshape(-1), pool.declared.columns
    if names is None or len(names) != len(flat):
        names = tuple(f"{position + 1}" for position in range(len(flat)))
    return tuple((name, f"{float(value):.{_DIGITS}g}") for name, value in zip(names, flat, strict=True))
