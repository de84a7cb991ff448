"""The owner's verbs for programs."""

import json
import time

import pytest
from web_parts import House, written

from discreet.campaign.state import ledger_of
from discreet.privacy.certificate.verification import verify_certificate
from discreet.privacy.ledger import ChargeReason
from discreet.records import Answer
from discreet.web.owner_work import Worker

pytestmark = pytest.mark.thorough

GETS = ("status", "progress", "certificate", "verification", "report", "exposures", "exposures.csv")
POSTS = ("ask", "train", "stop")
HERE = "/api/v1/owner"
PRICE = "0" * 64


@pytest.fixture
def fresh(tmp_path):
    return House(written(tmp_path, oracle="per_question = 2"))


def begun(program, verb, phase, **more):
    """As somebody who agrees to what they are shown."""
    price = program.get(f"{HERE}/status").json()["price"]
    return program.post(f"{HERE}/{verb}", json={"phase": phase, "price": price} | more)


def waited(program, seconds=120):
    until = time.monotonic() + seconds
    while (found := program.get(f"{HERE}/progress").json())["state"] in ("running", "stopping"):
        assert time.monotonic() < until, found
        time.sleep(0.05)
    return found


def test_only_an_owners_token_opens_it(fresh):
    for name, wanted in ((None, 401), ("ada", 403)):
        client = fresh.client() if name is None else fresh.program(name)
        for path in GETS:
            assert client.get(f"{HERE}/{path}").status_code == wanted, path
        for path in POSTS:
            assert client.post(f"{HERE}/{path}", json={"phase": 0}).status_code == wanted, path


def test_a_session_of_a_page_does_not_open_it(fresh):
    assert fresh.browser("olga").get(f"{HERE}/status").status_code == 401


def test_a_phase_by_programs(fresh):
    owner = fresh.program("olga")
    assert owner.get(f"{HERE}/progress").json()["state"] == "idle"
    work = begun(owner, "ask", 0)
    assert work.status_code == 202
    assert (work.json()["verb"], work.json()["phase"]) == ("ask", 0)
    assert waited(owner)["state"] == "done"
    assert fresh.campaign.exposures() == [], "nobody was shown anything by it"
    assert begun(owner, "ask", 0).status_code == 409  # asked is asked
    for name in ("ada", "bo"):
        program = fresh.program(name)
        found = program.post("/api/v1/next").json()
        while found["question"]:
            value = "a" if name == "ada" or found["progress"]["left"] % 2 else "b"
            found = program.post(f"/api/v1/questions/{found['question']['id']}/answer", json={"value": value}).json()
    status = owner.get(f"{HERE}/status").json()
    assert (status["step"], status["open_in_phase"]) == ("answer", 0)
    assert status["agreement"]["questions"] == 8
    assert status["agreement"]["raw"] == 0.5
    assert {one["name"]: one["answered"] for one in status["people"]}["bo"] == 8
    assert status["next"]["paths"][0]["trained"] > 0
    assert begun(owner, "train", 1).status_code == 409
    assert begun(owner, "train", 0).status_code == 202
    assert waited(owner)["state"] == "done"
    status = owner.get(f"{HERE}/status").json()
    assert (status["phase"], status["step"]) == (1, "ask")
    assert status["paths"][0]["spent"] > 0
    assert owner.get(f"{HERE}/verification").json()["ok"]
    assert verify_certificate(owner.get(f"{HERE}/certificate").content).ok
    assert owner.get(f"{HERE}/report").json()["audience"] == "public"
    assert "owner" not in owner.get(f"{HERE}/report").json()
    assert owner.get(f"{HERE}/report?audience=owner").json()["owner"]["answers_by_annotator"] == {"ada": 8, "bo": 8}
    assert len(owner.get(f"{HERE}/exposures").json()["exposures"]) == 16
    assert len(owner.get(f"{HERE}/exposures.csv").text.splitlines()) == 17


def test_open_questions_stop_a_training_that_does_not_say_partial(fresh):
    fresh.campaign.due()
    owner = fresh.program("olga")
    begun(owner, "train", 0)
    found = waited(owner)
    assert found["state"] == "failed"
    assert found["error"]["fact"] == "some of its questions are open"
    assert "partial" in found["error"]["remedy"]


def recharged(house):
    """As another process that charged something since: the price that was shown does not hold any more."""
    with ledger_of(house.campaign.store) as ledger:
        line = ledger.terms.lines[0]
        ledger.charge(event=line.event, who=line.who, why=ChargeReason(phase=0, purpose="another"))


@pytest.mark.parametrize("verb", ["ask", "train"])
def test_another_price_than_what_was_agreed_to_begins_nothing_and_is_told(fresh, verb):
    if verb == "train":
        fresh.campaign.due()
    owner = fresh.program("olga")
    shown = owner.get(f"{HERE}/status").json()
    recharged(fresh)
    before = fresh.campaign.store.sink().read()
    sent = {"phase": 0, "price": shown["price"]} | ({"partial": True} if verb == "train" else {})
    refused = owner.post(f"{HERE}/{verb}", json=sent)
    assert refused.status_code == 409
    found = refused.json()
    assert (found["format"], found["price"] != shown["price"]) == ("discreet.error/1", True)
    assert found["next"]["paths"][0]["now"] > shown["next"]["paths"][0]["now"]
    assert owner.get(f"{HERE}/progress").json()["state"] == "idle"
    assert fresh.campaign.store.sink().read() == before, "nothing was charged"
    assert owner.post(f"{HERE}/{verb}", json=sent).status_code == 409, "it stays refused"
    assert owner.post(f"{HERE}/{verb}", json=sent | {"price": found["price"]}).status_code == 202
    assert waited(owner)["verb"] == verb


def test_a_price_of_another_step_or_made_up_is_none(fresh):
    owner = fresh.program("olga")
    asked = owner.get(f"{HERE}/status").json()["price"]
    assert begun(owner, "ask", 0).status_code == 202
    assert waited(owner)["state"] == "done"
    for price in (asked, "0" * 64):
        refused = owner.post(f"{HERE}/train", json={"phase": 0, "price": price, "partial": True})
        assert (refused.status_code, refused.json()["price"] != price) == (409, True)
    assert fresh.campaign.state.step == "answer"


def test_a_price_that_changes_behind_the_check_is_not_charged(fresh, monkeypatch):
    """Between the look at the price and the work's own."""
    real = Worker.start

    def late(self, *args, **kwargs):
        recharged(fresh)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Worker, "start", late)
    owner = fresh.program("olga")
    assert begun(owner, "ask", 0).status_code == 409
    assert fresh.campaign.state.step == "ask"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"phase": 0},
        {"phase": "0", "price": PRICE},
        {"phase": -1, "price": PRICE},
        {"phase": 0, "price": PRICE, "record-7": 1},
        {"phase": 0, "price": "record-7"},
        [],
        "record-7",
    ],
)
def test_what_does_not_fit_is_refused_without_repeating_it(fresh, body):
    response = fresh.program("olga").post(f"{HERE}/ask", json=body)
    assert response.status_code == 422
    assert "record-7" not in response.text
    assert fresh.campaign.state.step == "ask"


def test_nothing_the_owner_reads_here_names_a_record_but_exposures(fresh):
    fresh.campaign.due()
    fresh.campaign.tell([Answer(question_id=fresh.campaign.open()[0].id, value="a", annotator="ada")])
    owner = fresh.program("olga")
    for path in GETS:
        shows = "record-" in owner.get(f"{HERE}/{path}").text
        assert shows == path.startswith("exposures"), path


def test_the_description_has_the_verbs(fresh):
    found = fresh.program("olga").get("/api/v1/openapi.json").json()["paths"]
    for path in (*GETS, *POSTS):
        assert f"{HERE}/{path}" in found
    assert "HTTPValidationError" not in json.dumps(found[f"{HERE}/ask"])
