"""A crowd whose people are right two times out of three: drawn accuracies, and labels that do not believe in luck."""

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.oracles import CallableOracle, FileOracle, SimulatedOracle, dawid_skene
from discreet.oracles.annotators import climb, thought_of, trust_in
from discreet.records import Answer, Question

CLASSES = ("no", "yes")
QUESTIONS = [Question(id=f"q{n}", record=f"r{n}", phase=1, place=n) for n in range(400)]
LABELS = {f"r{n}": CLASSES[n % 3 > 0] for n in range(400)}


def crowd(spread, people=40, seed=3, **options):
    return SimulatedOracle(
        LABELS, classes=CLASSES, seed=seed, annotators=people, per_question=3, accuracy=(0.65, spread), **options
    )


def shares(oracle):
    oracle.ask(QUESTIONS)
    right = {}
    for one in oracle.collect():
        right.setdefault(one.annotator, []).append(one.value == LABELS[f"r{one.question_id[1:]}"])
    return {who: np.mean(marks) for who, marks in right.items()}


def test_people_draw_their_own_accuracy():
    narrow, wide = crowd(0.0)._confusion[:, 0, 0], crowd(0.1)._confusion[:, 0, 0]
    assert np.allclose(narrow, 0.65)
    assert 0.07 < wide.std() < 0.13
    assert abs(wide.mean() - 0.65) < 0.05
    assert crowd(1.0)._confusion.min() >= 0, "clipped"
    assert np.array_equal(wide, crowd(0.1)._confusion[:, 0, 0]), "by the seed"
    assert not np.array_equal(wide, crowd(0.1, seed=4)._confusion[:, 0, 0])


def test_they_answer_by_it():
    oracle = crowd(0.2, people=6)
    found = shares(oracle)
    own = dict(zip(oracle.annotators, oracle._confusion[:, 0, 0], strict=True))
    assert all(abs(found[who] - own[who]) < 0.12 for who in found), "about 200 answers each"


def test_an_accuracy_goes_alone():
    with pytest.raises(BadInput):
        crowd(0.1, label_noise=0.1)
    with pytest.raises(BadInput):
        crowd(0.1, confusion=[np.eye(2)] * 40)
    with pytest.raises(BadInput):
        SimulatedOracle(LABELS, classes=CLASSES, seed=0, accuracy=(1.5, 0.1))


def answered(spread=0.01, seed=3):
    oracle = crowd(spread, seed=seed)
    oracle.ask(QUESTIONS)
    return list(oracle.collect())


def right(found):
    return np.mean([LABELS[f"r{name[1:]}"] == label for name, label in found.labels(seed=0).items()])


def test_a_belief_beforehand_keeps_em_from_believing_in_luck():
    """Thirty answers a person, all equally good: plain EM is worse than counting votes; with a belief it is not."""
    plain, believing, voting = [], [], []
    for seed in range(6):
        said = answered(seed=seed)
        plain.append(right(dawid_skene(said, classes=CLASSES, records_released=True)))
        options = {"records_released": True, "accuracy": 0.65, "even": True}
        believing.append(right(dawid_skene(said, classes=CLASSES, believed=200, **options)))
        voting.append(right(dawid_skene(said, classes=CLASSES, believed=1e12, **options)))
    assert np.mean(voting) > np.mean(plain) + 0.02
    assert abs(np.mean(believing) - np.mean(voting)) < 0.02


def test_an_even_prior_does_not_turn_rare_classes_into_common_ones():
    said = answered()
    learned, even = (
        dawid_skene(said, classes=CLASSES, records_released=True, believed=200, accuracy=0.65, even=how)
        for how in (False, True)
    )
    assert even.prior.tolist() == [0.5, 0.5]
    rare = [found.posterior.argmax(axis=1).mean() for found in (learned, even)]
    assert rare[1] < rare[0], "votes for the rarer class count as much as others"


def test_it_climbs_whatever_is_believed():
    votes = np.array([[n // 3, n % 7, (n * n) % 2] for n in range(90)], dtype=np.intp)
    for believed in (0.0, 1.0, 30.0):
        for even in (False, True):
            thought = thought_of(2, believed, 0.7)
            heights = climb(votes, 2, smoothing=0.01, rounds=60, tolerance=0.0, thought=thought, even=even)[3]
            assert (np.diff(heights) >= -1e-9 * np.abs(heights[:-1])).all()


@pytest.mark.parametrize("wrong", [{"believed": -1}, {"accuracy": 1.0}, {"accuracy": 0.0}])
def test_beliefs_have_limits(wrong):
    with pytest.raises(BadInput):
        dawid_skene(answered(), classes=CLASSES, records_released=True, **wrong)


def test_trust():
    found = trust_in(np.array([[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]]))
    assert found.tolist() == [0.0, 1.0, 0.5]
    assert trust_in(np.array([[1 / 3, 1 / 3, 1 / 3]]))[0] == pytest.approx(0)


# -- whom an oracle shows questions to


def test_oracles_say_whom_they_show_questions_to(tmp_path):
    simulated = crowd(0.1, people=5)
    simulated.ask(QUESTIONS[:10])
    told = {(one.question_id, one.audience) for one in simulated.shown_to(QUESTIONS[:10])}
    assert told == {(one.question_id, one.annotator) for one in simulated.collect()}

    files = FileOracle(tmp_path / "out", classes=CLASSES)
    assert {(one.audience, one.kind) for one in files.shown_to(QUESTIONS[:3])} == {("questions-0001.csv", "hand-out")}
    files.ask(QUESTIONS[:3])
    again = FileOracle(tmp_path / "out", classes=CLASSES)
    assert again.shown_to(QUESTIONS[:3]) == [], "they stand in a file"
    assert {one.audience for one in again.shown_to(QUESTIONS[:4])} == {"questions-0002.csv"}
    again.ask(QUESTIONS[:4])
    assert (tmp_path / "out" / "questions-0002.csv").exists()

    def guess(question):
        return "yes"

    own = CallableOracle(guess, classes=CLASSES)
    assert [(one.audience, one.kind) for one in own.shown_to(QUESTIONS[:1])] == [("guess", "program")]
    named = CallableOracle(guess, classes=CLASSES, annotator="ada")
    assert [(one.audience, one.kind) for one in named.shown_to(QUESTIONS[:1])] == [("ada", "annotator")]


def test_answers_are_read_once_a_person():
    twice = [Answer(question_id="q0", value=value, annotator="ada") for value in ("no", "yes")]
    found = dawid_skene(twice, classes=CLASSES, records_released=True, believed=10, even=True)
    assert found.labels(seed=0) == {"q0": "yes"}
