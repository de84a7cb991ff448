"""The contract of an oracle: what every place that answers questions must do.

    def test_my_oracle():
        check_oracle(lambda: MyOracle(...), classes=["cat", "dog"])

``make_oracle`` makes a new oracle each time, with nothing asked; it must know ``questions``, or those made up here,
about the records "record 0" to "record 11". Where answers need somebody to give them, ``answer(oracle, questions)``
does: it is called after each ask. Late answers are waited for: `collect` is called ``rounds`` times.

Each check raises AssertionError with the first line of the contract that is not kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from discreet.oracles.answers import fits
from discreet.records import Answer, Question
from discreet.roles import Oracle

Made = Callable[[], Any]
Answering = Callable[[Any, Sequence[Question]], None]

QUESTIONS = tuple(
    Question(id=f"question {number}", record=f"record {number}", phase=number // 6, place=number)
    for number in range(12)
)


def check_oracle(
    make_oracle: Made,
    *,
    classes: Sequence[str],
    multilabel: bool = False,
    questions: Sequence[Question] = QUESTIONS,
    answer: Answering = lambda oracle, questions: None,
    rounds: int = 4,
) -> None:
    """Raise AssertionError with the first thing that an oracle does wrong."""

    def asked(oracle: Oracle, *lists: Sequence[Question]) -> list[Answer]:
        for some in lists:
            lent = list(some)
            oracle.ask(lent)
            lent.clear()  # the caller's list is the caller's: an oracle keeps its own
            answer(oracle, some)
        return _collected(oracle, rounds)

    first = make_oracle()
    _holds(all(callable(getattr(first, verb, None)) for verb in ("ask", "collect")), "it has ask and collect")
    _holds(_collected(first, 1) == [], "before anything is asked there is no answer")
    _holds(asked(first, []) == [], "it survives an empty list, and has no answer to it")
    every = asked(make_oracle(), questions)
    _check_answers(every, questions, classes, multilabel)
    _check_twice(make_oracle, asked, questions, every)
    _check_parts(make_oracle, asked, questions)


def _check_answers(
    answers: list[Answer], questions: Sequence[Question], classes: Sequence[str], multilabel: bool
) -> None:
    _holds(bool(answers), f"of {len(questions)} questions it answers some")
    _holds(all(isinstance(reply, Answer) for reply in answers), "what it collects are Answers")
    ids = {question.id for question in questions}
    _holds(all(reply.question_id in ids for reply in answers), "answers are to questions that were asked")
    highest = max(Counter((reply.question_id, reply.annotator) for reply in answers).values())
    _holds(highest == 1, "an annotator's answer is collected once")
    known = frozenset(classes)
    _holds(all(fits(reply.value, known, multilabel=multilabel) for reply in answers), "values are of the classes")
    _holds(all(isinstance(reply.annotator, str) for reply in answers), "annotators are named by text")
    _holds(all(reply.at is None or reply.at.tzinfo is not None for reply in answers), "times have a time zone")


def _check_twice(
    make_oracle: Made, asked: Callable[..., list[Answer]], questions: Sequence[Question], every: list[Answer]
) -> None:
    oracle = make_oracle()
    doubled = asked(oracle, [*questions, *questions], questions)
    _holds(_places(doubled) == _places(every), "the same question twice is one question")
    _holds(asked(oracle, questions) == [], "a question that is asked again after its answer has no second one")


def _check_parts(make_oracle: Made, asked: Callable[..., list[Answer]], questions: Sequence[Question]) -> None:
    half = len(questions) // 2
    oracle = make_oracle()
    early = asked(oracle, questions[:half])
    _holds(_questions(early) <= _questions(questions[:half]), "there is nothing for questions that were not asked")
    late = asked(oracle, questions[half:])
    _holds(_questions(late) <= _questions(questions[half:]), "what was collected before does not come again")
    _holds(bool(early) and bool(late), "both halves of the questions get some answer")


def _collected(oracle: Oracle, rounds: int) -> list[Answer]:
    return [reply for _ in range(rounds) for reply in oracle.collect()]


def _places(answers: Sequence[Answer]) -> Counter[tuple[str, str]]:
    return Counter((reply.question_id, reply.annotator) for reply in answers)


def _questions(some: Sequence[Question | Answer]) -> set[str]:
    return {item.id if isinstance(item, Question) else item.question_id for item in some}


def _holds(true: bool, line: str) -> None:
    if not true:
        raise AssertionError(f"the oracle's contract is broken: {line}")
