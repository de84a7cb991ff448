"""Answers as people give them, and the labels that follow from them.

A label depends on the answers to its own question and on public things (theory of the promise: a label is a function of
its record); where several people answer, they vote, and ties are decided by a coin of that record's id: not of its
place among the asked, which others may move.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from discreet.errors import BadInput, InvalidStore
from discreet.noise import SecretKey
from discreet.oracles import majority
from discreet.records import Answer, Question, Value

Given = Mapping[str, Any] | Iterable[Answer]
IMPORTED, HOUSE = "imported", "teachers"
"""Who gave the labels that were there before the campaign."""


def as_answers(given: Given, questions: Sequence[Question], *, annotator: str = "") -> list[Answer]:
    """Answers to ``questions``: as they are, or from a mapping of question ids or record ids to labels."""
    if not isinstance(given, Mapping):
        if not isinstance(given, Iterable):
            raise BadInput("answers", f"they are a {type(given).__name__}", "Give labels by id, or a list of Answer")
        return list(given)
    ids = {question.id for question in questions}
    by_record = {question.record: question.id for question in questions}
    found = []
    for name, value in given.items():
        if name in ids and by_record.get(name, name) != name:
            raise BadInput(
                "answers", "a name is that of a question and of another record", "Name questions by their id"
            )
        known = name if name in ids else by_record.get(name, name)
        found.append(Answer(question_id=known, value=_value(value), annotator=annotator))
    return found


def _value(value: Any) -> Value:
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(value)
    raise BadInput("an answer", f"it is a {type(value).__name__}", "Give a declared class, several of them, or None")


def labels_of(questions: Iterable[Question], answers: Iterable[Answer], key: SecretKey) -> dict[str, Value]:
    """By record: what its annotators say; records nobody labelled are left out. What was imported counts until somebody
    says something else.
    """
    given, asked = list(answers), list(questions)
    corrected = {one.question_id for one in given if one.annotator != IMPORTED and one.value is not None}
    counted = (one for one in given if one.annotator != IMPORTED or one.question_id not in corrected)
    decided = majority(counted, key=key, coins={one.id: one.record for one in asked})
    found = ((question.record, decided.get(question.id)) for question in asked)
    return {record: value for record, value in found if value is not None}


def open_questions(questions: Iterable[Question], voices: Mapping[str, Set[str]], per_question: int) -> list[Question]:
    """Those that fewer people than wanted have answered; a skip is an answer, and an imported label is enough.

    ``voices``: who answered, by question.
    """
    return [one for one in questions if not _closed(voices.get(one.id, set()), per_question)]


def _closed(voices: Set[str], per_question: int) -> bool:
    return IMPORTED in voices or len(voices) >= per_question


def labels_to_bytes(labels: Mapping[str, Value]) -> bytes:
    """A stored form: the same labels are the same bytes."""
    return json.dumps({name: labels[name] for name in sorted(labels)}, ensure_ascii=False).encode()


def labels_from_bytes(content: bytes) -> dict[str, Value]:
    """What `labels_to_bytes` made."""
    try:
        form = json.loads(content)
        return {name: tuple(value) if isinstance(value, list) else str(value) for name, value in form.items()}
    except (ValueError, AttributeError, TypeError):
        raise InvalidStore("reading the labels of a phase", "they are not in their form", "Restore the file") from None


def trust_to_bytes(trust: Mapping[str, float]) -> bytes:
    """A stored form of how far labels are trusted."""
    return json.dumps({name: trust[name] for name in sorted(trust)}, ensure_ascii=False).encode()


def trust_from_bytes(content: bytes) -> dict[str, float]:
    """What `trust_to_bytes` made."""
    try:
        return {str(name): float(value) for name, value in json.loads(content).items()}
    except (ValueError, AttributeError, TypeError):
        raise InvalidStore("reading how far labels are trusted", "it is not in its form", "Restore the file") from None
