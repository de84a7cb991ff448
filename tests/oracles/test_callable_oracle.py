import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.oracles import CallableOracle
from discreet.records import Question
from discreet.testing import check_oracle

CLASSES = ["cat", "dog"]
QUESTIONS = [Question(id=f"q{n}", record=f"r{n}", phase=0, place=n) for n in range(4)]


def values(oracle):
    return {answer.question_id: answer.value for answer in oracle.collect()}


def test_a_function_answers_and_its_failures_leave_questions_open():
    moods = {"r1": KeyError("the patient's name"), "r2": RuntimeError("secret")}

    def answer(question):
        if question.record in moods:
            raise moods[question.record]
        return "cat"

    oracle = CallableOracle(answer, classes=CLASSES, annotator="model")
    oracle.ask(QUESTIONS)
    assert oracle.failures == {}
    assert values(oracle) == {"q0": "cat", "q3": "cat"}
    assert oracle.open == 2
    assert oracle.failures == {"KeyError": 1, "RuntimeError": 1}
    assert "secret" not in repr(oracle) + str(oracle.failures)
    moods.clear()
    assert values(oracle) == {"q1": "cat", "q2": "cat"}
    assert oracle.open == 0


def test_a_batch_function_gets_the_open_questions_and_answers_in_their_order():
    seen = []

    def answer(questions):
        seen.append([question.id for question in questions])
        found = [None if question.id == "q2" else "dog" for question in questions]
        questions.clear()  # the list is the function's own
        return found

    oracle = CallableOracle(answer, batch=True)
    assert oracle.collect() == []
    oracle.ask(QUESTIONS)
    assert values(oracle) == {"q0": "dog", "q1": "dog", "q2": None, "q3": "dog"}
    assert oracle.collect() == []
    assert seen == [["q0", "q1", "q2", "q3"]]


@pytest.mark.parametrize("wrong", [["cat"], "catz", {"q0": "cat", "q1": "", "q2": "", "q3": ""}, ["cat"] * 5])
def test_a_batch_that_is_not_one_value_a_question_is_taken_by_nobody(wrong):
    oracle = CallableOracle(lambda questions: wrong, batch=True)
    oracle.ask(QUESTIONS)
    assert oracle.collect() == []
    assert oracle.failures == {"not one value a question": 1}
    assert oracle.open == 4


def test_a_batch_that_raises_or_returns_nothing_stays_open():
    oracle = CallableOracle(lambda questions: None, batch=True)
    oracle.ask(QUESTIONS)
    assert oracle.collect() == []
    assert oracle.failures == {"TypeError": 1}


@pytest.mark.parametrize(
    ("value", "multilabel", "kept"),
    [
        (np.str_("cat"), False, "cat"),
        (None, False, None),
        (["dog", "cat"], True, ("cat", "dog")),
        ({"dog", "cat"}, True, ("cat", "dog")),
        ((), True, ()),
        (None, True, None),
    ],
)
def test_values_that_are_taken(value, multilabel, kept):
    oracle = CallableOracle(lambda question: value, classes=CLASSES, multilabel=multilabel)
    oracle.ask(QUESTIONS[:1])
    found = oracle.collect()[0].value
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    ("value", "multilabel", "why"),
    [
        ("emu", False, "outside the classes"),
        (("cat", "emu"), True, "outside the classes"),
        (3, False, "not a label"),
        (True, False, "not a label"),
        ("cat", True, "not a label"),
        (("cat",), False, "not a label"),
        ([1], True, "not a label"),
        ({1, "cat"}, True, "not a label"),
    ],
)
def test_values_that_are_not_taken_are_counted_and_stay_open(value, multilabel, why):
    oracle = CallableOracle(lambda question: value, classes=CLASSES, multilabel=multilabel)
    oracle.ask(QUESTIONS[:1])
    assert oracle.collect() == []
    assert oracle.failures == {why: 1}
    assert oracle.open == 1


def test_an_interrupt_loses_no_answer():
    calls = []

    def answer(question):
        calls.append(question.id)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return "cat"

    oracle = CallableOracle(answer)
    oracle.ask(QUESTIONS)
    with pytest.raises(KeyboardInterrupt):
        oracle.collect()
    assert set(values(oracle)) == {"q0", "q1", "q2", "q3"}
    assert calls == ["q0", "q1", "q2", "q2", "q3"]


def test_a_function_may_be_named(tmp_path, monkeypatch):
    (tmp_path / "my_labels_here.py").write_text("def answer(question):\n    return 'cat'\n")
    monkeypatch.syspath_prepend(tmp_path)
    oracle = CallableOracle("my_labels_here:answer")
    oracle.ask(QUESTIONS[:1])
    assert values(oracle) == {"q0": "cat"}
    for name in ("my_labels_here:other", "no_such_module_at_all:f", "my_labels_here", "a:b:c", "os:sep", ":"):
        with pytest.raises(BadInput):
            CallableOracle(name)
    with pytest.raises(BadInput, match="int"):
        CallableOracle(3)


def test_it_keeps_the_contract():
    check_oracle(lambda: CallableOracle(lambda question: "dog", classes=CLASSES), classes=CLASSES)
    check_oracle(
        lambda: CallableOracle(lambda some: [("dog",)] * len(some), multilabel=True, batch=True),
        classes=CLASSES,
        multilabel=True,
    )
