"""The queue of one annotator: their next question, chosen and stored as shown together, and how many are left.

Guarantee: as of `exposures.assign`, for one question at a time: it is stored that somebody is shown it before they are,
nobody is shown more than their cap, and two people who come at once do not take the same last place. The database
looks for it, so that the time it takes hardly grows with the campaign.

A question that waits for this annotator's answer comes first, then new ones, in the order in which they are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, select

from discreet.errors import NotNow
from discreet.records import PERSON, Question
from discreet.storage.forms import check_text, now, stamp
from discreet.storage.scope import CHUNK, Scope, chunks, steady
from discreet.storage.tables import answers, exposures, questions, records

Conditions = list[ColumnElement[bool]]


@steady
def next_question(
    scope: Scope,
    person: str,
    *,
    places: int,
    most: int | None,
    hold: timedelta,
    enough: str,
    besides: Collection[str] = (),
) -> Question | None:
    """The one that waits for ``person``, or else a new one, which is stored as shown; None if there is none.

    places   people who answer a question; somebody who was shown it holds one for ``hold``
    most     questions that one person is shown; `NotNow` if there would be more
    enough   the annotator whose answer alone closes a question: labels that were there before
    besides  questions that are passed over
    """
    check_text(person, "an annotator's name")
    waiting = [*_open(scope, person, places, enough), questions.c.id.not_in(list(besides))]
    with scope.reading("reading the questions") as connection:
        found = _first_shown(connection, scope, person, enough, waiting)
    if found is not None:
        return found
    with scope.writing("storing who is shown what") as connection:
        found = _first_shown(connection, scope, person, enough, waiting)
        if found is not None:  # another page of the same person was faster
            return found
        free = _places_taken(person, stamp(now() - hold)) < places
        found = _first(connection, [*waiting, free])
        if found is not None:
            _check_cap(connection, scope, person, most)
            row = {"campaign": scope.campaign, "question": found.id, "kind": PERSON, "audience": person}
            connection.execute(exposures.insert().values(**row, at=stamp(now())))
    return found


@steady
def left(scope: Scope, person: str, *, places: int, enough: str, most: int | None) -> tuple[int, int]:
    """How many questions a person answered, and how many they can be shown yet, at most.

    The second is what was asked and they did not answer, within their cap: it does not fall when others answer, for
    what others do is not theirs to know. When nothing is open to them any more it is 0, as they would see anyway.
    """
    told = select(func.count(answers.c.question.distinct())).where(scope.rows(answers))
    asked = select(func.count()).select_from(questions).where(scope.rows(questions))
    with scope.reading("reading the questions") as connection:
        answered = connection.scalar(told.where(answers.c.annotator == person)) or 0
        if _first(connection, _open(scope, person, places, enough)) is None:
            return answered, 0
        # what was asked, less what is said, less what is withdrawn: each is counted by an index
        found = (connection.scalar(asked) or 0) - _withdrawn(connection, scope, person, enough)
        found -= connection.scalar(told.where(answers.c.annotator.in_([person, enough]))) or 0
        if most is not None:
            room = most - _shown_count(connection, scope, person)
            found = min(found, max(0, room) + len(_unanswered(connection, scope, person, enough)))
        return answered, found


def _withdrawn(connection: Connection, scope: Scope, person: str, enough: str) -> int:
    """Questions about withdrawn records that are not among those that are said. Mostly no record is withdrawn."""
    gone = connection.scalars(select(records.c.id).where(scope.rows(records), records.c.withdrawn.is_not(None)))
    unsaid = select(func.count()).where(scope.rows(questions), _not_said_by(person, enough))
    return sum(connection.scalar(unsaid.where(questions.c.record.in_(ids))) or 0 for ids in chunks(list(gone), CHUNK))


@steady
def assigned(scope: Scope, person: str, question_id: str) -> Question | None:
    """A question that was assigned to ``person`` and whose record was not withdrawn; None: there is none for them."""
    mine = exists().where(_same(exposures.c), exposures.c.kind == PERSON, exposures.c.audience == person)
    with scope.reading("reading a question") as connection:
        return _first(
            connection, [scope.rows(questions), questions.c.id == question_id, records.c.withdrawn.is_(None), mine]
        )


@steady
def waiting_questions(scope: Scope, *, places: int, enough: str) -> list[Question]:
    """Open questions that somebody was shown and has not answered, in the order in which they are shown."""
    theirs = exists().where(_same(answers.c), answers.c.annotator == exposures.c.audience)
    held = exists().where(_same(exposures.c), exposures.c.kind == PERSON, ~theirs.correlate(questions, exposures))
    said = select(func.count(answers.c.annotator.distinct())).where(_same(answers.c)).scalar_subquery()
    told = ~exists().where(_same(answers.c), answers.c.annotator == enough)
    wanted = _questions().where(scope.rows(questions), records.c.withdrawn.is_(None), told, said < places, held)
    with scope.reading("reading the questions") as connection:
        return [_question(row) for row in connection.execute(wanted)]


def _open(scope: Scope, person: str, places: int, enough: str) -> Conditions:
    """Fewer people than wanted have answered, this one has not, and the record was not withdrawn."""
    said = select(func.count(answers.c.annotator.distinct())).where(_same(answers.c)).scalar_subquery()
    return [scope.rows(questions), records.c.withdrawn.is_(None), _not_said_by(person, enough), said < places]


def _not_said_by(person: str, enough: str) -> ColumnElement[bool]:
    return ~exists().where(_same(answers.c), answers.c.annotator.in_([person, enough]))


def _unanswered(connection: Connection, scope: Scope, person: str, enough: str) -> list[str]:
    """Questions that this person was shown and has not answered: few, and found without looking at the others."""
    said = exists().where(
        *(answers.c.campaign == exposures.c.campaign, answers.c.question == exposures.c.question),
        answers.c.annotator.in_([person, enough]),
    )
    mine = scope.rows(exposures), exposures.c.kind == PERSON, exposures.c.audience == person
    return list(connection.scalars(select(exposures.c.question).where(*mine, ~said)))


def _first_shown(
    connection: Connection, scope: Scope, person: str, enough: str, conditions: Conditions
) -> Question | None:
    """The first of those that this person was shown and has not answered."""
    found = [
        one
        for names in chunks(_unanswered(connection, scope, person, enough), CHUNK)
        if (one := _first(connection, [*conditions, questions.c.id.in_(names)])) is not None
    ]
    return min(found, key=lambda one: (one.phase, one.place), default=None)


def _places_taken(person: str, since: str) -> ColumnElement[int]:
    """By others: those who answered, and those who were shown it lately and have not."""
    said = select(func.count(answers.c.annotator.distinct())).where(_same(answers.c), answers.c.annotator != person)
    theirs = exists().where(_same(answers.c), answers.c.annotator == exposures.c.audience)
    held = select(func.count()).where(
        *(_same(exposures.c), exposures.c.kind == PERSON, exposures.c.audience != person),
        *(exposures.c.at >= since, ~theirs.correlate(questions, exposures)),
    )
    return said.scalar_subquery() + held.correlate(questions).scalar_subquery()


def _same(columns: Any) -> ColumnElement[bool]:
    """Of the question that is looked at."""
    return and_(columns.campaign == questions.c.campaign, columns.question == questions.c.id)


def _from(wanted: Select[Any]) -> Select[Any]:
    of_record = (records.c.campaign == questions.c.campaign) & (records.c.id == questions.c.record)
    return wanted.select_from(questions.join(records, of_record))


def _first(connection: Connection, conditions: Sequence[ColumnElement[bool]]) -> Question | None:
    row = connection.execute(_questions().where(*conditions).limit(1)).first()
    return None if row is None else _question(row)


def _questions() -> Select[Any]:
    wanted = _from(select(questions.c.id, questions.c.record, questions.c.phase, questions.c.place))
    return wanted.order_by(questions.c.phase, questions.c.place)


def _question(row: Any) -> Question:
    return Question(id=row.id, record=row.record, phase=row.phase, place=row.place)


def _shown_count(connection: Connection, scope: Scope, person: str) -> int:
    mine = scope.rows(exposures), exposures.c.kind == PERSON, exposures.c.audience == person
    return connection.scalar(select(func.count()).where(*mine)) or 0


def _check_cap(connection: Connection, scope: Scope, person: str, most: int | None) -> None:
    if most is None:
        return
    shown = _shown_count(connection, scope, person)
    if shown >= most:
        raise NotNow(
            f"showing {person} more questions",
            f"they were shown {shown}, and [oracle] per_annotator is {most}",
            "Let somebody else answer",
        )
