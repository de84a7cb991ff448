"""Answers, and every change of mind.

Guarantee: answers that are told together are stored together or not at all. Nothing is overwritten: the last thing an
annotator said to a question is current, what was said before stays in its history. The same said again is not stored.
What is said about a record that was withdrawn is passed over, in the transaction that would store it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from discreet.errors import BadInput
from discreet.records import Answer
from discreet.storage import row_macs
from discreet.storage.forms import (
    check_number,
    check_text,
    moment,
    now,
    stamp,
    value_from_json,
    value_to_json,
)
from discreet.storage.scope import CHUNK, NAMED, Scope, chunks, of_campaign, steady
from discreet.storage.stored import Told
from discreet.storage.tables import answers as table
from discreet.storage.tables import questions, records

Row = dict[str, Any]


@steady
def tell(scope: Scope, answers: Sequence[Answer], *, at: datetime | None) -> Told:
    """Store what is new or other than before."""
    told = stamp(now() if at is None else at)
    rows = [_row(scope, answer, told) for answer in answers]
    if not rows:
        return Told(new=0, repeated=0, corrected=0)
    asked = {row["question"] for row in rows}
    with scope.writing("storing answers") as connection:
        if unknown := len(asked) - len(scope.found(connection, questions.c.id, asked)):
            raise BadInput(
                scope.asked("storing answers"),
                f"{unknown} of {len(asked)} question ids are unknown",
                "Answer the questions of this campaign; none of these answers was stored",
            )
        gone = _withdrawn(connection, scope, asked)
        rows = [row for row in rows if row["question"] not in gone]
        changes, counts = _changes(rows, *_standing(connection, scope, asked))
        if changes:
            connection.execute(table.insert(), changes)
            row_macs.cover(connection, scope, row_macs.ANSWERS, [row["question"] for row in changes])
    return counts


def _row(scope: Scope, answer: Answer, told: str) -> Row:
    return {
        "campaign": scope.campaign,
        "question": check_text(answer.question_id, "a question's id"),
        "annotator": check_text(answer.annotator, "an annotator's name", empty=True),
        "value": value_to_json(answer.value),
        "given": None if answer.at is None else stamp(answer.at),
        "told": told,
    }


def _withdrawn(connection: Connection, scope: Scope, asked: Iterable[str]) -> set[str]:
    """Questions about records that were taken back, perhaps a moment ago: nobody erases their answers any more."""
    found: set[str] = set()
    for chunk in chunks(asked, CHUNK):
        found.update(connection.scalars(_TAKEN_BACK, scope.values(names=chunk)))
    return found


_TAKEN_BACK = (
    select(questions.c.id)
    .join(records, (records.c.campaign == questions.c.campaign) & (records.c.id == questions.c.record))
    .where(of_campaign(questions), records.c.withdrawn > "", questions.c.id.in_(NAMED))
)
_HISTORY = select(table).where(of_campaign(table), table.c.question.in_(NAMED)).order_by(table.c.number)


def _standing(
    connection: Connection, scope: Scope, asked: Iterable[str]
) -> tuple[dict[tuple[str, str], str], dict[str, int]]:
    """The current value by question and annotator, and how many answers a question has had."""
    current: dict[tuple[str, str], str] = {}
    length: dict[str, int] = {}
    for chunk in chunks(asked, CHUNK):
        for row in connection.execute(_HISTORY, scope.values(names=chunk)):
            current[row.question, row.annotator] = row.value
            length[row.question] = row.number + 1
    return current, length


def _changes(rows: list[Row], current: dict[tuple[str, str], str], length: dict[str, int]) -> tuple[list[Row], Told]:
    """The rows to add, in the order in which they were told."""
    changes, corrected = [], 0
    for row in rows:
        question, who = row["question"], (row["question"], row["annotator"])
        if current.get(who) == row["value"]:
            continue
        corrected += who in current
        number = length.get(question, 0)
        current[who], length[question] = row["value"], number + 1
        changes.append({**row, "number": number})
    return changes, Told(new=len(changes) - corrected, repeated=len(rows) - len(changes), corrected=corrected)


@steady
def read(scope: Scope, phase: int | None) -> list[Answer]:
    """The current answers, in the order of their questions, then of their annotators' names."""
    wanted = (
        select(table, questions.c.phase, questions.c.place)
        .join(questions, (questions.c.campaign == table.c.campaign) & (questions.c.id == table.c.question))
        .where(scope.rows(table))
    )
    if phase is not None:
        wanted = wanted.where(questions.c.phase == check_number(phase, "a phase"))
    current = {}
    with scope.reading("reading the answers") as connection:
        for row in connection.execute(wanted.order_by(table.c.number)):
            current[row.phase, row.place, row.annotator] = _answer(row)
    return [current[key] for key in sorted(current)]


@steady
def of_annotator(scope: Scope, annotator: str) -> list[Answer]:
    """What one annotator last said to each question, in the order in which they said it."""
    wanted = select(table).where(scope.rows(table), table.c.annotator == annotator)
    current: dict[str, Answer] = {}
    with scope.reading("reading the answers") as connection:
        for row in connection.execute(wanted.order_by(table.c.told, table.c.number)):
            current.pop(row.question, None)
            current[row.question] = _answer(row)
    return list(current.values())


@steady
def voices(scope: Scope) -> dict[str, set[str]]:
    """Who answered each question that has an answer."""
    wanted = select(table.c.question, table.c.annotator).distinct().where(scope.rows(table))
    found: dict[str, set[str]] = {}
    with scope.reading("reading the answers") as connection:
        for question, annotator in connection.execute(wanted):
            found.setdefault(question, set()).add(annotator)
    return found


@steady
def first_told(scope: Scope) -> dict[str, dict[str, datetime]]:
    """When each annotator was first heard on each question that has an answer."""
    wanted = select(table.c.question, table.c.annotator, func.min(table.c.told)).where(scope.rows(table))
    found: dict[str, dict[str, datetime]] = {}
    with scope.reading("reading the answers") as connection:
        for question, annotator, told in connection.execute(wanted.group_by(table.c.question, table.c.annotator)):
            found.setdefault(question, {})[annotator] = moment(told)
    return found


@steady
def history(scope: Scope, question: str) -> list[tuple[Answer, datetime]]:
    """Everything that was said to a question, and when it was told, oldest first."""
    wanted = select(table).where(scope.rows(table), table.c.question == question).order_by(table.c.number)
    with scope.reading("reading the answers") as connection:
        if not scope.found(connection, questions.c.id, [check_text(question, "a question's id")]):
            raise BadInput(scope.asked("reading the answers"), "there is no such question", "See questions()")
        rows = connection.execute(wanted).all()
    return [(_answer(row), moment(row.told)) for row in rows]


def _answer(row: Any) -> Answer:
    answer = Answer(question_id=row.question, value=value_from_json(row.value), annotator=row.annotator)
    return replace(answer, at=moment(row.told if row.given is None else row.given))
