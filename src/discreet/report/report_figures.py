"""The pictures of a report as plain numbers: a meter a path, accuracy by phase, a histogram a query.

A picture is pure data plus a renderer (`discreet.report.svg`). Everything comes from a `Report`, so a picture shows an
audience nothing that its report does not hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.report.campaign_report import PathMeter, Report, ScoreCounts

_SELDOM = 0.05


@dataclass(frozen=True, kw_only=True)
class MeterFigure:
    """A bar from 0 to ``limit``: what is spent, and up to where charges are committed."""

    name: str
    spent: float
    committed: float | None
    limit: float


@dataclass(frozen=True, kw_only=True)
class AccuracyPoint:
    """A phase's accuracy and its interval."""

    phase: int
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class AccuracyFigure:
    """Points over ``phases`` phases. ``chance``: of a guess among equally frequent classes; None for several labels."""

    phases: int
    kind: str
    points: tuple[AccuracyPoint, ...]
    chance: float | None


@dataclass(frozen=True, kw_only=True)
class ScoreFigure:
    """Counts over the range of a score.

    noisy   True: as they were paid for; False: exact, for the owner
    doubt   noise of a count stays within this 19 times in 20; 0 where there is none
    """

    phase: int
    range: tuple[float, float]
    counts: tuple[int, ...]
    threshold: float | None
    noisy: bool
    doubt: float


def meter_figures(report: Report) -> tuple[MeterFigure, ...]:
    """One a path, in the ledger's order."""
    return tuple(meter_figure(path) for path in report.paths)


def meter_figure(path: PathMeter) -> MeterFigure:
    """Of one path."""
    return MeterFigure(name=path.name, spent=float(path.spent), committed=path.committed, limit=float(path.limit))


def accuracy_figure(report: Report) -> AccuracyFigure | None:
    """None where nothing was measured."""
    measured = [(phase.number, phase.evaluation) for phase in report.phases if phase.evaluation]
    if not measured:
        return None
    several = report.about.get("task", "").startswith("multilabel")
    return AccuracyFigure(
        phases=len(report.phases),
        kind=measured[-1][1]["kind"],
        points=tuple(
            AccuracyPoint(phase=number, accuracy=one["accuracy"], low=one["interval"][0], high=one["interval"][1])
            for number, one in measured
        ),
        chance=None if several else 1 / len(report.classes),
    )


def score_figures(report: Report) -> tuple[ScoreFigure, ...]:
    """Noisy ones that were paid for; for an owner who asked for them, the exact ones after each."""
    exact = {one.phase: one for one in (report.owned.scores if report.owned else ())}
    found = []
    for phase in report.phases:
        noisy = phase.query.histogram if phase.query else None
        if phase.query and noisy:
            found.append(
                ScoreFigure(
                    phase=phase.number,
                    range=noisy.range,
                    counts=noisy.counts,
                    threshold=phase.query.threshold,
                    noisy=True,
                    doubt=noisy.every * noise_within(float(noisy.epsilon)),
                )
            )
        if phase.number in exact:
            found.append(_exact(exact[phase.number]))
    return tuple(found)


def _exact(one: ScoreCounts) -> ScoreFigure:
    return ScoreFigure(
        phase=one.phase, range=one.range, counts=one.counts, threshold=one.threshold, noisy=False, doubt=0.0
    )


def noise_within(epsilon: float) -> float:
    """The least t that discrete Laplace noise of parameter ``epsilon`` stays within 19 times in 20.

    P(|X| > t) = 2 a^(t+1) / (1 + a) with a = e^-epsilon.
    """
    share = math.exp(-epsilon)
    return max(0.0, math.ceil(math.log(_SELDOM * (1 + share) / 2) / math.log(share) - 1))
