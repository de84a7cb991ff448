"""The queue of one annotator: their next question, chosen and stored as shown together, and how many are left.

Guarantee: as of `exposures.assign`, for one question at a time: it is stored that somebody is shown it before they are,
nobody is shown more than their cap, and two people who come at once do not take the same last place. The database
looks for it, so that the time it takes hardly grows with the campaign. Somebody waits for every one of these
statements, so they are built once, with names for what changes (`_values`).

A question that waits for this annotator's answer comes first, then new ones, in the order in which they are shown.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Integer,
    Select,
    and_,
    bindparam,
    exists,
    func,
    select,
)

from discreet.records import PERSON, Question
from discreet.storage.database import CHUNK, NAMED, Scope, chunks, of_campaign, steady
from discreet.storage.exposures import DOING, cap_reached, insert
from discreet.storage.tables import answers, check_text, exposures, now, questions, records, stamp, unstorable

Values = dict[str, Any]
_PERSON: BindParameter[str] = bindparam("person")
_ENOUGH: BindParameter[str] = bindparam("enough")
_PLACES: BindParameter[int] = bindparam("places", type_=Integer)


@steady
def next_question(
    scope: Scope,
    person: str,
    *,
    places: int,
    cap: int | None,
    hold: timedelta,
    enough: str,
    besides: Collection[str] = (),
) -> Question | None:
    """The one that waits for ``person``, or else a new one, which is stored as shown; None if there is none.

    places   people who answer a question; somebody who was shown it holds one for ``hold``
    cap      questions that one person is shown; `NotNow` if there would be more
    enough   the annotator whose answer alone closes a question: labels that were there before
    besides  questions that are passed over
    """
    check_text(person, "an annotator's name")
    values = scope.values(person=person, enough=enough, places=places)
    with scope.reading("reading the questions") as connection:
        question = _first_shown(connection, values, besides)
    if question is not None:
        return question
    with scope.writing(DOING) as connection:
        question = _first_shown(connection, values, besides)
        if question is not None:  # another page of the same person was faster
            return question
        question = _first(connection, _FREE, values | {"since": stamp(now() - hold), "besides": list(besides)})
        if question is not None:
            shown = connection.scalar(_SHOWN, values) or 0
            if cap is not None and shown >= cap:
                raise cap_reached(person, shown, cap)
            insert(connection, scope, [(question.id, PERSON, person)], now())
    return question


@steady
def left(scope: Scope, person: str, *, places: int, enough: str, cap: int | None = None) -> tuple[int, int]:
    """How many questions a person answered, and how many they can be shown yet, at most.

    The second is what was asked and they did not answer, within their cap: it does not fall when others answer, for
    what others do is not theirs to know. When nothing is open to them any more it is 0, as they would see anyway.
    """
    values = scope.values(person=person, enough=enough)
    with scope.reading("reading the questions") as connection:
        answered = connection.scalar(_ANSWERED, values) or 0
        if _first(connection, _OPEN, values | {"places": places}) is None:
            return answered, 0
        # what was asked, less what is said, less what is withdrawn and not said: each is counted by an index
        gone = list(connection.scalars(_WITHDRAWN, values))  # mostly none
        unsaid = sum(row[0] for row in scope.named(connection, _UNSAID, gone, person=person, enough=enough))
        open_count = (connection.scalar(_ASKED, values) or 0) - unsaid - (connection.scalar(_SAID, values) or 0)
        if cap is not None:
            room = cap - (connection.scalar(_SHOWN, values) or 0)
            open_count = min(open_count, max(0, room) + len(_unanswered(connection, values)))
        return answered, open_count


@steady
def assigned(scope: Scope, person: str, question_id: str) -> Question | None:
    """A question that was assigned to ``person`` and whose record was not withdrawn; None: there is none for them."""
    if unstorable(question_id):
        return None
    rows = scope.fetch("reading a question", _ASSIGNED, person=person, question=question_id)
    return _question(rows[0]) if rows else None


@steady
def waiting_questions(scope: Scope, *, places: int, enough: str) -> list[Question]:
    """Open questions that somebody was shown and has not answered, in the order in which they are shown."""
    rows = scope.fetch("reading the questions", _WAITING, enough=enough, places=places)
    return [_question(row) for row in rows]


def _unanswered(connection: Connection, values: Values) -> list[str]:
    """Questions that this person was shown and has not answered: few, and found without looking at the others."""
    return list(connection.scalars(_UNANSWERED, values))


def _first_shown(connection: Connection, values: Values, besides: Collection[str]) -> Question | None:
    """The first of those that this person was shown and has not answered."""
    waiting = [name for name in _unanswered(connection, values) if name not in besides]
    firsts = [
        question
        for names in chunks(waiting, CHUNK)
        if (question := _first(connection, _OPEN_NAMED, values | {"names": names})) is not None
    ]
    return min(firsts, key=lambda question: (question.phase, question.place), default=None)


def _first(connection: Connection, wanted: Select[Any], values: Values) -> Question | None:
    row = connection.execute(wanted, values).first()
    return None if row is None else _question(row)


def _question(row: Any) -> Question:
    return Question(id=row.id, record=row.record, phase=row.phase, place=row.place)


# -- the statements


def _same(columns: Any) -> ColumnElement[bool]:
    """Of the question that is looked at."""
    return and_(columns.campaign == questions.c.campaign, columns.question == questions.c.id)


def _questions() -> Select[Any]:
    of_record = (records.c.campaign == questions.c.campaign) & (records.c.id == questions.c.record)
    wanted = select(questions.c.id, questions.c.record, questions.c.phase, questions.c.place)
    wanted = wanted.select_from(questions.join(records, of_record)).where(of_campaign(questions))
    return wanted.where(records.c.withdrawn.is_(None)).order_by(questions.c.phase, questions.c.place)


def _places_taken() -> ColumnElement[int]:
    """By others: those who answered, and those who were shown it lately and have not."""
    answered = select(func.count(answers.c.annotator.distinct())).where(
        _same(answers.c), answers.c.annotator != _PERSON
    )
    theirs = exists().where(_same(answers.c), answers.c.annotator == exposures.c.audience)
    held = select(func.count()).where(
        *(_same(exposures.c), exposures.c.kind == PERSON, exposures.c.audience != _PERSON),
        *(exposures.c.at >= bindparam("since"), ~theirs.correlate(questions, exposures)),
    )
    return answered.scalar_subquery() + held.correlate(questions).scalar_subquery()


def _waiting() -> Select[Any]:
    theirs = exists().where(_same(answers.c), answers.c.annotator == exposures.c.audience)
    held = exists().where(_same(exposures.c), exposures.c.kind == PERSON, ~theirs.correlate(questions, exposures))
    not_closed = ~exists().where(_same(answers.c), answers.c.annotator == _ENOUGH)
    return _questions().where(not_closed, _VOICES < _PLACES, held)


_VOICES = select(func.count(answers.c.annotator.distinct())).where(_same(answers.c)).scalar_subquery()
_NOT_SAID = ~exists().where(_same(answers.c), answers.c.annotator.in_([_PERSON, _ENOUGH]))
_OPEN = _questions().where(_NOT_SAID, _VOICES < _PLACES).limit(1)
"""Fewer people than wanted have answered, this one has not, and the record was not withdrawn."""
_OPEN_NAMED = _OPEN.where(questions.c.id.in_(NAMED))
_FREE = _OPEN.where(questions.c.id.not_in(bindparam("besides", expanding=True)), _places_taken() < _PLACES)
_WAITING = _waiting()
_MINE = of_campaign(exposures), exposures.c.kind == PERSON, exposures.c.audience == _PERSON
_ASSIGNED = (
    _questions()
    .where(
        questions.c.id == bindparam("question"),
        exists().where(_same(exposures.c), exposures.c.kind == PERSON, exposures.c.audience == _PERSON),
    )
    .limit(1)
)
_SHOWN = select(func.count()).where(*_MINE)
_UNANSWERED = select(exposures.c.question).where(
    *_MINE,
    ~exists().where(
        *(answers.c.campaign == exposures.c.campaign, answers.c.question == exposures.c.question),
        answers.c.annotator.in_([_PERSON, _ENOUGH]),
    ),
)
_TOLD = select(func.count(answers.c.question.distinct())).where(of_campaign(answers))
_ANSWERED = _TOLD.where(answers.c.annotator == _PERSON)
_SAID = _TOLD.where(answers.c.annotator.in_([_PERSON, _ENOUGH]))
_ASKED = select(func.count()).select_from(questions).where(of_campaign(questions))
_WITHDRAWN = select(records.c.id).where(of_campaign(records), records.c.withdrawn.is_not(None))
_UNSAID = select(func.count()).where(of_campaign(questions), _NOT_SAID, questions.c.record.in_(NAMED))
