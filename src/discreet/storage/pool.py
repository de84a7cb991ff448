"""The records of a pool: their ids in the order of enrolment, and a keyed code of each. The data stay where they are.

Guarantee: a cohort is enrolled whole or not at all, and rows are read as they come, so a pool need not fit in memory.
While they come, other writers wait: have them ready.

Withdrawals
-----------
Records that are taken back: marked at once, erased as soon as no step is under way that was begun with them.

    asked -> erasing -> done

*asked*: marked, and still there for a step that was begun with it. *erasing*: its id is a keyed code, its answers are
gone; copies may be left in files and free pages. *done*: those are gone, too.

Guarantee: a mark is durable when `mark` returns. `erase` is one transaction: the id becomes its code wherever it stood,
the code of its content goes, its answers and their history go; who was shown it is remembered, under the code. Its
place stays, in the pool and in its cohort, so that no size and no order changes. Which step of the way a record is on
survives the process; repeating any of them is safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, func, select, update
from sqlalchemy.exc import IntegrityError

from discreet.errors import BadInput
from discreet.storage import row_macs
from discreet.storage.database import CHUNK, NAMED, Scope, chunks, of_campaign, steady
from discreet.storage.tables import (
    answers,
    canonical,
    changed,
    check_text,
    exposures,
    from_json,
    moment,
    now,
    pool_cohorts,
    questions,
    records,
    stamp,
)

_ROWS = 5000
"""Read or written at a time."""


@dataclass(frozen=True, kw_only=True)
class PoolCohort:
    """Records that were enrolled together: number 0 when the campaign began, the others when the pool was extended."""

    number: int
    size: int
    facts: Mapping[str, Any] = field(repr=False)
    at: datetime


@dataclass(frozen=True, kw_only=True)
class WithdrawnRecord:
    """A record that was taken back.

    id        its own while it is only marked; its keyed code once it is ``erased``
    person    the keyed code of whose record it was, if it is erased and that was known
    done      no copy is left in the store's files
    """

    place: int
    id: str = field(repr=False)
    person: bytes = field(repr=False)
    erased: bool
    done: bool


def add_records(scope: Scope, rows: Iterable[tuple[str, bytes]], facts: Mapping[str, Any] | None = None) -> int:
    """Enrol records, ids with their keyed codes, as a cohort of the pool: all or none. The cohort's number.

    Other writers wait until the last row has come.
    """
    stored = canonical(facts, "facts of a pool")
    with scope.writing("enrolling records") as connection:
        number, first = _next(connection, scope)
        size = 0
        for chunk in chunks(rows, _ROWS):
            _insert(connection, scope, chunk, first + size)
            size += len(chunk)
        if not size:
            raise BadInput(scope.asked("enrolling records"), "there are none", "Give at least one")
        cohort = {"number": number, "first_place": first, "size": size, "facts": stored, "at": stamp(now())}
        connection.execute(pool_cohorts.insert().values(campaign=scope.campaign, **cohort))
        row_macs.cover(connection, scope, row_macs.COHORTS, [number])
        row_macs.cover(connection, scope, row_macs.POOL, row_macs.places(range(first, first + size)))
    return number


def _next(connection: Connection, scope: Scope) -> tuple[int, int]:
    """The number and the first place of the next cohort."""
    last = connection.execute(
        select(pool_cohorts.c.number, pool_cohorts.c.first_place + pool_cohorts.c.size)
        .where(scope.rows(pool_cohorts))
        .order_by(pool_cohorts.c.number.desc())
        .limit(1)
    ).first()
    return (0, 0) if last is None else (last[0] + 1, last[1])


def _insert(connection: Connection, scope: Scope, chunk: list[tuple[str, bytes]], first: int) -> None:
    enrolled = [_row(scope, row, first + offset) for offset, row in enumerate(chunk)]
    try:
        connection.execute(records.insert(), enrolled)
    except IntegrityError:
        raise BadInput(
            scope.asked("enrolling records"),
            "an id occurs twice, or is enrolled already",
            "Give every record an id of its own; nothing was enrolled",
        ) from None


def _row(scope: Scope, row: tuple[str, bytes], place: int) -> dict[str, Any]:
    record, mac = row
    if not isinstance(mac, bytes):
        raise BadInput(scope.asked("enrolling records"), "a record's code is not bytes", "Give (id, bytes) pairs")
    return {"campaign": scope.campaign, "place": place, "id": check_text(record, "a record's id"), "mac": mac}


@steady
def ids(scope: Scope, cohort: int | None = None) -> list[str]:
    """Of the enrolled records, in the order of enrolment; all, or of a pool cohort. An erased one has its code."""
    with scope.reading("reading the pool") as connection:
        wanted = select(records.c.id).where(scope.rows(records)).order_by(records.c.place)
        if cohort is not None:
            first, size = _span(connection, scope, cohort)
            wanted = wanted.where(records.c.place >= first, records.c.place < first + size)
        return list(connection.scalars(wanted))


def _span(connection: Connection, scope: Scope, cohort: int) -> tuple[int, int]:
    wanted = select(pool_cohorts.c.first_place, pool_cohorts.c.size).where(
        scope.rows(pool_cohorts), pool_cohorts.c.number == cohort
    )
    row = connection.execute(wanted).first()
    if row is None:
        raise BadInput(scope.asked(f"reading pool cohort {cohort}"), "there is none", "See pool_cohorts()")
    return row[0], row[1]


def macs(scope: Scope) -> Iterator[tuple[str, bytes]]:
    """Id and keyed code of every record enrolled now, in the order of enrolment; erased ones have none.

    Page by page: no transaction stays open between two of them.
    """
    end = _end(scope)
    for first in range(0, end, _ROWS):
        yield from _page(scope, first, min(first + _ROWS, end))


@steady
def _end(scope: Scope) -> int:
    """How many places there are."""
    with scope.reading("reading the pool") as connection:
        last = connection.scalar(select(func.max(records.c.place)).where(scope.rows(records)))
    return 0 if last is None else int(last) + 1


@steady
def _page(scope: Scope, first: int, end: int) -> list[tuple[str, bytes]]:
    page = records.c.place >= first, records.c.place < end
    wanted = select(records.c.id, records.c.mac).where(_not_erased(scope), *page).order_by(records.c.place)
    return [(row.id, row.mac) for row in scope.fetch("reading the pool", wanted)]


def _not_erased(scope: Scope) -> ColumnElement[bool]:
    """Records that were not erased: where a code of content would be, those have one of their person."""
    return scope.rows(records) & (records.c.withdrawn.is_(None) | records.c.withdrawn.like("asked %"))


@steady
def macs_of(scope: Scope, ids: Sequence[str]) -> dict[str, bytes]:
    """Keyed codes of some of the records; an id that is not enrolled is left out."""
    wanted = select(records.c.id, records.c.mac).where(_not_erased(scope), records.c.id.in_(NAMED))
    with scope.reading("reading the pool") as connection:
        return {row.id: row.mac for row in scope.named(connection, wanted, ids)}


@steady
def cohorts(scope: Scope) -> list[PoolCohort]:
    """In the order of enrolment."""
    wanted = select(pool_cohorts).where(scope.rows(pool_cohorts)).order_by(pool_cohorts.c.number)
    rows = scope.fetch("reading the pool", wanted)
    return [PoolCohort(number=row.number, size=row.size, facts=from_json(row.facts), at=moment(row.at)) for row in rows]


ASKED, ERASING, DONE = "asked", "erasing", "done"


@steady
def mark(scope: Scope, ids: Iterable[str]) -> int:
    """Mark enrolled records; how many were not marked before. An id that is not enrolled is passed over."""
    marked, at = 0, stamp(now())
    with scope.writing("withdrawing records") as connection:
        for chunk in chunks(ids, CHUNK):
            fresh = scope.rows(records), records.c.id.in_(chunk), records.c.withdrawn.is_(None)
            places = list(connection.scalars(select(records.c.place).where(*fresh)))
            marked += connection.execute(update(records).where(*fresh).values(withdrawn=f"{ASKED} {at}")).rowcount
            row_macs.cover(connection, scope, row_macs.POOL, row_macs.places(places))
    return marked


@steady
def read(scope: Scope) -> list[WithdrawnRecord]:
    """Every record that was taken back, in the order of enrolment."""
    withdrawn = [_record(row) for row in scope.fetch("reading the pool", _GONE)]
    return sorted(withdrawn, key=lambda record: record.place)


_GONE = select(records).where(of_campaign(records), records.c.withdrawn > "")  # by its index; sorted when it is read


def _record(row: Any) -> WithdrawnRecord:
    state = str(row.withdrawn).partition(" ")[0]
    if state not in (ASKED, ERASING, DONE):
        raise changed("a withdrawal")
    erased = state != ASKED
    return WithdrawnRecord(
        place=row.place, id=row.id, person=row.mac if erased else b"", erased=erased, done=state == DONE
    )


@steady
def erase(scope: Scope, codes: Mapping[str, tuple[str, bytes]]) -> None:
    """Erase marked records, given the code that takes the place of each id and the code of its person: answers go
    with their history, questions keep their places. Copies in files and free pages: `sweep`, `scrub`.
    """
    with scope.writing("withdrawing records") as connection:
        for chunk in chunks(codes, CHUNK):
            about = select(questions).where(scope.rows(questions), questions.c.record.in_(chunk))
            asked = connection.execute(about).mappings().all()
            question_ids = [row["id"] for row in asked]
            seen = list[dict[str, Any]]()
            for part in chunks(question_ids, CHUNK):
                shown = scope.rows(exposures), exposures.c.question.in_(part)
                seen += map(dict, connection.execute(select(exposures).where(*shown)).mappings())
                connection.execute(exposures.delete().where(*shown))
                connection.execute(answers.delete().where(scope.rows(answers), answers.c.question.in_(part)))
                connection.execute(questions.delete().where(scope.rows(questions), questions.c.id.in_(part)))
            _rename(connection, scope, {name: codes[name] for name in chunk})
            if asked:  # again, under the code: questions name enrolled records
                connection.execute(questions.insert(), [_question(row, codes) for row in asked])
                if seen:
                    connection.execute(exposures.insert(), seen)  # that somebody saw it stays, under its code
                row_macs.cover(connection, scope, row_macs.EXPOSURES, {row["question"] for row in seen})
                row_macs.cover(connection, scope, row_macs.ANSWERS, question_ids, forget=True)
                row_macs.cover(connection, scope, row_macs.QUESTIONS, {row["phase"] for row in asked}, forget=True)


def _rename(connection: Connection, scope: Scope, codes: Mapping[str, tuple[str, bytes]]) -> None:
    at, places = stamp(now()), list[int]()
    for name, (code, person) in codes.items():
        row = {"id": check_text(code, "a record's code"), "mac": person, "withdrawn": f"{ERASING} {at}"}
        marked = scope.rows(records), records.c.id == name, records.c.withdrawn.like(f"{ASKED} %")
        places += connection.scalars(select(records.c.place).where(*marked))
        connection.execute(update(records).where(*marked).values(**row))
    row_macs.cover(connection, scope, row_macs.POOL, row_macs.places(places), forget=True)


def _question(row: RowMapping, codes: Mapping[str, tuple[str, bytes]]) -> dict[str, Any]:
    """It keeps its place and cohort; that it was asked from above a threshold was a fact of the record."""
    return {**row, "record": codes[row["record"]][0], "above": None if row["above"] is None else False}


@steady
def finish(scope: Scope) -> None:
    """Record that nothing is left of the erased ones."""
    erased = scope.rows(records), records.c.withdrawn.like(f"{ERASING} %")
    with scope.writing("withdrawing records") as connection:
        places = list(connection.scalars(select(records.c.place).where(*erased)))
        connection.execute(update(records).where(*erased).values(withdrawn=f"{DONE} {stamp(now())}"))
        row_macs.cover(connection, scope, row_macs.POOL, row_macs.places(places))
