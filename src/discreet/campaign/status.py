"""What a campaign says of itself. Each audience sees its own: the world what is public or paid for, the owner all.

Guarantee: under hidden selection the public status depends on the plan, on what was released, and on today's date, as
long as no phase is late (`discreet.campaign.releases`): not on which step is taken now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, get_args

from discreet.campaign.releases import Releases, owner_state, public_state
from discreet.campaign.replanning import replannings
from discreet.campaign.standing import PUBLISHED, PublicStep
from discreet.campaign.view import CampaignView, evaluations_of, gauge_of
from discreet.errors import BadInput
from discreet.privacy.exact import json_number
from discreet.storage import Transition

FORMAT = "discreet.status/1"
Audience = Literal["world", "owner"]


@dataclass(frozen=True, kw_only=True)
class Status:
    """Audience: as it says.

    asked          labels asked for so far, as planned; the number that fell by chance is the owner's
    spent          the gauge of the path that spent most; what is promised is ``epsilon``, however much is spent
    evaluations    by phase, public or paid for
    answers        owner: asked, answered, skipped and open questions; withdrawn records, if there are any
    mode           of the claim: committed, or adaptive after a re-planning
    releases       of a hidden selection: which phases are public, and when the others will be
    replanned      every re-planning: from which phase on, why, and what was promised before and after
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
            "evaluations": {str(phase): found for phase, found in self.evaluations.items()},
        }
        if self.releases is not None:
            form["releases"] = self.releases.to_json()
        if self.replanned:
            form["replanned"] = list(self.replanned)
        if self.imported is not None:
            form["labels_imported"] = self.imported
        return form if self.answers is None else form | {"answers": self.answers}


def status_of(campaign: CampaignView, audience: Audience = "world") -> Status:
    """Where a campaign stands, for an audience."""
    if audience not in get_args(Audience):
        raise BadInput(f"a status for {audience}", "there is no such audience", "Choose world or owner")
    recipe = campaign.recipe
    seen = (public_state if audience == "world" else owner_state)(campaign.store, recipe.phases)
    asked = [one for one in seen.steps if one.kind == PUBLISHED]
    ledger = gauge_of(seen.ledger)
    return Status(
        name=campaign.name,
        audience=audience,
        simulation=campaign.simulation,
        private=all(one.facts.get("private", True) for one in asked),
        phase=seen.phase,
        phases=recipe.phases,
        step=seen.step,
        planned=sum(recipe.labels_planned(phase) for phase in range(recipe.phases)),
        asked=sum(recipe.labels_planned(one.phase) for one in asked),
        epsilon=ledger.epsilon,
        delta=ledger.delta,
        spent=ledger.spent,
        evaluations=dict(evaluations_of(seen.steps)),
        answers=_answers(campaign) if audience == "owner" else None,
        mode=ledger.mode,
        replanned=tuple(replanned_form(one) for one in replannings(seen.steps)),
        releases=seen.releases,
        imported=next((one.facts["chosen"] for one in asked if "chosen" in one.facts), None),
    )


def replanned_form(one: Transition) -> dict[str, Any]:
    """Public: what was wished for, and the promise before and after."""
    promises = {name: {key: one.facts["figures"][name][key] for key in ("mode", "epsilon", "delta")} for name in _SIDES}
    return {"phase": one.phase, "because": one.facts["wish"]["because"], "note": one.facts["wish"]["note"], **promises}


_SIDES = ("before", "after")


def replanned_words(one: Mapping[str, Any]) -> str:
    """A re-planning in words."""
    note = f" ({one['note']})" if one["note"] else ""
    old, new = (f"epsilon {one[side]['epsilon']} at delta {one[side]['delta']}" for side in _SIDES)
    return f"replanned from phase {one['phase']} on, because: {one['because']}{note}; {new}, was {old}"


def _answers(campaign: CampaignView) -> dict[str, int]:
    labels, questions = campaign.labels(), campaign.store.questions()
    open_now = {question.id for question in campaign.open()}
    closed = [question for question in questions if question.id not in open_now]
    gone = campaign.withdrawn_questions()
    found = {
        "asked": len(questions),
        "labelled": len(labels),
        "skipped": sum(question.record not in labels and question.id not in gone for question in closed),
        "open": len(open_now),
    }
    withdrawn = len(campaign.store.withdrawn())  # of the whole pool, asked or not
    return found | ({"withdrawn": withdrawn} if withdrawn else {})
