"""The owner's pages, without a browser: who sees them, what they say before anything is charged, what a click does."""

import re
import threading

import pytest
from web_parts import House, hidden, written

from discreet.campaign import Campaign
from discreet.campaign.state import ledger_of
from discreet.config import CampaignConfig
from discreet.recipes.opening import load
from discreet.records import Answer
from discreet.report.campaign_report import rounded
from discreet.web import owner_work

pytestmark = pytest.mark.thorough

PAGES = (
    "/owner",
    "/owner/now",
    "/owner/ask",
    "/owner/train",
    "/owner/papers",
    "/owner/report/public",
    "/owner/report/owner",
    "/owner/report/public/file",
    "/owner/report/owner/file",
    "/owner/report.css",
    "/owner/certificate",
    "/owner/certificate/file",
    "/owner/verification",
    "/owner/exposures.csv",
    "/owner/exposures.json",
)


@pytest.fixture
def fresh(tmp_path):
    """Nobody was asked yet."""
    return House(written(tmp_path))


def worker(house):
    return house.app.state.works.of(house.hosted)


def finished(house, seconds=60):
    worker(house).join(seconds)
    return worker(house).work


def confirmed(browser, verb, **fields):
    page = browser.get(f"/owner/{verb}")
    assert page.status_code == 200, page.text
    sent = {"csrf": hidden(page.text, "csrf"), "token": hidden(page.text, "token")} | fields
    return browser.post(f"/owner/{verb}", data=sent), sent


def answer_all(house, names=("ada",), value="a"):
    for question in house.campaign.open():
        house.campaign.tell([Answer(question_id=question.id, value=value, annotator=name) for name in names])


def entries(house):
    with ledger_of(house.campaign.store) as ledger:
        return sum(bool(entry.charges) for entry in ledger.entries)


def test_annotators_see_none_of_it(house):
    browser = house.browser("ada")
    for path in PAGES:
        page = browser.get(path)
        assert page.status_code == 403, path
        assert "small" not in page.text.lower().replace("discreet", "")  # not even the campaign's name
    csrf = hidden(browser.get("/label").text, "csrf")
    for path in ("/owner/ask", "/owner/train", "/owner/stop"):
        assert browser.post(path, data={"csrf": csrf}).status_code == 403


def test_nobody_gets_in_without_a_session(house):
    for path in PAGES:
        assert house.client().get(path).headers["location"] == "/login"


def test_the_dashboard_shows_budget_phases_people_and_what_comes_next(house):
    answer_all(house, names=("ada", "bo"))
    page = house.browser("olga").get("/owner")
    assert page.status_code == 200
    for text in ("initial", "phase-1", "never-asked", "ada", "bo", "Everything asked is answered", "100%"):
        assert text in page.text
    assert " style=" not in page.text
    assert "<script>" not in page.text
    assert 'class="meter"' in page.text
    assert 'class="days"' in page.text


def test_looking_charges_nothing(fresh):
    browser = fresh.browser("olga")
    for path in PAGES:
        if path != "/owner/train":  # it is not time for it
            assert browser.get(path).status_code in (200, 204), path
    assert browser.get("/owner/train").status_code == 409
    assert entries(fresh) == 0
    assert fresh.campaign.state.step == "ask"


def test_a_query_is_asked_after_it_was_confirmed(fresh):
    browser = fresh.browser("olga")
    response, _ = confirmed(browser, "ask")
    assert (response.status_code, response.headers["location"]) == (303, "/owner")
    assert finished(fresh).state == "done"
    assert fresh.campaign.state.step == "answer"
    assert "8 questions wait" in " ".join(browser.get("/owner").text.replace("</span>", "").split()).replace(
        '<span id="open">', ""
    )
    assert fresh.campaign.exposures() == []  # asked, and shown to nobody


def test_training_says_its_price_first_and_charges_just_that(house):
    answer_all(house)
    browser = house.browser("olga")
    page = browser.get("/owner/train")
    assert "This will be charged" in page.text
    with ledger_of(house.campaign.store) as ledger:
        assert float(ledger.total("initial").epsilon) == 0
    confirmed(browser, "train")
    assert finished(house).state == "done", worker(house).work
    with ledger_of(house.campaign.store) as ledger:
        spent = ledger.total("initial").epsilon
    assert 0 < spent < 8
    assert f"<td>{rounded(spent, up=True)}</td>" in page.text


def test_a_second_click_begins_nothing(house):
    answer_all(house)
    browser = house.browser("olga")
    first, sent = confirmed(browser, "train")
    again = browser.post("/owner/train", data=sent)
    assert (first.status_code, again.status_code) == (303, 303)
    finished(house)
    paid = entries(house)
    assert browser.post("/owner/train", data=sent).status_code == 303
    assert worker(house).work.state == "done"
    assert entries(house) == paid
    assert house.campaign.state.phase == 1
    assert house.campaign.state.step == "ask"


def test_a_confirmation_of_an_earlier_phase_begins_nothing(house):
    answer_all(house)
    browser = house.browser("olga")
    old = browser.get("/owner/train")
    confirmed(browser, "train")
    finished(house)
    paid = entries(house)
    sent = {"csrf": hidden(old.text, "csrf"), "token": hidden(old.text, "token")}
    assert browser.post("/owner/train", data=sent).status_code == 409
    assert browser.post("/owner/ask", data=sent).status_code in (303, 409)
    assert entries(house) == paid
    assert house.campaign.state.step == "ask"


def test_a_confirmation_of_another_price_begins_nothing(house):
    house.campaign.train(partial=True)
    browser = house.browser("olga")
    old = browser.get("/owner/ask")
    house.campaign.replan(because="outside", queries=[8])
    paid = entries(house)
    sent = {"csrf": hidden(old.text, "csrf"), "token": hidden(old.text, "token")}
    refused = browser.post("/owner/ask", data=sent)
    assert refused.status_code == 409
    assert "since its price was shown" in refused.text
    assert entries(house) == paid
    assert house.campaign.state.step == "ask"
    assert "8" in browser.get("/owner/ask").text.split("About ")[1].split(" records")[0], "of the plan there is now"
    confirmed(browser, "ask")
    assert finished(house).state == "done", worker(house).work


@pytest.mark.parametrize("token", ["", "made-up"])
def test_a_confirmation_that_nobody_was_shown_begins_nothing(fresh, token):
    browser = fresh.browser("olga")
    csrf = hidden(browser.get("/owner/ask").text, "csrf")
    assert browser.post("/owner/ask", data={"csrf": csrf, "token": token}).status_code == 409
    assert fresh.campaign.state.step == "ask"


def test_a_confirmation_is_for_who_was_shown_it(fresh):
    fresh.tokens["otto"] = fresh.campaign.store.users.add("otto", "owner")
    shown = fresh.browser("olga").get("/owner/ask")
    other = fresh.browser("otto")
    csrf = hidden(other.get("/owner").text, "csrf")
    assert other.post("/owner/ask", data={"csrf": csrf, "token": hidden(shown.text, "token")}).status_code == 409
    assert fresh.campaign.state.step == "ask"


def test_without_the_sessions_csrf_token_nothing_begins(fresh):
    browser = fresh.browser("olga")
    token = hidden(browser.get("/owner/ask").text, "token")
    for csrf in ({}, {"csrf": "wrong"}):
        assert browser.post("/owner/ask", data={"token": token} | csrf).status_code == 403
    assert fresh.campaign.state.step == "ask"


def test_open_questions_are_left_out_only_by_saying_so(house):
    browser = house.browser("olga")
    assert "8 questions are open" in browser.get("/owner/train").text
    response, _ = confirmed(browser, "train")
    assert response.status_code == 400
    assert entries(house) == 0
    confirmed(browser, "train", partial="yes")
    assert finished(house).state == "done"
    assert house.campaign.state.phase == 1


class Gate:
    """Holds the training at a step until it is let go."""

    def __init__(self, monkeypatch, after=2):
        self.reached, self.go = threading.Event(), threading.Event()
        told = owner_work.Worker._watch

        def watch(one, what, done, whole):
            told(one, what, done, whole)
            if what == "training" and done == after:
                self.reached.set()
                assert self.go.wait(60)
                told(one, what, done, whole)  # a stop that came meanwhile

        monkeypatch.setattr(owner_work.Worker, "_watch", watch)


def test_progress_is_shown_while_it_goes_on_and_only_one_thing_is_done(house, monkeypatch):
    gate = Gate(monkeypatch)
    answer_all(house)
    browser = house.browser("olga")
    confirmed(browser, "train")
    assert gate.reached.wait(60)
    page = browser.get("/owner")
    assert "<b>50%</b> training, 2 of 4" in page.text
    second = browser.get("/owner/train")  # the step is begun: the same verb goes on
    sent = {"csrf": hidden(second.text, "csrf"), "token": hidden(second.text, "token")}
    assert browser.post("/owner/train", data=sent).status_code == 409
    seen = page.text.split("seen=")[1].split('"')[0]
    assert browser.get(f"/owner/now?seen={seen}").status_code == 200
    gate.go.set()
    assert finished(house).state == "done"
    assert browser.get(f"/owner/now?seen={seen}").headers["HX-Refresh"] == "true"


def test_what_was_stopped_goes_on_without_another_charge(house, tmp_path, monkeypatch):
    answer_all(house)
    gate = Gate(monkeypatch)
    browser = house.browser("olga")
    confirmed(browser, "train")
    assert gate.reached.wait(60)
    page = browser.get("/owner")
    assert browser.post("/owner/stop", data={"csrf": hidden(page.text, "csrf")}).status_code == 303
    gate.go.set()
    assert finished(house).state == "stopped"
    assert house.campaign.state.step == "train"
    paid = entries(house)
    page = browser.get("/owner")
    assert "Nothing is lost" in page.text
    assert "Go on training" in page.text
    assert "Nothing more is charged" in browser.get("/owner/train").text
    confirmed(browser, "train")
    assert finished(house).state == "done"
    assert entries(house) == paid
    assert house.campaign.state.phase == 1


def test_what_ends_as_it_is_stopped_has_ended(house, monkeypatch):
    answer_all(house)
    confirmed(house.browser("olga"), "train")
    finished(house)
    running, mine = owner_work.Worker._running, worker(house)
    monkeypatch.setattr(owner_work.Worker, "_running", lambda one: True)  # as it was a moment ago
    mine.stop()
    monkeypatch.setattr(owner_work.Worker, "_running", running)
    assert mine.work.state == "done"
    mine._change(state="stopping")
    assert not mine._running(), "nobody is at work"
    confirmed(house.browser("olga"), "ask")
    assert finished(house).state == "done"


def test_another_server_goes_on_with_what_one_left(house, monkeypatch):
    answer_all(house)
    gate = Gate(monkeypatch)
    browser = house.browser("olga")
    confirmed(browser, "train")
    assert gate.reached.wait(60)
    leaving = threading.Thread(target=house.app.state.works.leave)
    leaving.start()
    gate.go.set()
    leaving.join(60)
    assert worker(house).work.state == "stopped"
    load(CampaignConfig.read(house.path)).train()
    assert house.campaign.state.phase == 1


def test_work_of_another_process_shows_as_such(house):
    answer_all(house)
    browser = house.browser("olga")
    with house.campaign.store.exclusive("working"):  # of this process, and not the server's
        page = browser.get("/owner")
        assert "Another process is asking or training" in page.text
        assert "/owner/train" not in page.text
        confirmed(browser, "train")
        work = finished(house)
    assert work.state == "failed"
    assert entries(house) == 0
    page = browser.get("/owner")
    assert "one process does one such thing at a time" in page.text
    assert "Another process" not in page.text
    assert "Train phase 0" in page.text


def test_an_error_is_shown_in_its_three_parts_and_quotes_no_record(house, monkeypatch):
    answer_all(house)
    browser = house.browser("olga")

    def fail(campaign, *_, **__):
        raise RuntimeError("record-17 is wrong")

    monkeypatch.setattr(Campaign, "train", fail)
    confirmed(browser, "train")
    assert finished(house).state == "failed"
    page = browser.get("/owner").text
    assert "RuntimeError" in page
    assert "record-17" not in page


def test_changed_records_are_refused_before_the_charge(house):
    import numpy as np

    answer_all(house)
    pool = np.load(house.path.parent / "pool.npz")
    np.savez(house.path.parent / "pool.npz", id=pool["id"], x=pool["x"] * 0)
    browser = house.browser("olga")
    confirmed(browser, "train")
    assert finished(house).state == "failed"
    assert "not what they were when they were enrolled" in browser.get("/owner").text
    assert entries(house) == 0


def test_papers_for_each_audience(house):
    answer_all(house)
    browser = house.browser("olga")
    world, mine = browser.get("/owner/report/public"), browser.get("/owner/report/owner")
    assert "for the public" in world.text
    assert re.search(r"\bada\b", world.text) is None, "a name; digests may hold these letters"
    assert "For the owner alone" in mine.text
    assert re.search(r"\bada\b", mine.text)
    assert "<style>" not in world.text
    assert browser.get("/owner/report.css").headers["content-type"].startswith("text/css")
    saved = browser.get("/owner/report/public/file")
    assert saved.headers["content-disposition"] == 'attachment; filename="report.html"'
    assert "<style>" in saved.text
    assert browser.get("/owner/report/neither").status_code == 422


def test_the_certificate_is_verified_and_can_be_saved(house, tmp_path):
    from discreet.privacy.certificate import verify

    browser = house.browser("olga")
    assert "the worst path is" in browser.get("/owner/certificate").text
    page = browser.get("/owner/verification")
    assert page.text.count('<span class="badge trained">holds</span>') == 2
    assert "failed" not in page.text
    (tmp_path / "certificate.json").write_bytes(browser.get("/owner/certificate/file").content)
    assert verify(tmp_path / "certificate.json").ok


def test_exposures_are_listed_and_saved_for_an_auditor(house):
    house.browser("ada").get("/label")
    browser = house.browser("olga")
    assert "<td>1</td>" in browser.get("/owner/papers").text
    rows = browser.get("/owner/exposures.csv").text.splitlines()
    assert rows[0].startswith('"at","kind","audience"')
    assert '"annotator","ada"' in rows[1]
    assert browser.get("/owner/exposures.json").json()["exposures"][0]["audience"] == "ada"
    assert browser.get("/owner/exposures.txt").status_code == 422


def test_a_name_that_is_markup_stays_text(tmp_path):
    house = House(written(tmp_path, classes=("<b>x</b>", "b")))
    house.campaign.due()
    house.campaign.tell(
        [Answer(question_id=house.campaign.open()[0].id, value="b", annotator="<script>alert(1)</script>")]
    )
    browser = house.browser("olga")
    for path in ("/owner", "/owner/papers", "/owner/report/owner"):
        assert "<script>alert" not in browser.get(path).text
        assert "<b>x</b>" not in browser.get(path).text
