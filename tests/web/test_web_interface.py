"""The JSON interface: an annotator's day. The owner's is in test_owner_interface.py."""

import io
import json

import numpy as np
from PIL import Image


def test_an_annotator_labels_by_program(house):
    program = house.program("ada")
    now = program.post("/api/v1/next").json()
    assert (now["format"], now["audience"], now["classes"]) == ("discreet.question/1", "annotator", ["a", "b"])
    assert now["progress"] == {"answered": 0, "left": 8}
    first = now["question"]["id"]
    picture = program.get(now["question"]["picture"])
    assert picture.headers["content-type"] == "image/png"
    record = next(one.record for one in house.campaign.open() if one.id == first)
    stored = house.campaign.pool.rows(house.campaign.pool.places([record]))[0, 0]
    pixels = np.asarray(Image.open(io.BytesIO(picture.content)))
    assert np.corrcoef(pixels.ravel(), stored.ravel())[0, 1] > 0.999, "of that record"
    now = program.post(f"/api/v1/questions/{first}/answer", json={"value": "a"}).json()
    second = now["question"]["id"]
    now = program.post(f"/api/v1/questions/{second}/skip").json()
    back = program.post("/api/v1/undo", json={}).json()["question"]
    assert (back["id"], back["answered"], back["said"]) == (second, True, None)
    back = program.post("/api/v1/undo", json={"question": second}).json()["question"]
    assert (back["id"], back["said"]) == (first, "a")
    assert program.post("/api/v1/undo", json={"question": first}).json()["question"] is None
    program.post(f"/api/v1/questions/{first}/answer", json={"value": "b"})
    assert program.get("/api/v1/progress").json() == {"answered": 2, "left": 6}
    assert {one.question_id: one.value for one in house.campaign.store.answers()} == {first: "b", second: None}
    assert "record-" not in json.dumps(now)


def test_a_pool_that_was_extended_is_loaded_again(house, monkeypatch):
    from discreet.config import CampaignConfig
    from discreet.recipes.pool_changes import extend
    from discreet.web import hosting

    place = house.path.parent / "more.npz"
    np.savez(place, id=np.array(["new-1", "new-2"]), x=np.ones((2, 1, 8, 8), dtype=np.float32))
    before = house.hosted.campaign()
    extend(house.campaign, CampaignConfig.read(house.path), place)
    monkeypatch.setattr(hosting, "_FRESH", -1.0)
    assert len(before.pool) == 40
    assert len(house.hosted.campaign().pool) == 42
