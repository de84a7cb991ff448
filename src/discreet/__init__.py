"""Active learning on data that must stay private."""

from typing import TYPE_CHECKING, Any

from discreet._version import __version__
from discreet.api import create_campaign, create_ledger, export_model, load_campaign, load_model, open_ledger, plan
from discreet.errors import BadInput, BudgetExceeded, DiscreetError, InfeasiblePlan
from discreet.privacy.budget import Budget
from discreet.privacy.plan import Plan

if TYPE_CHECKING:
    from discreet.classifier import DPClassifier
    from discreet.tuning import tune

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
    "export_model",
    "load_campaign",
    "load_model",
    "open_ledger",
    "plan",
    "tune",
]


def __getattr__(name: str) -> Any:
    """`DPClassifier` and `tune` bring scikit-learn with them, so they are imported when they are asked for."""
    if name == "DPClassifier":
        from discreet.classifier import DPClassifier

        return DPClassifier
    if name == "tune":
        from discreet.tuning import tune

        return tune
    raise AttributeError(f"module 'discreet' has no attribute {name!r}")
