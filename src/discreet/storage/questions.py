"""Questions of a phase: published once, all together, in their random order.

Guarantee: the questions and the step that says they are published are one transaction. Publishing the same again
changes nothing; other questions for a phase that has some are refused, for its selection was paid for once.

Which cohort a record entered, and whether it was asked from above a threshold, is for the owner alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select

from discreet.errors import BadInput, InvalidStore
from discreet.records import Question
from discreet.storage import row_macs, transitions
from discreet.storage.forms import canonical, check_number, check_text, unstorable
from discreet.storage.scope import Scope, of_campaign, steady
from discreet.storage.stored import Transition
from discreet.storage.tables import questions as table
from discreet.storage.tables import records

Row = dict[str, Any]


@steady
def publish(
    scope: Scope,
    phase: int,
    questions: Sequence[Question],
    *,
    above: Collection[str] | None,
    cohorts: Mapping[str, str],
    facts: Mapping[str, Any] | None,
) -> Transition:
    """Store the questions of ``phase`` and that they are published, or find that they are."""
    rows = _rows(scope, phase, questions, above=above, cohorts=cohorts)
    stored = canonical(facts, "facts of a transition")
    with scope.writing("publishing questions") as connection:
        before = transitions.find(connection, scope, transitions.PUBLISHED, phase)
        if before is not None:
            _check_same(connection, scope, phase, rows)
            return transitions.same(scope, before, stored)
        _check_new(connection, scope, rows)
        if rows:
            connection.execute(table.insert(), rows)
            row_macs.cover(connection, scope, row_macs.QUESTIONS, [phase])
        return transitions.insert(connection, scope, kind=transitions.PUBLISHED, phase=phase, facts=stored)


def _rows(
    scope: Scope,
    phase: int,
    questions: Sequence[Question],
    *,
    above: Collection[str] | None,
    cohorts: Mapping[str, str],
) -> list[Row]:
    check_number(phase, "the phase of questions")
    asked = scope.asked(f"publishing questions of phase {phase}")
    if any(one.phase != phase for one in questions):
        raise BadInput(asked, "some belong to another phase", "Publish each phase by itself")
    for what in ("id", "record", "place"):
        if len({getattr(one, what) for one in questions}) != len(questions):
            raise BadInput(asked, f"two of them have the same {what}", "Ask every record once")
    if not set(above or ()) | set(cohorts) <= {one.record for one in questions}:
        raise BadInput(asked, "cohorts, or those above, name records that are not asked", "Name asked records alone")
    high = None if above is None else set(above)
    return [_row(scope, one, high, cohorts) for one in sorted(questions, key=lambda one: one.place)]


def _row(scope: Scope, question: Question, above: set[str] | None, cohorts: Mapping[str, str]) -> Row:
    cohort = cohorts.get(question.record)
    return {
        "campaign": scope.campaign,
        "id": check_text(question.id, "a question's id"),
        "record": check_text(question.record, "a record's id"),
        "phase": question.phase,
        "place": check_number(question.place, "a question's place"),
        "above": None if above is None else question.record in above,
        "cohort": None if cohort is None else check_text(cohort, "a cohort's label"),
    }


def _check_same(connection: Connection, scope: Scope, phase: int, rows: list[Row]) -> None:
    wanted = select(table).where(scope.rows(table), table.c.phase == phase).order_by(table.c.place)
    if [dict(row._mapping) for row in connection.execute(wanted)] != rows:
        raise InvalidStore(
            scope.asked(f"publishing questions of phase {phase}"),
            "others were published before",
            "Show those: questions(phase)",
        )


def _check_new(connection: Connection, scope: Scope, rows: list[Row]) -> None:
    known = scope.found(connection, records.c.id, [row["record"] for row in rows])
    if len(known) != len(rows):
        raise BadInput(
            scope.asked("publishing questions"),
            f"{len(rows) - len(known)} of {len(rows)} records are not enrolled",
            "Enrol a record before asking about it",
        )
    if taken := scope.found(connection, table.c.id, [row["id"] for row in rows]):
        raise BadInput(
            scope.asked("publishing questions"),
            f"{len(taken)} ids of questions are those of an earlier phase",
            "Give every question an id of its own",
        )


@steady
def read(scope: Scope, phase: int | None) -> list[Question]:
    """Phase by phase, in the order in which they are shown."""
    wanted = select(table.c.id, table.c.record, table.c.phase, table.c.place).where(scope.rows(table))
    if phase is not None:
        wanted = wanted.where(table.c.phase == check_number(phase, "a phase"))
    with scope.reading("reading the questions") as connection:
        rows = connection.execute(wanted.order_by(table.c.phase, table.c.place)).all()
    return [Question(id=row.id, record=row.record, phase=row.phase, place=row.place) for row in rows]


@steady
def find(scope: Scope, question: str) -> Question | None:
    """One question by its id."""
    if unstorable(question):
        return None
    with scope.reading("reading a question") as connection:
        row = connection.execute(_ONE, scope.values(question=question)).first()
    return None if row is None else Question(id=row.id, record=row.record, phase=row.phase, place=row.place)


_ONE = select(table.c.id, table.c.record, table.c.phase, table.c.place).where(
    of_campaign(table), table.c.id == bindparam("question")
)


@steady
def cohort_members(scope: Scope, phase: int | None) -> dict[str, list[str]]:
    """Records by the cohort they entered, in the order in which they were asked. Audience: owner."""
    wanted = select(table.c.cohort, table.c.record).where(scope.rows(table), table.c.cohort.is_not(None))
    if phase is not None:
        wanted = wanted.where(table.c.phase == check_number(phase, "a phase"))
    members: dict[str, list[str]] = {}
    with scope.reading("reading the cohorts") as connection:
        for row in connection.execute(wanted.order_by(table.c.phase, table.c.place)):
            members.setdefault(row.cohort, []).append(row.record)
    return members


@steady
def above(scope: Scope, phase: int) -> frozenset[str] | None:
    """Records that were asked from above the threshold; None if there was none. Audience: owner."""
    wanted = select(table.c.record, table.c.above).where(
        scope.rows(table), table.c.phase == check_number(phase, "a phase")
    )
    with scope.reading("reading the questions") as connection:
        rows = connection.execute(wanted).all()
    if all(row.above is None for row in rows):
        return None
    return frozenset(row.record for row in rows if row.above)
