"""Who was shown which record: written before anybody sees it, for every recipe; queues, places and caps."""

from dataclasses import replace

import pytest
from loop_parts import campaign_in

from discreet.campaign.loop import audience_of, run
from discreet.campaign.questions import HOLD
from discreet.errors import BadInput, NotNow, StoreUnavailable
from discreet.records import HANDED_OUT, PERSON, PROGRAM, Answer
from discreet.storage import exposures


def seen(campaign):
    return {(one.question_id, one.kind, one.audience) for one in campaign.exposures()}


def test_what_is_asked_is_recorded_with_what_it_is_handed_out_as(tmp_path):
    campaign = campaign_in(tmp_path)
    first = campaign.ask(2, to="monday.csv")
    assert seen(campaign) == {(one.id, HANDED_OUT, "monday.csv") for one in first}
    when = [one.at for one in campaign.exposures()]
    assert campaign.ask(2, to="monday.csv") == first
    assert [one.at for one in campaign.exposures()] == when, "the first time stands"
    assert {one.record for one in campaign.exposures()} == {one.record for one in first}


def test_nobody_is_shown_what_cannot_be_recorded(tmp_path, monkeypatch):
    campaign = campaign_in(tmp_path)
    campaign.due()

    def full(*arguments):
        raise StoreUnavailable("storing who is shown what", "the disk is full", "Make room")

    monkeypatch.setattr(exposures, "insert", full)
    for how in ({}, {"annotator": "ada"}):
        with pytest.raises(StoreUnavailable):
            campaign.ask(**how)
    assert campaign.exposures() == []


def test_an_oracle_that_dies_at_the_handing_over_has_left_its_trace(tmp_path):
    class Dying:
        def ask(self, questions):
            assert {(one.id, PROGRAM, "Dying") for one in questions} <= seen(campaign), "too late"
            raise KeyboardInterrupt

        def collect(self):
            return []

    campaign = campaign_in(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(campaign, Dying())
    assert len(campaign.exposures()) == 4
    assert [one.kind for one in audience_of(Dying(), campaign.due(1))] == [PROGRAM]


def test_queues_give_each_question_to_as_many_people_as_answer_it(tmp_path):
    campaign = campaign_in(tmp_path, per_question=2)
    ada, bo = campaign.ask(3, annotator="ada"), campaign.ask(annotator="bo")
    cy = campaign.ask(annotator="cy")
    assert len(ada) == 3
    assert len(bo) == 4
    assert {one.id for one in cy} == {one.id for one in bo} - {one.id for one in ada}, "two places a question"
    assert campaign.ask(annotator="dee") == []
    campaign.tell([Answer(question_id=one.id, value="a", annotator="ada") for one in ada])
    assert {one.id for one in campaign.ask(annotator="ada")}.isdisjoint({one.id for one in ada}), "answered"
    assert campaign.ask(annotator="bo") == bo, "blind: what others said changes nothing"


def test_a_place_is_free_again_when_somebody_does_not_come_back(tmp_path):
    campaign = campaign_in(tmp_path, per_question=1)
    campaign.ask(annotator="ada")
    assert campaign.ask(annotator="bo") == []
    ids = [one.id for one in campaign.open()]
    assert campaign.store.assign("bo", ids, places=1, n=None, cap=None, hold=-HOLD) == ids


def test_nobody_is_shown_more_than_is_allowed(tmp_path):
    campaign = campaign_in(tmp_path, per_question=2)
    campaign.questions = replace(campaign.questions, per_annotator=3)
    assert len(campaign.ask(annotator="ada")) == 3
    assert len(campaign.ask(annotator="ada")) == 3, "the same ones"
    campaign.tell([Answer(question_id=one.id, value="a", annotator="ada") for one in campaign.ask(annotator="ada")])
    with pytest.raises(NotNow, match="per_annotator is 3"):
        campaign.ask(annotator="ada")
    assert len(campaign.exposures("ada")) == 3


@pytest.mark.parametrize("n", [0, -1, True, 1.5])
def test_a_number_of_questions_that_is_none_is_refused_for_a_person_too(tmp_path, n):
    campaign = campaign_in(tmp_path)
    with pytest.raises(BadInput, match="whole number from 1"):
        campaign.ask(n, annotator="ada")
    assert campaign.exposures() == []


def test_who_answers_has_seen_it(tmp_path):
    campaign = campaign_in(tmp_path)
    first, second, *_ = campaign.ask(to="f.csv")
    campaign.tell({first.id: "a"}, annotator="ada")
    campaign.tell({second.id: "b"})  # nobody says who
    assert {one for one in seen(campaign) if one[1] == PERSON} == {(first.id, PERSON, "ada")}


@pytest.mark.parametrize("strange", ["a\0b", "\ud800x"])
def test_names_and_ids_that_cannot_be_stored_are_refused_in_words(tmp_path, strange):
    campaign = campaign_in(tmp_path)
    (question,) = campaign.ask(1)
    for answer in (
        Answer(question_id=question.id, value="a", annotator=strange),
        Answer(question_id=strange, value="a"),
    ):
        with pytest.raises(BadInput) as caught:
            campaign.tell([answer])
        assert strange not in str(caught.value)
    assert campaign.store.answers() == []
