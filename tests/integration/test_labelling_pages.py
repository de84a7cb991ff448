"""A real Chromium on pages of a real server: by keyboard to the end of a phase; and nothing runs that is not ours.

SCREENSHOTS=folder keeps pictures of what it saw.
"""

import re
import sys
from pathlib import Path

import pytest
from labelling_server import campaign_file, chromium, created, digits, log_in, screenshot, serving

from discreet.config import CampaignConfig
from discreet.recipes.opening import load

sys.path.insert(0, str(Path(__file__).parents[1] / "web"))
from web_parts import LABELS, SCRIPTS, House, crowd_of_scripts

pytestmark = pytest.mark.integration
CLASSES = [str(number) for number in range(10)]
PHONE = {"width": 390, "height": 844}


def ready(page):
    """The record is there, and keys are heard."""
    page.wait_for_selector("#task:not([aria-busy])")


def answered(page, count):
    page.wait_for_selector(f'#answered:text-is("{count}")', state="attached")
    ready(page)


def shown(page):
    return page.input_value("#answer input[name=question]")


def test_fifty_pictures_by_keyboard_to_the_end_of_a_phase(tmp_path):
    truth = digits(tmp_path)
    path = campaign_file(tmp_path, pool="pictures", classes=CLASSES)
    campaign, tokens = created(path, ada="annotator")
    labels = {one.id: truth[one.record] for one in campaign.store.questions()}
    problems = []
    with serving(path) as (address, log), chromium(viewport={"width": 1280, "height": 900}) as page:
        page.on("console", lambda said: problems.append(said.text))
        page.on("pageerror", lambda said: problems.append(str(said)))
        log_in(page, address, "ada", tokens["ada"])
        page.wait_for_selector("#task img")
        assert page.evaluate("() => document.querySelector('#task img').decode().then(() => true)"), "it is a picture"
        screenshot(page, "label-desktop")
        skipped = shown(page)
        ready(page)
        page.keyboard.press("s")
        answered(page, 1)
        wrong = shown(page)
        page.keyboard.press(str((int(labels[wrong]) + 1) % 10))
        answered(page, 2)
        page.keyboard.press("u")
        page.wait_for_selector("#again")
        assert shown(page) == wrong
        ready(page)
        screenshot(page, "label-undo")
        page.keyboard.press(labels[wrong])  # corrected
        page.wait_for_selector("#again", state="detached")
        ready(page)
        for count in range(3, 53):
            page.keyboard.press(labels[shown(page)])
            answered(page, count)
        page.wait_for_selector("#done")
        screenshot(page, "label-done")
        assert [one for one in problems if "favicon" not in one] == []
        logged = log.read_text()
    said = {one.question_id: one.value for one in campaign.store.answers()}
    assert len(said) == 52
    assert said == labels | {skipped: None}
    assert [one.value for one, _ in campaign.store.history(wrong)][-1] == labels[wrong]
    assert len(campaign.store.history(wrong)) == 2
    again = load(CampaignConfig.read(path))
    assert again.open() == []
    again.train()
    assert again.state.phase == 1
    assert not re.search(r"scan-|0\.\d+/|dt_", logged.replace(" ms", ""))
    assert "POST /label/answer 200" in logged


def test_a_thumb_on_a_phone_and_two_keys_at_once(tmp_path):
    digits(tmp_path)
    path = campaign_file(tmp_path, pool="pictures", classes=["even", "odd"], initial=20)
    campaign, tokens = created(path, bo="annotator")
    options = {"is_mobile": True, "has_touch": True, "device_scale_factor": 2, "color_scheme": "dark"}
    with serving(path) as (address, _), chromium(viewport=PHONE, **options) as page:
        log_in(page, address, "bo", tokens["bo"])
        page.wait_for_selector("#task img")
        screenshot(page, "label-phone")
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth"), "nothing sticks out"
        for button in page.query_selector_all(".choice"):
            box = button.bounding_box()
            assert box["height"] >= 44, "a thumb is that wide"
            assert box["y"] + box["height"] <= PHONE["height"], "seen without scrolling"
        ready(page)
        page.tap(".choice >> nth=0")
        answered(page, 1)
        first = shown(page)
        page.evaluate(
            """() => { for (const key of ["1", "2"])
            document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true})); }"""
        )
        answered(page, 2)
    said = {one.question_id: one.value for one in campaign.store.answers()}
    assert said[first] == "even", "the second key answered nothing"
    assert len(campaign.store.history(first)) == 1


def test_a_double_click_answers_one_question(tmp_path):
    digits(tmp_path)
    path = campaign_file(tmp_path, pool="pictures", classes=CLASSES)
    campaign, tokens = created(path, ada="annotator")
    with serving(path) as (address, _), chromium(viewport={"width": 1280, "height": 900}) as page:
        log_in(page, address, "ada", tokens["ada"])
        page.wait_for_selector("#task img")
        ready(page)
        first, box = shown(page), page.locator("#answer button").nth(3).bounding_box()
        page.mouse.click(box["x"] + 20, box["y"] + 20)
        answered(page, 1)  # the next record is there already
        page.mouse.down(click_count=2)
        page.mouse.up(click_count=2)
        page.wait_for_timeout(500)
        assert [one.question_id for one in campaign.store.answers()] == [first]
        page.evaluate(
            """() => { const press = () => document.querySelector("#answer button").click();
            document.addEventListener("htmx:afterSettle", press, {once: true}); press(); }"""
        )
        answered(page, 2)
        page.wait_for_timeout(500)
        assert len(campaign.store.answers()) == 2, "nothing is taken before it can be seen"


def test_scripts_in_texts_and_labels_do_not_run(tmp_path):
    house = House(crowd_of_scripts(tmp_path))
    house.campaign.due()
    house.campaign.train()
    house.campaign.due()
    texts = set()
    with serving(house.path) as (address, _), chromium() as page:
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        log_in(page, address, "ada", house.tokens["ada"])
        page.wait_for_selector("#answer")
        ready(page)
        screenshot(page, "label-scripts")
        for count in range(1, len(SCRIPTS) + 1):
            texts.add(page.inner_text(".text"))
            names = [one.inner_text() for one in page.query_selector_all(".choice .name")]
            assert names == list(LABELS)
            assert page.evaluate("() => window.ran === undefined && document.querySelectorAll('iframe').length === 0")
            page.keyboard.press("1")
            answered(page, count)
        page.goto(f"{address}/label?x=<script>window.ran=9</script>")
        assert page.evaluate("() => window.ran") is None
        page.goto(f"{address}/<img src=x onerror=window.ran=9>")
        assert page.evaluate("() => window.ran") is None
        assert all(url.startswith(address) for url in asked), "nothing was fetched from elsewhere"
    assert texts == {" ".join(text.lower().split()) for text in SCRIPTS}


def test_the_policy_stops_a_script_that_got_in(tmp_path):
    """The second line of defence is there: a script that is planted in the page itself does not run."""
    digits(tmp_path)
    path = campaign_file(tmp_path, pool="pictures", classes=["even", "odd"], initial=20)
    _, tokens = created(path, ada="annotator")
    with serving(path) as (address, _), chromium() as page:
        log_in(page, address, "ada", tokens["ada"])
        page.evaluate(
            """() => { const planted = document.createElement("script"); planted.textContent = "window.ran = 1";
            document.body.append(planted); const picture = document.createElement("img");
            picture.setAttribute("onerror", "window.ran = 2"); picture.src = "/nothing";
            document.body.append(picture); }"""
        )
        page.wait_for_timeout(300)
        assert page.evaluate("() => window.ran") is None


def test_several_labels_by_keyboard(tmp_path):
    digits(tmp_path)
    path = campaign_file(
        tmp_path, pool="pictures", classes=["round", "straight", "closed"], kind="multilabel", initial=20
    )
    campaign, tokens = created(path, ada="annotator")
    with serving(path) as (address, _), chromium(viewport={"width": 1280, "height": 800}, color_scheme="dark") as page:
        log_in(page, address, "ada", tokens["ada"])
        page.wait_for_selector("#answer")
        first = shown(page)
        ready(page)
        for key in ("3", "1", "2", "2"):
            page.keyboard.press(key)
        screenshot(page, "label-several")
        page.keyboard.press("Enter")
        answered(page, 1)
    assert {one.question_id: one.value for one in campaign.store.answers()} == {first: ("round", "closed")}
