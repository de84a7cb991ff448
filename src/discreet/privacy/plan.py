"""The plan as a value: phases, cohorts, rates, steps, noise, the trajectories that vouch for it; and what a trainer is
told of one phase of it.

Guarantee: a `Plan` is made from public numbers alone, before data is touched (*committed* mode; else `Plan.mode`
says so). Training executes it as it stands; fewer labels than planned mean smaller batches, never a new rate, sigma or
batch normaliser. A `TrainingPhase` is made from the same values as the ledger's lines
(`discreet.privacy.ledger.plan_terms`), so what is planned, what is charged and what is executed cannot differ.

Symbols: phase i trains |D_i| = ``size`` records for n_i = ``steps`` with rate q_{c,i} = ``rates[c]`` for cohort c and
noise multiplier sigma_i, so that sum_c q_{c,i} k_c = b_i = ``batch``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from discreet.errors import BadInput
from discreet.privacy.budget import Accountant, Budget, Schedule, Unit, float_above
from discreet.privacy.events import PoissonSampledGaussian, Repeated
from discreet.privacy.selection_terms import Part, SelectionTerms
from discreet.privacy.trajectories import Trajectory

PlanMode = Literal["committed", "adaptive"]
FORMAT = "discreet.plan/1"
NEVER_ASKED = "never-asked"


@dataclass(frozen=True, kw_only=True)
class Cohort:
    """Records that entered together (or the part of them asked from one side of the threshold)."""

    name: str
    phase: int
    size: float
    part: Part | None = None

    @property
    def label(self) -> str:
        """The name of its trajectory."""
        return f"{self.name}/{self.part}" if self.part else self.name


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Steps with constant parameters; ``rates`` in cohort order, for the cohorts that have entered."""

    steps: int
    noise_multiplier: float
    rates: tuple[float, ...]

    def expected_batch(self, cohorts: tuple[Cohort, ...]) -> float:
        """sum_c q_c k_c over the planned sizes."""
        return sum(rate * cohort.size for rate, cohort in zip(self.rates, cohorts, strict=False))


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Training between two questions. One stage, except that *continual* lets the new cohort catch up first.

    ``batch``: b, by which every noisy sum of the phase is divided. All phases have that of the plan, but for schedule
    *scout*.
    """

    size: int
    batch: int
    stages: tuple[Stage, ...]

    @property
    def last(self) -> Stage:
        """The stage in which all cohorts train."""
        return self.stages[-1]

    @property
    def steps(self) -> int:
        """Steps of all stages."""
        return sum(stage.steps for stage in self.stages)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A campaign: what will be trained, with what noise, and what every path costs.

    *adaptive*: the rest of a campaign that was re-planned, behind the phases that are done (docs/proofs/replanning.md).
    Its claim is its budget, guarded by the ledger's filter, and its paths are not certified by themselves. Its last
    phases may have no query.
    """

    budget: Budget
    schedule: Schedule
    accountant: Accountant
    batch: int
    epochs: int
    selection: SelectionTerms
    cohorts: tuple[Cohort, ...]
    phases: tuple[Phase, ...]
    trajectories: tuple[Trajectory, ...] = ()
    mode: PlanMode = "committed"

    @property
    def accounted(self) -> Budget:
        """What paths are certified at: the budget, less the delta that a hidden selection keeps for its slots."""
        return self.budget.keeping(self.selection.overflow)

    @property
    def noise_multiplier(self) -> float:
        """sigma of the first phase; the schedules move the later ones around it."""
        return self.phases[0].last.noise_multiplier

    @property
    def claim(self) -> float:
        """The worst trajectory by the plan's accountant; of a plan that goes on adaptively, the budget."""
        if self.mode == "adaptive":
            return float_above(self.budget.epsilon)
        return max(self.claim_of(path) for path in self.trajectories)

    def claim_of(self, path: Trajectory) -> float:
        """What the plan's accountant certified for ``path``."""
        claim = path.epsilon_pld if self.accountant == "pld" else path.epsilon_rdp
        assert claim is not None, "an uncertified plan makes no claim"
        return claim

    @property
    def individual_rates(self) -> bool:
        """Whether cohorts are split by the side of the threshold they were asked from."""
        return any(cohort.part for cohort in self.cohorts)

    def participations(self, cohort: int) -> float:
        """Expected number of steps a record of cohort ``cohort`` takes part in."""
        return sum(
            stage.steps * stage.rates[cohort]
            for phase in self.phases
            for stage in phase.stages
            if cohort < len(stage.rates)
        )

    def rescaled(self, factor: float) -> Plan:
        """The same plan with every noise multiplier times ``factor`` and its trajectories uncertified."""
        phases = tuple(
            replace(
                phase,
                stages=tuple(replace(s, noise_multiplier=s.noise_multiplier * factor) for s in phase.stages),
            )
            for phase in self.phases
        )
        return replace(self, phases=phases).with_paths()

    def with_paths(self) -> Plan:
        """This plan with its trajectories built from its phases."""
        return replace(self, trajectories=build_trajectories(self.selection, self.cohorts, self.phases))

    def certified(self) -> Plan:
        """This plan with every trajectory priced by RDP and, if PLD is its accountant, by PLD."""
        delta, budget = float(self.accounted.delta), float(self.budget.epsilon)
        by_pld = self.accountant == "pld"
        paths = tuple(path.certified(delta, budget=budget, pld=by_pld) for path in self.trajectories)
        return replace(self, trajectories=paths)

    def to_json(self) -> dict[str, Any]:
        """One object with everything in it; `discreet.privacy.plan_files.plan_from_json` reads it back."""
        return {
            "format": FORMAT,
            "simulation": False,
            "mode": self.mode,
            "schedule": self.schedule,
            "accountant": self.accountant,
            "budget": self.budget.to_json(),
            "noise_multiplier": self.noise_multiplier,
            "batch": self.batch,
            "epochs": self.epochs,
            "selection": self.selection.to_json(),
            "cohorts": [_cohort_form(cohort) for cohort in self.cohorts],
            "phases": [_phase_form(self, phase) for phase in self.phases],
            "trajectories": [path.to_json() for path in self.trajectories],
        }


def build_trajectories(
    selection: SelectionTerms, cohorts: tuple[Cohort, ...], phases: tuple[Phase, ...]
) -> tuple[Trajectory, ...]:
    """Every path through these phases: one per cohort (part), and the record that is never asked."""
    paths = [
        Trajectory(
            name=cohort.label,
            selection=selection.asked_at(cohort.phase, cohort.part) if cohort.phase else selection.initial(),
            training=_training_of(index, phases),
        )
        for index, cohort in enumerate(cohorts)
    ]
    return (*paths, Trajectory(name=NEVER_ASKED, selection=selection.never_asked()))


def _training_of(cohort: int, phases: tuple[Phase, ...]) -> tuple[Repeated, ...]:
    return tuple(
        Repeated(
            event=PoissonSampledGaussian(sampling_rate=stage.rates[cohort], noise_multiplier=stage.noise_multiplier),
            count=stage.steps,
        )
        for phase in phases
        for stage in phase.stages
        if cohort < len(stage.rates) and stage.rates[cohort] > 0 and stage.steps > 0
    )


def _cohort_form(cohort: Cohort) -> dict[str, Any]:
    form: dict[str, Any] = {"name": cohort.name, "phase": cohort.phase, "size": cohort.size}
    return form | {"part": cohort.part} if cohort.part else form


def _phase_form(plan: Plan, phase: Phase) -> dict[str, Any]:
    form = {
        "size": phase.size,
        "steps": phase.steps,
        "noise_multiplier": phase.last.noise_multiplier,
        "rates": _rates_form(plan, phase.last),
        "expected_batch": phase.last.expected_batch(plan.cohorts),
    }
    if phase.batch != plan.batch:
        form["batch"] = phase.batch
    if len(phase.stages) > 1:  # continual: the new cohort alone, then everyone
        form["stages"] = [
            {"steps": s.steps, "noise_multiplier": s.noise_multiplier, "rates": list(s.rates)} for s in phase.stages
        ]
    return form


def _rates_form(plan: Plan, stage: Stage) -> list[Any]:
    if not plan.individual_rates:
        return list(stage.rates)
    return [
        {"cohort": cohort.name, "part": cohort.part or "all", "rate": rate}
        for cohort, rate in zip(plan.cohorts, stage.rates, strict=False)
    ]


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
            batch=plan.phases[number].batch,
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
