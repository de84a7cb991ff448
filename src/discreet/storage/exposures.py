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
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, select

from discreet.errors import BadInput, NotNow
from discreet.records import PERSON, Exposure, Shown
from discreet.storage import row_macs
from discreet.storage.forms import check_text, moment, now, stamp
from discreet.storage.scope import CHUNK, NAMED, Scope, chunks, of_campaign, steady
from discreet.storage.tables import answers, questions
from discreet.storage.tables import exposures as table

_DOING = "storing who is shown what"
Key = tuple[str, str, str]
"""Question, kind of audience, audience."""
People = dict[str, set[str]]
"""By question."""


@steady
def show(scope: Scope, shown: Sequence[Shown], *, at: datetime | None = None, most: int | None = None) -> int:
    """Store what is new; how many rows that were. ``most``: questions that one person is shown, in the whole campaign.

    `NotNow` if somebody would be shown more: then nothing is stored.
    """
    wanted = {_key(one) for one in shown}
    if not wanted:
        return 0
    with scope.writing(_DOING) as connection:
        asked = {question for question, _, _ in wanted}
        if unknown := len(asked) - len(scope.found(connection, questions.c.id, asked)):
            raise BadInput(
                scope.asked(_DOING), f"{unknown} of {len(asked)} question ids are unknown", "Show published ones"
            )
        fresh = sorted(wanted - _known(connection, scope, asked))
        if most is not None:
            _check_cap(connection, scope, fresh, most)
        insert(connection, scope, fresh, now() if at is None else at)
    return len(fresh)


@steady
def assign(
    scope: Scope, person: str, open_ids: Sequence[str], *, places: int, n: int | None, most: int | None, hold: timedelta
) -> list[str]:
    """Choose questions for one person out of ``open_ids``, in that order, and store that they are shown them.

    A question has so many ``places``; one is taken by everybody who answered it, and by who was shown it no longer than
    ``hold`` ago. What the person was shown and has not answered comes again; what they answered does not.
    """
    check_text(person, "an annotator's name")
    with scope.writing(_DOING) as connection:
        said, seen = _answered(connection, scope), _shown(connection, scope, now() - hold)
        mine = {question for question, who in _ever(connection, scope) if who == person}
        found = [
            one for one in open_ids if person not in said.get(one, ()) and _fits(one, person, said, seen, places, mine)
        ]
        room = len(found) if most is None else max(0, most - len(mine))
        new = set([one for one in found if one not in mine][:room])
        kept = [one for one in found if one in mine or one in new][:n]
        if found and not kept:
            raise NotNow(
                f"showing {person} more questions",
                f"they were shown {len(mine)}, and [oracle] per_annotator is {most}",
                "Let somebody else answer",
            )
        insert(connection, scope, [(one, PERSON, person) for one in kept if one not in mine], now())
    return kept


def _fits(question: str, person: str, said: People, seen: People, places: int, mine: set[str]) -> bool:
    """Whether the person was shown it before, or there is a place left."""
    return question in mine or len((said.get(question, set()) | seen.get(question, set())) - {person}) < places


@steady
def was_shown(scope: Scope, question: str, person: str) -> bool:
    """Whether a person was shown a question, or is being shown it: it was assigned to them."""
    check_text(person, "an audience", empty=True)
    with scope.reading("reading who was shown what") as connection:
        return connection.execute(_TO_PERSON, scope.values(question=question, person=person)).first() is not None


@steady
def read(scope: Scope, audience: str | None = None) -> list[Exposure]:
    """Everything that was shown, oldest first."""
    wanted = (
        select(table, questions.c.record, questions.c.phase, questions.c.place)
        .join(questions, (questions.c.campaign == table.c.campaign) & (questions.c.id == table.c.question))
        .where(scope.rows(table))
        .order_by(table.c.at, questions.c.phase, questions.c.place, table.c.kind, table.c.audience)
    )
    if audience is not None:
        wanted = wanted.where(table.c.audience == audience)
    with scope.reading("reading who was shown what") as connection:
        return [
            Exposure(
                question_id=row.question,
                record=row.record,
                phase=row.phase,
                kind=row.kind,
                audience=row.audience,
                at=moment(row.at),
            )
            for row in connection.execute(wanted)
        ]


def taken_out(connection: Connection, scope: Scope, asked: Iterable[str]) -> list[dict[str, Any]]:
    """Rows of some questions, deleted: for who puts the questions back under other records' names."""
    found: list[dict[str, Any]] = []
    for part in chunks(asked, CHUNK):
        mine = scope.rows(table), table.c.question.in_(part)
        found += [dict(row._mapping) for row in connection.execute(select(table).where(*mine))]
        connection.execute(table.delete().where(*mine))
    return found


def put_back(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """The inverse of `taken_out`."""
    if rows:
        connection.execute(table.insert(), rows)


def _key(one: Shown) -> Key:
    return (
        check_text(one.question_id, "a question's id"),
        check_text(one.kind, "a kind of audience"),
        check_text(one.audience, "an audience", empty=True),
    )


def _known(connection: Connection, scope: Scope, asked: Iterable[str]) -> set[Key]:
    found: set[Key] = set()
    for part in chunks(asked, CHUNK):
        rows = connection.execute(_TO_WHOM, scope.values(names=part))
        found |= {(row.question, row.kind, row.audience) for row in rows}
    return found


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
    mine = select(table.c.question, table.c.audience).where(scope.rows(table), table.c.kind == PERSON)
    return [(row.question, row.audience) for row in connection.execute(mine)]


def _check_cap(connection: Connection, scope: Scope, fresh: Sequence[Key], most: int) -> None:
    counts = Counter(who for _, who in _ever(connection, scope))
    counts.update(audience for _, kind, audience in fresh if kind == PERSON)
    over = sum(counts[who] > most for who in {audience for _, kind, audience in fresh if kind == PERSON})
    if over:
        raise NotNow(
            "showing questions",
            f"{over} of the annotators would be shown more than {most}, which [oracle] per_annotator allows",
            "Let others answer, or raise it",
        )


def _shown(connection: Connection, scope: Scope, since: datetime) -> People:
    mine = scope.rows(table), table.c.kind == PERSON, table.c.at >= stamp(since)
    found: People = {}
    for question, person in connection.execute(select(table.c.question, table.c.audience).where(*mine)):
        found.setdefault(question, set()).add(person)
    return found


def _answered(connection: Connection, scope: Scope) -> People:
    found: People = {}
    wanted = select(answers.c.question, answers.c.annotator).distinct().where(scope.rows(answers))
    for question, person in connection.execute(wanted):
        found.setdefault(question, set()).add(person)
    return found
