"""A campaign led by its owner in a real browser, while annotators answer by programs: from the first query to a model.

SCREENSHOTS=DIRECTORY keeps what it looked like, wide and on a phone, light and dark.
"""

import json
import os
import urllib.request

import pytest
from labelling_server import campaign_file, chromium, digits, log_in, serving

from discreet.config import CampaignConfig
from discreet.recipes.opening import create

pytestmark = pytest.mark.integration
CLASSES = [str(number) for number in range(10)]
WIDE, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}


def screenshot(page, name, whole=False):
    if place := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{place}/{name}.png", full_page=whole)


def call(address, token, path, body=None, method="POST"):
    request = urllib.request.Request(
        f"{address}/api/v1/{path}",
        method=method,
        data=None if method == "GET" else json.dumps(body or {}).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def label_all(address, token, truth, of_question):
    found = call(address, token, "next")
    while found["question"]:
        name = found["question"]["id"]
        value = truth[of_question[name]]
        if found["progress"]["answered"] % 7 == 6:
            found = call(address, token, f"questions/{name}/skip")
        else:
            found = call(address, token, f"questions/{name}/answer", {"value": value})


def kept(page, name):
    """Looked at in both widths and both lights, as a whole."""
    for light in ("light", "dark"):
        page.emulate_media(color_scheme=light)
        for width, size in (("wide", WIDE), ("phone", PHONE)):
            page.set_viewport_size(size)
            screenshot(page, f"owner-{name}-{width}-{light}", whole=True)
            across = page.evaluate("document.documentElement.scrollWidth")
            assert across <= size["width"], f"{name} is wider than a {width} screen"
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(WIDE)


def test_an_owner_leads_a_campaign(tmp_path):  # noqa: PLR0915 - one story, told once: a browser takes its time
    truth = digits(tmp_path)
    path = campaign_file(tmp_path, pool="pictures", classes=CLASSES, initial=40, oracle="per_question = 2")
    campaign = create(CampaignConfig.read(path))
    tokens = {
        name: campaign.store.users.add(name, role)
        for name, role in (("olga", "owner"), ("ada", "annotator"), ("bo", "annotator"))
    }
    with serving(path) as (address, log), chromium(viewport=WIDE) as page:
        troubles = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda told: troubles.append(told.text) if told.type == "error" else None)
        log_in(page, address, "olga", tokens["olga"])
        assert "The next query can be asked" in page.inner_text("#now")
        kept(page, "before")

        page.click("text=Ask the query of phase 0")
        assert "Nothing more is charged" in page.inner_text("main")  # the first records are drawn uniformly at random
        kept(page, "confirm-ask")
        page.click("#confirm")
        page.wait_for_selector("#open", timeout=120_000)
        assert page.inner_text("#open") == "40"

        of_question = {one.id: one.record for one in campaign.store.questions()}
        label_all(address, tokens["ada"], truth, of_question)
        label_all(address, tokens["bo"], truth, of_question)
        page.wait_for_selector("text=Everything asked is answered", timeout=60_000)  # nobody pressed reload
        assert "ada" in page.inner_text("#people")
        kept(page, "answered")

        page.click("text=Train phase 0")
        assert "This will be charged" in page.inner_text("main")
        kept(page, "confirm-train")
        page.click("#confirm")
        page.wait_for_selector("#progress", timeout=60_000)
        if page.locator("#progress").count():
            screenshot(page, "owner-training")
        page.wait_for_selector("text=The next query can be asked", timeout=240_000)
        assert page.locator(".badge.trained").count() == 1
        assert page.inner_text("#spent") != "ε 0.000"
        kept(page, "trained")

        page.click("text=Report, certificate, exposures")
        kept(page, "papers")
        page.set_default_timeout(300_000)  # loss distributions take their time on a busy machine
        page.goto(f"{address}/owner/certificate")
        kept(page, "certificate")
        page.click("text=Verify it now")
        page.wait_for_selector(".checks")
        assert page.locator(".checks .failed").count() == 0
        assert page.locator(".badge.trained").count() == 2
        page.goto(f"{address}/owner/report/public")
        kept(page, "report")
        assert page.evaluate("getComputedStyle(document.querySelector('section')).borderRadius") != "0px"
        assert troubles == []
        written = log.read_text()
    assert "scan-" not in written
    assert tokens["olga"] not in written
    assert campaign.state.phase == 1
