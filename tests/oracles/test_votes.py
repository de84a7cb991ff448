"""One label a record: the majority, and votes weighed by matrices of gold questions."""

import itertools
from collections import Counter
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput
from discreet.noise import SecretKey
from discreet.oracles import SimulatedOracle, annotator_matrices, current_answers, majority, weighted_vote
from discreet.records import Answer, Question

AB = ["A", "B"]
KEY = SecretKey(bytes(range(32)))


def said(question, **votes):
    return [Answer(question_id=question, value=value, annotator=who) for who, value in votes.items()]


def test_most_votes_win_and_skips_have_none():
    answers = said("q1", a="x", b="y", c="y") + said("q2", a=None, b=None, c="x") + said("q3", a=None, b=None)
    assert majority(answers, seed=0) == {"q1": "y", "q2": "x", "q3": None}
    assert majority([], seed=0) == {}


def test_an_annotator_has_one_voice_and_the_last_word_counts():
    answers = said("q", a="x", b="y") + said("q", a="y")
    assert majority(answers, seed=0) == {"q": "y"}
    assert majority(answers + said("q", a=None, c="z", d="z"), seed=0) == {"q": "z"}
    unnamed = [Answer(question_id="q", value=value) for value in "xxy"]
    assert current_answers(unnamed) == {"q": {"": "y"}}


def test_ties_fall_evenly_the_same_way_in_any_order_and_otherwise_with_another_key():
    answers = [answer for n in range(3000) for answer in said(f"q{n}", a="x", b="y", c="z")]
    first = majority(answers, key=KEY)
    assert majority(answers[::-1], key=KEY) == first
    counts = Counter(first.values())
    assert all(abs(counts[name] - 1000) < 5 * (3000 * 2 / 9) ** 0.5 for name in "xyz")
    other = majority(answers, key=KEY.derive("other"))
    assert abs(sum(other[q] == first[q] for q in first) - 1000) < 5 * (3000 * 2 / 9) ** 0.5
    assert majority(answers, seed=1) == majority(answers, seed=1) != majority(answers, seed=2)


@given(
    own=st.lists(st.sampled_from(["x", "y", None]), min_size=1, max_size=5),
    others=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("pqr"), st.sampled_from(["x", "y", None]))),
    before=st.booleans(),
)
@settings(max_examples=100)
def test_no_other_record_has_a_say(own, others, before):
    """The law of section "Assumptions of every claim": for majorities and for weighted votes."""
    mine = [Answer(question_id="mine", value=value, annotator=f"a{n}") for n, value in enumerate(own)]
    rest = [Answer(question_id=q, value=value, annotator=who) for q, who, value in others]
    together = rest + mine if before else mine + rest
    assert majority(together, key=KEY)["mine"] == majority(mine, key=KEY)["mine"]
    fixed = annotator_matrices(said("g", a0="x", a1="y"), gold={"g": "x"}, classes=["x", "y"])
    assert weighted_vote(together, fixed, key=KEY)["mine"] == weighted_vote(mine, fixed, key=KEY)["mine"]


def test_several_labels_are_decided_one_by_one():
    answers = said("q", a=("x", "y"), b=("y",), c=(), d=None)
    assert majority(answers, seed=0) == {"q": ("y",)}
    assert majority(said("q", a=(), b=(), c=("x",)), seed=0) == {"q": ()}
    assert majority(said("q", a=("y", "y"), b=(), c=()), seed=0) == {"q": ()}
    ties = majority([one for n in range(2000) for one in said(f"q{n}", a=("x", "y"), b=("z",))], seed=0)
    held = Counter(label for value in ties.values() for label in value)
    assert all(abs(held[name] - 1000) < 5 * 500**0.5 for name in "xyz")
    assert len(set(ties.values())) == 8


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(BadInput, match="some are one label"):
        majority(said("q", a="x", b=("x",)), seed=0)
    for options in ({}, {"seed": 1, "key": KEY}):
        with pytest.raises(BadInput, match="key or by a seed"):
            majority([], **options)


GOLD = {"g1": "A", "g2": "A", "g3": "A", "g4": "A", "g5": "B", "g6": "B"}


def gold_answers():
    """By hand: anna is right on 3 of 4 A and on both B; ben swaps them all; carl skips."""
    anna = zip(GOLD, "AAABBB", strict=True)
    ben = zip(GOLD, "BBBBAA", strict=True)
    found = [Answer(question_id=q, value=v, annotator="anna") for q, v in anna]
    found += [Answer(question_id=q, value=v, annotator="ben") for q, v in ben]
    return [*found, *(Answer(question_id=q, value=None, annotator="carl") for q in GOLD)]


def test_matrices_by_hand():
    found = annotator_matrices(gold_answers(), gold=GOLD, classes=AB)
    np.testing.assert_allclose(found.of("anna"), [[4 / 6, 2 / 6], [1 / 4, 3 / 4]])
    np.testing.assert_allclose(found.of("ben"), [[1 / 6, 5 / 6], [3 / 4, 1 / 4]])
    np.testing.assert_allclose(found.pooled, [[4 / 10, 6 / 10], [3 / 6, 3 / 6]])
    assert found.of("carl") is found.pooled
    half = annotator_matrices(gold_answers(), gold=GOLD, classes=AB, smoothing=0.5)
    np.testing.assert_allclose(half.of("ben"), [[0.5 / 5, 4.5 / 5], [2.5 / 3, 0.5 / 3]])
    assert "anna" not in repr(found)


def test_a_weighted_vote_by_hand():
    """P(A | anna B, ben B) ~ 2/6 * 5/6 = 10/36, P(B | ...) ~ 3/4 * 1/4 = 3/16: two votes for B make A likelier."""
    matrices = annotator_matrices(gold_answers(), gold=GOLD, classes=AB)
    votes = said("q", anna="B", ben="B")
    assert weighted_vote(votes, matrices, seed=0) == {"q": "A"}
    assert 10 / 36 > 3 / 16
    assert weighted_vote(votes, matrices, prior=[0.4, 0.6], seed=0) == {"q": "B"}  # 40/360 < 18/160
    assert 0.4 * 10 / 36 < 0.6 * 3 / 16
    assert weighted_vote(said("q", anna=None), matrices, seed=0) == {"q": None}
    assert weighted_vote(said("q", anna=None, ben="A"), matrices, seed=0) == {"q": "B"}


def test_one_perfect_and_one_adversarial_annotator_agree_on_the_truth():
    gold = {f"g{n}": AB[n % 2] for n in range(40)}
    swapped = {"A": "B", "B": "A"}
    answers = [one for q, truth in gold.items() for one in said(q, good=truth, bad=swapped[truth])]
    matrices = annotator_matrices(answers, gold=gold, classes=AB)
    for truth in AB:
        assert weighted_vote(said("q", good=truth, bad=swapped[truth]), matrices, seed=0) == {"q": truth}
        assert weighted_vote(said("q", bad=swapped[truth]), matrices, seed=0) == {"q": truth}
        crowd = said("q", good=truth, bad=swapped[truth], bad2=swapped[truth])  # a newcomer counts little
        assert weighted_vote(crowd, matrices, seed=0) == {"q": truth}


def test_weighing_beats_counting_when_annotators_differ():
    """2,000 records, one annotator right in 9 of 10, two in 4 of 10: the majority follows the two."""
    classes, size = ["a", "b", "c"], 2000
    good, poor = [0.9, 0.05, 0.05], [0.4, 0.3, 0.3]
    confusion = [[list(np.roll(row, n)) for n in range(3)] for row in (good, poor, poor)]
    truth = {f"r{n}": classes[n % 3] for n in range(size + 300)}
    oracle = SimulatedOracle(truth, classes=classes, annotators=3, per_question=3, confusion=confusion, seed=0)
    oracle.ask([Question(id=f"q{n}", record=f"r{n}", phase=0, place=n) for n in range(size + 300)])
    answers = oracle.collect()
    gold = {f"q{n}": classes[n % 3] for n in range(size, size + 300)}
    fixed = annotator_matrices([a for a in answers if a.question_id in gold], gold=gold, classes=classes)
    asked = [a for a in answers if a.question_id not in gold]

    def right(labels):
        return sum(labels[f"q{n}"] == classes[n % 3] for n in range(size)) / size

    assert right(weighted_vote(asked, fixed, seed=0)) > 0.88
    assert right(majority(asked, seed=0)) < 0.7


def test_order_and_ties_of_weighted_votes():
    even = annotator_matrices(
        [one for q, truth in GOLD.items() for one in said(q, a=truth, b=truth)], gold=GOLD, classes=AB
    )
    votes = [one for n in range(400) for one in said(f"q{n}", a="A", b="B")]
    found = weighted_vote(votes, even, prior=None, key=KEY)
    assert weighted_vote(votes[::-1], even, key=KEY) == found
    own, other = even.of("a")[:, 0] * even.of("b")[:, 1]
    assert own != pytest.approx(other)  # the gold has more A than B: no tie here
    assert set(found.values()) == {AB[int(other > own)]}
    flat = annotator_matrices(said("g", a="A", b="A") + said("h", a="B", b="B"), gold={"g": "A", "h": "B"}, classes=AB)
    tied = Counter(weighted_vote(votes, flat, key=KEY).values())
    assert abs(tied["A"] - 200) < 5 * 10


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_names_of_classes_do_not_matter(order):
    classes = ["a", "b", "c"]
    rename = {name: classes[place] for name, place in zip(classes, order, strict=True)}
    gold = {f"g{n}": classes[n % 3] for n in range(9)}
    answers = [
        Answer(question_id=q, value=classes[(n * k) % 3], annotator=f"p{k}")
        for n, q in enumerate(gold)
        for k in range(1, 4)
    ]
    votes = said("q", p1="a", p2="c", p3="a")

    def renamed(some):
        return [Answer(question_id=a.question_id, value=rename[a.value], annotator=a.annotator) for a in some]

    plain = annotator_matrices(answers, gold=gold, classes=classes)
    other = annotator_matrices(renamed(answers), gold={q: rename[c] for q, c in gold.items()}, classes=classes)
    found = weighted_vote(votes, plain, prior=[0.5, 0.3, 0.2], seed=0)["q"]
    shuffled = [0.0, 0.0, 0.0]
    for place, share in enumerate([0.5, 0.3, 0.2]):
        shuffled[order[place]] = share
    assert weighted_vote(renamed(votes), other, prior=shuffled, seed=0)["q"] == rename[found]


@pytest.mark.parametrize(
    "act",
    [
        lambda: annotator_matrices(gold_answers(), gold=GOLD, classes=AB, smoothing=0),
        lambda: annotator_matrices([], gold=GOLD, classes=AB),
        lambda: annotator_matrices(said("q9", anna="A"), gold=GOLD, classes=AB),
        lambda: annotator_matrices(gold_answers() + said("q9", anna="A"), gold=GOLD, classes=AB),
        lambda: annotator_matrices(said("g1", anna="C"), gold=GOLD, classes=AB),
        lambda: annotator_matrices(said("g1", anna=("A",)), gold=GOLD, classes=AB),
        lambda: annotator_matrices(said("g1", anna="A"), gold={"g1": "Z"}, classes=AB),
        lambda: weighted_vote(said("q", anna="C"), annotator_matrices(gold_answers(), gold=GOLD, classes=AB), seed=0),
        lambda: weighted_vote([], annotator_matrices(gold_answers(), gold=GOLD, classes=AB), prior=[1, 0], seed=0),
        lambda: weighted_vote([], annotator_matrices(gold_answers(), gold=GOLD, classes=AB), prior=[0.4, 0.4], seed=0),
        lambda: weighted_vote([], annotator_matrices(gold_answers(), gold=GOLD, classes=AB)),
    ],
)
def test_what_means_nothing_is_refused(act):
    with pytest.raises(BadInput):
        act()


def test_logs_of_matrices_are_finite():
    found = annotator_matrices(gold_answers(), gold=GOLD, classes=AB, smoothing=1e-9)
    assert min(log(share) for share in found.of("ben").ravel()) > -30
