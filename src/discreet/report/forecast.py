"""What the next step of a campaign would charge every path, computed from the plan: nothing is charged, nothing drawn.

The lines that the ledger is still committed to in this phase are charged to a copy of it in memory, and its gauges are
read before and after. What was charged before a crash is not charged again, so a step that goes on costs nothing.

Audience: public. A plan is public, and so is how far it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from discreet.campaign import Campaign, CampaignState
from discreet.errors import BudgetExceeded
from discreet.privacy.budget import json_number
from discreet.privacy.events import PoissonSampledGaussian
from discreet.privacy.ledger import ChargeReason, Ledger, Line, MemorySink, Terms
from discreet.privacy.ledger.plan_terms import HELD_OUT
from discreet.privacy.trajectories import cost_of
from discreet.recipes.specification import spec_of_campaign
from discreet.report.campaign_report import PathMeter
from discreet.report.report_data import meters_of, plan_of

Part = Literal["ask", "train"]
PARTS: tuple[Part, ...] = ("ask", "train")


@dataclass(frozen=True, kw_only=True)
class PathCost:
    """One path: what its gauge reads now, after the query of this phase, and after its training."""

    name: str
    now: Decimal
    asked: Decimal
    trained: Decimal

    def after(self, part: Part) -> Decimal:
        """What the gauge reads when the query, or the training, is charged."""
        return self.asked if part == "ask" else self.trained


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is left to be charged in ``phase``. ``refused``: why the ledger would not take it, or empty."""

    phase: int
    paths: tuple[PathCost, ...]
    charges: Mapping[Part, int]
    refused: str = ""

    def free(self, part: Part) -> bool:
        """Whether nothing is left to be charged for a part."""
        return not self.charges[part]

    def to_json(self) -> dict[str, Any]:
        """Numbers."""
        paths = [
            {
                name: json_number(value)
                for name, value in (("now", path.now), ("asked", path.asked), ("trained", path.trained))
            }
            | {"path": path.name}
            for path in self.paths
        ]
        return {"phase": self.phase, "charges": dict(self.charges), "paths": paths, "refused": self.refused or None}


def claims_of(campaign: Campaign, terms: Terms) -> dict[str, float]:
    """What every path will have cost by the ledger's accountant, where that is committed: as the plan was certified
    with, or else computed here, which takes a moment.
    """
    if not terms.lines:
        return {}
    plan, claims = plan_of(campaign), dict[str, float]()
    for path in plan.trajectories if plan is not None else ():
        claim = path.epsilon_pld if terms.accountant == "pld" else path.epsilon_rdp
        if claim is not None:
            claims[path.name] = claim
    left = [path for path in terms.trajectories() if path.name not in claims]
    return claims | {
        path.name: float(cost_of(path, terms.accounted, by_pld=terms.accountant == "pld")) for path in left
    }


def forecast_of(campaign: Campaign, claims: Mapping[str, float]) -> Forecast | None:
    """Of the phase in which the campaign stands; None when it is over. ``claims``: see `claims_of`."""
    now = campaign.state
    if now.step == "done":
        return None
    lines = [bytes(line) for line in campaign.store.sink().read()]
    with Ledger.open(MemorySink(lines)) as scratch:
        parts = _left(campaign, scratch, now)
        gauges: list[tuple[PathMeter, ...]] = [meters_of(scratch, claims)]
        refused = ""
        for part in PARTS:
            try:
                for line, left in parts[part]:
                    reason = ChargeReason(phase=now.phase, purpose="forecast")
                    scratch.charge(event=line.event, count=left, who=line.who, why=reason)
            except BudgetExceeded as problem:
                refused = refused or str(problem)
            gauges.append(meters_of(scratch, claims))
    return Forecast(
        phase=now.phase,
        paths=tuple(
            PathCost(name=first.name, now=first.spent, asked=second.spent, trained=third.spent)
            for first, second, third in zip(*gauges, strict=True)
        ),
        charges={part: len(parts[part]) for part in PARTS},
        refused=refused,
    )


def _left(campaign: Campaign, ledger: Ledger, now: CampaignState) -> dict[Part, list[tuple[Line, int]]]:
    """What is left to be charged in this phase, by the step that charges it."""
    parts: dict[Part, list[tuple[Line, int]]] = {"ask": [], "train": []}
    for line, left in _committed(campaign, ledger, now.phase):
        if not left:
            continue
        trains = isinstance(line.event, PoissonSampledGaussian) or line.who == HELD_OUT
        parts["train" if now.step != "ask" or trains else "ask"].append((line, left))
    return parts


def _committed(campaign: Campaign, ledger: Ledger, phase: int) -> Iterable[tuple[Line, int]]:
    if ledger.terms.lines:
        return [(line, left) for line, left in ledger.lines_left() if line.phase == phase]
    # re-planned: the ledger lists nothing, the plan does
    charged = Counter(
        {(charge.who, charge.event): charge.count for charge in ledger.charged() if charge.phase == phase}
    )
    planned = [line for line in spec_of_campaign(campaign).planned_lines(campaign.recipe, phase) if line.phase == phase]
    return [(line, max(0, line.count - charged[line.who, line.event])) for line in planned]
