"""The verbs of a campaign, with a recipe that trains in no time."""

from datetime import UTC, datetime

import numpy as np
import pytest
from loop_parts import CLASSES, Counting, campaign_in, truth

from discreet.errors import BadInput, NotNow
from discreet.records import Answer


@pytest.fixture(params=[7, None], ids=["simulation", "production"])
def seed(request):
    return request.param


def through(campaign, *, value="a"):
    """All phases."""
    while questions := campaign.ask():
        campaign.tell(truth(questions, value))
        campaign.train()


def test_a_campaign_from_its_beginning_to_its_end(tmp_path, seed):
    recipe = Counting()
    campaign = campaign_in(tmp_path, seed=seed, recipe=recipe)
    through(campaign)
    assert campaign.done
    assert [len(campaign.store.questions(phase)) for phase in range(3)] == [4, 2, 2]
    assert len({one.record for one in campaign.store.questions()}) == 8
    assert campaign.ask() == []
    *_, (_, _, noisy) = recipe.drawn  # eight said "a", but the noise is real: what it made the largest is what is said
    assert campaign.predict(np.zeros((3, 2))) == [CLASSES[int(np.argmax(noisy))]] * 3
    assert campaign.certificate()["simulation"] is (seed is not None)
    assert not list(campaign.store.directory.glob("keys-*/*"))


def test_the_same_questions_in_the_same_order_until_they_are_answered(tmp_path, seed):
    campaign = campaign_in(tmp_path, seed=seed)
    asked = campaign.ask()
    assert [one.place for one in asked] == [0, 1, 2, 3]
    assert campaign.ask() == asked
    assert campaign.ask(2) == asked[:2]
    assert campaign_in(tmp_path, seed=seed).ask() == asked
    campaign.tell(truth(asked[1:2]))
    assert campaign.ask() == [asked[0], *asked[2:]]


@pytest.mark.parametrize("n", [0, -1, True, 1.0, "2"])
def test_a_number_of_questions_is_a_count(tmp_path, n):
    campaign = campaign_in(tmp_path)
    with pytest.raises(BadInput, match="whole number"):
        campaign.ask(n)
    assert campaign.store.questions() == []


def test_telling_again_is_nothing_and_otherwise_a_correction(tmp_path):
    campaign = campaign_in(tmp_path)
    first, second, *_ = campaign.ask()
    told = campaign.tell({first.id: "a", second.record: "b"})
    assert (told.new, told.repeated, told.corrected) == (2, 0, 0)
    told = campaign.tell([Answer(question_id=first.id, value="a"), Answer(question_id=second.id, value="c")])
    assert (told.new, told.repeated, told.corrected) == (0, 1, 1)
    assert campaign.labels() == {first.record: "a", second.record: "c"}
    assert [one.value for one, _ in campaign.store.history(second.id)] == ["b", "c"]
    campaign.tell({second.id: None})
    assert campaign.labels() == {first.record: "a"}
    assert second not in campaign.ask()


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        ({"9.9": "a"}, "not asked"),
        ({"r-nobody": "a"}, "not asked"),
        ({"0.1": "zebra"}, "outside the declared classes"),
        ({"0.1": ("a", "b")}, "outside the declared classes"),
        ({"0.1": 3}, "int"),
    ],
)
def test_a_wrong_answer_refuses_all_and_repeats_none(tmp_path, wrong, fact):
    campaign = campaign_in(tmp_path)
    campaign.ask()
    with pytest.raises(BadInput, match=fact) as refused:
        campaign.tell({"0.0": "a"} | wrong)
    assert "zebra" not in str(refused.value)
    assert "r-nobody" not in str(refused.value)
    assert campaign.store.answers() == []


def test_several_labels_of_one_question(tmp_path):
    campaign = campaign_in(tmp_path, recipe=Counting(multilabel=True))
    first, second, *rest = campaign.ask()
    campaign.tell({first.id: {"c", "a"}, second.id: []} | {one.id: None for one in rest})
    assert campaign.tell({first.id: ["c", "a", "a"]}).repeated == 1
    assert campaign.labels() == {first.record: ("a", "c"), second.record: ()}
    with pytest.raises(BadInput, match="outside"):
        campaign.tell({first.id: "a"})
    campaign.train()
    assert all(isinstance(one, tuple) for one in campaign.predict(np.zeros((2, 2))))


def test_several_annotators(tmp_path):
    campaign = campaign_in(tmp_path, per_question=2)
    asked = campaign.ask()
    campaign.tell(truth(asked, "a"), annotator="ann")
    assert campaign.ask() == asked
    campaign.tell(truth(asked[:3], "b"), annotator="bob")
    with pytest.raises(NotNow, match="some of its questions are open"):
        campaign.train()
    campaign.tell({asked[3].id: None}, annotator="bob")
    labels = campaign.labels()
    assert labels[asked[3].record] == "a"
    assert campaign_in(tmp_path, per_question=2).labels() == labels, "ties fall the same way in every process"
    campaign.train()
    assert campaign.state.step == "ask"


def test_each_verb_at_the_wrong_time(tmp_path):
    campaign = campaign_in(tmp_path, recipe=Counting(phases=1))
    for act in (campaign.train, campaign.predictor, lambda: campaign.predictor(0), lambda: campaign.predict([[0, 0]])):
        with pytest.raises(NotNow):
            act()
    with pytest.raises(BadInput, match="not asked"):
        campaign.tell({"0.0": "a"})
    asked = campaign.ask()
    with pytest.raises(NotNow, match="some of its questions are open"):
        campaign.train()
    campaign.tell(truth(asked))
    campaign.train()
    with pytest.raises(NotNow, match="the last one"):
        campaign.train()
    with pytest.raises(NotNow):
        campaign.predictor(1)
    assert campaign.ask() == []


def test_partial_training_leaves_questions_open_and_late_answers_count_later(tmp_path, seed):
    campaign = campaign_in(tmp_path, seed=seed)
    asked = campaign.ask()
    campaign.tell(truth(asked[:1]))
    campaign.train(partial=True)
    labels = campaign.store.file("labels", 0).read_bytes()
    then = campaign.ask()
    assert then[:3] == asked[1:]
    assert {one.phase for one in then[3:]} == {1}
    campaign.tell(truth(then, "b"), at=datetime(2030, 1, 1, tzinfo=UTC))
    assert campaign.store.file("labels", 0).read_bytes() == labels
    campaign.train()
    assert campaign.store.file("labels", 1).read_bytes().count(b'"b"') == 5


def test_predictors_by_phase(tmp_path):
    campaign = campaign_in(tmp_path)
    through(campaign)
    counts = [campaign.predictor(phase).counts for phase in range(3)]
    assert len({tuple(one) for one in counts}) == 3
    assert campaign.predictor().counts == counts[2]


def test_an_empty_tell_is_nothing(tmp_path):
    campaign = campaign_in(tmp_path)
    campaign.ask()
    assert campaign.tell({}).new == campaign.tell([]).new == 0


def test_a_simulation_needs_its_seed_and_nothing_else_takes_one(tmp_path):
    campaign_in(tmp_path, seed=7)
    with pytest.raises(BadInput, match="needs its seed"):
        campaign_in(tmp_path)
    campaign_in(tmp_path, name="real")
    with pytest.raises(BadInput, match="not a simulation"):
        campaign_in(tmp_path, name="real", seed=7)


def test_two_simulations_of_one_seed_are_one_and_of_two_are_two(tmp_path):
    ends = []
    for name, seed in (("one", 7), ("two", 7), ("three", 8)):
        campaign = campaign_in(tmp_path, name=name, seed=seed)
        through(campaign)
        ends.append((campaign.store.questions(), campaign.predictor().counts))
    assert ends[0] == ends[1]
    assert ends[0] != ends[2]
