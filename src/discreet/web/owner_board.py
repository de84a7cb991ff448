"""What the owner's pages show, gathered once a view: the budget, the phases, people, answers, and what comes next.

Budget, phases and what the next step costs are public (they come from the plan, the ledger and the recorded steps);
counts of answers, days, agreement and names are the owner's. The claims of paths are computed once for the terms of a
ledger, for that may take seconds; everything else is read anew. Audience: owner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from discreet.campaign import Campaign
from discreet.campaign.answers import IMPORTED
from discreet.campaign.crash_recovery import step_begun
from discreet.campaign.state import CampaignState, Status, ledger_of, owner_state
from discreet.oracles.answers import Agreement, agreement_of
from discreet.privacy.ledger.terms import Terms
from discreet.records import PERSON, Answer, Exposure
from discreet.report.campaign_report import PathMeter, PhaseReport
from discreet.report.forecast import Forecast, claims_of, forecast_of
from discreet.report.markup import Markup, tag
from discreet.report.report_data import meters_of, phases_of

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
    days: DayFigure
    agreement: Agreement
    people: tuple[Person, ...]
    changed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The owner's status, for programs."""
        agreement = self.agreement
        return self.status.to_json() | {
            "paths": [meter.to_json() for meter in self.meters],
            "next": None if self.forecast is None else self.forecast.to_json(),
            "open_in_phase": self.open_now,
            "changed": list(self.changed),
            "answers_per_day": {day.isoformat(): count for day, count in self.days.days if count},
            "agreement": {
                "questions": agreement.questions,
                "raw": agreement.raw,
                "kappa": agreement.kappa,
                "pairs": [
                    {"annotators": [pair.first, pair.second], "questions": pair.questions, "raw": pair.raw}
                    | {"kappa": pair.kappa}
                    for pair in agreement.pairs
                ],
            },
            "people": [
                {"name": person.name, "role": person.role or None, "active": person.active, "shown": person.shown}
                | {"answered": person.answered, "skipped": person.skipped, "waiting": person.waiting}
                for person in self.people
            ],
        }


def board_of(campaign: Campaign, *, changed: Sequence[str] = ()) -> Board:
    """Gathered now. ``changed``: `Campaign.changed_in_queues`, which reads the pool."""
    store, now = campaign.store, campaign.state
    with ledger_of(store) as ledger:
        claims, budget = _claims_of(campaign, ledger.id, ledger.terms, len(ledger.amendments)), ledger.terms.budget
        meters = meters_of(ledger, claims)
    answers = store.answers()
    people = [answer for answer in answers if answer.annotator != IMPORTED]
    return Board(
        status=campaign.status("owner"),
        unit=budget.unit,
        begun=step_begun(store, now),
        meters=meters,
        phases=phases_of(campaign, owner_state(store, campaign.recipe.phases)),
        forecast=forecast_of(campaign, claims),
        open_now=open_in(campaign, now),
        days=day_figure(answer.at for answer in people if answer.at is not None),
        agreement=agreement_of(people),
        people=_people(campaign, people, store.exposures()),
        changed=tuple(changed),
    )


def forecast_now(campaign: Campaign) -> Forecast | None:
    """What the next step would charge."""
    with ledger_of(campaign.store) as ledger:
        claims = _claims_of(campaign, ledger.id, ledger.terms, len(ledger.amendments))
    return forecast_of(campaign, claims)


def open_in(campaign: Campaign, now: CampaignState) -> int:
    """Questions of the phase in which the campaign stands that wait for an answer."""
    return sum(question.phase == now.phase for question in campaign.open())


def _claims_of(campaign: Campaign, ledger: str, terms: Terms, amended: int) -> dict[str, float]:
    key = (ledger, terms.plan, amended)
    if key not in _claims:
        _claims[key] = claims_of(campaign, terms)
    return _claims[key]


def _people(campaign: Campaign, answers: Sequence[Answer], exposures: Sequence[Exposure]) -> tuple[Person, ...]:
    shown = Counter(exposure.audience for exposure in exposures if exposure.kind == PERSON)
    answered = Counter(answer.annotator for answer in answers if answer.value is not None)
    skipped = Counter(answer.annotator for answer in answers if answer.value is None)
    known = {user.name: user for user in campaign.store.users.everybody()}
    names = sorted({*known, *shown, *answered, *skipped} - {IMPORTED})
    return tuple(
        Person(
            name=name or "(no name)",
            role=known[name].role if name in known else "",
            active=name in known and known[name].active,
            shown=shown[name],
            answered=answered[name],
            skipped=skipped[name],
        )
        for name in names
    )


# -- answers per day


DAYS = 28
_WIDE, _HIGH, _LEFT, _RIGHT, _TOP, _BOTTOM = 640.0, 170.0, 36.0, 6.0, 18.0, 26.0


@dataclass(frozen=True, kw_only=True)
class DayFigure:
    """Answers by day (UTC), the last ``days`` of them without a gap. ``before``: answers that are older."""

    days: tuple[tuple[date, int], ...]
    before: int

    @property
    def most(self) -> int:
        """On one day."""
        return max((count for _, count in self.days), default=0)


def day_figure(times: Iterable[datetime], *, today: date | None = None, most_days: int = DAYS) -> DayFigure:
    """From when answers were given; from the first of them, or as far back as there is room, until ``today``."""
    counts = Counter(time.astimezone(UTC).date() for time in times)
    last = max([today or datetime.now(UTC).date(), *counts])
    first = max(min(counts, default=last), last - timedelta(days=most_days - 1))
    first = min(first, last - timedelta(days=6))  # a week at least: one bar is no picture
    days = tuple((day, counts[day]) for day in (first + timedelta(days=n) for n in range((last - first).days + 1)))
    return DayFigure(days=days, before=sum(count for day, count in counts.items() if day < first))


def draw_days(figure: DayFigure) -> Markup:
    """A bar a day; the number above it where there is room."""
    top = max(figure.most, 1)
    width = (_WIDE - _LEFT - _RIGHT) / len(figure.days)
    high = _HIGH - _TOP - _BOTTOM
    parts = [_line(_HIGH - _BOTTOM, "axis"), _line(_TOP, "grid"), _text("0", _LEFT - 7, _HIGH - _BOTTOM + 4, "end")]
    parts.append(_text(f"{top:,}", _LEFT - 7, _TOP + 4, "end"))
    every = -(-len(figure.days) // 7)
    for position, (day, count) in enumerate(figure.days):
        x, tall = _LEFT + width * position, high * count / top
        if count:
            named = tag("title", f"{day.isoformat()}: {count:,}")
            box = {"x": x + 0.14 * width, "y": _HIGH - _BOTTOM - tall, "width": 0.72 * width, "height": tall, "rx": 2.0}
            parts.append(tag("rect", named, class_="bar", **box))
        if (len(figure.days) - 1 - position) % every == 0:
            parts.append(_text(f"{day:%b} {day.day}", x + width / 2, _HIGH - 8, "middle"))
    words = "; ".join(f"{day.isoformat()}: {count}" for day, count in figure.days if count) or "no answer yet"
    return tag(
        "svg",
        tag("title", "Answers per day"),
        tag("desc", f"{words}."),
        *parts,
        class_="days",
        role="img",
        viewBox=f"0 0 {_WIDE:g} {_HIGH:g}",
        aria_label=f"Answers per day. {words}.",
    )


def _line(y: float, kind: str) -> Markup:
    return tag("line", class_=kind, x1=_LEFT, x2=_WIDE - _RIGHT, y1=y, y2=y)


def _text(text: str, x: float, y: float, kind: str) -> Markup:
    return tag("text", text, class_=kind, x=x, y=y)
