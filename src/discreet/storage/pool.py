"""The records of a pool: their ids in the order of enrolment, and a keyed code of each. The data stay where they are.

Guarantee: a cohort is enrolled whole or not at all, and rows are read as they come, so a pool need not fit in memory.
While they come, other writers wait: have them ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.exc import IntegrityError

from discreet.errors import BadInput
from discreet.storage import row_macs
from discreet.storage.forms import canonical, check_text, from_json, moment, now, stamp
from discreet.storage.scope import Scope, chunks, steady
from discreet.storage.stored import PoolCohort
from discreet.storage.tables import pool_cohorts, records

_ROWS, _AT_ONCE = 5000, 500
"""Read or written at a time."""


def add_records(scope: Scope, rows: Iterable[tuple[str, bytes]], facts: Mapping[str, Any] | None) -> int:
    """Enrol a cohort; its number."""
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
    made = [_row(scope, row, first + place) for place, row in enumerate(chunk)]
    try:
        connection.execute(records.insert(), made)
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
def ids(scope: Scope, cohort: int | None) -> list[str]:
    """In the order of enrolment."""
    with scope.reading("reading the pool") as connection:
        wanted = select(records.c.id).where(scope.rows(records)).order_by(records.c.place)
        if cohort is not None:
            first, size = _span(connection, scope, cohort)
            wanted = wanted.where(records.c.place >= first, records.c.place < first + size)
        return list(connection.scalars(wanted))


def _span(connection: Connection, scope: Scope, cohort: int) -> tuple[int, int]:
    mine = select(pool_cohorts.c.first_place, pool_cohorts.c.size).where(
        scope.rows(pool_cohorts), pool_cohorts.c.number == cohort
    )
    found = connection.execute(mine).first()
    if found is None:
        raise BadInput(scope.asked(f"reading pool cohort {cohort}"), "there is none", "See pool_cohorts()")
    return found[0], found[1]


def macs(scope: Scope) -> Iterator[tuple[str, bytes]]:
    """Id and code of the records enrolled now, page by page: no transaction stays open between two of them."""
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
    wanted = select(records.c.id, records.c.mac).where(_there(scope), *page).order_by(records.c.place)
    with scope.reading("reading the pool") as connection:
        return [(row.id, row.mac) for row in connection.execute(wanted)]


def _there(scope: Scope) -> ColumnElement[bool]:
    """Records that were not erased: where a code of content would be, those have one of their person."""
    return scope.rows(records) & (records.c.withdrawn.is_(None) | records.c.withdrawn.like("asked %"))


@steady
def macs_of(scope: Scope, wanted: Sequence[str]) -> dict[str, bytes]:
    """Codes of some of the records enrolled; an id that is not is left out."""
    found: dict[str, bytes] = {}
    with scope.reading("reading the pool") as connection:
        for part in chunks(wanted, _AT_ONCE):
            rows = connection.execute(select(records.c.id, records.c.mac).where(_there(scope), records.c.id.in_(part)))
            found.update({row.id: row.mac for row in rows})
    return found


@steady
def cohorts(scope: Scope) -> list[PoolCohort]:
    """In the order of enrolment."""
    wanted = select(pool_cohorts).where(scope.rows(pool_cohorts)).order_by(pool_cohorts.c.number)
    with scope.reading("reading the pool") as connection:
        rows = connection.execute(wanted).all()
    return [PoolCohort(number=row.number, size=row.size, facts=from_json(row.facts), at=moment(row.at)) for row in rows]
