"""Answers as people give them, and the labels that follow."""

import pytest

from discreet.campaign.answers import (
    IMPORTED,
    as_answers,
    labels_from_bytes,
    labels_of,
    to_bytes,
)
from discreet.campaign.questions import open_questions
from discreet.errors import BadInput, InvalidStore
from discreet.noise import SecretKey
from discreet.records import Answer, Question

ASKED = [Question(id=f"0.{place}", record=f"r{place}", phase=0, place=place) for place in range(3)]
KEY = SecretKey(bytes(32))


def said(question, value, who=""):
    return Answer(question_id=question, value=value, annotator=who)


def test_labels_by_question_or_by_record_are_the_same_answers():
    by_question = as_answers({"0.1": "a", "0.2": None}, ASKED, annotator="ann")
    assert by_question == as_answers({"r1": "a", "r2": None}, ASKED, annotator="ann")
    assert by_question == [said("0.1", "a", "ann"), said("0.2", None, "ann")]


def test_answers_stay_as_they_are():
    given = [said("0.1", "a", "bob"), said("elsewhere", "b")]
    assert as_answers(given, ASKED, annotator="ann") == given


def test_a_name_nobody_knows_is_left_for_the_check_to_refuse():
    assert as_answers({"nobody": "a"}, ASKED) == [said("nobody", "a")]


def test_a_record_named_like_the_question_of_another_is_refused():
    crossed = [Question(id="0.0", record="0.1", phase=0, place=0), Question(id="0.1", record="r", phase=0, place=1)]
    with pytest.raises(BadInput, match="of a question and of another record"):
        as_answers({"0.1": "a"}, crossed)
    own = [Question(id="0.0", record="0.0", phase=0, place=0)]
    assert as_answers({"0.0": "a"}, own) == [said("0.0", "a")]


@pytest.mark.parametrize("value", [3, 1.5, True, b"a", {"a": 1}])
def test_other_values_are_refused_without_being_shown(value):
    with pytest.raises(BadInput, match=type(value).__name__) as refused:
        as_answers({"0.0": value}, ASKED)
    assert "1.5" not in str(refused.value)


@pytest.mark.parametrize("value", [["a", "b"], ("a", "b")])
def test_several_labels_become_a_tuple(value):
    assert as_answers({"0.0": value}, ASKED)[0].value == ("a", "b")


def test_what_is_no_collection_is_refused():
    with pytest.raises(BadInput, match="NoneType"):
        as_answers(None, ASKED)


def test_the_majority_decides_and_skips_have_no_voice():
    answers = [said("0.0", "a", "1"), said("0.0", "b", "2"), said("0.0", "b", "3"), said("0.1", None, "1")]
    answers += [said("0.2", None, "1"), said("0.2", "c", "2")]
    assert labels_of(ASKED, answers, KEY) == {"r0": "b", "r2": "c"}


def test_ties_fall_by_the_questions_own_coin():
    """The same whenever they are counted, whatever else was answered; over many questions both sides."""
    asked = [Question(id=f"0.{place}", record=f"r{place}", phase=0, place=place) for place in range(64)]
    answers = [said(one.id, value, value) for one in asked for value in ("a", "b")]
    whole = labels_of(asked, answers, KEY)
    assert labels_of(asked, reversed(answers), KEY) == whole
    assert labels_of(asked[5:6], answers[10:12], KEY) == {"r5": whole["r5"]}
    assert 12 < sum(value == "a" for value in whole.values()) < 52
    assert labels_of(asked, answers, SecretKey(b"k" * 32)) != whole


def test_a_question_is_open_until_enough_people_answered():
    voices = {"0.0": {"1"}, "0.1": {"1", "2"}}
    assert [one.id for one in open_questions(ASKED, voices, 2)] == ["0.0", "0.2"]
    assert [one.id for one in open_questions(ASKED, voices, 1)] == ["0.2"]
    assert [one.id for one in open_questions(ASKED, {"0.2": {IMPORTED}}, 2)] == ["0.0", "0.1"]


def test_labels_are_stored_in_one_form_and_read_back():
    labels = {"r1": ("a", "b"), "r0": "ü", "r2": ()}
    assert labels_from_bytes(to_bytes(labels)) == labels
    assert to_bytes(dict(reversed(labels.items()))) == to_bytes(labels)
    for broken in (b"", b"[1]", b'"a"', b"\xff"):
        with pytest.raises(InvalidStore):
            labels_from_bytes(broken)


def test_what_somebody_says_corrects_what_was_imported():
    question = Question(id="0.0", record="a", phase=0, place=0)
    imported = Answer(question_id="0.0", value="no", annotator=IMPORTED)
    said = Answer(question_id="0.0", value="yes", annotator="ada")
    skipped = Answer(question_id="0.0", value=None, annotator="ada")
    for number in range(8):
        key = SecretKey(bytes([number]) * 32)
        assert labels_of([question], [imported, said], key) == {"a": "yes"}
        assert labels_of([question], [imported, skipped], key) == {"a": "no"}
