"""The plan as a value: phases, cohorts, rates, steps, noise, and the trajectories that vouch for it.

Guarantee: a `Plan` is made from public numbers alone, before data is touched (*committed* mode; else `Plan.mode`
says so). Training executes it as it stands; fewer labels than planned mean smaller batches, never a new rate, sigma or
batch normaliser. Its trajectories are rebuilt from its phases whenever it is read, so a stored plan cannot claim what
it does not do.

Symbols: phase i trains |D_i| = ``size`` records for n_i = ``steps`` with rate q_{c,i} = ``rates[c]`` for cohort c and
noise multiplier sigma_i, so that sum_c q_{c,i} k_c = b = ``batch``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from discreet.privacy.budget import Budget
from discreet.privacy.events import PoissonSampledGaussian, Repeated
from discreet.privacy.exact import float_above
from discreet.privacy.selection_terms import Part, SelectionTerms
from discreet.privacy.trajectories import Trajectory

Schedule = Literal["naive", "step-amplification", "noise-reduction", "continual"]
Accountant = Literal["pld", "rdp"]
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
    """Training between two questions. One stage, except that *continual* lets the new cohort catch up first."""

    size: int
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
        """The stored form (`discreet.privacy.plan_forms`)."""
        from discreet.privacy.plan_forms import plan_to_json

        return plan_to_json(self)


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
