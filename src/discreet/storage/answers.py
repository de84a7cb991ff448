"""Answers, and every change of mind.

Guarantee: answers that are told together are stored together or not at all. Nothing is overwritten: the last thing an
annotator said to a question is current, what was said before stays in its history. The same said again is not stored.
What is said about a record that was withdrawn is passed over, in the transaction that would store it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from discreet.errors import BadInput
from discreet.records import Answer
from discreet.storage import row_macs
from discreet.storage.database import NAMED, Scope, of_campaign, steady
from discreet.storage.tables import answers as table
from discreet.storage.tables import (
    check_number,
    check_text,
    moment,
    now,
    questions,
    records,
    stamp,
    value_from_json,
    value_to_json,
)

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class TellResult:
    """What became of answers: how many were new, said again, or other than before."""

    new: int
    repeated: int
    corrected: int


@steady
def tell(scope: Scope, answers: Sequence[Answer], *, at: datetime | None = None) -> TellResult:
    """Store answers, told at ``at`` or now. What an annotator says again is not stored; what differs from before is a
    correction, and the former answer stays in the history. An unknown question: nothing is stored.
    """
    time = stamp(now() if at is None else at)
    rows = [_row(scope, answer, time) for answer in answers]
    if not rows:
        return TellResult(new=0, repeated=0, corrected=0)
    asked = {row["question"] for row in rows}
    with scope.writing("storing answers") as connection:
        if unknown := len(asked) - len(scope.known(connection, questions.c.id, asked)):
            raise BadInput(
                scope.asked("storing answers"),
                f"{unknown} of {len(asked)} question ids are unknown",
                "Answer the questions of this campaign; none of these answers was stored",
            )
        # of records that were taken back, perhaps a moment ago: nobody erases their answers any more
        gone = {row.id for row in scope.named(connection, _TAKEN_BACK, asked)}
        rows = [row for row in rows if row["question"] not in gone]
        changes, counts = _changes(rows, *_standing(connection, scope, asked))
        if changes:
            connection.execute(table.insert(), changes)
            row_macs.cover(connection, scope, row_macs.ANSWERS, [row["question"] for row in changes])
    return counts


def grouped(pairs: Iterable[Any]) -> dict[str, set[str]]:
    """Pairs of question and person, by question."""
    people: dict[str, set[str]] = {}
    for question, person in pairs:
        people.setdefault(question, set()).add(person)
    return people


def _row(scope: Scope, answer: Answer, time: str) -> Row:
    return {
        "campaign": scope.campaign,
        "question": check_text(answer.question_id, "a question's id"),
        "annotator": check_text(answer.annotator, "an annotator's name", empty=True),
        "value": value_to_json(answer.value),
        "given": None if answer.at is None else stamp(answer.at),
        "told": time,
    }


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
    for row in scope.named(connection, _HISTORY, asked):
        current[row.question, row.annotator] = row.value
        length[row.question] = row.number + 1
    return current, length


def _changes(
    rows: list[Row], current: dict[tuple[str, str], str], length: dict[str, int]
) -> tuple[list[Row], TellResult]:
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
    return changes, TellResult(new=len(changes) - corrected, repeated=len(rows) - len(changes), corrected=corrected)


@steady
def read(scope: Scope, phase: int | None = None) -> list[Answer]:
    """What each annotator last said to each question: in the order of the questions, then of annotators' names."""
    wanted = (
        select(table, questions.c.phase, questions.c.place)
        .join(questions, (questions.c.campaign == table.c.campaign) & (questions.c.id == table.c.question))
        .where(scope.rows(table))
    )
    if phase is not None:
        wanted = wanted.where(questions.c.phase == check_number(phase, "a phase"))
    current = {}
    for row in scope.fetch("reading the answers", wanted.order_by(table.c.number)):
        current[row.phase, row.place, row.annotator] = _answer(row)
    return [current[key] for key in sorted(current)]


@steady
def of_annotator(scope: Scope, annotator: str) -> list[Answer]:
    """What one annotator last said to each question, in the order in which they said it."""
    wanted = select(table).where(scope.rows(table), table.c.annotator == annotator)
    current: dict[str, Answer] = {}
    for row in scope.fetch("reading the answers", wanted.order_by(table.c.told, table.c.number)):
        current.pop(row.question, None)
        current[row.question] = _answer(row)
    return list(current.values())


@steady
def voices(scope: Scope) -> dict[str, set[str]]:
    """Who answered each question that has an answer."""
    wanted = select(table.c.question, table.c.annotator).distinct().where(scope.rows(table))
    return grouped(scope.fetch("reading the answers", wanted))


@steady
def first_told(scope: Scope) -> dict[str, dict[str, datetime]]:
    """When each annotator was first heard on each question that has an answer."""
    wanted = select(table.c.question, table.c.annotator, func.min(table.c.told)).where(scope.rows(table))
    times: dict[str, dict[str, datetime]] = {}
    rows = scope.fetch("reading the answers", wanted.group_by(table.c.question, table.c.annotator))
    for question, annotator, first in map(tuple, rows):
        times.setdefault(question, {})[annotator] = moment(first)
    return times


@steady
def history(scope: Scope, question_id: str) -> list[tuple[Answer, datetime]]:
    """Everything that was said to a question, and when it was told, oldest first."""
    wanted = select(table).where(scope.rows(table), table.c.question == question_id).order_by(table.c.number)
    with scope.reading("reading the answers") as connection:
        if not scope.known(connection, questions.c.id, [check_text(question_id, "a question's id")]):
            raise BadInput(scope.asked("reading the answers"), "there is no such question", "See questions()")
        rows = connection.execute(wanted).all()
    return [(_answer(row), moment(row.told)) for row in rows]


def _answer(row: Any) -> Answer:
    answer = Answer(question_id=row.question, value=value_from_json(row.value), annotator=row.annotator)
    return replace(answer, at=moment(row.told if row.given is None else row.given))
