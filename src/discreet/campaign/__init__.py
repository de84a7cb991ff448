"""The durable loop: ask, tell, train; when it stops, and what it claims then."""

from discreet.campaign.campaign import Campaign
from discreet.campaign.recipe import Chosen, PhaseContext, Proposal, Recipe, ReplanRequest, Trained
from discreet.campaign.state import CampaignState, campaign_state
from discreet.campaign.stopping_rules import (
    AllOf,
    AnyOf,
    Labels,
    Never,
    Phases,
    Plateau,
    Progress,
    Rule,
    SpentBudget,
    Stop,
    check_stop,
    progress_of,
)
from discreet.campaign.withdrawal import Withdrawal

__all__ = [
    "AllOf",
    "AnyOf",
    "Campaign",
    "CampaignState",
    "Chosen",
    "Labels",
    "Never",
    "PhaseContext",
    "Phases",
    "Plateau",
    "Progress",
    "Proposal",
    "Recipe",
    "ReplanRequest",
    "Rule",
    "SpentBudget",
    "Stop",
    "Trained",
    "Withdrawal",
    "campaign_state",
    "check_stop",
    "progress_of",
]
