import random
from collections import Counter

import pytest

from discreet.errors import BadInput
from discreet.oracles import SimulatedOracle
from discreet.records import Question
from discreet.testing import check_oracle

CLASSES = ["ant", "bee", "cow", "dog"]


def questions(count, start=0):
    return [Question(id=f"q{n}", record=f"r{n}", phase=0, place=n) for n in range(start, start + count)]


def labels(count):
    return {f"r{n}": CLASSES[n % 4] for n in range(count)}


def said(oracle, asked, rounds=2):
    oracle.ask(asked)
    return {(a.question_id, a.annotator): a.value for _ in range(rounds) for a in oracle.collect()}


def noisy(count=400, **options):
    given = {"annotators": 5, "per_question": 3, "label_noise": 0.3, "skip": 0.1, "late": 0.2, "seed": 7} | options
    return SimulatedOracle(labels(count), classes=CLASSES, **given)


def test_without_noise_it_tells_the_truth():
    found = said(SimulatedOracle(labels(40), classes=CLASSES, seed=0), questions(40), rounds=1)
    assert found == {(f"q{n}", "annotator-1"): CLASSES[n % 4] for n in range(40)}


def test_answers_depend_neither_on_order_nor_on_parts_nor_on_restarts():
    whole = said(noisy(), questions(400))
    shuffled = questions(400)
    random.Random(1).shuffle(shuffled)
    assert said(noisy(), shuffled) == whole
    parts = noisy()
    assert said(parts, questions(150, 250)) | said(parts, questions(250)) == whole
    assert said(noisy(), questions(3, 200)) == {k: v for k, v in whole.items() if k[0] in ("q200", "q201", "q202")}
    assert said(noisy(seed=8), questions(400)) != whole


def test_noise_skips_and_lateness_come_in_their_shares():
    """6,000 answers: each count is within 5 standard deviations, and a share off by 4 points would not be."""
    oracle = noisy(2000)
    oracle.ask(questions(2000))
    now, later = oracle.collect(), oracle.collect()
    assert oracle.collect() == []
    answers = [*now, *later]
    assert len(answers) == 6000
    assert abs(len(later) / 6000 - 0.2) < 5 * (0.16 / 6000) ** 0.5
    skips = sum(a.value is None for a in answers)
    assert abs(skips / 6000 - 0.1) < 5 * (0.09 / 6000) ** 0.5
    truth = labels(2000)
    wrong = [a for a in answers if a.value is not None and a.value != truth[f"r{a.question_id[1:]}"]]
    assert abs(len(wrong) / (6000 - skips) - 0.3) < 5 * (0.21 / 5400) ** 0.5


def test_wrong_labels_are_all_the_others_alike_and_annotators_err_independently():
    size, noise = 4000, 0.3
    only = SimulatedOracle(
        {f"r{n}": "ant" for n in range(size)}, classes=CLASSES, annotators=2, per_question=2, label_noise=noise, seed=3
    )
    found = said(only, questions(size))
    for annotator in only.annotators:
        counts = Counter(value for (_, who), value in found.items() if who == annotator)
        for name in ("bee", "cow", "dog"):
            assert abs(counts[name] - size * noise / 3) < 5 * (size * 0.09) ** 0.5
    pairs = [(found[f"q{n}", "annotator-1"], found[f"q{n}", "annotator-2"]) for n in range(size)]
    both = [pair for pair in pairs if "ant" not in pair]
    assert abs(len(both) - size * noise**2) < 5 * (size * 0.082) ** 0.5
    assert abs(sum(one == two for one, two in both) - len(both) / 3) < 5 * (len(both) * 2 / 9) ** 0.5


def test_annotators_share_the_questions():
    found = said(noisy(2000), questions(2000))
    work = Counter(who for _, who in found)
    assert len(work) == 5
    assert all(abs(count - 1200) < 5 * (2000 * 0.24) ** 0.5 for count in work.values())
    assert set(Counter(q for q, _ in found).values()) == {3}


def test_several_labels_flip_one_by_one():
    truth = {f"r{n}": ("ant", "dog") for n in range(3000)}
    found = said(SimulatedOracle(truth, classes=CLASSES, label_noise=0.2, multilabel=True, seed=1), questions(3000))
    for name, share in (("ant", 0.8), ("bee", 0.2), ("cow", 0.2), ("dog", 0.8)):
        held = sum(name in value for value in found.values())
        assert abs(held / 3000 - share) < 5 * (0.16 / 3000) ** 0.5
    assert all(value == tuple(name for name in CLASSES if name in value) for value in found.values())
    assert len(set(found.values())) == 16


def test_confusion_matrices():
    liar = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    half = [[0.5, 0.5, 0, 0]] * 4
    oracle = SimulatedOracle(
        labels(2000), classes=CLASSES, annotators=2, per_question=2, confusion=[liar, half], seed=0
    )
    found = said(oracle, questions(2000))
    assert all(found[f"q{n}", "annotator-1"] == CLASSES[(n + 1) % 4] for n in range(2000))
    counts = Counter(value for (_, who), value in found.items() if who == "annotator-2")
    assert set(counts) == {"ant", "bee"}
    assert abs(counts["ant"] - 1000) < 5 * 500**0.5


def test_a_record_that_nobody_can_label_is_always_skipped():
    found = said(SimulatedOracle({"r0": None}, classes=CLASSES, label_noise=1, seed=0), questions(1))
    assert found == {("q0", "annotator-1"): None}


def test_a_question_without_a_label_is_refused_and_nothing_is_taken():
    oracle = SimulatedOracle(labels(3), classes=CLASSES, seed=0)
    with pytest.raises(BadInput, match="no label for 2 of them"):
        oracle.ask(questions(5))
    assert oracle.collect() == []


@pytest.mark.parametrize(
    "options",
    [
        {"label_noise": 1.5},
        {"skip": -0.1},
        {"late": True},
        {"skip": float("nan")},
        {"annotators": 2, "per_question": 3},
        {"annotators": 0},
        {"per_question": 1.0},
        {"seed": "7"},
        {"multilabel": True},
        {"confusion": [[[1, 0], [0, 1]]]},
        {"confusion": [[[2, -1, 0, 0]] * 4]},
        {"confusion": [[[1, 0, 0, 0]] * 4], "label_noise": 0.1},
        {"classes": ["ant", "bee"]},
        {"classes": "antbee"},
        {"classes": ["ant", "bee", "cow", "dog", "dog"]},
        {"classes": ["ant"]},
    ],
)
def test_settings_that_mean_nothing_are_refused_without_labels_in_the_message(options):
    with pytest.raises(BadInput) as refused:
        SimulatedOracle({"r0": "cow", "r1": "dog"}, **({"classes": CLASSES, "seed": 0} | options))
    assert "cow" not in str(refused.value)


def test_it_is_marked_as_a_simulation_and_its_repr_has_no_label():
    oracle = SimulatedOracle({"r0": "cow", "r1": "dog"}, classes=CLASSES, seed=0)
    assert oracle.simulation
    assert repr(oracle) == "SimulatedOracle(annotators=1, per_question=1)"


def test_it_keeps_the_contract():
    truth = {f"record {n}": CLASSES[n % 4] for n in range(12)}
    several = {f"record {n}": tuple(CLASSES[: n % 5]) for n in range(12)}
    check_oracle(lambda: SimulatedOracle(truth, classes=CLASSES, seed=0), classes=CLASSES)
    options = {"annotators": 4, "per_question": 3, "label_noise": 0.3, "skip": 0.2, "late": 0.5, "seed": 1}
    check_oracle(lambda: SimulatedOracle(truth, classes=CLASSES, **options), classes=CLASSES)
    check_oracle(
        lambda: SimulatedOracle(several, classes=CLASSES, multilabel=True, **options), classes=CLASSES, multilabel=True
    )
