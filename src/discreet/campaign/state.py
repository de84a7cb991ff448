"""The state of a campaign: the step that comes next, and what of it is public.

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
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal

from discreet.noise import Source
from discreet.parts import third_party_parts
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger.terms import Terms
from discreet.privacy.selection_terms import TIME_COVERED, TIME_NOT_COVERED, due_phases
from discreet.storage import CampaignStore, Transition

Step = Literal["ask", "answer", "train", "done"]
PublicStep = Literal[Step, "planned"]
"""*planned*: what the public sees of a hidden selection until its last phase is released."""
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


def standing(transitions: Iterable[Transition], phases: int) -> CampaignState:
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
        now = standing(steps, phases)
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
    parts, features = third_party_parts(store.config.get("config", {})), store.config.get("features")
    if releases is not None and through is not None and through >= releases.released:
        with ledger_of(store) as full:
            return with_parts(certify(full.before(through + 1)), parts, features)
    return with_parts(certify(ledger, on_time=releases is not None and releases.on_time), parts, features)
