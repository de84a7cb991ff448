"""Records that are taken back: marked at once, erased as soon as no step is under way that was begun with them.

    asked -> erasing -> done

*asked*: marked, and still there for a step that was begun with it. *erasing*: its id is a keyed code, its answers are
gone; copies may be left in files and free pages. *done*: those are gone, too.

Guarantee: a mark is durable when `mark` returns. `erase` is one transaction: the id becomes its code wherever it stood,
the code of its content goes, its answers and their history go; who was shown it is remembered, under the code. Its
place stays, in the pool and in its cohort, so that no size and no order changes. Which step of the way a record is on
survives the process; repeating any of them is safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, select, update

from discreet.storage import exposures, row_macs
from discreet.storage.forms import changed, check_text, now, stamp
from discreet.storage.scope import CHUNK, Scope, chunks, of_campaign, steady
from discreet.storage.stored import WithdrawnRecord
from discreet.storage.tables import answers, questions, records

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
    with scope.reading("reading the pool") as connection:
        found = [_record(row) for row in connection.execute(_GONE, scope.values())]
    return sorted(found, key=lambda one: one.place)


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
    """Give marked records their code for an id, and the code of their person for that of their content."""
    with scope.writing("withdrawing records") as connection:
        for chunk in chunks(codes, CHUNK):
            asked = connection.execute(
                select(questions).where(scope.rows(questions), questions.c.record.in_(chunk))
            ).all()
            seen = exposures.taken_out(connection, scope, [row.id for row in asked])
            for part in chunks([row.id for row in asked], CHUNK):
                connection.execute(answers.delete().where(scope.rows(answers), answers.c.question.in_(part)))
                connection.execute(questions.delete().where(scope.rows(questions), questions.c.id.in_(part)))
            _rename(connection, scope, {name: codes[name] for name in chunk})
            if asked:  # again, under the code: questions name enrolled records
                connection.execute(questions.insert(), [_question(row, codes) for row in asked])
                exposures.put_back(connection, seen)  # that somebody saw it stays, under its code
                row_macs.cover(connection, scope, row_macs.EXPOSURES, {row["question"] for row in seen})
                row_macs.cover(connection, scope, row_macs.ANSWERS, [row.id for row in asked], forget=True)
                row_macs.cover(connection, scope, row_macs.QUESTIONS, {row.phase for row in asked}, forget=True)


def _rename(connection: Connection, scope: Scope, codes: Mapping[str, tuple[str, bytes]]) -> None:
    at, places = stamp(now()), list[int]()
    for name, (code, person) in codes.items():
        row = {"id": check_text(code, "a record's code"), "mac": person, "withdrawn": f"{ERASING} {at}"}
        mine = scope.rows(records), records.c.id == name, records.c.withdrawn.like(f"{ASKED} %")
        places += connection.scalars(select(records.c.place).where(*mine))
        connection.execute(update(records).where(*mine).values(**row))
    row_macs.cover(connection, scope, row_macs.POOL, row_macs.places(places), forget=True)


def _question(row: Any, codes: Mapping[str, tuple[str, bytes]]) -> dict[str, Any]:
    """It keeps its place and cohort; that it was asked from above a threshold was a fact of the record."""
    return {**row._mapping, "record": codes[row.record][0], "above": None if row.above is None else False}


@steady
def finish(scope: Scope) -> None:
    """Record that nothing is left of the erased ones."""
    mine = scope.rows(records), records.c.withdrawn.like(f"{ERASING} %")
    with scope.writing("withdrawing records") as connection:
        places = list(connection.scalars(select(records.c.place).where(*mine)))
        connection.execute(update(records).where(*mine).values(withdrawn=f"{DONE} {stamp(now())}"))
        row_macs.cover(connection, scope, row_macs.POOL, row_macs.places(places))
