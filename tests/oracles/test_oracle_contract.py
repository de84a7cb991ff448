"""The contract passes ours (in their own files) and fails oracles with a planted mistake."""

from datetime import datetime

import pytest

from discreet.records import Answer
from discreet.testing import check_oracle

CLASSES = ["cat", "dog"]


class Good:
    def __init__(self):
        self.seen, self.ready = set(), []

    def ask(self, questions):
        for question in questions:
            if question.id not in self.seen:
                self.seen.add(question.id)
                self.ready.append(self.answer(question))

    def answer(self, question):
        return Answer(question_id=question.id, value="cat")

    def collect(self):
        ready, self.ready = self.ready, []
        return ready


class AsksTwice(Good):
    def ask(self, questions):
        self.ready += [self.answer(question) for question in questions]


class AsksAgain(Good):
    def ask(self, questions):
        super().ask({question.id: question for question in questions}.values())

    def collect(self):
        self.seen.clear()
        return super().collect()


class Repeats(Good):
    def collect(self):
        return list(self.ready)


class MakesUp(Good):
    def answer(self, question):
        return Answer(question_id="nobody asked", value="cat")


class Ahead(Good):
    """Answers all twelve as soon as one is asked."""

    def ask(self, questions):
        from discreet.testing.oracles import QUESTIONS

        if questions:
            super().ask(QUESTIONS)


class Outside(Good):
    def answer(self, question):
        return Answer(question_id=question.id, value="emu")


class Several(Good):
    def answer(self, question):
        return Answer(question_id=question.id, value=("cat",))


class Bare(Good):
    def answer(self, question):
        return question.id, "cat"


class Deaf(Good):
    def ask(self, questions):
        pass


class Trips(Good):
    def ask(self, questions):
        self.first = questions[0]
        super().ask(questions)


class Chatty(Good):
    def collect(self):
        return super().collect() or [Answer(question_id="hello", value="cat")]


class Timeless(Good):
    def answer(self, question):
        return Answer(question_id=question.id, value="cat", at=datetime(2026, 1, 1))


class Borrows(Good):
    """Keeps the caller's list, and reads it later."""

    def __init__(self):
        super().__init__()
        self.lists = []

    def ask(self, questions):
        self.lists.append(questions)

    def collect(self):
        for some in self.lists:
            super().ask(some)
        return super().collect()


class OnlyOnce(Good):
    """Hears the first list alone."""

    def ask(self, questions):
        if not self.seen:
            super().ask(questions)


class Half:
    def ask(self, questions):
        pass


def test_an_honest_oracle_passes():
    check_oracle(Good, classes=CLASSES)


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (AsksTwice, "one question"),
        (AsksAgain, "no second one"),
        (Repeats, "collected once"),
        (MakesUp, "were asked"),
        (Ahead, "not asked"),
        (Outside, "of the classes"),
        (Several, "of the classes"),
        (Bare, "are Answers"),
        (Deaf, "answers some"),
        (Chatty, "before anything"),
        (Timeless, "time zone"),
        (OnlyOnce, "both halves"),
        (Half, "ask and collect"),
    ],
)
def test_a_planted_mistake_is_found(broken, line):
    with pytest.raises(AssertionError, match=line):
        check_oracle(broken, classes=CLASSES)


def test_an_oracle_that_an_empty_list_breaks_is_found():
    with pytest.raises(IndexError):
        check_oracle(Trips, classes=CLASSES)


def test_an_oracle_that_keeps_the_callers_list_is_found():
    with pytest.raises(AssertionError, match="answers some"):
        check_oracle(Borrows, classes=CLASSES)
