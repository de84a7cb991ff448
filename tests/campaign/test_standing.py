"""Where a campaign stands follows from the recorded steps alone."""

from datetime import UTC, datetime

import pytest

from discreet.campaign.state import CampaignState, standing
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
    assert standing(taken(*WHOLE[:count]), phases=2) == CampaignState(phase=phase, step=step)


def test_the_order_in_which_they_are_read_does_not_matter():
    assert standing(reversed(taken(*WHOLE[:5])), phases=2) == CampaignState(phase=1, step="answer")


def test_more_phases_than_were_trained_are_still_to_come():
    assert standing(taken(*WHOLE), phases=3) == CampaignState(phase=2, step="ask")
