"""Answers against the task: are they to questions that were asked, and of the declared classes?

A tell is taken whole or refused whole, unless the caller says otherwise. The refusal counts, and points: at lines, and
at the ids of questions that were asked, which are public. It never repeats a value, nor an id that nobody asked about:
that cell may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from discreet.errors import BadInput
from discreet.oracles.values import checked_classes, fits, in_order
from discreet.records import Answer, Question

_SHOWN = 5


@dataclass(frozen=True, kw_only=True, repr=False)
class Accepted:
    """Answers, sorted by what can be done with them. Audience: owner.

    valid     to take; several labels stand in the order of the classes, each once
    unknown   to questions that were not asked
    outside   not of the declared classes, or of the wrong kind: one label for several, several for one
    """

    valid: tuple[Answer, ...]
    unknown: tuple[Answer, ...] = ()
    outside: tuple[Answer, ...] = ()

    def __repr__(self) -> str:
        """Counts alone."""
        return f"Accepted(valid={len(self.valid)}, unknown={len(self.unknown)}, outside={len(self.outside)})"


def check_answers(
    answers: Iterable[Answer],
    *,
    questions: Iterable[Question],
    classes: Sequence[str],
    multilabel: bool = False,
    lines: Sequence[int] | None = None,
    whole: bool = True,
) -> Accepted:
    """Sort ``answers``; with ``whole``, refuse all of them if one is unknown or outside.

    ``lines``: where each answer stands in its file, to point at it; without them its number in the list is told.
    """
    given, asked = list(answers), {question.id for question in questions}
    names = checked_classes(classes, multilabel=multilabel)
    known, kinds = frozenset(names), [_kind(answer, number) for number, answer in enumerate(given, 1)]
    for number, answer in enumerate(given):
        if not kinds[number] and answer.question_id not in asked:
            kinds[number] = "unknown"
        elif not kinds[number] and not fits(answer.value, known, multilabel=multilabel):
            kinds[number] = "outside"
    if whole and any(kinds):
        raise _refusal(given, kinds, range(1, len(given) + 1) if lines is None else lines, lines is not None)
    return Accepted(
        valid=tuple(
            replace(answer, value=in_order(answer.value, names))
            for answer, kind in zip(given, kinds, strict=True)
            if not kind
        ),
        unknown=tuple(answer for answer, kind in zip(given, kinds, strict=True) if kind == "unknown"),
        outside=tuple(answer for answer, kind in zip(given, kinds, strict=True) if kind == "outside"),
    )


def _kind(answer: object, number: int) -> str:
    """Refuse what is no answer at all: a mistake of the caller, not of an annotator."""
    asked = f"answer number {number}"
    if not isinstance(answer, Answer):
        raise BadInput(asked, f"it is a {type(answer).__name__}", "Give Answer(question_id=..., value=...)")
    if not isinstance(answer.question_id, str) or not isinstance(answer.annotator, str):
        raise BadInput(asked, "its question_id or annotator is not text", "Ids are texts everywhere")
    if answer.at is not None and answer.at.tzinfo is None:
        raise BadInput(asked, "its time has no time zone", "Give one, such as datetime.now(timezone.utc), or None")
    return ""


def _refusal(answers: list[Answer], kinds: list[str], places: Sequence[int], in_file: bool) -> BadInput:
    word = "line" if in_file else "number"
    unknown = [f"{word} {place}" for place, kind in zip(places, kinds, strict=True) if kind == "unknown"]
    outside = [
        f"{word} {place} (question {answer.question_id})"
        for answer, place, kind in zip(answers, places, kinds, strict=True)
        if kind == "outside"
    ]
    facts = []
    if unknown:
        facts.append(f"{len(unknown)} to questions that were not asked: {_first(unknown)}")
    if outside:
        facts.append(f"{len(outside)} outside the declared classes: {_first(outside)}")
    return BadInput(f"{len(answers)} answers", "; ".join(facts), "None was taken. Correct these and tell all again")


def _first(places: list[str]) -> str:
    more = len(places) - _SHOWN
    return ", ".join(places[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
