"""The durable loop: ask, tell, train; when it stops, and what it claims then."""

from discreet.campaign.campaign import Campaign
from discreet.campaign.recipe import Chosen, Desk, Recipe, Trained
from discreet.campaign.replanning import Proposal, Wish
from discreet.campaign.standing import Standing, standing
from discreet.campaign.stopping import (
    AllOf,
    AnyOf,
    Labels,
    Never,
    Phases,
    Plateau,
    Rule,
    SpentBudget,
)
from discreet.campaign.stopping_progress import Progress
from discreet.campaign.stopping_record import Stop, check_stop, progress_of
from discreet.campaign.withdrawing import Withdrawal

__all__ = [
    "AllOf",
    "AnyOf",
    "Campaign",
    "Chosen",
    "Desk",
    "Labels",
    "Never",
    "Phases",
    "Plateau",
    "Progress",
    "Proposal",
    "Recipe",
    "Rule",
    "SpentBudget",
    "Standing",
    "Stop",
    "Trained",
    "Wish",
    "Withdrawal",
    "check_stop",
    "progress_of",
    "standing",
]
