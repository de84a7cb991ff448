"""What an annotator's page tells them of the others, and what it does when records were changed behind it."""

import numpy as np
import pytest
from web_parts import House, fields, written

from discreet.config import read_campaign
from discreet.errors import PoolChanged
from discreet.recipes.opening import load


def answered(program, many, value="a"):
    """Their questions, in the order in which they came."""
    found, seen = program.post("/api/v1/next").json(), []
    for _ in range(many):
        seen.append(found["question"]["id"])
        found = program.post(f"/api/v1/questions/{seen[-1]}/answer", json={"value": value}).json()
    return seen, found


@pytest.mark.parametrize("people", [1, 2])
def test_what_is_left_does_not_tell_that_others_answer(tmp_path, people):
    house = House(written(tmp_path, oracle=f"per_question = {people}"))
    house.campaign.due()
    ada, browser = house.program("ada"), house.browser("ada")
    before = ada.post("/api/v1/next").json()["progress"]
    page = browser.get("/label").text
    answered(house.program("bo"), 2)
    answered(house.program("cy"), 2)
    assert ada.get("/api/v1/progress").json() == before == {"answered": 0, "left": 8}
    assert ada.post("/api/v1/next").json()["progress"] == before
    assert browser.get("/label").text == page
    _, now = answered(ada, 2)
    assert now["progress"] == {"answered": 2, "left": 6}


def test_when_nothing_is_open_any_more_nothing_is_left(tmp_path):
    house = House(written(tmp_path))
    house.campaign.due()
    ada = house.program("ada")
    answered(ada, 2)
    answered(house.program("bo"), 5)
    assert ada.get("/api/v1/progress").json() == {"answered": 2, "left": 6}, "at most: one of them is still open"
    _, now = answered(ada, 1)
    assert (now["question"], now["progress"]) == (None, {"answered": 3, "left": 0})


def test_what_is_left_is_within_the_cap(tmp_path):
    house = House(written(tmp_path, oracle="per_annotator = 3"))
    house.campaign.due()
    ada = house.program("ada")
    assert ada.get("/api/v1/progress").json() == {"answered": 0, "left": 3}
    assert ada.post("/api/v1/next").json()["progress"] == {"answered": 0, "left": 3}
    _, now = answered(ada, 3)
    assert now["progress"] == {"answered": 3, "left": 0}


def change(house, questions):
    """Other pixels under the same ids, and the server started again; what puts them back."""
    place = house.path.parent / "pool.npz"
    before, found = place.read_bytes(), dict(np.load(place))
    records = {one.record for one in house.campaign.store.questions() if one.id in questions}
    found["x"][np.isin(found["id"], list(records))] += 1
    np.savez(place, **found)
    house.serve()

    def restore():
        place.write_bytes(before)
        house.serve()

    return restore


def test_a_record_that_was_changed_is_passed_over_and_the_owner_is_told(tmp_path):
    house = House(written(tmp_path))
    house.campaign.due()
    ada = house.program("ada")
    first = ada.post("/api/v1/next").json()["question"]["id"]
    restore = change(house, {first})
    ada, owner = house.program("ada"), house.program("olga")
    seen, now = answered(ada, 7)
    assert first not in seen
    assert (now["question"], "changed" in now["reason"]) == (None, True)
    assert ada.post("/api/v1/next").status_code == 409
    page = house.browser("ada").get("/label").text
    assert "Tell the owner" in page
    assert "record-" not in page
    assert owner.get("/api/v1/owner/status").json()["changed"] == [first]
    board = house.browser("olga").get("/owner").text
    assert 'id="changed"' in board
    assert first in board
    assert len(house.campaign.store.answers()) == 7
    with pytest.raises(PoolChanged):  # nobody trains on it meanwhile
        load(read_campaign(house.path)).train(partial=True)
    restore()
    assert house.program("ada").post("/api/v1/next").json()["question"]["id"] == first
    assert house.program("olga").get("/api/v1/owner/status").json()["changed"] == []
    assert 'id="changed"' not in house.browser("olga").get("/owner").text


def test_a_pool_that_was_changed_as_a_whole_does_not_hand_out_all_of_it(tmp_path):
    house = House(written(tmp_path))
    house.campaign.due()
    change(house, {one.id for one in house.campaign.store.questions()})
    ada = house.program("ada")
    for _ in range(3):
        assert ada.post("/api/v1/next").status_code == 409
    assert len(house.campaign.exposures("ada")) == 4, "three were passed over, the fourth stops"


def test_undo_does_not_show_a_record_that_was_changed(tmp_path):
    house = House(written(tmp_path))
    house.campaign.due()
    (first, second), _ = answered(house.program("ada"), 2)
    change(house, {second})
    refused = house.program("ada").post("/api/v1/undo", json={})
    assert refused.status_code == 409
    assert "tell the owner" in refused.json()["error"]
    assert house.program("ada").post("/api/v1/undo", json={"question": second}).json()["question"]["id"] == first
    browser = house.browser("ada")
    sent = fields(browser.get("/label")) | {"question": ""}
    assert browser.post("/label/undo", data=sent).status_code == 409
