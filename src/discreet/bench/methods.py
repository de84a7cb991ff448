"""How records are chosen, and how that is paid for.

free        random; or exact, which is not private: both train with the whole budget
paper       the DP-AL paper's price: every query costs selection_epsilon / T, and training gets the rest; k-centre reads
            labelled records too, so there everybody pays all queries
one-sided   our price (docs/proofs/one-sided-selection.md): asked once, caps on misses, thresholds
hidden      asked sets are not released (docs/proofs/hidden-selection.md): only threshold_epsilon is paid, a query, and
            cohorts are padded
authors     the same selection in a plan by the authors' own code (`authors_rules`), which may pass its budget: **not
            certified** at what was asked for, only priced at what it costs
apart       mechanisms that a plan has no lines for (Gaussian, exponential): a ledger of their own for
            selection_epsilon and half of delta, and a plan for the rest; the two claims add up
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Literal

from discreet.errors import BadInput
from discreet.privacy.plan import Schedule

Pricing = Literal["free", "paper", "authors", "one-sided", "hidden", "apart"]
PRICING: dict[str, Pricing] = {
    "random": "free",
    "exact": "free",
    "exact-k-centre": "free",
    "laplace": "paper",
    "clipped-laplace": "paper",
    "authors-laplace": "authors",
    "gaussian": "apart",
    "subsampled-gaussian": "apart",
    "exponential": "apart",
    "k-centre": "paper",
    "threshold-response": "one-sided",
    "hidden-threshold": "hidden",
}
_LATER = {"score": "", "schedule": "step-amplification", "passive": False}
"""Settings that came later: left out where they are as they always were, so that older results keep their names."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """``selection_epsilon``: what selection may cost on the worst path, thresholds included; 0 for hidden ones, which
    cost ``threshold_epsilon`` a query.

    strict      caps keep every path's selection within it; otherwise a record that is never asked may lose more, since
                it never trains
    above       the share of the pool that shall be above the threshold; None: what makes the mean score highest
    score       what is worth asking; empty: the problem's
    schedule    how later records catch up with earlier ones
    passive     no queries: as many records, drawn at random, are labelled before training begins
    """

    name: str
    mechanism: str
    selection_epsilon: str = "0"
    threshold_epsilon: str = "0"
    individual_rates: bool = False
    strict: bool = False
    above: float | None = None
    score: str = ""
    schedule: Schedule = "step-amplification"
    passive: bool = False

    def __post_init__(self) -> None:
        if self.mechanism not in PRICING:
            raise BadInput(f"the method {self.mechanism}", "there is none", f"Choose one of {', '.join(PRICING)}")
        if (self.pricing in ("free", "hidden")) != (Decimal(self.selection_epsilon) == 0):
            raise BadInput(f"the method {self.name}", "its selection is free or paid for, not both", "Set its epsilon")
        if self.passive and self.mechanism != "random":
            raise BadInput(f"the method {self.name}", "without queries nothing is chosen", "Let it be random")

    @property
    def pricing(self) -> Pricing:
        """How it is paid for."""
        return PRICING[self.mechanism]

    def settings(self) -> dict[str, Any]:
        """All that distinguishes it from another."""
        return {name: value for name, value in asdict(self).items() if name not in _LATER or value != _LATER[name]}

    @property
    def certified(self) -> bool:
        """Whether its plan is made to keep the budget; the authors' is not, and claims what it turns out to cost."""
        return self.pricing != "authors"

    @property
    def private(self) -> bool:
        """Whether what it asks may be shown, for its price."""
        return self.mechanism not in ("exact", "exact-k-centre")
