"""The steps of a campaign, and the questions of a phase, which are published with one.

Steps
-----
Each kind of step is taken once in a phase.

Guarantee: of a step that is taken again, after a crash or by another process, the first record stands. One that claims
other facts is refused: something that must not differ did.

Questions
---------
Published once, all together, in their random order.

Guarantee: the questions and the step that says they are published are one transaction. Publishing the same again
changes nothing; other questions for a phase that has some are refused, for its selection was paid for once.

Which cohort a record entered, and whether it was asked from above a threshold, is for the owner alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from discreet.errors import BadInput, InvalidStore
from discreet.records import Question
from discreet.storage import row_macs
from discreet.storage.database import Scope, of_campaign, steady
from discreet.storage.tables import (
    canonical,
    changed,
    check_number,
    check_text,
    from_json,
    moment,
    now,
    records,
    stamp,
    transitions,
    unstorable,
)
from discreet.storage.tables import questions as table

Row = dict[str, Any]
PUBLISHED = "published"
"""The step that is taken together with the questions."""


@dataclass(frozen=True, kw_only=True)
class Transition:
    """A step of the campaign that was taken: once for each kind and phase."""

    number: int
    kind: str
    phase: int
    facts: Mapping[str, Any] = field(repr=False)
    at: datetime


@steady
def record(scope: Scope, kind: str, *, phase: int, facts: Mapping[str, Any] | None = None) -> Transition:
    """Record that a step was taken; the first record of it, if it was before. Other facts: `InvalidStore`."""
    if kind == PUBLISHED:
        raise BadInput(f"recording {kind!r}", "that is recorded with its questions", "Call publish()")
    check_text(kind, "a kind of transition")
    check_number(phase, "the phase of a transition")
    stored = canonical(facts, "facts of a transition")
    with scope.writing(f"recording {kind!r}") as connection:
        before = find_step(connection, scope, kind, phase)
        if before is not None:
            return same_step(scope, before, stored)
        return insert_step(connection, scope, kind=kind, phase=phase, facts=stored)


def find_step(connection: Connection, scope: Scope, kind: str, phase: int) -> Transition | None:
    """The step, if it was taken."""
    wanted = select(transitions).where(
        scope.rows(transitions), transitions.c.kind == kind, transitions.c.phase == phase
    )
    row = connection.execute(wanted).first()
    return None if row is None else _transition(row)


def same_step(scope: Scope, before: Transition, facts: str) -> Transition:
    """The step as it was taken, if it was taken with ``facts``."""
    if canonical(before.facts, "stored facts") != facts:
        raise InvalidStore(
            scope.asked(f"recording {before.kind!r} of phase {before.phase}"),
            "it was recorded before, with other facts",
            "Go on with the same plan, records and settings as before",
        )
    return before


def insert_step(connection: Connection, scope: Scope, *, kind: str, phase: int, facts: str) -> Transition:
    """Add a step to the end of the log."""
    last = connection.scalar(select(func.max(transitions.c.number)).where(scope.rows(transitions)))
    number, at = 0 if last is None else last + 1, now()
    row = {"number": number, "kind": kind, "phase": phase, "facts": facts, "at": stamp(at)}
    connection.execute(transitions.insert().values(campaign=scope.campaign, **row))
    row_macs.cover(connection, scope, row_macs.STEPS, [f"{phase} {kind}"])
    return Transition(number=number, kind=kind, phase=phase, facts=from_json(facts), at=at)


@steady
def steps(scope: Scope) -> list[Transition]:
    """Every step that was taken, oldest first."""
    return [_transition(row) for row in scope.fetch("reading the transitions", _LOG)]


_LOG = select(transitions).where(of_campaign(transitions)).order_by(transitions.c.number)


def _transition(row: Any) -> Transition:
    if type(row.number) is not int or type(row.phase) is not int or not isinstance(row.kind, str):
        raise changed("a step")
    return Transition(number=row.number, kind=row.kind, phase=row.phase, facts=from_json(row.facts), at=moment(row.at))


# -- questions


@steady
def publish(
    scope: Scope,
    phase: int,
    questions: Sequence[Question],
    *,
    above: Collection[str] | None = None,
    cohorts: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Transition:
    """Store the questions of a phase and the step "published" together. The same again changes nothing, others
    are refused (`InvalidStore`).

    above     the records that were asked from above a threshold; None: there was none
    cohorts   the label of the cohort that each asked record enters
    """
    rows = _rows(scope, phase, questions, above=above, cohorts=cohorts or {})
    stored = canonical(facts, "facts of a transition")
    with scope.writing("publishing questions") as connection:
        before = find_step(connection, scope, PUBLISHED, phase)
        if before is not None:
            _check_same(connection, scope, phase, rows)
            return same_step(scope, before, stored)
        _check_new(connection, scope, rows)
        if rows:
            connection.execute(table.insert(), rows)
            row_macs.cover(connection, scope, row_macs.QUESTIONS, [phase])
        return insert_step(connection, scope, kind=PUBLISHED, phase=phase, facts=stored)


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
    if any(question.phase != phase for question in questions):
        raise BadInput(asked, "some belong to another phase", "Publish each phase by itself")
    for what in ("id", "record", "place"):
        if len({getattr(question, what) for question in questions}) != len(questions):
            raise BadInput(asked, f"two of them have the same {what}", "Ask every record once")
    if not set(above or ()) | set(cohorts) <= {question.record for question in questions}:
        raise BadInput(asked, "cohorts, or those above, name records that are not asked", "Name asked records alone")
    high = None if above is None else set(above)
    return [_row(scope, question, high, cohorts) for question in sorted(questions, key=lambda question: question.place)]


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
    if [dict(row) for row in connection.execute(wanted).mappings()] != rows:
        raise InvalidStore(
            scope.asked(f"publishing questions of phase {phase}"),
            "others were published before",
            "Show those: questions(phase)",
        )


def _check_new(connection: Connection, scope: Scope, rows: list[Row]) -> None:
    known = scope.known(connection, records.c.id, [row["record"] for row in rows])
    if len(known) != len(rows):
        raise BadInput(
            scope.asked("publishing questions"),
            f"{len(rows) - len(known)} of {len(rows)} records are not enrolled",
            "Enrol a record before asking about it",
        )
    if taken := scope.known(connection, table.c.id, [row["id"] for row in rows]):
        raise BadInput(
            scope.asked("publishing questions"),
            f"{len(taken)} ids of questions are those of an earlier phase",
            "Give every question an id of its own",
        )


@steady
def read(scope: Scope, phase: int | None = None) -> list[Question]:
    """Phase by phase, in the random order in which they are shown."""
    wanted = select(table.c.id, table.c.record, table.c.phase, table.c.place).where(scope.rows(table))
    if phase is not None:
        wanted = wanted.where(table.c.phase == check_number(phase, "a phase"))
    rows = scope.fetch("reading the questions", wanted.order_by(table.c.phase, table.c.place))
    return [Question(id=row.id, record=row.record, phase=row.phase, place=row.place) for row in rows]


@steady
def find(scope: Scope, question_id: str) -> Question | None:
    """The one of this id."""
    if unstorable(question_id):
        return None
    rows = scope.fetch("reading a question", _NAMED, question=question_id)
    return next((Question(id=row.id, record=row.record, phase=row.phase, place=row.place) for row in rows), None)


_NAMED = select(table.c.id, table.c.record, table.c.phase, table.c.place).where(
    of_campaign(table), table.c.id == bindparam("question")
)


@steady
def cohort_members(scope: Scope, phase: int | None = None) -> dict[str, list[str]]:
    """Records by the label of their cohort, in the order in which they were asked. Audience: owner."""
    wanted = select(table.c.cohort, table.c.record).where(scope.rows(table), table.c.cohort.is_not(None))
    if phase is not None:
        wanted = wanted.where(table.c.phase == check_number(phase, "a phase"))
    members: dict[str, list[str]] = {}
    for row in scope.fetch("reading the cohorts", wanted.order_by(table.c.phase, table.c.place)):
        members.setdefault(row.cohort, []).append(row.record)
    return members


@steady
def above(scope: Scope, phase: int) -> frozenset[str] | None:
    """Records that were asked from above the threshold; None if there was none. Audience: owner."""
    wanted = select(table.c.record, table.c.above).where(
        scope.rows(table), table.c.phase == check_number(phase, "a phase")
    )
    rows = scope.fetch("reading the questions", wanted)
    if all(row.above is None for row in rows):
        return None
    return frozenset(row.record for row in rows if row.above)
