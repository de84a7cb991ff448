"""How records are chosen, and how that is paid for.

free        random; or exact, which is not private: both train with the whole budget
paper       the DP-AL paper's price: every query costs selection_epsilon / T, and training gets the rest
one-sided   our price (docs/proofs/one-sided-selection.md): asked once, caps on misses, thresholds
hidden      asked sets are not released (docs/proofs/hidden-selection.md): only threshold_epsilon is paid, a query, and
            cohorts are padded
apart       mechanisms that a plan has no lines for (Gaussian, exponential): a ledger of their own for
            selection_epsilon and half of delta, and a plan for the rest; the two claims add up
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Literal

from discreet.errors import BadInput

Pricing = Literal["free", "paper", "one-sided", "hidden", "apart"]
PRICING: dict[str, Pricing] = {
    "random": "free",
    "exact": "free",
    "laplace": "paper",
    "clipped-laplace": "paper",
    "gaussian": "apart",
    "subsampled-gaussian": "apart",
    "exponential": "apart",
    "threshold-response": "one-sided",
    "hidden-threshold": "hidden",
}


@dataclass(frozen=True, kw_only=True)
class Method:
    """``selection_epsilon``: what selection may cost on the worst path, thresholds included; 0 for hidden ones, which
    cost ``threshold_epsilon`` a query.

    strict      caps keep every path's selection within it; otherwise a record that is never asked may lose more, since
                it never trains
    above       the share of the pool that shall be above the threshold; None: what makes the mean score highest
    """

    name: str
    mechanism: str
    selection_epsilon: str = "0"
    threshold_epsilon: str = "0"
    individual_rates: bool = False
    strict: bool = False
    above: float | None = None

    def __post_init__(self) -> None:
        if self.mechanism not in PRICING:
            raise BadInput(f"the method {self.mechanism}", "there is none", f"Choose one of {', '.join(PRICING)}")
        if (self.pricing in ("free", "hidden")) != (Decimal(self.selection_epsilon) == 0):
            raise BadInput(f"the method {self.name}", "its selection is free or paid for, not both", "Set its epsilon")

    @property
    def pricing(self) -> Pricing:
        """How it is paid for."""
        return PRICING[self.mechanism]

    def settings(self) -> dict[str, Any]:
        """All that distinguishes it from another."""
        return asdict(self)
