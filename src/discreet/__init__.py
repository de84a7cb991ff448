"""Active learning on data that must stay private."""

from typing import TYPE_CHECKING

from discreet._version import __version__
from discreet.lazy_imports import lazy_names

if TYPE_CHECKING:
    from discreet.api import create_campaign, create_ledger, export_model, load_campaign, load_model, open_ledger, plan
    from discreet.classifier import DPClassifier
    from discreet.errors import BadInput, BudgetExceeded, DiscreetError, InfeasiblePlan
    from discreet.privacy.budget import Budget
    from discreet.privacy.plan import Plan
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
_API = ("create_campaign", "create_ledger", "export_model", "load_campaign", "load_model", "open_ledger", "plan")
_ERRORS = ("BadInput", "BudgetExceeded", "DiscreetError", "InfeasiblePlan")
__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(_API, "discreet.api"),
        **dict.fromkeys(_ERRORS, "discreet.errors"),
        "Budget": "discreet.privacy.budget",
        "DPClassifier": "discreet.classifier",
        "Plan": "discreet.privacy.plan",
        "tune": "discreet.tuning",
    },
)
