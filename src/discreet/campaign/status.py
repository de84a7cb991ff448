"""Where a campaign stands, by audience: steps, budget, evaluations, re-plannings.

Guarantee: under hidden selection the public status depends on the plan, on what was released, and on today's date, as
long as no phase is late (`discreet.campaign.state`): not on which step is taken now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, get_args

from discreet.campaign.recipe import Recipe, replannings
from discreet.campaign.state import PUBLISHED, TRAINED, PublicStep, Releases, owner_state, public_state
from discreet.errors import BadInput
from discreet.privacy.budget import json_number
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger.terms import Mode
from discreet.storage import CampaignStore, Transition

MODEL = "model"


@dataclass(frozen=True, kw_only=True)
class BudgetUsage:
    """What was guaranteed, and what the path that spent most has spent of it. Audience: public."""

    epsilon: Decimal
    delta: Decimal
    spent: Decimal
    mode: Mode = "committed"


def budget_usage_of(ledger: Ledger) -> BudgetUsage:
    """How much of its budget a ledger has spent."""
    budget, spent = ledger.terms.budget, max(total.epsilon for total in ledger.totals())
    # the odometer reads RDP, which is loose; the whole plan is certified within the budget
    spent, mode = min(spent, budget.epsilon), ledger.terms.mode
    return BudgetUsage(epsilon=budget.epsilon, delta=budget.delta, spent=spent, mode=mode)


def evaluations_of(transitions: list[Transition]) -> Mapping[int, Mapping[str, Any]]:
    """What was measured and paid for, or is public, by phase. Audience: public."""
    return {
        step.phase: step.facts["evaluation"]
        for step in transitions
        if step.kind == TRAINED and step.facts["evaluation"]
    }


FORMAT = "discreet.status/1"
Audience = Literal["public", "owner"]


@dataclass(frozen=True, kw_only=True)
class Status:
    """Audience: as it says.

    asked          labels asked for so far, as planned; the number that fell by chance is the owner's
    spent          the gauge of the path that spent most; what is guaranteed is ``epsilon``, however much is spent
    evaluations    by phase, public or paid for
    answers        owner: asked, answered, skipped and open questions; withdrawn records, if there are any
    mode           of the claim: committed, or adaptive after a re-planning
    releases       of a hidden selection: which phases are public, and when the others will be
    replanned      every re-planning: from which phase on, why, and what was guaranteed before and after
    imported       how the records of labels that were there before were chosen, as declared; None: people were asked
    """

    name: str
    audience: Audience
    simulation: bool
    private: bool
    phase: int
    phases: int
    step: PublicStep
    planned: int
    asked: int
    epsilon: Decimal
    delta: Decimal
    spent: Decimal
    evaluations: dict[int, Any] = field(default_factory=dict)
    answers: dict[str, int] | None = None
    imported: str | None = None
    mode: str = "committed"
    replanned: tuple[dict[str, Any], ...] = ()
    releases: Releases | None = None

    def to_json(self) -> dict[str, Any]:
        """For ``--json`` and reports."""
        form = {
            "format": FORMAT,
            "simulation": self.simulation,
            "audience": self.audience,
            "private": self.private,
            "name": self.name,
            "phase": self.phase,
            "phases": self.phases,
            "step": self.step,
            "labels_planned": self.planned,
            "labels_asked": self.asked,
            "budget": {"epsilon": json_number(self.epsilon), "delta": json_number(self.delta)},
            "spent_epsilon": json_number(self.spent),
            "mode": self.mode,
            "evaluations": {str(phase): evaluation for phase, evaluation in self.evaluations.items()},
        }
        if self.releases is not None:
            form["releases"] = self.releases.to_json()
        if self.replanned:
            form["replanned"] = list(self.replanned)
        if self.imported is not None:
            form["labels_imported"] = self.imported
        return form if self.answers is None else form | {"answers": self.answers}


def status_of(
    store: CampaignStore, recipe: Recipe, audience: Audience = "public", answers: Callable[[], dict[str, int]] = dict
) -> Status:
    """Where a campaign stands, for an audience. ``answers``: what the owner sees of them."""
    if audience not in get_args(Audience):
        raise BadInput(f"a status for {audience}", "there is no such audience", "Choose public or owner")
    seen = (public_state if audience == "public" else owner_state)(store, recipe.phases)
    asked = [step for step in seen.steps if step.kind == PUBLISHED]
    usage = budget_usage_of(seen.ledger)
    return Status(
        name=store.name,
        audience=audience,
        simulation=store.simulation,
        private=all(step.facts.get("private", True) for step in asked),
        phase=seen.phase,
        phases=recipe.phases,
        step=seen.step,
        planned=sum(recipe.labels_planned(phase) for phase in range(recipe.phases)),
        asked=sum(recipe.labels_planned(step.phase) for step in asked),
        epsilon=usage.epsilon,
        delta=usage.delta,
        spent=usage.spent,
        evaluations=dict(evaluations_of(seen.steps)),
        answers=answers() if audience == "owner" else None,
        mode=usage.mode,
        replanned=tuple(replanned_form(step) for step in replannings(seen.steps)),
        releases=seen.releases,
        imported=next((step.facts["chosen"] for step in asked if "chosen" in step.facts), None),
    )


def replanned_form(step: Transition) -> dict[str, Any]:
    """Public: what was wished for, and the guarantee before and after."""
    budgets = {name: {key: step.facts["figures"][name][key] for key in ("mode", "epsilon", "delta")} for name in _SIDES}
    return {
        "phase": step.phase,
        "because": step.facts["wish"]["because"],
        "note": step.facts["wish"]["note"],
        **budgets,
    }


_SIDES = ("before", "after")


def replanned_words(form: Mapping[str, Any]) -> str:
    """A re-planning in words."""
    note = f" ({form['note']})" if form["note"] else ""
    old, new = (f"epsilon {form[side]['epsilon']} at delta {form[side]['delta']}" for side in _SIDES)
    return f"replanned from phase {form['phase']} on, because: {form['because']}{note}; {new}, was {old}"
