"""A report as a value: all that a page or a program shows of a campaign, for one audience, before anything is drawn.

Guarantee: fields of the public report are public facts (the plan, the recorded steps without their times, the ledger's
terms and charges) or were paid for (noisy counts, held-out accuracy). What is the owner's stands in `Owned`, which the
public's report does not have. `discreet.report.report_data` makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Literal

from discreet.campaign.state import Audience, PublicStep, Releases
from discreet.errors import BadInput
from discreet.privacy.budget import Budget, json_number
from discreet.privacy.plan import Plan
from discreet.privacy.selection_terms import NOT_RELEASED, TIME_COVERED
from discreet.records import NoisyHistogram

FORMAT = "discreet.report/1"
State = Literal["trained", "training", "answering", "next", "ahead", "planned"]


@dataclass(frozen=True, kw_only=True)
class PathMeter:
    """One path a record can take, and its budget.

    spent      what the ledger has charged it so far: a gauge, never above what is committed
    committed  what the whole plan will have cost it; None where charges are not fixed in advance
    """

    name: str
    spent: Decimal
    committed: float | None
    limit: Decimal

    @property
    def remaining(self) -> Decimal:
        """The budget less what is spent."""
        return max(Decimal(0), self.limit - self.spent)

    def to_json(self) -> dict[str, Any]:
        """Numbers."""
        return {
            "path": self.name,
            "spent": json_number(self.spent),
            "remaining": json_number(self.remaining),
            "committed": self.committed,
            "limit": json_number(self.limit),
        }


@dataclass(frozen=True, kw_only=True)
class QueryReport:
    """How records of a phase were chosen: public. ``note`` says what is not shown of their scores, and why."""

    mechanism: str
    private: bool
    threshold: float | None
    histogram: NoisyHistogram | None
    chosen: str | None
    note: str

    def to_json(self) -> dict[str, Any]:
        """Numbers and words."""
        shown = None if self.histogram is None else self.histogram.to_json()
        return asdict(self) | {"histogram": shown}


@dataclass(frozen=True, kw_only=True)
class PhaseReport:
    """A training phase: as it was planned, and how far it is.

    ``rates``: sampling rate by cohort, in the stage in which all train. ``noise``: a multiplier a stage.
    """

    number: int
    state: State
    labels_planned: int
    size: int | None
    steps: int | None
    batch: int | None
    noise: tuple[float, ...]
    rates: Mapping[str, float]
    query: QueryReport | None
    evaluation: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """Numbers and words."""
        return {
            "phase": self.number,
            "state": self.state,
            "labels_planned": self.labels_planned,
            "labelled_planned": self.size,
            "steps": self.steps,
            "batch": self.batch,
            "noise_multipliers": list(self.noise),
            "sampling_rates": dict(self.rates),
            "query": None if self.query is None else self.query.to_json(),
            "evaluation": None if self.evaluation is None else dict(self.evaluation),
        }


@dataclass(frozen=True, kw_only=True)
class ScoreCounts:
    """Scores as they were, counted without noise on the grid of the query. Audience: owner."""

    phase: int
    range: tuple[float, float]
    counts: tuple[int, ...]
    threshold: float | None


@dataclass(frozen=True, kw_only=True)
class OwnedPhase:
    """What became of the questions of a phase, and when. Audience: owner."""

    phase: int
    asked: int
    labelled: int
    skipped: int
    withdrawn: int
    open: int
    asked_at: str | None
    trained_at: str | None


@dataclass(frozen=True, kw_only=True)
class Owned:
    """What nobody paid for. Audience: owner.

    classes      labels by class; of several labels a record, each counts
    annotators   answers by who gave them
    scores       recomputed, where that was asked for
    """

    phases: tuple[OwnedPhase, ...]
    classes: Mapping[str, int]
    annotators: Mapping[str, int]
    scores: tuple[ScoreCounts, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Counts."""
        return {
            "phases": [asdict(phase) for phase in self.phases],
            "labels_by_class": dict(self.classes),
            "answers_by_annotator": dict(self.annotators),
            "scores": [asdict(phase) for phase in self.scores],
        }


@dataclass(frozen=True, kw_only=True)
class Report:
    """A campaign, for ``audience``. ``about``: what was declared, in words. ``certificate``: its whole form.

    ``releases``: of a hidden selection, which phases are public, and when the others will be.
    """

    name: str
    audience: Audience
    simulation: bool
    private: bool
    phase: int
    step: PublicStep
    about: Mapping[str, str]
    classes: tuple[str, ...]
    budget: Budget
    paths: tuple[PathMeter, ...]
    phases: tuple[PhaseReport, ...]
    certificate: Mapping[str, Any]
    assumptions: tuple[str, ...]
    replanned: tuple[Mapping[str, Any], ...] = ()
    releases: Releases | None = None
    owned: Owned | None = None

    def __post_init__(self) -> None:
        if (self.audience == "owner") != (self.owned is not None):
            raise BadInput(
                f"a report for the {self.audience}", "what is the owner's belongs to an owner's report alone", ""
            )

    @property
    def trained(self) -> int:
        """Phases that are over."""
        return sum(phase.state == "trained" for phase in self.phases)

    @property
    def labels_planned(self) -> int:
        """Of all phases."""
        return sum(phase.labels_planned for phase in self.phases)

    def to_json(self) -> dict[str, Any]:
        """One object, with the same numbers that the page shows."""
        form: dict[str, Any] = {
            "format": FORMAT,
            "simulation": self.simulation,
            "audience": self.audience,
            "private": self.private,
            "name": self.name,
            "phase": self.phase,
            "step": self.step,
            "about": dict(self.about),
            "classes": list(self.classes),
            "budget": self.budget.to_json(),
            "paths": [path.to_json() for path in self.paths],
            "labels_planned": self.labels_planned,
            "phases": [phase.to_json() for phase in self.phases],
            "assumptions": list(self.assumptions),
            "certificate": dict(self.certificate),
        }
        if self.releases is not None:
            form["releases"] = self.releases.to_json()
        if self.replanned:
            form["replanned"] = [dict(change) for change in self.replanned]
        return form if self.owned is None else form | {"owner": self.owned.to_json()}


PRIVATE_LABELS = "a label depends on its own record, and on public things"


def assumptions_of(budget: Budget, certificate: Mapping[str, Any], plan: Plan | None) -> tuple[str, ...]:
    """Of a campaign on a private pool, one sentence each."""
    lines = [
        f"Compared are the data as they are, and the data in which one {budget.unit} is replaced by a null: it scores "
        "lowest, has gradient 0 and is counted nowhere (zero-out).",
        f"Annotators see the records they are asked about, and are trusted with them; {PRIVATE_LABELS}.",
        "Ids do not come from what the records hold; classes, scaling and settings were declared, come from public "
        "data, or were paid for.",
        "Keys and seeds stay secret; what was begun and cut off is repeated with the same draws.",
    ]
    if budget.unit == "person":
        lines.append("Sizes count persons; a person is asked once, with all records together.")
    if "not_released" in certificate:
        lines.append(
            f"{NOT_RELEASED[0].upper()}{NOT_RELEASED[1:]}: neither who was asked, nor how many, nor when. The claim is "
            "about thresholds, noisy counts and models."
        )
        lines.append(_time_in_words(certificate["not_released"]))
    elif plan is not None and not plan.selection.is_free:
        lines.append("A query releases whom it asks, and the noisy counts that found its threshold; no score.")
    if certificate["mode"] == "committed":
        lines.append("The claim is that of the whole plan: stopping early does not lower it.")
    else:
        lines.append(
            "The mode is adaptive: charges could depend on what was released, and the whole budget is claimed."
        )
    return tuple(lines)


def _time_in_words(stated: Mapping[str, Any]) -> str:
    time, dates = str(stated["time"]), stated["releases"]
    first = f"{time[0].upper()}{time[1:]}"
    if time == TIME_COVERED:
        return f"{first}, fixed before any record was touched: {', '.join(dates)}."
    why = "a phase was not trained before its planned date" if dates else "no release dates were planned"
    return f"{first}: {why}, and how long labelling takes depends on how many were asked."


def claim_in_words(budget: Budget, certificate: Mapping[str, Any]) -> str:
    """The guarantee in one sentence."""
    claim = certificate["claim"]
    return (
        f"Whatever somebody knows already, and whatever they conclude from all that this campaign releases: with any "
        f"one {budget.unit} taken out of it, everything they could see is as likely as before up to a factor of "
        f"e^{rounded(claim['epsilon'], up=True)}, except for a chance of {claim['delta']:.2g}."
    )


def rounded(number: Decimal | float, *, up: bool) -> str:
    """Three places, on the safe side: a loss is rounded up, what remains of a budget down."""
    exact = number if isinstance(number, Decimal) else Decimal(repr(number))
    return str(exact.quantize(Decimal("0.001"), rounding=ROUND_CEILING if up else ROUND_FLOOR))
