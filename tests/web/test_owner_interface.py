"""The owner's verbs for programs."""

import json
import time

import pytest
from web_parts import House, written

from discreet.privacy.certificate.verification import verify_certificate
from discreet.records import Answer

GETS = ("status", "progress", "certificate", "verification", "report", "exposures", "exposures.csv")
POSTS = ("ask", "train", "stop")
HERE = "/api/v1/owner"


@pytest.fixture
def fresh(tmp_path):
    return House(written(tmp_path, oracle="per_question = 2"))


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
    begun = owner.post(f"{HERE}/ask", json={"phase": 0})
    assert begun.status_code == 202
    assert (begun.json()["verb"], begun.json()["phase"]) == ("ask", 0)
    assert waited(owner)["state"] == "done"
    assert fresh.campaign.exposures() == [], "nobody was shown anything by it"
    assert owner.post(f"{HERE}/ask", json={"phase": 0}).status_code == 409  # asked is asked
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
    assert owner.post(f"{HERE}/train", json={"phase": 1}).status_code == 409
    assert owner.post(f"{HERE}/train", json={"phase": 0}).status_code == 202
    assert waited(owner)["state"] == "done"
    status = owner.get(f"{HERE}/status").json()
    assert (status["phase"], status["step"]) == (1, "ask")
    assert status["paths"][0]["spent"] > 0
    assert owner.get(f"{HERE}/verification").json()["ok"]
    assert verify_certificate(owner.get(f"{HERE}/certificate").content).ok
    assert owner.get(f"{HERE}/report").json()["audience"] == "world"
    assert "owner" not in owner.get(f"{HERE}/report").json()
    assert owner.get(f"{HERE}/report?audience=owner").json()["owner"]["answers_by_annotator"] == {"ada": 8, "bo": 8}
    assert len(owner.get(f"{HERE}/exposures").json()["exposures"]) == 16
    assert len(owner.get(f"{HERE}/exposures.csv").text.splitlines()) == 17


def test_open_questions_stop_a_training_that_does_not_say_partial(fresh):
    fresh.campaign.due()
    owner = fresh.program("olga")
    owner.post(f"{HERE}/train", json={"phase": 0})
    found = waited(owner)
    assert found["state"] == "failed"
    assert found["error"]["fact"] == "some of its questions are open"
    assert "partial" in found["error"]["remedy"]


@pytest.mark.parametrize("body", [{}, {"phase": "0"}, {"phase": -1}, {"phase": 0, "record-7": 1}, [], "record-7"])
def test_what_does_not_fit_is_refused_without_repeating_it(fresh, body):
    response = fresh.program("olga").post(f"{HERE}/ask", json=body)
    assert response.status_code == 422
    assert "record-7" not in response.text
    assert fresh.campaign.standing.step == "ask"


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
