"""The state of a campaign: the step that comes next, and what of it each audience sees.

    ask -> answer -> train -> ask (of the next phase) ... -> done

*ask*: nobody was asked in this phase yet. *answer*: its questions are published. *train*: its labels were fixed and
training began; it is finished, or resumed after a crash, before anything else. A phase ends when its model is stored.
The state is a function of the recorded steps alone.

Hidden selection: how long labelling takes tells how many were asked (docs/proofs/hidden-selection.md). So public
outputs never follow the work. With planned release dates a phase becomes public at the start of its date, however early
it was trained. Without dates nothing is public until the last phase is trained, and the certificate says that time is
not covered. A phase that is trained on its date or later is late: it becomes public when it is trained, and the
certificate says so from then on. Training times are in the store, so a late phase stays late. Campaigns whose asked
sets are public show every step as it is taken.

Status
------
Where a campaign stands, by audience: steps, budget, evaluations, re-plannings. Under hidden selection the public status
depends on the plan, on what was released, and on today's date, as long as no phase is late: not on which step is taken
now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal, get_args

from discreet.campaign.recipe import Recipe, replannings
from discreet.errors import BadInput
from discreet.noise import Source
from discreet.parts import third_party_parts
from discreet.privacy.budget import json_number
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger.terms import Mode, Terms
from discreet.privacy.selection_terms import TIME_COVERED, TIME_NOT_COVERED, due_phases
from discreet.storage import CampaignStore, Transition

Step = Literal["ask", "answer", "train", "done"]
PublicStep = Literal[Step, "planned"]
"""*planned*: what the public sees of a hidden selection until its last phase is released."""
QUANTILES = "quantiles"
"""What the first query released beside its questions: noisy histograms. Also the purpose of their charge."""
CREATED, PUBLISHED, TRAINING, TRAINED = "created", "published", "training", "trained"
ANSWERED = "answered"
"""Of recipes whose answers come from the recipe itself, for a price: all questions of a phase have theirs."""
RELEASED = "released"
"""Of recipes whose gate lets a closed batch out before anybody is asked."""


@dataclass(frozen=True, kw_only=True)
class CampaignState:
    """The phase, and the step that comes next in it. Audience: public."""

    phase: int
    step: Step


def campaign_state(transitions: Iterable[Transition], phases: int) -> CampaignState:
    """Where a campaign of so many ``phases`` stands."""
    taken = {(step.kind, step.phase) for step in transitions}
    for phase in range(phases):
        if (TRAINED, phase) in taken:
            continue
        if (TRAINING, phase) in taken:
            return CampaignState(phase=phase, step="train")
        return CampaignState(phase=phase, step="answer" if (PUBLISHED, phase) in taken else "ask")
    return CampaignState(phase=phases - 1, step="done")


def ledger_of(store: CampaignStore, source: Source | None = None) -> Ledger:
    """The ledger of a campaign, to be closed; to be drawn on, with a source of randomness."""
    return Ledger.open(store.sink(), source=source)


@dataclass(frozen=True, kw_only=True)
class Releases:
    """Of a hidden selection. Audience: public.

    phases     how many there are
    released   how many of them are public: phases 0 to ``released`` - 1
    dates      planned, one a phase; or none
    on_time    whether every phase that was due is released, on its date
    """

    phases: int
    released: int
    dates: tuple[date, ...]
    on_time: bool

    @property
    def done(self) -> bool:
        """Whether the last phase is public."""
        return self.released == self.phases

    @property
    def time(self) -> str:
        """What the certificate says about time."""
        return TIME_COVERED if self.on_time else TIME_NOT_COVERED

    @property
    def next(self) -> str:
        """The next release, in words."""
        if self.done:
            return "all phases are released"
        if not self.dates:
            return "phases are released when the last one is trained; no dates are planned"
        planned = self.dates[self.released].isoformat()
        return f"phase {self.released} is released on {planned}" if self.on_time else "a phase is late"

    def to_json(self) -> dict[str, Any]:
        """For ``--json`` and reports."""
        return {"released": self.released, "dates": [day.isoformat() for day in self.dates], "time": self.time}


def today() -> date:
    """The day, in UTC."""
    return datetime.now(UTC).date()


def releases_of(terms: Terms, steps: Sequence[Transition]) -> Releases | None:
    """What is public under ``terms`` after ``steps``; None where asked sets are public, and every step is."""
    if not terms.overflow:
        return None
    trained = {step.phase: step.at.astimezone(UTC).date() for step in steps if step.kind == TRAINED}
    if not terms.releases:
        complete = len(trained) == terms.phases
        return Releases(phases=terms.phases, released=terms.phases if complete else 0, dates=(), on_time=False)
    due = due_phases(terms.releases, today())
    late = [phase for phase in range(due) if phase not in trained or trained[phase] >= terms.releases[phase]]
    released = next((phase for phase in range(due) if phase not in trained), due)
    return Releases(phases=terms.phases, released=released, dates=terms.releases, on_time=not late)


@dataclass(frozen=True, kw_only=True)
class SeenState:
    """What an audience sees of a campaign: where it stands, the steps that were taken, and the ledger, closed."""

    phase: int
    step: PublicStep
    steps: list[Transition]
    ledger: Ledger
    releases: Releases | None


def owner_state(store: CampaignStore, phases: int) -> SeenState:
    """All of it. Audience: owner; public where asked sets are."""
    with ledger_of(store) as ledger:
        steps = store.transitions()
        now = campaign_state(steps, phases)
        releases = releases_of(ledger.terms, steps)
        return SeenState(phase=now.phase, step=now.step, steps=steps, ledger=ledger, releases=releases)


def public_state(store: CampaignStore, phases: int) -> SeenState:
    """Under hidden selection, what was released. Audience: public."""
    state = owner_state(store, phases)
    if (releases := state.releases) is None:
        return state
    return SeenState(
        phase=min(releases.released, phases - 1),
        step="done" if releases.done else "planned",
        steps=[step for step in state.steps if step.phase < releases.released],
        ledger=state.ledger.before(releases.released),
        releases=releases,
    )


def public_ledger(store: CampaignStore) -> tuple[Ledger, Releases | None]:
    """The ledger of a campaign as far as it is public, closed."""
    with ledger_of(store) as ledger:
        releases = releases_of(ledger.terms, store.transitions())
        return ledger if releases is None else ledger.before(releases.released), releases


def public_certificate(store: CampaignStore, *, through: int | None = None) -> dict[str, Any]:
    """What a campaign guarantees, for anybody to check. Audience: public.

    ``through``: of a hidden selection, at least the entries of this phase and those before it, for its model.
    """
    from discreet.privacy.certificate import certify, with_parts

    ledger, releases = public_ledger(store)
    parts, steps = third_party_parts(store.config.get("config", {})), store.transitions()
    if releases is not None and through is not None and through >= releases.released:
        with ledger_of(store) as full:
            return with_parts(certify(full.before(through + 1)), parts, _features_of(store, steps))
    public = steps if releases is None else [step for step in steps if step.phase < releases.released]
    features = _features_of(store, public)
    return with_parts(certify(ledger, on_time=releases is not None and releases.on_time), parts, features)


def released_features(steps: Iterable[Transition]) -> Any:
    """The identity of the feature map whose edges the first query found, for a price; None: it found none."""
    return next((step.facts["features"] for step in steps if step.kind == PUBLISHED and "features" in step.facts), None)


def released_quantiles(steps: Iterable[Transition]) -> Any:
    """The noisy counts of which those edges were made, and the event that paid for them; None without them."""
    return next((step.facts[QUANTILES] for step in steps if step.kind == PUBLISHED and QUANTILES in step.facts), None)


def _features_of(store: CampaignStore, steps: Sequence[Transition]) -> Any:
    """The identity of the map that a model of ``steps`` reads; None without one, or as long as its edges are not
    known.
    """
    declared = (store.config.get("config") or {}).get("features") or {}
    if declared.get("quantiles_epsilon") is None:
        return store.config.get("features")
    identity = released_features(steps)
    return identity and identity | {"quantiles": released_quantiles(steps)["event"]}


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
    quantiles      what every record of the pool paid for the edges of features, where they are private quantiles
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
    quantiles: str | None = None
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
        if self.quantiles is not None:
            form["quantiles_epsilon"] = self.quantiles
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
        quantiles=(released_quantiles(asked) or {"event": {"epsilon": None}})["event"]["epsilon"],
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
