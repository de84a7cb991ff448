"""Where a campaign stands follows from the recorded steps alone; what it says of itself, and to whom."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from loop_parts import campaign_in, truth

from discreet.campaign.state import CampaignState, campaign_state
from discreet.errors import BadInput
from discreet.storage import Transition


def taken(*steps):
    at = datetime.now(UTC)
    return [
        Transition(number=number, kind=kind, phase=phase, facts={}, at=at) for number, (kind, phase) in enumerate(steps)
    ]


WHOLE = [("created", 0)] + [(kind, phase) for phase in (0, 1) for kind in ("published", "training", "trained")]


@pytest.mark.parametrize(
    ("count", "phase", "step"),
    [
        (0, 0, "ask"),
        (1, 0, "ask"),
        (2, 0, "answer"),
        (3, 0, "train"),
        (4, 1, "ask"),
        (5, 1, "answer"),
        (6, 1, "train"),
        (7, 1, "done"),
    ],
)
def test_every_number_of_steps(count, phase, step):
    assert campaign_state(taken(*WHOLE[:count]), phases=2) == CampaignState(phase=phase, step=step)


def test_the_order_in_which_they_are_read_does_not_matter():
    assert campaign_state(reversed(taken(*WHOLE[:5])), phases=2) == CampaignState(phase=1, step="answer")


def test_more_phases_than_were_trained_are_still_to_come():
    assert campaign_state(taken(*WHOLE), phases=3) == CampaignState(phase=2, step="ask")


def test_each_audience_sees_its_own(tmp_path):
    campaign = campaign_in(tmp_path)
    asked = campaign.ask()
    campaign.tell({asked[0].id: "a", asked[1].id: None})
    world, owner = campaign.status(), campaign.status("owner")
    assert world.answers is None
    assert owner.answers == {"asked": 4, "labelled": 1, "skipped": 1, "open": 2}
    assert (world.phase, world.phases, world.step, world.planned, world.asked) == (0, 3, "answer", 8, 4)
    with pytest.raises(BadInput, match="no such audience"):
        campaign.status("everybody")


def test_the_worlds_status_does_not_depend_on_answers(tmp_path):
    """What people said, and how many did, changes nothing in it: it is the same text before and after."""
    campaign = campaign_in(tmp_path)
    asked = campaign.ask()
    before = json.dumps(campaign.status().to_json())
    campaign.tell(truth(asked[:3]))
    assert json.dumps(campaign.status().to_json()) == before
    assert "answers" not in before
    assert not any(one.record in before for one in asked)
    assert json.loads(before)["audience"] == "public"


def test_the_gauge_rises_with_charges_and_the_promise_stays(tmp_path):
    campaign = campaign_in(tmp_path)
    campaign.tell(truth(campaign.ask()))
    assert campaign.budget_usage().spent == 0
    campaign.train()
    once = campaign.budget_usage()
    assert once.spent == Decimal("0.5")
    campaign.ask()
    assert campaign.budget_usage().spent == Decimal("1.0")
    assert campaign.budget_usage().epsilon == once.epsilon == 20
    assert campaign.status().spent == Decimal("1.0")


def test_a_simulation_says_so(tmp_path):
    assert campaign_in(tmp_path, seed=1).status().to_json()["simulation"] is True
    assert campaign_in(tmp_path, name="real").status().to_json()["simulation"] is False
