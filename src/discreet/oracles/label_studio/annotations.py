"""From what people submitted to answers: one voice a person, the last thing they said.

Label Studio takes whatever its API is sent. So a label is checked against the classes here; what does not fit is no
answer, is counted, and its question stays open. Gold annotations (`ground_truth`), predictions and drafts are nobody's
answer. A skip is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet.oracles.label_studio.labeling_config import CONTROL
from discreet.oracles.label_studio.server import Annotation, Task
from discreet.oracles.values import fits, in_order
from discreet.records import Answer, Value

GONE = "label-studio"
"""Who answered, where the account is not there any more."""
_NUMBERED = f"{GONE} user "
"""Likewise, where it has a number still and is not among those that the server lists."""
Voice = tuple[str, str]
"""Question and annotator."""


@dataclass(frozen=True, kw_only=True)
class Read:
    """What stands on the server. Audience: owner.

    answers    the last word of each person on each question
    questions  that have a task
    refused    questions with a last word that is not of the declared classes
    strange    tasks that belong to no known question
    doubled    tasks beyond the first of their question
    gold, drafts    annotations that were passed over
    """

    answers: tuple[Answer, ...] = field(repr=False)
    questions: frozenset[str] = field(repr=False)
    refused: tuple[str, ...]
    strange: int
    doubled: int
    gold: int
    drafts: int


def read_tasks(
    tasks: Iterable[Task],
    *,
    known: Collection[str],
    people: Mapping[int, str],
    classes: Sequence[str],
    multilabel: bool,
) -> Read:
    """Answers to the questions that are ``known``."""
    last: dict[Voice, Annotation] = {}
    strange = gold = drafts = 0
    seen: dict[str, int] = {}
    for task in tasks:
        if task.question not in known or task.question is None:
            strange += 1
            continue
        seen[task.question] = seen.get(task.question, 0) + 1
        drafts += task.drafts
        for one in task.annotations:
            if one.gold:
                gold += 1
                continue
            voice = (task.question, _name(one.by, people))
            if voice not in last or (one.at, one.id) > (last[voice].at, last[voice].id):
                last[voice] = one
    answers, refused = _checked(last, classes, multilabel)
    return Read(
        answers=tuple(answers),
        questions=frozenset(seen),
        refused=tuple(sorted(refused)),
        strange=strange,
        doubled=sum(seen.values()) - len(seen),
        gold=gold,
        drafts=drafts,
    )


def _checked(
    last: Mapping[Voice, Annotation], classes: Sequence[str], multilabel: bool
) -> tuple[list[Answer], set[str]]:
    answers, refused, names = [], set(), frozenset(classes)
    for (question, annotator), one in sorted(last.items()):
        understood, value = (True, None) if one.skipped else _value(one.result, multilabel)
        if understood and fits(value, names, multilabel=multilabel):
            answers.append(Answer(question_id=question, value=in_order(value, classes), annotator=annotator, at=one.at))
        else:
            refused.add(question)
    return answers, refused


def _value(result: Any, multilabel: bool) -> tuple[bool, Value]:
    """Whether the choices could be read, and what they are. Further controls of a project are passed over, but for
    several labels nothing chosen means none of them: then choices under another name are not understood.
    """
    if not isinstance(result, list) or not all(isinstance(one, dict) for one in result):
        return False, None
    chosen = [one for one in result if one.get("from_name") == CONTROL]
    if not chosen:
        return multilabel and not any(one.get("type") == "choices" for one in result), ()
    value = chosen[0].get("value")
    names = value.get("choices") if isinstance(value, dict) else None
    if len(chosen) > 1 or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return False, None
    if multilabel:
        return True, tuple(names)
    return len(names) == 1, names[0] if names else None


def one_voice_each(read: Iterable[Answer], told: Iterable[Answer]) -> list[Answer]:
    """What of ``read`` is to be told. A voice that was ``told`` under one name and stands there under another now,
    because the account is gone, or is not listed (any more, or again), is not told as a second one.
    """
    read = sorted(read, key=lambda one: not _nameless(one.annotator))
    there = {(one.question_id, one.annotator) for one in read}
    before: set[Voice] = set()
    left: dict[tuple[str, Value], list[str]] = {}  # told under names that are not there any more
    for one in told:
        before.add(voice := (one.question_id, one.annotator))
        if voice not in there:
            left.setdefault((one.question_id, one.value), []).append(one.annotator)
    found = []
    for one in read:
        names = left.get((one.question_id, one.value), [])
        former = next((name for name in names if _nameless(name) or _nameless(one.annotator)), None)
        if former is None or (one.question_id, one.annotator) in before:
            found.append(one)
        else:
            names.remove(former)
    return found


def _nameless(annotator: str) -> bool:
    return annotator == GONE or annotator.startswith(_NUMBERED)


def _name(by: int | None, people: Mapping[int, str]) -> str:
    return GONE if by is None else people.get(by) or f"{_NUMBERED}{by}"
