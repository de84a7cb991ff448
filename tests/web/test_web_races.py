"""Two things at once on the pages: an answer and a withdrawal, two windows of one person, a login and a removal."""

import json

from web_parts import fields, hidden

from discreet.campaign import campaign as verbs
from discreet.campaign.phase_steps import PhaseSteps
from discreet.config import read_campaign
from discreet.recipes.opening import load
from discreet.records import Answer
from discreet.storage import queues
from discreet.storage.users import Users

HTMX = {"HX-Request": "true"}


def test_an_answer_that_a_withdrawal_overtakes_is_not_stored(house, monkeypatch):
    browser = house.browser("ada")
    page = browser.get("/label")
    question = fields(page)["question"]
    record, checked = house.campaign.store.question(question).record, verbs.check_answers

    def overtaken(*arguments, **named):
        monkeypatch.setattr(verbs, "check_answers", checked)
        load(read_campaign(house.path)).withdraw([record])
        return checked(*arguments, **named)

    monkeypatch.setattr(verbs, "check_answers", overtaken)
    browser.post("/label/answer", data=fields(page) | {"value": "0"}, headers=HTMX)
    assert question in house.campaign.withdrawn_questions()
    assert house.campaign.store.answers() == []


def test_labels_of_a_record_that_is_withdrawn_meanwhile_are_not_fixed(house, monkeypatch):
    campaign = load(read_campaign(house.path))
    questions = campaign.store.questions()
    campaign.tell([Answer(question_id=one.id, value="a", annotator="ada") for one in questions])
    fixing, fixed = PhaseSteps.fix_labels, {}

    def overtaken(steps, phase, labels, assignment):
        house.campaign.withdraw([questions[0].record])  # marked: another process is at work
        fixing(steps, phase, labels, assignment)
        fixed.update(json.loads(steps.store.file("labels", phase).read_bytes()))  # it is erased there in the end, too

    monkeypatch.setattr(PhaseSteps, "fix_labels", overtaken)
    campaign.train()
    assert set(fixed) == {one.record for one in questions[1:]}


def test_two_windows_of_one_person_show_one_question(house, monkeypatch):
    first, met = queues._first_shown, []

    def overtaken(*args):
        found = first(*args)
        if not met:  # the other window comes when this one has seen that nothing waits
            met.append(None)
            met.append(house.campaign.next_for("ada"))
        return found

    monkeypatch.setattr(queues, "_first_shown", overtaken)
    assert house.campaign.next_for("ada") == met[1]
    assert [one.audience for one in house.campaign.exposures()] == ["ada"]


def test_who_is_removed_while_logging_in_stays_out(house, monkeypatch):
    known = Users.known

    def overtaken(people, name, token):
        found = known(people, name, token)
        people.remove(name)
        return found

    client = house.client()
    sent = {"name": "ada", "token": house.tokens["ada"], "csrf": hidden(client.get("/login").text, "csrf")}
    monkeypatch.setattr(Users, "known", overtaken)
    assert client.post("/login", data=sent).status_code == 401
    assert client.get("/label").headers["location"] == "/login"


def test_a_session_needs_the_token_that_its_user_has_now(house):
    people = house.campaign.store.users
    old = house.tokens["ada"]
    new = people.renew("ada")
    assert people.begin_session("ada", old) is None
    assert people.begin_session("nobody", old) is None
    people.remove("bo")
    assert people.begin_session("bo", None) is None
    assert people.of_session(people.begin_session("ada", new)).name == "ada"
