"""Active learning on data that must stay private."""

from typing import TYPE_CHECKING, Any

from discreet._version import __version__
from discreet.api import create_campaign, create_ledger, load_campaign, open_ledger, plan
from discreet.errors import BadInput, BudgetExceeded, DiscreetError, InfeasiblePlan
from discreet.privacy.budget import Budget
from discreet.privacy.plan import Plan

if TYPE_CHECKING:
    from discreet.classifier import DPClassifier

__all__ = [
    "BadInput",
    "Budget",
    "BudgetExceeded",
    "DPClassifier",
    "DiscreetError",
    "InfeasiblePlan",
    "Plan",
    "__version__",
    "create_campaign",
    "create_ledger",
    "load_campaign",
    "open_ledger",
    "plan",
]


def __getattr__(name: str) -> Any:
    """`DPClassifier` brings scikit-learn with it, so it is imported when it is asked for."""
    if name == "DPClassifier":
        from discreet.classifier import DPClassifier

        return DPClassifier
    raise AttributeError(f"module 'discreet' has no attribute {name!r}")
