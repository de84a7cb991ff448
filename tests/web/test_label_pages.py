"""The labelling page, without a browser: what is shown, to whom, and what is stored before it is."""

import pytest
from web_parts import House, fields, written


@pytest.fixture
def house(tmp_path):
    return House(written(tmp_path))


def test_somebody_labels_everything_there_is(house):
    house.campaign.ask()
    browser = house.browser("ada")
    page = browser.get("/label")
    for _ in range(8):
        assert page.status_code == 200
        page = browser.post("/label/answer", data=fields(page) | {"value": "1"}, headers={"HX-Request": "true"})
    assert "Nothing is open for you" in page.text
    assert house.campaign.labels()
    assert set(house.campaign.labels().values()) == {"b"}
    assert house.campaign.open() == []
