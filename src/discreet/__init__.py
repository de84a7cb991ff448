"""Active learning on data that must stay private."""

from discreet._version import __version__
from discreet.api import create_ledger, open_ledger, plan
from discreet.errors import BadInput, BudgetExceeded, DiscreetError, InfeasiblePlan
from discreet.privacy.budget import Budget
from discreet.privacy.plan import Plan

__all__ = [
    "BadInput",
    "Budget",
    "BudgetExceeded",
    "DiscreetError",
    "InfeasiblePlan",
    "Plan",
    "__version__",
    "create_ledger",
    "open_ledger",
    "plan",
]
