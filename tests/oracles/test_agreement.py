"""Agreement against answers that are known from the literature."""

import pytest

from discreet.oracles.answers import agreement_of, cohen_kappa, fleiss_kappa, raw_agreement
from discreet.records import Answer

FLEISS = [  # ten subjects, fourteen raters, five categories: the worked example of Fleiss' kappa, 0.210
    (0, 0, 0, 0, 14),
    (0, 2, 6, 4, 2),
    (0, 0, 3, 5, 6),
    (0, 3, 9, 2, 0),
    (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0),
    (3, 2, 6, 3, 0),
    (2, 5, 3, 2, 2),
    (6, 5, 2, 1, 0),
    (0, 2, 2, 3, 7),
]


def said(question, **values):
    return [Answer(question_id=question, value=value, annotator=name) for name, value in values.items()]


def test_fleiss_example():
    counts = [dict(enumerate(row)) for row in FLEISS]
    assert raw_agreement(counts) == pytest.approx(0.378, abs=5e-4)
    assert fleiss_kappa(counts) == pytest.approx(0.210, abs=5e-4)


def test_cohen_example():
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4)


def test_cohen_is_scikit_learns():
    from sklearn.metrics import cohen_kappa_score

    first, second = [0, 1, 2, 2, 1, 0, 0, 2, 1, 1], [0, 1, 2, 1, 1, 0, 2, 2, 0, 1]
    assert cohen_kappa(list(zip(first, second, strict=True))) == pytest.approx(cohen_kappa_score(first, second))


def test_questions_with_one_answer_skips_and_imported_labels_say_nothing():
    answers = [
        *said("one", ada="a"),
        *said("two", ada="a", bo=None),
        *said("three", ada="a", imported="b"),
        *said("four", ada="a", bo="a"),
        *said("five", ada="b", bo="a", cy="b"),
    ]
    found = agreement_of(answers, without=("imported",))
    assert found.questions == 2
    assert found.raw == pytest.approx((1 + 1 / 3) / 2)
    assert [(one.first, one.second, one.questions, one.raw) for one in found.pairs] == [
        ("ada", "bo", 2, 0.5),
        ("ada", "cy", 1, 1.0),
        ("bo", "cy", 1, 0.0),
    ]


def test_sets_agree_in_whatever_order_they_were_said():
    found = agreement_of([*said("q", ada=("a", "b"), bo=("b", "a")), *said("r", ada=(), bo=("a",))])
    assert found.raw == 0.5


def test_one_class_alone_has_no_kappa():
    found = agreement_of([*said("q", ada="a", bo="a"), *said("r", ada="a", bo="a")])
    assert (found.raw, found.kappa, found.pairs[0].kappa) == (1.0, None, None)


def test_nothing_to_compare():
    found = agreement_of(said("q", ada="a"))
    assert (found.questions, found.raw, found.kappa, found.pairs) == (0, None, None, ())
