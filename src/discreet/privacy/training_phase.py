"""What a trainer is told of one phase of a plan: how many steps, and for every cohort the event each step is priced as.

Guarantee: everything here is public. The same values are the ledger's lines (`discreet.privacy.ledger.plan_terms`), so
what is planned, what is charged and what is executed cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from discreet.errors import BadInput
from discreet.privacy.budget import Unit
from discreet.privacy.events import PoissonSampledGaussian
from discreet.privacy.plan import Phase, Plan


@dataclass(frozen=True, kw_only=True)
class TrainingStage:
    """``steps`` steps in which cohort ``label`` is sampled and hidden as ``events[label]`` says."""

    steps: int
    cohorts: tuple[tuple[str, PoissonSampledGaussian], ...]

    def __post_init__(self) -> None:
        sigmas = {event.noise_multiplier for _, event in self.cohorts}
        if type(self.steps) is not int or self.steps < 1 or len(sigmas) != 1:
            raise BadInput(
                "a training stage",
                "it has no steps, no cohorts, or two noise multipliers",
                "Give one noise multiplier to all cohorts of a sum",
            )

    @property
    def events(self) -> dict[str, PoissonSampledGaussian]:
        """The event of every cohort that is sampled, in cohort order."""
        return dict(self.cohorts)

    @property
    def noise_multiplier(self) -> float:
        """sigma: the same for all cohorts, whose gradients are one sum."""
        return self.cohorts[0][1].noise_multiplier


@dataclass(frozen=True, kw_only=True)
class TrainingPhase:
    """Phase ``number`` of a plan. ``batch`` (b) is the public number every noisy sum is divided by.

    ``slots``: of the cohorts whose number of records is hidden, by label; they are padded to it. Sizes of the others
    are public.
    """

    number: int
    batch: int
    unit: Unit
    stages: tuple[TrainingStage, ...]
    slots: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        if type(self.batch) is not int or self.batch < 1:
            raise BadInput(f"batch={self.batch}", "a sum is divided by a whole number from 1", "Give the planned batch")

    @classmethod
    def of(cls, plan: Plan, number: int) -> TrainingPhase:
        """Phase ``number`` (0 is the first) of ``plan``."""
        if type(number) is not int or not 0 <= number < len(plan.phases):
            raise BadInput(f"phase {number}", f"the plan has phases 0 to {len(plan.phases) - 1}", "Choose one of them")
        return cls(
            number=number,
            batch=plan.batch,
            unit=plan.budget.unit,
            stages=tuple(_stages(plan, plan.phases[number])),
            slots=tuple(_slots(plan, number)),
        )

    @property
    def steps(self) -> int:
        """Steps of all stages."""
        return sum(stage.steps for stage in self.stages)

    @property
    def labels(self) -> tuple[str, ...]:
        """Every cohort that is sampled in this phase, each once, in cohort order."""
        return tuple(dict.fromkeys(label for stage in self.stages for label, _ in stage.cohorts))


def _slots(plan: Plan, number: int) -> list[tuple[str, int]]:
    if plan.selection.hidden is None:
        return []
    asked = [cohort for cohort in plan.cohorts if 1 <= cohort.phase <= number]
    return [(cohort.label, plan.selection.hidden.slots[cohort.phase - 1]) for cohort in asked]


def _stages(plan: Plan, phase: Phase) -> list[TrainingStage]:
    stages = []
    for stage in phase.stages:
        cohorts = tuple(
            (cohort.label, PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=stage.noise_multiplier))
            for cohort, rate in zip(plan.cohorts, stage.rates, strict=False)
            if rate > 0
        )
        if stage.steps > 0 and cohorts:
            stages.append(TrainingStage(steps=stage.steps, cohorts=cohorts))
    return stages
