"""Who was shown which question, and when: written before it is handed out, and never taken back.

Guarantee: rows that are shown together are stored together or not at all, and `show` has stored them on the disk when
it returns; only then may anybody see a question. The same question shown to the same audience again is not stored
again: the first time stands. An audience that has a cap is never shown more questions than that: the count and the rows
are one transaction. `assign` chooses and stores in one transaction too, so that two annotators who come at once do not
take the same last place.

A row names the question, not the record: a record that is withdrawn later is then named by its code here, too.
Audience: owner, who may hand it to an auditor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, select

from discreet.errors import BadInput, NotNow
from discreet.records import PERSON, Exposure, Shown
from discreet.storage import row_macs
from discreet.storage.answers import grouped
from discreet.storage.database import NAMED, Scope, of_campaign, steady
from discreet.storage.tables import answers, check_text, moment, now, questions, stamp
from discreet.storage.tables import exposures as table

DOING = "storing who is shown what"
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
    with scope.writing(DOING) as connection:
        asked = {question for question, _, _ in wanted}
        if unknown := len(asked) - len(scope.known(connection, questions.c.id, asked)):
            raise BadInput(
                scope.asked(DOING), f"{unknown} of {len(asked)} question ids are unknown", "Show published ones"
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
    with scope.writing(DOING) as connection:
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
            raise cap_reached(person, len(before), cap)
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


def cap_reached(person: str, shown: int, cap: int) -> NotNow:
    """What somebody is told who was shown as many questions as they may be."""
    return NotNow(
        f"showing {person} more questions",
        f"they were shown {shown}, and [oracle] per_annotator is {cap}",
        "Let somebody else answer",
    )
