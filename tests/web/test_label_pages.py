"""The labelling page, without a browser: what is shown, to whom, and what is stored before it is."""

import html
import re

import markupsafe
import pytest
from web_parts import LABELS, NUMBERS, SCRIPTS, House, crowd_of_scripts, fields, written

from discreet.campaign.phase_steps import PhaseSteps
from discreet.errors import PoolChanged, StoreUnavailable
from discreet.storage import queues
from discreet.web.pages import keys_of

HTMX = {"HX-Request": "true"}


def seen(house, name=None):
    return [(one.question_id, one.audience) for one in house.campaign.exposures(name)]


def test_somebody_labels_everything_there_is(house):
    browser = house.browser("ada")
    page = browser.get("/label")
    for number in range(8):
        assert f'<b id="answered">{number}</b>' in page.text
        assert len(seen(house)) == number + 1, "one at a time, stored when it is shown"
        page = browser.post("/label/answer", data=fields(page) | {"value": "1"}, headers=HTMX)
    assert "Nothing is open for you" in page.text
    assert set(house.campaign.labels().values()) == {"b"}
    assert house.campaign.open() == []
    house.campaign.train()
    assert house.campaign.state.phase == 1


def test_it_works_without_scripts(house):
    browser = house.browser("ada")
    first = browser.get("/label")
    sent = browser.post("/label/answer", data=fields(first) | {"value": "0"})
    assert (sent.status_code, sent.headers["location"]) == (303, "/label")
    assert browser.post("/label/skip", data=fields(browser.get("/label"))).status_code == 303
    back = browser.post("/label/undo", data=fields(browser.get("/label")))
    assert "with a skip" in back.text
    assert "<html" in back.text


def test_a_page_never_asks_a_query_or_costs_anything(tmp_path):
    house = House(written(tmp_path))
    lines = len(house.campaign.store.sink().read())
    browser = house.browser("ada")
    assert "Nothing is open for you" in browser.get("/label").text
    assert house.program("ada").post("/api/v1/next").json()["question"] is None
    assert house.campaign.state.step == "ask"
    assert len(house.campaign.store.sink().read()) == lines


def test_what_cannot_be_recorded_is_not_shown(house, monkeypatch):
    def full(*arguments, **named):
        raise StoreUnavailable("storing who is shown what", "the disk is full", "Make room")

    browser = house.browser("ada")
    monkeypatch.setattr(queues, "insert", full)  # in the transaction, before the row is in it
    page = browser.get("/label")
    assert page.status_code == 503
    assert "picture" not in page.text
    assert seen(house) == []


def test_skips_undo_and_corrections(house):
    browser = house.browser("ada")
    first = browser.get("/label")
    second = browser.post("/label/answer", data=fields(first) | {"value": "0"}, headers=HTMX)
    third = browser.post("/label/skip", data=fields(second), headers=HTMX)
    back = browser.post("/label/undo", data=fields(third), headers=HTMX)
    assert fields(back)["question"] == fields(second)["question"]
    assert "with a skip" in back.text
    further = browser.post("/label/undo", data=fields(back), headers=HTMX)
    assert fields(further)["question"] == fields(first)["question"]
    assert 'class="choice chosen" name="value" value="0"' in further.text
    on = browser.post("/label/answer", data=fields(further) | {"value": "1"}, headers=HTMX)
    assert fields(on)["question"] == fields(third)["question"], "the one that waited"
    said = {one.question_id: one.value for one in house.campaign.store.answers()}
    assert said == {fields(first)["question"]: "b", fields(second)["question"]: None}
    assert [one.value for one, _ in house.campaign.store.history(fields(first)["question"])] == ["a", "b"]
    assert fields(browser.post("/label/undo", data=fields(on), headers=HTMX))["question"] == fields(first)["question"]


def test_undo_with_nothing_said_stays_where_it_is(house):
    browser = house.browser("ada")
    page = browser.get("/label")
    assert fields(browser.post("/label/undo", data=fields(page), headers=HTMX)) == fields(page)


def test_queues_are_apart_and_double_labelling_is_blind(tmp_path):
    house = House(written(tmp_path, oracle="per_question = 2"))
    house.campaign.due()
    said, pages = {}, {}
    for name, value in (("ada", "0"), ("bo", "1")):
        browser = house.browser(name)
        page = browser.get("/label")
        while fields(page)["question"]:
            assert "chosen" not in page.text, "nothing of what another said"
            said.setdefault(name, []).append(fields(page)["question"])
            pages.setdefault(fields(page)["question"], []).append(page.text.replace(fields(page)["csrf"], ""))
            page = browser.post("/label/answer", data=fields(page) | {"value": value}, headers=HTMX)
    assert said["ada"] == said["bo"], "both get all eight"
    assert house.campaign.open() == []
    assert "Nothing is open" in house.browser("cy").get("/label").text, "two places a question"
    assert len(house.campaign.store.answers()) == 16


def test_one_place_a_question_is_one_persons(house):
    ada, bo = house.browser("ada"), house.browser("bo")
    assert fields(ada.get("/label"))["question"] != fields(bo.get("/label"))["question"]
    assert fields(ada.get("/label"))["question"] == fields(ada.get("/label"))["question"], "it waits for its answer"
    assert len(seen(house)) == 2


def test_nobody_is_shown_more_than_is_allowed(tmp_path):
    house = House(written(tmp_path, oracle="per_annotator = 2"))
    house.campaign.due()
    browser = house.browser("ada")
    for _ in range(2):
        page = browser.post("/label/skip", data=fields(browser.get("/label")), headers=HTMX)
    assert "as many records as one person may see" in page.text
    assert len(seen(house, "ada")) == 2
    assert house.program("ada").post("/api/v1/next").status_code == 409


def test_nothing_is_shown_when_no_answer_would_count(house):
    campaign = house.campaign
    campaign.train(partial=True)
    campaign.due()
    browser = house.browser("ada")
    assert fields(browser.get("/label"))["question"]
    campaign.train(partial=True)
    assert campaign.done
    before = seen(house)
    page = house.browser("bo").get("/label")
    assert "Nothing is open for you" in page.text
    assert '<span id="left">0</span>' in page.text
    assert seen(house) == before


@pytest.mark.parametrize("verb", ["answer", "skip"])
def test_an_answer_was_taken_although_no_question_follows(tmp_path, verb):
    house = House(written(tmp_path, oracle="per_annotator = 1"))
    house.campaign.due()
    program = house.program("ada")
    question = program.post("/api/v1/next").json()["question"]["id"]
    sent = program.post(f"/api/v1/questions/{question}/{verb}", json={"value": "a"})
    assert sent.status_code == 200
    assert sent.json()["question"] is None
    assert "as many records as one person may see" in sent.json()["reason"]
    assert len(house.campaign.store.answers()) == 1


def test_an_answer_was_taken_although_the_next_record_was_changed(house, monkeypatch):
    def changed(self, ids):
        if any(True for _ in ids):
            raise PoolChanged("using records", "some were changed", "Restore them")

    browser, program = house.browser("ada"), house.program("bo")
    page, question = browser.get("/label"), program.post("/api/v1/next").json()["question"]["id"]
    monkeypatch.setattr(PhaseSteps, "check_records", changed)
    sent = browser.post("/label/answer", data=fields(page) | {"value": "0"}, headers=HTMX)
    assert sent.status_code == 200
    assert "were changed since they were enrolled" in sent.text
    sent = program.post(f"/api/v1/questions/{question}/answer", json={"value": "a"})
    assert (sent.status_code, sent.json()["question"]) == (200, None)
    assert len(house.campaign.store.answers()) == 2


def test_texts_and_labels_are_shown_as_they_are_written(tmp_path):
    house = House(crowd_of_scripts(tmp_path))
    house.campaign.due()
    house.campaign.train()  # on public gold; the crowd is asked from then on
    house.campaign.due()
    browser = house.browser("ada")
    page, texts = browser.get("/label"), set()
    while fields(page)["question"]:
        for label in LABELS:
            assert str(markupsafe.escape(label)) in page.text
        texts.add(html.unescape(re.search(r'<div class="text" dir="auto">(.*?)</div>', page.text, re.DOTALL)[1]))
        assert not re.search(r"<(svg|iframe|style|a href=.javascript)", page.text)
        page = browser.post("/label/answer", data=fields(page) | {"value": "0"}, headers=HTMX)
    assert texts == {" ".join(text.lower().split()) for text in SCRIPTS}


def test_numbers_are_shown_with_their_names_and_before_scaling(tmp_path):
    (tmp_path / "pool.csv").write_text("id,age,dose\n" + "\n".join(f"r{n},{20 + n},0.{n:02d}" for n in range(40)))
    pool = NUMBERS + "\ncenter = [40, 0.5]\nscale = [10, 0.25]"
    house = House(written(tmp_path, pool=pool, classes=("<i>ill</i>", "well")))
    house.campaign.due()
    page = house.browser("ada").get("/label").text
    record = next(iter(house.campaign.exposures())).record
    age = 20 + int(record[1:])
    assert f'<th scope="row">age</th><td>{age}</td>' in page
    assert "&lt;i&gt;ill&lt;/i&gt;" in page
    assert "<i>" not in page


def test_several_labels_are_answered_together(tmp_path):
    house = House(written(tmp_path, kind="multilabel", classes=("cat", "dog", "eel")))
    house.campaign.due()
    browser = house.browser("ada")
    first = browser.get("/label")
    second = browser.post("/label/answer", data=fields(first) | {"value": ["2", "0"]}, headers=HTMX)
    third = browser.post("/label/answer", data=fields(second), headers=HTMX)
    said = {one.question_id: one.value for one in house.campaign.store.answers()}
    assert said == {fields(first)["question"]: ("cat", "eel"), fields(second)["question"]: ()}
    back = browser.post("/label/undo", data=fields(browser.post("/label/undo", data=fields(third), headers=HTMX)))
    assert back.text.count(" checked") == 2


@pytest.mark.parametrize("value", [None, "2", "-1", "x", "٣", ["0", "1"], "9" * 400])
def test_what_is_no_answer_is_refused(house, value):
    browser = house.browser("ada")
    page = browser.get("/label")
    sent = fields(page) | ({} if value is None else {"value": value})
    refused = browser.post("/label/answer", data=sent, headers=HTMX)
    assert refused.status_code == 400
    assert house.campaign.store.answers() == []


def test_withdrawn_records_are_not_shown_any_more(house):
    browser = house.browser("ada")
    page = browser.get("/label")
    question = fields(page)["question"]
    record = next(one.record for one in house.campaign.open() if one.id == question)
    house.campaign.withdraw([record])
    assert browser.get(f"/label/picture/{question}").status_code == 404
    assert browser.post("/label/answer", data=fields(page) | {"value": "0"}, headers=HTMX).status_code == 404
    assert fields(browser.get("/label"))["question"] != question


@pytest.mark.parametrize(
    ("classes", "keys"),
    [
        (("7", "0", "3"), ("7", "0", "3")),
        (("cat", "dog"), ("1", "2")),
        (("s", "t"), ("1", "2")),
        (tuple(f"class {n}" for n in range(12)), tuple("1234567890qw")),
        (tuple(f"class {n}" for n in range(40)), (*"1234567890qwertyiopadfghjklzxcvbnm", *[""] * 6)),
    ],
)
def test_keys_are_the_classes_own_or_digits_and_never_skip_or_undo(classes, keys):
    assert keys_of(classes) == keys
    assert not {"s", "u"} & set(keys)
