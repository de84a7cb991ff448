"""Hidden selection on the pages: shares by a keyed ranking, and no training with missing labels."""

import pytest
from test_owner_interface import HERE, begun
from web_parts import House, written

from discreet.campaign.state import ledger_of


@pytest.fixture
def house(tmp_path):
    path = written(tmp_path)
    text = path.read_text().replace('accountant = "rdp"', 'accountant = "rdp"\nselection = "hidden"')
    more = '[scorer]\nname = "entropy"\n[selector]\nname = "hidden-threshold"\nthreshold_epsilon = "0.5"\n[oracle]'
    path.write_text(text.replace("[oracle]", more))
    return House(path)


def answered(house, name):
    """Everything that somebody is offered; how many that was."""
    program, count = house.program(name), 0
    found = program.post("/api/v1/next").json()
    while found["question"]:
        count += 1
        found = program.post(f"/api/v1/questions/{found['question']['id']}/answer", json={"value": "a"}).json()
    assert found["progress"] == {"answered": count, "left": 0}
    return count


def test_open_questions_cannot_be_trained_without_by_page_or_program(house):
    house.campaign.due()
    owner, browser = house.program("olga"), house.browser("olga")
    with ledger_of(house.campaign.store) as ledger:
        lines = len(ledger)
    refused = begun(owner, "train", 0, partial=True)
    assert refused.status_code == 409
    assert "selection is hidden" in refused.json()["error"]
    page = browser.get("/owner/train")
    assert page.status_code == 409
    assert 'name="partial"' not in page.text
    assert owner.get(f"{HERE}/progress").json()["state"] == "idle"
    with ledger_of(house.campaign.store) as ledger:
        assert len(ledger) == lines


def test_every_annotator_is_offered_their_own_share_and_nobody_else_is(house):
    house.campaign.due()
    shares = {name: [one.id for one in house.campaign.ask(annotator=name)] for name in ("ada", "bo", "cy")}
    assert sorted(one for share in shares.values() for one in share) == sorted(
        one.id for one in house.campaign.store.questions()
    )
    assert answered(house, "ada") == len(shares["ada"])
    assert answered(house, "olga") == 0, "the owner is not one of the declared annotators"
    mine = (shares["bo"] or shares["cy"])[0]  # who gets which is random
    assert house.program("ada").post(f"/api/v1/questions/{mine}/answer", json={"value": "a"}).status_code == 404
    assert answered(house, "bo") == len(shares["bo"])
    house.campaign.store.users.remove("cy")
    assert answered_again(house, "ada", shares["ada"]) + answered_again(house, "bo", shares["bo"]) == len(shares["cy"])
    house.campaign.train()
    assert house.program("olga").get(f"{HERE}/verification").json()["ok"]


def answered_again(house, name, before):
    """What somebody is offered beyond their first share."""
    more = [one.id for one in house.campaign.ask(annotator=name)]
    assert not set(more) & set(before)
    house.campaign.tell(dict.fromkeys(more, "b"), annotator=name)
    return len(more)
