"""What of a campaign with hidden selection is public now: phases that were released, as planned.

How long labelling takes tells how many were asked (docs/proofs/hidden-selection.md). So public outputs never follow the
work. With planned release dates a phase becomes public at the start of its date, however early it was trained; without
them nothing does until the last phase is trained, and the certificate says that time is not covered. A phase that is
trained on its date or later is late: it becomes public when it is trained, and the certificate says the same from then
on. The times of trainings are in the store, so that a late one stays late.

Campaigns whose asked sets are public show their steps as they are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from discreet.campaign.sealed_steps import ledger_of
from discreet.campaign.standing import TRAINED, PublicStep, standing
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger.terms import Terms
from discreet.privacy.release_dates import TIME_COVERED, TIME_NOT_COVERED, due_phases
from discreet.storage import CampaignStore, Transition


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
    trained = {one.phase: one.at.astimezone(UTC).date() for one in steps if one.kind == TRAINED}
    if not terms.releases:
        whole = len(trained) == terms.phases
        return Releases(phases=terms.phases, released=terms.phases if whole else 0, dates=(), on_time=False)
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
        found = releases_of(ledger.terms, steps)
        return SeenState(phase=now.phase, step=now.step, steps=steps, ledger=ledger, releases=found)


def public_state(store: CampaignStore, phases: int) -> SeenState:
    """Under hidden selection, what was released. Audience: public."""
    whole = owner_state(store, phases)
    if (found := whole.releases) is None:
        return whole
    return SeenState(
        phase=min(found.released, phases - 1),
        step="done" if found.done else "planned",
        steps=[one for one in whole.steps if one.phase < found.released],
        ledger=whole.ledger.before(found.released),
        releases=found,
    )


def public_ledger(store: CampaignStore) -> tuple[Ledger, Releases | None]:
    """The ledger of a campaign as far as it is public, closed."""
    with ledger_of(store) as ledger:
        found = releases_of(ledger.terms, store.transitions())
        return ledger if found is None else ledger.before(found.released), found


def public_certificate(store: CampaignStore, *, through: int | None = None) -> dict[str, Any]:
    """What a campaign promises, for anybody to check. Audience: public.

    ``through``: of a hidden selection, at least the entries of this phase and those before it, for its model.
    """
    from discreet.privacy.certificate import certify

    ledger, found = public_ledger(store)
    if found is None:
        return certify(ledger)
    if through is not None and through >= found.released:
        with ledger_of(store) as whole:
            return certify(whole.before(through + 1))
    return certify(ledger, on_time=found.on_time)
