"""Answers against the task, and oracles by name."""

from datetime import UTC, datetime

import pytest

from discreet.errors import BadInput
from discreet.oracles import Accepted, CallableOracle, FileOracle, SimulatedOracle, build_oracle, check_answers
from discreet.records import Answer, Question

CLASSES = ["cat", "dog"]
QUESTIONS = [Question(id=f"q{n}", record=f"r{n}", phase=0, place=n) for n in range(9)]


def answer(number, value, **options):
    return Answer(question_id=f"q{number}", value=value, **options)


def check(answers, **options):
    return check_answers(answers, **({"questions": QUESTIONS, "classes": CLASSES} | options))


def test_good_answers_are_taken_as_they_are():
    good = [answer(0, "cat"), answer(1, None, annotator="bo", at=datetime(2026, 1, 1, tzinfo=UTC)), answer(0, "dog")]
    assert check(good) == Accepted(valid=tuple(good))
    assert check([]) == Accepted(valid=())
    assert check(iter(good), questions=iter(QUESTIONS)).valid == tuple(good)


def test_several_labels_are_put_in_order():
    found = check([answer(0, ("dog", "cat", "dog")), answer(1, ()), answer(2, None)], multilabel=True)
    assert [one.value for one in found.valid] == [("cat", "dog"), (), None]


MIXED = [answer(0, "cat"), answer(77, "Ida"), answer(1, "Ida Grün"), answer(2, ("cat",)), answer(3, None)]


def test_a_caller_may_take_the_good_ones():
    found = check(MIXED, strict=False)
    assert found == Accepted(valid=(MIXED[0], MIXED[4]), unknown=(MIXED[1],), outside=(MIXED[2], MIXED[3]))
    assert repr(found) == "Accepted(valid=2, unknown=1, outside=2)"
    several = check(MIXED, strict=False, multilabel=True)
    assert several.valid == (MIXED[3], MIXED[4])


def test_by_default_all_are_refused_with_counts_and_places_and_no_content():
    with pytest.raises(BadInput) as refused:
        check(MIXED)
    assert str(refused.value) == (
        "5 answers: 1 to questions that were not asked: number 2; 2 outside the declared classes: "
        "number 3 (question q1), number 4 (question q2). None was taken. Correct these and tell all again."
    )
    with pytest.raises(BadInput, match=r"line 7; 2 .*: line 9 \(question q1\), line 10") as refused:
        check(MIXED, lines=[5, 7, 9, 10, 12])
    assert "Ida" not in str(refused.value)
    assert "q77" not in str(refused.value)  # nobody asked it: that cell may hold anything


def test_a_long_list_of_mistakes_is_cut():
    with pytest.raises(BadInput, match=r"9 outside .*q4\) and 4 more\."):
        check([answer(n, "emu") for n in range(9)])


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        (("q0", "cat"), "it is a tuple"),
        (Answer(question_id=3, value="cat"), "not text"),
        (Answer(question_id="q0", value="cat", annotator=None), "not text"),
        (Answer(question_id="q0", value="cat", at=datetime(2026, 1, 1)), "no time zone"),
    ],
)
def test_what_is_no_answer_is_refused_whatever_the_caller_says(wrong, fact):
    for strict in (True, False):
        with pytest.raises(BadInput, match=f"answer number 2.*{fact}"):
            check([answer(0, "cat"), wrong], strict=strict)


@pytest.mark.parametrize("value", [3, True, ["cat"], {"cat"}, "Cat", "cat ", "", b"cat", float("nan")])
def test_values_of_another_kind_are_outside(value):
    assert check([answer(0, value)], strict=False).outside
    assert check([answer(0, value)], strict=False, multilabel=True).outside
    assert check([answer(0, (value,))], strict=False, multilabel=True).outside


def test_oracles_by_name(tmp_path):
    made = build_oracle("simulated", labels={"r0": "cat"}, classes=CLASSES, seed=0, label_noise=0.1)
    assert isinstance(made, SimulatedOracle)
    assert isinstance(build_oracle("files", folder=tmp_path, classes=CLASSES), FileOracle)
    assert isinstance(build_oracle("callable", function=lambda question: "cat"), CallableOracle)


@pytest.mark.parametrize(
    ("name", "options", "fact"),
    [
        ("teachers", {}, "a recipe of its own. Choose one of simulated, files, callable"),
        ("web", {"folder": "x"}, "does not take folder"),
        ("teachers", {"votes": 3}, "a recipe of its own"),
        ("crystal-ball", {}, "no such oracle"),
        ("simulated", {}, "it needs labels, classes, seed"),
        ("files", {"folder": "x", "classes": CLASSES, "colour": 1}, "it does not take colour. It takes folder"),
        ("callable", {"functions": len}, "it does not take functions; it needs function"),
    ],
)
def test_names_and_options_that_do_not_exist_are_refused(name, options, fact):
    with pytest.raises(BadInput, match=fact):
        build_oracle(name, **options)
