"""EM of Dawid and Skene: by hand, on the data of their paper, and by its laws."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput
from discreet.noise import SecretKey
from discreet.oracles import AnnotatorMatrices, SimulatedOracle, dawid_skene, majority, weighted_vote
from discreet.oracles.annotators import climb
from discreet.records import Answer, Question

ABC = ["a", "b", "c"]
# Dawid and Skene (1979), Table 1: 45 patients; three looks of observer 1, then one each of observers 2 to 5.
PATIENTS = (
    "1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223 2322223 4444444 2223343 "
    "1111111 2223212 1211111 1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 2212222 "
    "1111111 1111111 2322222 1111111 1111111 1121121 1111111 3333233 1111111 2222222 2223232 4334343 "
    "2212232 2323233 3333432 1111111 1111111 1212111 2322222 1211111 2222222"
)


def answers_of(rows):
    return [Answer(question_id=q, value=value, annotator=who) for q, who, value in rows]


def run(rows, **options):
    return dawid_skene(answers_of(rows), **({"classes": ABC, "records_released": True} | options))


def test_private_records_are_refused():
    for wrong in (False, None, 1, "yes"):
        with pytest.raises(BadInput, match="not released.*majority"):
            run([("q", "p", "a")], records_released=wrong)
    with pytest.raises(TypeError):
        dawid_skene(answers_of([("q", "p", "a")]), classes=ABC)


def test_why_other_records_do_have_a_say_here():
    """The same three answers to "mine", and two crowds: the label changes. A majority's does not."""
    mine = [("mine", "p", "a"), ("mine", "q", "b"), ("mine", "r", "b")]
    steady = [(f"{n}", who, ABC[n % 2]) for n in range(20) for who in "xyp"]
    rest = steady + [(f"{n}", who, ABC[(n * 7 // 3) % 2]) for n in range(20) for who in "qr"]
    turned = [(f"{n}", who, ABC[n % 2]) for n in range(20) for who in "xyqr"]
    turned += [(f"{n}", "p", ABC[(n * 7 // 3) % 2]) for n in range(20)]
    found = {run(mine + others, classes=["a", "b"]).labels(seed=0)["mine"] for others in (rest, turned)}
    assert found == {"a", "b"}
    assert {majority(answers_of(mine + others), seed=0)["mine"] for others in (rest, turned)} == {"b"}


def test_the_data_of_the_paper():
    """Their Table 2: class marginals .40 .42 .11 .07; all patients are certain but for a few."""
    votes = [
        (patient, max(0, look - 2), int(grade) - 1)
        for patient, looks in enumerate(PATIENTS.split())
        for look, grade in enumerate(looks)
    ]
    assert len(votes) == 45 * 7
    posterior, prior, matrices, objective, converged = climb(
        np.array(votes), 4, smoothing=0, rounds=500, tolerance=1e-12
    )
    assert converged
    np.testing.assert_allclose(prior, [0.40, 0.42, 0.11, 0.07], atol=0.005)
    np.testing.assert_allclose(matrices.sum(axis=2), 1)
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    assert posterior[0].argmax() == 0
    assert posterior[10].argmax() == 3
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(objective))


def test_the_first_round_by_hand():
    """Two annotators, two questions, exact fractions, smoothing 1.

    Shares of votes: q1 (1, 0), q2 (1/2, 1/2). M_p[a] = (1 + 3/2, 1) / (7/2), M_p[b] = (1 + 1/2, 1) / (5/2);
    M_q[a] = (1 + 1, 1 + 1/2) / (7/2), M_q[b] = (1, 1 + 1/2) / (5/2); prior = (1 + 3/2, 1 + 1/2) / 4.
    """
    votes = [("1", "p", "a"), ("1", "q", "a"), ("2", "p", "a"), ("2", "q", "b")]
    found = run(votes, classes=["a", "b"], smoothing=1, rounds=1)
    part = Fraction
    np.testing.assert_allclose(found.prior, [5 / 8, 3 / 8])
    np.testing.assert_allclose(found.annotators.of("p"), [[5 / 7, 2 / 7], [3 / 5, 2 / 5]])
    np.testing.assert_allclose(found.annotators.of("q"), [[4 / 7, 3 / 7], [2 / 5, 3 / 5]])
    one = part(5, 8) * part(5, 7) * part(4, 7), part(3, 8) * part(3, 5) * part(2, 5)
    two = part(5, 8) * part(5, 7) * part(3, 7), part(3, 8) * part(3, 5) * part(3, 5)
    expected = [[float(share / sum(pair)) for share in pair] for pair in (one, two)]
    np.testing.assert_allclose(found.posterior, expected)
    cells = [5 / 8, 3 / 8, 5 / 7, 2 / 7, 3 / 5, 2 / 5, 4 / 7, 3 / 7, 2 / 5, 3 / 5]
    assert found.objective[0] == pytest.approx(
        float(np.log([float(sum(one)), float(sum(two))]).sum() + np.log(cells).sum())
    )
    assert not found.converged


VOTES = st.lists(
    st.tuples(st.sampled_from([f"q{n}" for n in range(6)]), st.sampled_from("pqrs"), st.sampled_from(ABC)),
    min_size=1,
    max_size=24,
    unique_by=lambda vote: vote[:2],
)


@given(VOTES, st.sampled_from([0, 0.01, 1.0]))
@settings(max_examples=60, deadline=None)
def test_what_it_climbs_never_falls(votes, smoothing):
    found = run(votes, smoothing=smoothing, rounds=40)
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(found.objective))
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1)
    np.testing.assert_allclose(found.annotators.pooled.sum(axis=1), 1)
    assert np.isfinite(found.objective).all()
    if smoothing == 0:
        assert max(found.objective) <= 1e-9  # a likelihood is at most 1


@given(VOTES, st.permutations(range(3)))
@settings(max_examples=60, deadline=None)
def test_the_names_of_classes_do_not_matter(votes, order):
    renamed = [(q, who, ABC[order[ABC.index(value)]]) for q, who, value in votes]
    plain, other = run(votes, rounds=15), run(renamed, rounds=15)
    np.testing.assert_allclose(other.posterior[:, order], plain.posterior, atol=1e-6)
    for who in {who for _, who, _ in votes}:
        np.testing.assert_allclose(other.annotators.of(who)[np.ix_(order, order)], plain.annotators.of(who), atol=1e-6)


@given(VOTES, st.randoms())
@settings(max_examples=30, deadline=None)
def test_the_order_of_answers_does_not_matter(votes, rng):
    shuffled = list(votes)
    rng.shuffle(shuffled)
    plain, other = run(votes, rounds=15), run(shuffled, rounds=15)
    places = [other.questions.index(q) for q in plain.questions]
    np.testing.assert_allclose(other.posterior[places], plain.posterior, atol=1e-6)


def crowd(confusion, size=600, classes=ABC, seed=0):
    truth = {f"r{n}": classes[n % len(classes)] for n in range(size)}
    oracle = SimulatedOracle(
        truth, classes=classes, annotators=len(confusion), per_question=len(confusion), confusion=confusion, seed=seed
    )
    oracle.ask([Question(id=f"q{n}", record=f"r{n}", phase=0, place=n) for n in range(size)])
    return oracle.collect(), {f"q{n}": truth[f"r{n}"] for n in range(size)}


def right(labels, truth):
    return sum(labels[q] == value for q, value in truth.items()) / len(truth)


def test_one_perfect_one_adversarial_and_a_fair_annotator():
    """The adversary always lies the same way: it is found out, and its lies tell the truth."""
    perfect, liar = np.eye(3), np.roll(np.eye(3), 1, axis=1)
    fair = 0.7 * np.eye(3) + 0.1
    answers, truth = crowd([perfect, liar, fair])
    found = dawid_skene(answers, classes=ABC, records_released=True)
    assert found.converged
    assert right(found.labels(seed=0), truth) == 1
    np.testing.assert_allclose(found.annotators.of("annotator-1"), perfect, atol=0.01)
    np.testing.assert_allclose(found.annotators.of("annotator-2"), liar, atol=0.01)
    np.testing.assert_allclose(found.annotators.of("annotator-3"), fair, atol=0.12)
    np.testing.assert_allclose(found.prior, 1 / 3, atol=0.01)


def test_it_beats_counting_when_annotators_differ():
    good, poor = 0.85 * np.eye(3) + 0.05, 0.1 * np.eye(3) + 0.3
    answers, truth = crowd([good, good, poor, poor, poor])
    weighed = right(dawid_skene(answers, classes=ABC, records_released=True).labels(seed=0), truth)
    known = {f"annotator-{n}": matrix for n, matrix in enumerate((good, good, poor, poor, poor), 1)}
    best = AnnotatorMatrices(classes=tuple(ABC), matrices=known, pooled=poor)
    assert weighed > right(weighted_vote(answers, best, seed=0), truth) - 0.03  # as if the matrices were known
    assert weighed > right(majority(answers, seed=0), truth) + 0.05


def test_ties_fall_by_the_questions_own_coin():
    votes = [(f"q{n}", who, value) for n in range(200) for who, value in (("p", "ab"[n % 2]), ("q", "ba"[n % 2]))]
    found = run(votes, classes=["a", "b"])
    np.testing.assert_allclose(found.posterior, 0.5)
    labels = found.labels(key=SecretKey(bytes(32)))
    assert labels == found.labels(key=SecretKey(bytes(32)))
    assert 65 < sum(value == "a" for value in labels.values()) < 135


def test_skips_do_not_count_and_what_means_nothing_is_refused():
    found = run([("q", "p", "a"), ("q", "q", None), ("r", "p", None)])
    assert found.questions == ("q",)
    assert set(found.annotators.matrices) == {"p"}
    assert "'p'" not in repr(found)
    for rows, options in (
        ([], {}),
        ([("q", "p", None)], {}),
        ([("q", "p", "z")], {}),
        ([("q", "p", ("a",))], {}),
        ([("q", "p", "a")], {"smoothing": -1}),
        ([("q", "p", "a")], {"rounds": 0}),
        ([("q", "p", "a")], {"classes": ["a"]}),
    ):
        with pytest.raises(BadInput):
            run(rows, **options)
    with pytest.raises(BadInput):
        found.labels()
