"""Hidden selection and missing labels: what lets one record take another's label is refused, and verify notices it."""

import numpy as np
import pytest
from small_campaigns import BUDGET, CLASSES, made, pool_and_truth, tables

from discreet.api import create_campaign
from discreet.campaign.answers import Assignment, Team
from discreet.campaign.loop import run
from discreet.config import campaign_from_json
from discreet.errors import BadInput, InvalidConfig, NotNow
from discreet.noise import SecretKey
from discreet.oracles import CallableOracle, SimulatedOracle
from discreet.oracles.registry import PageOracle
from discreet.pools import ArrayPool
from discreet.recipes.verification import verify_campaign
from discreet.records import Answer, Question

pytestmark = pytest.mark.thorough

HIDDEN = {"plan": {"selection": "hidden"}, "selector": "hidden-threshold", "threshold_epsilon": "0.3", "queries": [30]}


def neighbour(pool, name):
    """The pool with a null in the place of one record."""
    x = np.array(pool.x)
    x[pool.ids.index(name)] = np.nan
    return ArrayPool(ids=list(pool.ids), x=x)


def asked_in_phase_1(campaign, truth):
    """The questions of phase 1, after a phase 0 that is answered whole."""
    campaign.tell({one.id: truth[one.record] for one in campaign.ask()})
    campaign.train()
    campaign.ask()
    return campaign.store.questions(1)


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory):
    """Two campaigns with equal seeds, one with a record and one with its null, after the query of phase 1; everybody
    else is asked in both or in neither.
    """
    place, (pool, truth) = tmp_path_factory.mktemp("neighbours"), pool_and_truth()
    with_it = made(place, pool, name="with", **HIDDEN)
    asked = asked_in_phase_1(with_it, truth)
    for number, question in enumerate(asked[: len(asked) // 2]):  # one that is shown before others
        without = made(place, neighbour(pool, question.record), name=f"without {number}", **HIDDEN)
        others = {one.record for one in asked_in_phase_1(without, truth)}
        if others == {one.record for one in asked} - {question.record}:
            return with_it, without, question.record, truth
    raise AssertionError("no record was found that changes nobody else's being asked")


def capped(campaign, truth, most):
    """One annotator, who answers the first questions and stops."""
    return {one.id: truth[one.record] for one in campaign.store.questions(1)[:most]}


def test_with_a_cap_a_record_takes_the_label_of_another_and_that_is_refused(neighbours):
    """The campaign of the attack: certified as if a record moved a sum by C, and it moved by up to 2 C."""
    with_it, without, record, truth = neighbours
    most = len(with_it.store.questions(1)) // 2 + 1
    labelled = []
    for campaign in (with_it, without):
        by_question = {one.id: one.record for one in campaign.store.questions(1)}
        labelled.append({by_question[one] for one in capped(campaign, truth, most)})
    gained = labelled[1] - labelled[0]
    assert labelled[0] - labelled[1] == {record}
    assert len(gained) == 1, "with the null, another record is labelled instead"
    for campaign in (with_it, without):
        lines = len(campaign.store.sink().read())
        with pytest.raises(NotNow, match="selection is hidden"):
            campaign.train(partial=True)
        with pytest.raises(NotNow, match="selection is hidden"):
            run(campaign, PageOracle(), partial=True)
        assert len(campaign.store.sink().read()) == lines, "a refused verb charges nothing"
        assert campaign.state.step == "answer"


def test_everybody_else_has_the_same_label_annotators_and_cohort_in_both_worlds(neighbours):
    """With simulated annotators who err and skip, three a question; labels of ties, too."""
    with_it, without, record, truth = neighbours
    seen = []
    for campaign in (with_it, without):
        oracle = SimulatedOracle(
            truth, classes=CLASSES, seed=5, annotators=7, per_question=2, label_noise=0.4, skip=0.1
        )
        questions = campaign.store.questions(1)
        oracle.ask(questions)
        answers = oracle.collect()
        by_id = {one.id: one.record for one in questions}
        labels = campaign.recipe.labels(questions, answers, key=campaign.questions.key()).values
        said = {}
        for one in answers:
            said.setdefault(by_id[one.question_id], []).append((one.annotator, one.value))
        seen.append(
            (labels, said, {name: label for label, m in campaign.store.cohort_members(1).items() for name in m})
        )
    for first, second in zip(*seen, strict=True):
        assert {name: value for name, value in first.items() if name != record} == second


def test_keyed_shares_do_not_move_when_a_record_joins_and_move_least_when_an_annotator_does(neighbours):
    with_it, without, record, _ = neighbours
    names, key = ("ada", "bo", "cy", "di"), SecretKey(bytes(32))

    def shares(campaign, names):
        found = Assignment(key=key, now=Team(names=names, per_question=2), before={})
        return {one.record: found.people(one) for one in campaign.store.questions(1)}

    first, second = shares(with_it, names), shares(without, names)
    assert {name: people for name, people in first.items() if name != record} == second
    assert all(len(people) == 2 for people in first.values())
    more = shares(with_it, (*names, "el"))
    assert all(people == first[name] or people - first[name] == {"el"} for name, people in more.items())
    left = shares(with_it, names[:3])
    assert all(people == first[name] for name, people in left.items() if "di" not in first[name])
    assert all(len(people & first[name]) == 1 for name, people in left.items() if "di" in first[name])
    other = Assignment(key=SecretKey(bytes([1] * 32)), now=Team(names=names, per_question=2), before={})
    assert any(other.people(one) != first[one.record] for one in with_it.store.questions(1))


# -- real campaigns, whose annotators are people


@pytest.fixture
def real(tmp_path):
    pool, truth = pool_and_truth()
    recipe = {name: table for name, table in tables(**HIDDEN).items() if name != "simulation"}
    return create_campaign("real", storage=tmp_path / "c.db", pool=pool, budget=BUDGET, recipe=recipe), truth


def declare(campaign, *names):
    for name in names:
        campaign.store.users.add(name, "annotator")


def answered_by(campaign, truth, name, *, value=None):
    for one in campaign.ask(annotator=name):
        campaign.tell([Answer(question_id=one.id, value=value or truth[one.record], annotator=name)])


def test_declared_annotators_get_disjoint_shares_that_nobody_else_may_answer(real):
    campaign, truth = real
    declare(campaign, "ada", "bo")
    with pytest.raises(NotNow, match="2 annotators share"):
        campaign.ask()
    with pytest.raises(NotNow, match="2 annotators share"):
        run(campaign, CallableOracle(lambda one: "a"))
    with pytest.raises(NotNow, match="not one of its declared annotators"):
        campaign.ask(annotator="cy")
    assert campaign.state.step == "ask", "nothing was charged or drawn"
    ada, bo = campaign.ask(annotator="ada"), campaign.ask(annotator="bo")
    questions = campaign.store.questions(0)
    assert {one.id for one in ada} | {one.id for one in bo} == {one.id for one in questions}
    assert not {one.id for one in ada} & {one.id for one in bo}
    assert campaign.ask(3, annotator="ada") == ada[:3], "a part of one's own share moves nobody's"
    assert campaign.next_for("ada") == ada[0]
    assert campaign.next_for("cy") is None
    assert campaign.questions.left_for("ada") == (0, len(ada))
    assert campaign.questions.left_for("cy") == (0, 0)
    for wrong in ("bo", "cy", ""):
        with pytest.raises(NotNow, match="were not asked these questions"):
            campaign.tell([Answer(question_id=ada[0].id, value="a", annotator=wrong)])
    answered_by(campaign, truth, "ada")
    assert campaign.next_for("ada") is None, "what bo has not answered is not handed to ada"
    with pytest.raises(NotNow, match="questions are open"):
        campaign.train()
    answered_by(campaign, truth, "bo")
    campaign.train()


def test_the_whole_share_of_an_annotator_who_leaves_is_asked_again(real):
    campaign, truth = real
    declare(campaign, "ada", "bo", "cy")
    first = {name: {one.id for one in campaign.ask(annotator=name)} for name in ("ada", "bo", "cy")}
    answered_by(campaign, truth, "ada", value="a")
    campaign.store.users.remove("ada")
    again = {name: {one.id for one in campaign.ask(annotator=name)} for name in ("bo", "cy")}
    assert again["bo"] | again["cy"] == {one.id for one in campaign.store.questions(0)}, "also what ada had answered"
    assert again["bo"] >= first["bo"]
    assert again["cy"] >= first["cy"]
    answered_by(campaign, truth, "bo", value="b")
    answered_by(campaign, truth, "cy", value="c")
    assert set(campaign.labels().values()) == {"b", "c"}, "ada's answers do not count"
    campaign.train()
    campaign.store.users.renew("ada")
    assert set(campaign.labels().values()) == {"b", "c"}, "labels of a trained phase stay with who gave them"
    assert not campaign.open()


def test_undeclared_annotators_answer_every_question_or_are_refused(real):
    campaign, truth = real
    mine = campaign.ask(annotator="ada")
    assert len(mine) == 60
    campaign.tell({mine[0].id: "a"}, annotator="ada")
    with pytest.raises(NotNow, match="not declared"):
        campaign.ask(annotator="bo")
    with pytest.raises(NotNow, match="not declared"):
        campaign.tell({mine[1].id: "a"}, annotator="bo")
    assert campaign.next_for("bo") is None
    with pytest.raises(BadInput, match="n out"):
        campaign.ask(5)
    campaign.tell({one.id: truth[one.record] for one in mine}, annotator="ada")
    campaign.train()


def test_a_withdrawn_record_is_missing_alone(real):
    campaign, truth = real
    declare(campaign, "ada", "bo")
    shares = {name: {one.record for one in campaign.ask(annotator=name)} for name in ("ada", "bo")}
    gone = sorted(shares["ada"])[0]
    campaign.withdraw([gone])
    assert {one.record for one in campaign.ask(annotator="ada")} == shares["ada"] - {gone}
    assert {one.record for one in campaign.ask(annotator="bo")} == shares["bo"]
    for name in shares:
        answered_by(campaign, truth, name)
    campaign.train()
    assert verified(campaign)["labelling"].ok


# -- what verify notices


def verified(campaign):
    config = campaign_from_json(dict(campaign.store.config["config"]), name="c", directory=campaign.store.directory)
    return {one.name: one for one in verify_campaign(config).checks}


def old_way(campaign):
    """As it was before: nothing is known of hidden selection."""
    campaign.questions.__dict__["hides_asked"] = False
    return campaign


def test_verify_holds_for_a_phase_that_was_labelled_whole(real):
    campaign, truth = real
    campaign.tell({one.id: truth[one.record] for one in campaign.ask()})
    campaign.train()
    assert verified(campaign)["labelling"].ok


def test_verify_notices_a_phase_that_was_trained_with_open_questions(real):
    campaign, truth = real
    questions = old_way(campaign).ask()
    campaign.tell({one.id: truth[one.record] for one in questions[1:]})
    campaign.train(partial=True)
    check = verified(campaign)["labelling"]
    assert not check.ok
    assert "trained while some of its questions were open" in check.detail
    campaign.tell({questions[0].id: "a"})
    assert not verified(campaign)["labelling"].ok, "a late answer does not mend it"


def test_verify_notices_questions_that_went_to_whoever_came_next(real):
    campaign, truth = real
    old_way(campaign)
    for name, most in (("ada", 25), ("bo", None)):
        mine = campaign.ask(most, annotator=name)
        campaign.tell({one.id: truth[one.record] for one in mine}, annotator=name)
    campaign.train()
    check = verified(campaign)["labelling"]
    assert not check.ok
    assert "keyed ranking" in check.detail


def test_verify_notices_answers_of_others_than_the_ranking_names(real):
    campaign, truth = real
    declare(campaign, "ada", "bo")
    ada = {one.id for one in campaign.ask(annotator="ada")}
    old_way(campaign)
    for one in campaign.store.questions(0):
        name = "bo" if one.id in ada else "ada"
        campaign.tell([Answer(question_id=one.id, value=truth[one.record], annotator=name)])
    campaign.train()
    assert not verified(campaign)["labelling"].ok


def test_a_cap_is_refused_in_the_file_and_noticed_in_a_store(real, tmp_path):
    campaign, truth = real
    form = dict(campaign.store.config["config"])
    form["oracle"] = {**form["oracle"], "name": "files", "per_annotator": 20}
    with pytest.raises(InvalidConfig, match="an annotator who stops at a cap"):
        campaign_from_json(form, name="c", directory=tmp_path)
    labels = {**form, "oracle": campaign.store.config["config"]["oracle"], "budget": {**form["budget"], "labels": 95}}
    with pytest.raises(InvalidConfig, match="may ask up to"):
        campaign_from_json(labels, name="c", directory=tmp_path)
    with pytest.raises(BadInput, match="hidden"):
        type(campaign)(campaign.store, recipe=campaign.recipe, pool=campaign.pool, per_annotator=20)
    campaign.tell({one.id: truth[one.record] for one in campaign.ask()})
    assert "cap" not in verified(campaign)


def test_ties_fall_by_the_record_not_by_its_place_among_the_asked(real):
    campaign, _ = real
    records = [f"r{number}" for number in range(40)]
    found = []
    for shift in (0, 1):
        asked = [Question(id=f"0.{n + shift}", record=one, phase=0, place=n + shift) for n, one in enumerate(records)]
        answers = [Answer(question_id=one.id, value=v, annotator=v) for one in asked for v in ("a", "b")]
        found.append(campaign.recipe.labels(asked, answers, key=SecretKey(bytes(32))).values)
    assert found[0] == found[1]
    assert set(found[0].values()) == {"a", "b"}
