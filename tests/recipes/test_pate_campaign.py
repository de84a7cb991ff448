"""A campaign of teachers, from its file to a student: charged before it is drawn, private records read once."""

import json
import stat

import numpy as np
import pytest
from pate_parts import CLASSES, PRIVATE, PUBLIC, drawn, make, toml

from discreet.campaign import Campaign
from discreet.campaign.crash_recovery import forget
from discreet.campaign.loop import InternalOracle, run
from discreet.campaign.recipe import Chosen
from discreet.campaign.state import ledger_of
from discreet.cli.app import run as command
from discreet.config import CampaignConfig, PateConfig, campaign_from_json, example, read_campaign
from discreet.errors import BadInput, InvalidConfig, InvalidStore, NotNow
from discreet.recipes import opening
from discreet.recipes.pate import Pate
from discreet.recipes.pate_votes import CACHE, kept_votes
from discreet.recipes.verification import verify_campaign
from discreet.report.report_data import report_of
from discreet.storage import open_storage
from discreet.storage.campaign_store import CampaignStore

pytestmark = pytest.mark.thorough


def finished(file):
    campaign = opening.create(read_campaign(file), confirm=True)
    run(campaign, InternalOracle(campaign))
    return campaign


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    return finished(make(tmp_path_factory.mktemp("ended")))


def test_it_learns_from_the_teachers(ended):
    measured = [one.facts["evaluation"]["accuracy"] for one in ended.store.transitions() if one.kind == "trained"]
    assert ended.done
    assert len(measured) == 3
    assert measured[-1] > 0.85
    x, codes = drawn(100, 9)
    assert np.mean([CLASSES.index(one) for one in ended.predict(x)] == codes) > 0.8


def test_the_claim_is_that_of_the_plan_and_every_phase_was_charged_before_it_was_answered(ended):
    with ledger_of(ended.store) as ledger:
        charges = [entry for entry in ledger.entries if entry.charges]
        charged = [(entry.why.phase, entry.why.purpose, entry.charges[0].count) for entry in charges]
        assert [count for _, count in ledger.lines_left()] == [0, 0, 0]
    assert charged == [(0, "answers", 20), (1, "answers", 15), (2, "answers", 15)]
    certificate = ended.certificate()
    assert certificate["mode"] == "committed"
    assert certificate["claim"]["epsilon"] <= 4
    verdict = verify_campaign(ended.recipe.config)
    assert verdict.ok
    assert {"plan", "answers", "votes", "files"} <= {check.name for check in verdict.checks}


def test_votes_are_the_owners_and_teachers_are_gone(ended):
    votes, path = kept_votes(ended.store), ended.store.file("votes", 0)
    assert (votes.teachers, votes.unit, len(votes.ids)) == (45, "record", PUBLIC)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not (ended.store.directory / CACHE).exists()
    asked = {one.record for one in ended.store.questions()}
    told = {one.question_id: one.value for one in ended.store.answers()}
    place = {name: number for number, name in enumerate(votes.ids)}
    right = [told[one.id] == CLASSES[votes.counts[place[one.record]].argmax()] for one in ended.store.questions()]
    assert len(asked) == 50
    assert np.mean(right) > 0.75


def test_the_private_records_are_not_needed_again(tmp_path):
    file = make(tmp_path)
    opening.create(read_campaign(file), confirm=True)
    (tmp_path / "private.npz").unlink()
    (tmp_path / "private.csv").unlink()
    campaign = opening.load(read_campaign(file))
    run(campaign, InternalOracle(campaign))
    assert campaign.done
    assert verify_campaign(read_campaign(file)).ok


def test_a_verb_at_a_time_by_other_processes_ends_alike(tmp_path, ended):
    file = make(tmp_path)
    for _ in range(20):
        campaign = opening.create(read_campaign(file), confirm=True)
        now = campaign.state
        if now.step == "done":
            break
        if now.step == "ask":
            campaign.due()
        elif not campaign.answered:
            campaign.answer()
        else:
            campaign.train()
    assert [one.sha256 for one in campaign.store.files()] == [one.sha256 for one in ended.store.files()]


def test_persons_are_with_one_teacher_and_the_ledger_says_so(tmp_path):
    change = {"private": {"person": "'person'", "persons": 300}, "budget": {"unit": "'person'"}}
    file = make(tmp_path, **change)
    campaign = finished(file)
    assert kept_votes(campaign.store).unit == "person"
    assert campaign.certificate()["budget"]["unit"] == "person"
    assert verify_campaign(read_campaign(file)).ok


def test_records_without_a_usable_label_teach_nobody(tmp_path):
    file = make(tmp_path)
    lines = (tmp_path / "private.csv").read_text().splitlines()
    (tmp_path / "private.csv").write_text("\n".join([*lines[:500], "private-700,neither"]) + "\n")
    assert opening.create(read_campaign(file), confirm=True).state.step == "ask"


# -- a process that dies while they answer


class Dies(BaseException):
    pass


def cut_off(file, monkeypatch, *, at):
    """A campaign whose process died in the first phase: when it told the answers, or when it recorded that it had."""
    campaign = opening.create(read_campaign(file), confirm=True)
    campaign.due()
    real = CampaignStore.record

    def dying(self, kind, **more):
        if kind == "answered":
            raise Dies
        return real(self, kind, **more)

    with monkeypatch.context() as broken:
        if at == "tell":
            broken.setattr(Campaign, "tell", lambda *_, **__: (_ for _ in ()).throw(Dies()))
        else:
            broken.setattr(CampaignStore, "record", dying)
        with pytest.raises(Dies):
            campaign.answer()


@pytest.mark.parametrize("simulation", [True, False])
@pytest.mark.parametrize("at", ["tell", "record"])
@pytest.mark.parametrize("partial", [True, False])
def test_training_first_ends_an_answering_that_was_cut_off(tmp_path, monkeypatch, at, simulation, partial):
    file = make(tmp_path, simulation=simulation)
    cut_off(file, monkeypatch, at=at)
    campaign = opening.load(read_campaign(file))
    told = {one.question_id: one.value for one in campaign.store.answers()}
    assert len(told) == (20 if at == "record" else 0)
    campaign.train(partial=partial)
    found = {one.question_id: one.value for one in campaign.store.answers()}
    assert len(found) == 20
    assert told in ({}, found)
    assert not list((campaign.store.directory / "keys-answering").glob("*"))
    with ledger_of(campaign.store) as ledger:
        assert [entry.why.purpose for entry in ledger.entries if entry.charges] == ["answers"]
    run(campaign, InternalOracle(campaign))
    assert verify_campaign(read_campaign(file)).ok


def test_nothing_is_trained_without_answers(tmp_path):
    campaign = opening.create(read_campaign(make(tmp_path)), confirm=True)
    campaign.due()
    for partial in (False, True):
        with pytest.raises(NotNow, match="did not answer"):
            campaign.train(partial=partial)
    assert campaign.state.step == "answer"


def test_a_phase_in_which_nothing_is_asked_is_over_at_once(tmp_path, monkeypatch):
    file = make(tmp_path)
    campaign = opening.create(read_campaign(file), confirm=True)
    campaign.due()
    campaign.answer()
    campaign.train()
    with monkeypatch.context() as sure:
        sure.setattr(Pate, "choose", lambda *_: Chosen(ids=(), cohorts={}, facts={}))
        assert campaign.due() == []
    run(campaign, InternalOracle(campaign))
    assert campaign.done
    assert verify_campaign(read_campaign(file)).ok


def test_keys_of_answers_do_not_outlive_the_training(tmp_path):
    """As stores have them in which a training went on without the record of the answers."""
    campaign = finished(make(tmp_path, simulation=False))
    place = campaign.store.directory / "keys-answering"
    (place / "phase-0-abc.key").write_bytes(bytes(32))
    (place / "phase-0-abc.draws").write_bytes(b"{}")
    store = campaign.store
    steps = [one for one in store.transitions() if one.kind != "answered"]
    with pytest.MonkeyPatch.context() as older:
        older.setattr(type(store), "transitions", lambda *_: steps)
        forget(store)
    assert not list(place.glob("*"))


# -- refused before anything is charged


@pytest.mark.parametrize(
    ("change", "said", "line"),
    [
        ({"teachers": {"count": 1}}, "not a whole number from 2", "count"),
        ({"teachers": {"count": 901}}, "share fewer units", "count"),
        ({"teachers": {"name": "'oak'"}}, "there is no 'oak'", "oak"),
        ({"answers": {"aggregator": "'gausian'"}}, "Did you mean gaussian", "gausian"),
        ({"answers": {"unstable": 3}}, "no unstable answers", "unstable"),
        ({"answers": {"aggregator": "'sparse'"}}, "unstable answers", "[answers]"),
        ({"answers": {"check_share": 0.2}}, "checks nothing", "check_share"),
        ({"task": {"kind": "'multilabel'"}}, "votes for one class", "multilabel"),
        ({"budget": {"unit": "'person'"}}, "nothing says whose", "unit"),
        ({"budget": {"delta": "'0'"}}, "no guarantee at delta 0", "delta"),
        ({"budget": {"labels": 10}}, "more than 10", "labels = 10"),
        ({"private": {"person": "'person'"}}, "a person column is named", "[budget]"),
        ({"pool": {"person": "'person'"}}, "these records are public", "person"),
        ({"plan": {"queries": "[100, 100]"}}, "more than 160 records", "queries"),
        ({"plan": {"initial": 10}}, "no such key", "initial"),
        ({"student": {"ask": "'random'"}}, "there is no 'random'", "random"),
        ({"student": {"caution": 0.1}}, "margin has none", "caution"),
        ({"student": {"ask": "'passive'", "random_share": 0.1}}, "passive has none", "random_share"),
        ({"student": {"ask": "'disagreement'", "pseudo_labels": "true"}}, "as it is", "pseudo_labels"),
        ({"student": {"ask": "'disagreement'", "oracle": "'quadratic'", "name": "'tree'"}}, "logistic", "oracle"),
        ({"oracle": {"name": "'files'"}}, "teachers answer here", "files"),
        ({"oracle": {"name": "'teachers'", "per_question": 2}}, "no options", "name = 'teachers'"),
        ({"evaluation": {"kind": "'none'"}}, "records and labels", "path"),
        ({"log": {"path": "'x'"}}, "no such table", "[log]"),
    ],
)
def test_mistakes_are_told_at_their_lines(tmp_path, change, said, line):
    text = toml(**change)
    with pytest.raises(InvalidConfig) as caught:
        PateConfig.from_text(text, directory=tmp_path)
    assert said in str(caught.value)
    assert line in text.splitlines()[caught.value.line - 1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"answers": {"aggregator": "'sparse'", "unstable": 3}}, "Train at least"),
        ({"private": {"path": "'none.npz'"}}, "none.npz"),
        (
            {"private": {"path": "'public.npz'", "size": PUBLIC}, "teachers": {"count": 40}},
            "records of the public pool",
        ),
        ({"private": {"labels": "'none.csv'"}}, "no such file"),
        ({"private": {"labels": "'held.csv'"}}, "none of them is of a record"),
        ({"private": {"size": 5 * PRIVATE}}, "900"),
        ({"teachers": {"options": "{ wood = 3 }"}}, "does not take these options"),
        ({"student": {"name": "'nowhere:tree'"}}, "cannot be imported"),
        ({"evaluation": {"labels": "'private.csv'"}}, "none of them is of a record"),
    ],
)
def test_what_cannot_be_is_refused_and_no_store_is_left(tmp_path, change, said):
    file = make(tmp_path, **change)
    with pytest.raises(InvalidConfig) as caught:
        opening.create(read_campaign(file), confirm=True)
    assert said in str(caught.value)
    assert "private-" not in str(caught.value)
    assert "wage" not in open_storage(read_campaign(file).storage_url()).campaigns()


def test_a_campaign_keeps_its_terms(tmp_path):
    file = make(tmp_path)
    opening.create(read_campaign(file), confirm=True)
    file.write_text(toml(budget={"epsilon": "'5'"}))
    with pytest.raises(InvalidConfig, match="created with something else"):
        opening.create(read_campaign(file), confirm=True)
    assert not verify_campaign(read_campaign(file)).ok
    file.write_text(toml(teachers={"processes": 2}, private={"path": "'moved.npz'"}))
    assert opening.create(read_campaign(file), confirm=True).state.step == "ask"


def test_a_file_says_the_same_after_storing_it():
    made = PateConfig.from_text(example("pate"))
    assert campaign_from_json(made.to_json()) == made
    assert made.answers.aggregator == "gaussian"


def test_people_do_not_answer_here_and_the_house_does_not_elsewhere(tmp_path, ended):
    assert not ended.labels().keys() - set(ended.pool.ids)
    with pytest.raises(NotNow, match="number that was planned"):
        ended.recipe.continued(None, ledger=None, done=1, pool=ended.pool)
    assert ended.answer() == 0


def test_withdrawing_is_refused_and_the_phase_goes_on(tmp_path):
    file = make(tmp_path)
    campaign = opening.create(read_campaign(file), confirm=True)
    asked = campaign.due()
    for wish in ({"ids": [asked[0].record]}, {"ids": ["private-1"]}, {"persons": ["person-1"]}):
        with pytest.raises(NotNow, match="counted at its creation") as caught:
            campaign.withdraw(**wish)
        assert "private-" not in str(caught.value)
    assert not campaign.store.withdrawn()
    run(campaign, InternalOracle(campaign))
    assert verify_campaign(read_campaign(file)).ok


def test_verbs_of_private_pools_say_so(tmp_path):
    with pytest.raises(InvalidConfig, match="counted at init"):
        CampaignConfig.read(make(tmp_path))


def test_other_votes_are_a_failed_check_and_no_answer(tmp_path):
    file = make(tmp_path)
    campaign = opening.create(read_campaign(file), confirm=True)
    campaign.due()
    other = tmp_path / "other"
    other.mkdir()
    another = opening.create(read_campaign(make(other, teachers={"count": 44})), confirm=True)
    content = another.store.file("votes", 0).read_bytes()
    campaign.store.keep_file("votes", phase=0, data=content, replace=True)
    assert [one.name for one in verify_campaign(read_campaign(file)).checks if not one.ok] == ["votes"]
    with pytest.raises(InvalidStore, match="another plan"):
        campaign.answer()
    with ledger_of(campaign.store) as ledger:
        assert not ledger.entries


def test_answers_that_nobody_paid_for_are_a_failed_check(tmp_path):
    file = make(tmp_path)
    campaign = opening.create(read_campaign(file), confirm=True)
    questions = campaign.due()
    campaign.store.record("answered", phase=0, facts={"asked": len(questions), "answered": 20})
    assert [one.name for one in verify_campaign(read_campaign(file)).checks if not one.ok] == ["answers"]


def test_the_report_says_what_is_public_and_the_owner_sees_more(ended):
    world = report_of(ended)
    assert "45, logistic" in world.about["teachers"]
    assert world.owned is None
    assert any("one teacher" in line for line in world.assumptions)
    owner = report_of(ended, "owner")
    assert owner.owned.annotators == {"teachers": 50}


def test_the_command_line_from_a_file_to_a_model(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(tmp_path)

    def said(*words, code=0):
        assert command([*words]) == code
        return capsys.readouterr().out

    form = json.loads(said("init", "wage.toml", "--json"))
    assert form["price"]["answers"] == 50
    assert form["labels_planned"] == [20, 15, 15]
    first = json.loads(said("ask", "wage.toml", "--json"))
    assert first["format"] == "discreet.answers/1"
    assert len(first["answers"]) == first["asked"] == 20
    assert json.loads(said("ask", "wage.toml", "--json"))["asked"] == 0
    said("train", "wage.toml")
    assert json.loads(said("run", "wage.toml", "--json"))["done"]
    status = json.loads(said("status", "wage.toml", "--json"))
    assert (status["step"], status["labels_asked"]) == ("done", 50)
    assert "teachers" in said("exposure", "wage.toml")
    said("report", "wage.toml", "--out", "report.html")
    said("verify", "wage.toml")
    said("export", "wage.toml", "model")
    assert (
        "Models of disjoint parts" in (tmp_path / "model" / "README.md").read_text()
        or "SIMULATION" in (tmp_path / "model" / "README.md").read_text()
    )
    said("predict", "model", "held.npz", "--out", "said.csv")
    for verb in (
        ["withdraw", "wage.toml", "private-1"],
        ["tell", "wage.toml", "held.csv"],
        ["ask", "wage.toml", "--n", "3"],
    ):
        said(*verb, code=2)


def test_ledgers_of_another_unit_do_not_answer(ended):
    from discreet.noise import Seeded
    from discreet.oracles.teachers import TeacherOracle
    from discreet.planning.pate import price_answers
    from discreet.privacy.budget import Budget
    from discreet.privacy.ledger import Ledger, MemorySink

    price = price_answers("gaussian", budget=Budget(epsilon=1, delta="1e-6", unit="person"), teachers=45, answers=5)
    ledger = Ledger.create(MemorySink(), price.terms(), source=Seeded(1))
    with pytest.raises(BadInput, match="the ledger protects a person"):
        TeacherOracle(kept_votes(ended.store), price=price, ledger=ledger)
