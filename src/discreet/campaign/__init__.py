"""The durable loop. So far: when a campaign stops, and what it claims then."""

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

__all__ = [
    "AllOf",
    "AnyOf",
    "Labels",
    "Never",
    "Phases",
    "Plateau",
    "Progress",
    "Rule",
    "SpentBudget",
    "Stop",
    "check_stop",
    "progress_of",
]
