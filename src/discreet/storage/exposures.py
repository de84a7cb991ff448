"""Who was shown which question, and when: written before it is handed out, and never taken back.

Guarantee: rows that are shown together are stored together or not at all, and `show` has stored them on the disk when
it returns; only then may anybody see a question. The same question shown to the same audience again is not stored
again: the first time stands. An audience that has a cap is never shown more questions than that: the count and the rows
are one transaction. `assign` chooses and stores in one transaction too, so that two annotators who come at once do not
take the same last place.

A row names the question, not the record: a record that is withdrawn later is then named by its code here, too.
Audience: owner, who may hand it to an auditor.

Queues
------
The queue of one annotator: their next question, chosen and stored as shown together, and how many are left.

Guarantee: as of `exposures.assign`, for one question at a time: it is stored that somebody is shown it before they are,
nobody is shown more than their cap, and two people who come at once do not take the same last place. The database
looks for it, so that the time it takes hardly grows with the campaign. Somebody waits for every one of these
statements, so they are built once, with names for what changes (`_values`).

A question that waits for this annotator's answer comes first, then new ones, in the order in which they are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
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

from discreet.errors import BadInput, NotNow
from discreet.records import PERSON, Exposure, Question, Shown
from discreet.storage import row_macs
from discreet.storage.answers import grouped
from discreet.storage.database import CHUNK, NAMED, Scope, chunks, of_campaign, steady
from discreet.storage.tables import answers, check_text, exposures, moment, now, questions, records, stamp, unstorable
from discreet.storage.tables import exposures as table

_DOING = "storing who is shown what"
Key = tuple[str, str, str]
"""Question, kind of audience, audience."""


@steady
def show(scope: Scope, shown: Sequence[Shown], *, at: datetime | None = None, cap: int | None = None) -> int:
    """Store what is new; how many rows that were. ``cap``: questions that one person is shown, in the whole campaign.

    `NotNow` if somebody would be shown more: then nothing is stored.
    """
    wanted = {_key(row) for row in shown}
    if not wanted:
        return 0
    with scope.writing(_DOING) as connection:
        asked = {question for question, _, _ in wanted}
        if unknown := len(asked) - len(scope.known(connection, questions.c.id, asked)):
            raise BadInput(
                scope.asked(_DOING), f"{unknown} of {len(asked)} question ids are unknown", "Show published ones"
            )
        known = {(row.question, row.kind, row.audience) for row in scope.named(connection, _TO_WHOM, asked)}
        fresh = sorted(wanted - known)
        if cap is not None:
            _check_cap(connection, scope, fresh, cap)
        insert(connection, scope, fresh, now() if at is None else at)
    return len(fresh)


@steady
def assign(
    scope: Scope, person: str, open_ids: Sequence[str], *, places: int, n: int | None, cap: int | None, hold: timedelta
) -> list[str]:
    """Choose questions for one person out of ``open_ids``, in that order, and store that they are shown them.

    A question has so many ``places``; one is taken by everybody who answered it, and by who was shown it no longer than
    ``hold`` ago. What the person was shown and has not answered comes again; what they answered does not.
    """
    check_text(person, "an annotator's name")
    with scope.writing(_DOING) as connection:
        lately = scope.rows(table), table.c.kind == PERSON, table.c.at >= stamp(now() - hold)
        voices = select(answers.c.question, answers.c.annotator).where(scope.rows(answers))
        answered = grouped(connection.execute(voices))
        seen = grouped(connection.execute(select(table.c.question, table.c.audience).where(*lately)))
        before = {question for question, who in _ever(connection, scope) if who == person}
        nobody = set[str]()
        fitting = [
            question_id
            for question_id in open_ids
            if person not in answered.get(question_id, nobody)
            and (
                question_id in before
                or len((answered.get(question_id, nobody) | seen.get(question_id, nobody)) - {person}) < places
            )
        ]
        room = len(fitting) if cap is None else max(0, cap - len(before))
        new = set([question_id for question_id in fitting if question_id not in before][:room])
        assigned_ids = [question_id for question_id in fitting if question_id in before or question_id in new][:n]
        if fitting and not assigned_ids and cap is not None:
            raise _cap_reached(person, len(before), cap)
        insert(
            connection,
            scope,
            [(question_id, PERSON, person) for question_id in assigned_ids if question_id not in before],
            now(),
        )
    return assigned_ids


@steady
def was_shown(scope: Scope, question_id: str, person: str) -> bool:
    """Whether a question was assigned to an annotator, which is stored before they see it."""
    check_text(person, "an audience", empty=True)
    return bool(scope.fetch("reading who was shown what", _TO_PERSON, question=question_id, person=person))


@steady
def read(scope: Scope, audience: str | None = None) -> list[Exposure]:
    """Who was shown what, oldest first. A withdrawn record is named by its code."""
    wanted = (
        select(table, questions.c.record, questions.c.phase, questions.c.place)
        .join(questions, (questions.c.campaign == table.c.campaign) & (questions.c.id == table.c.question))
        .where(scope.rows(table))
        .order_by(table.c.at, questions.c.phase, questions.c.place, table.c.kind, table.c.audience)
    )
    if audience is not None:
        wanted = wanted.where(table.c.audience == audience)
    return [
        Exposure(
            question_id=row.question,
            record=row.record,
            phase=row.phase,
            kind=row.kind,
            audience=row.audience,
            at=moment(row.at),
        )
        for row in scope.fetch("reading who was shown what", wanted)
    ]


def _key(shown: Shown) -> Key:
    return (
        check_text(shown.question_id, "a question's id"),
        check_text(shown.kind, "a kind of audience"),
        check_text(shown.audience, "an audience", empty=True),
    )


_TO_PERSON = select(table.c.at).where(
    *(of_campaign(table), table.c.question == bindparam("question")),
    *(table.c.kind == PERSON, table.c.audience == bindparam("person")),
)
_TO_WHOM = select(table.c.question, table.c.kind, table.c.audience).where(
    of_campaign(table), table.c.question.in_(NAMED)
)


def insert(connection: Connection, scope: Scope, fresh: Sequence[Key], at: datetime) -> None:
    """Rows that are not there yet."""
    if fresh:
        rows = [
            {"campaign": scope.campaign, "question": question, "kind": kind, "audience": audience, "at": stamp(at)}
            for question, kind, audience in fresh
        ]
        connection.execute(table.insert(), rows)
        row_macs.cover(connection, scope, row_macs.EXPOSURES, [row["question"] for row in rows])


def _ever(connection: Connection, scope: Scope) -> list[tuple[str, str]]:
    """Question and person, of everything that people were shown."""
    to_people = select(table.c.question, table.c.audience).where(scope.rows(table), table.c.kind == PERSON)
    return [(row.question, row.audience) for row in connection.execute(to_people)]


def _check_cap(connection: Connection, scope: Scope, fresh: Sequence[Key], cap: int) -> None:
    counts = Counter(who for _, who in _ever(connection, scope))
    more = Counter(audience for _, kind, audience in fresh if kind == PERSON)
    if over := sum(counts[who] + count > cap for who, count in more.items()):
        raise NotNow(
            "showing questions",
            f"{over} of the annotators would be shown more than {cap}, which [oracle] per_annotator allows",
            "Let others answer, or raise it",
        )


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
    with scope.writing(_DOING) as connection:
        question = _first_shown(connection, values, besides)
        if question is not None:  # another page of the same person was faster
            return question
        question = _first(connection, _FREE, values | {"since": stamp(now() - hold), "besides": list(besides)})
        if question is not None:
            shown = connection.scalar(_SHOWN, values) or 0
            if cap is not None and shown >= cap:
                raise _cap_reached(person, shown, cap)
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


def _cap_reached(person: str, shown: int, cap: int) -> NotNow:
    return NotNow(
        f"showing {person} more questions",
        f"they were shown {shown}, and [oracle] per_annotator is {cap}",
        "Let somebody else answer",
    )


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
