"""What the owner's pages show, gathered once a view: the budget, the phases, people, answers, and what comes next.

Budget, phases and what the next step costs are public (they come from the plan, the ledger and the recorded steps);
counts of answers, days, agreement and names are the owner's. The claims of paths are computed once for the terms of a
ledger, for that may take seconds; everything else is read anew. Audience: owner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet.campaign import Campaign
from discreet.campaign.releases import owner_state
from discreet.campaign.sealed_steps import ledger_of, step_begun
from discreet.campaign.standing import Standing
from discreet.campaign.status import Status
from discreet.campaign.told import IMPORTED
from discreet.oracles.agreement import Agreement, agreement_of
from discreet.privacy.ledger.terms import Terms
from discreet.records import PERSON, Answer, Exposure
from discreet.report.campaign_report import PathMeter, PhaseReport
from discreet.report.forecast import Forecast, claims_of, forecast_of
from discreet.report.gathering import meters_of, phases_of
from discreet.web.owner_figures import DayFigure, day_figure

_claims: dict[tuple[str, str, int], dict[str, float]] = {}


@dataclass(frozen=True, kw_only=True)
class Person:
    """Somebody who is known here, or who answered. ``role``: empty for who answered without an account."""

    name: str
    role: str
    active: bool
    shown: int
    answered: int
    skipped: int

    @property
    def waiting(self) -> int:
        """Questions that they were shown and have not answered."""
        return max(0, self.shown - self.answered - self.skipped)


@dataclass(frozen=True, kw_only=True)
class Board:
    """A campaign as its owner sees it. ``changed``: questions that are passed over, because of their records."""

    status: Status
    unit: str
    begun: bool
    meters: tuple[PathMeter, ...]
    phases: tuple[PhaseReport, ...]
    forecast: Forecast | None
    open_now: int
    planned_now: int
    days: DayFigure
    agreement: Agreement
    people: tuple[Person, ...]
    changed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The owner's status, for programs."""
        said = self.agreement
        return self.status.to_json() | {
            "paths": [one.to_json() for one in self.meters],
            "next": None if self.forecast is None else self.forecast.to_json(),
            "open_in_phase": self.open_now,
            "changed": list(self.changed),
            "answers_per_day": {day.isoformat(): count for day, count in self.days.days if count},
            "agreement": {
                "questions": said.questions,
                "raw": said.raw,
                "kappa": said.kappa,
                "pairs": [
                    {"annotators": [one.first, one.second], "questions": one.questions, "raw": one.raw}
                    | {"kappa": one.kappa}
                    for one in said.pairs
                ],
            },
            "people": [
                {"name": one.name, "role": one.role or None, "active": one.active, "shown": one.shown}
                | {"answered": one.answered, "skipped": one.skipped, "waiting": one.waiting}
                for one in self.people
            ],
        }


def board_of(campaign: Campaign, *, changed: Sequence[str] = ()) -> Board:
    """Gathered now. ``changed``: `Campaign.changed_in_queues`, which reads the pool."""
    store, now = campaign.store, campaign.standing
    with ledger_of(store) as ledger:
        claims, budget = _claims_of(campaign, ledger.id, ledger.terms, len(ledger.amendments)), ledger.terms.budget
        meters = meters_of(ledger, claims)
    answers = store.answers()
    people = [one for one in answers if one.annotator != IMPORTED]
    return Board(
        status=campaign.status("owner"),
        unit=budget.unit,
        begun=step_begun(store, now),
        meters=meters,
        phases=phases_of(campaign, owner_state(store, campaign.recipe.phases)),
        forecast=forecast_of(campaign, claims),
        open_now=open_in(campaign, now),
        planned_now=campaign.recipe.labels_planned(now.phase),
        days=day_figure(one.at for one in people if one.at is not None),
        agreement=agreement_of(people),
        people=_people(campaign, people, store.exposures()),
        changed=tuple(changed),
    )


def forecast_now(campaign: Campaign) -> Forecast | None:
    """What the next step would charge."""
    with ledger_of(campaign.store) as ledger:
        claims = _claims_of(campaign, ledger.id, ledger.terms, len(ledger.amendments))
    return forecast_of(campaign, claims)


def open_in(campaign: Campaign, now: Standing) -> int:
    """Questions of the phase in which the campaign stands that wait for an answer."""
    return sum(question.phase == now.phase for question in campaign.open())


def _claims_of(campaign: Campaign, ledger: str, terms: Terms, amended: int) -> dict[str, float]:
    key = (ledger, terms.plan, amended)
    if key not in _claims:
        _claims[key] = claims_of(campaign, terms)
    return _claims[key]


def _people(campaign: Campaign, answers: Sequence[Answer], exposures: Sequence[Exposure]) -> tuple[Person, ...]:
    shown = Counter(one.audience for one in exposures if one.kind == PERSON)
    said = Counter(one.annotator for one in answers if one.value is not None)
    skipped = Counter(one.annotator for one in answers if one.value is None)
    known = {one.name: one for one in campaign.store.users.everybody()}
    names = sorted({*known, *shown, *said, *skipped} - {IMPORTED})
    return tuple(
        Person(
            name=name or "(no name)",
            role=known[name].role if name in known else "",
            active=name in known and known[name].active,
            shown=shown[name],
            answered=said[name],
            skipped=skipped[name],
        )
        for name in names
    )
