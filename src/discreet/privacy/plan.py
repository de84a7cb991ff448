"""The plan as a value: phases, cohorts, rates, steps, noise, the trajectories that vouch for it, and its stored forms.

Guarantee: a `Plan` is made from public numbers alone, before data is touched (*committed* mode; else `Plan.mode`
says so). Training executes it as it stands; fewer labels than planned mean smaller batches, never a new rate, sigma or
batch normaliser. It is stored as JSON, or as TOML for people. Reading is strict and rebuilds its trajectories from its
phases, so a stored plan cannot claim what it does not do. Floats are written by their shortest form, so a plan reads
back equal to the last bit.

Symbols: phase i trains |D_i| = ``size`` records for n_i = ``steps`` with rate q_{c,i} = ``rates[c]`` for cohort c and
noise multiplier sigma_i, so that sum_c q_{c,i} k_c = b = ``batch``.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from discreet.errors import BadInput, InvalidPlan
from discreet.privacy.budget import Accountant, Budget, Schedule, float_above
from discreet.privacy.events import PoissonSampledGaussian, Repeated
from discreet.privacy.files import write_whole
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
        """The stored form (`plan_to_json`)."""
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


_BROKEN = "Restore the file, or make the plan again with `discreet plan`"


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """One object with everything in it; `plan_from_json` reads it back."""
    return {
        "format": FORMAT,
        "simulation": False,
        "mode": plan.mode,
        "schedule": plan.schedule,
        "accountant": plan.accountant,
        "budget": plan.budget.to_json(),
        "noise_multiplier": plan.noise_multiplier,
        "batch": plan.batch,
        "epochs": plan.epochs,
        "selection": plan.selection.to_json(),
        "cohorts": [_cohort_form(cohort) for cohort in plan.cohorts],
        "phases": [_phase_form(plan, phase) for phase in plan.phases],
        "trajectories": [path.to_json() for path in plan.trajectories],
    }


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


def plan_from_json(data: Any, *, certify: bool = True) -> Plan:
    """The plan a stored form holds.

    Its trajectories are rebuilt from its phases and must agree. With ``certify`` its claims are computed anew and must
    agree too (milliseconds by RDP, seconds by PLD); without, PLD claims are taken as they stand, for showing only.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidPlan("reading a plan", f"its format is not {FORMAT}", _BROKEN)
    data = {key: value for key, value in data.items() if key != "warnings"}  # `discreet plan --json` adds them
    try:
        plan = _read(data)
        stored = tuple(Trajectory.from_json(path) for path in data["trajectories"])
        plan = plan.with_paths()
        if tuple(replace(p, epsilon_pld=None, epsilon_rdp=None) for p in stored) != plan.trajectories:
            raise InvalidPlan("reading a plan", "its trajectories do not follow from its phases", _BROKEN)
        plan = replace(plan, trajectories=stored)
        if plan_to_json(plan) != _with_nulls(data):
            raise InvalidPlan("reading a plan", "some of its numbers do not follow from the others", _BROKEN)
        _check_claims(plan, certify=certify)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, RecursionError, OverflowError) as error:
        if isinstance(error, BadInput):
            raise
        raise InvalidPlan("reading a plan", "a part is missing or of the wrong type", _BROKEN) from None
    return plan


def _check_claims(plan: Plan, *, certify: bool) -> None:
    if plan.budget.relation != "zero-out":
        raise InvalidPlan("reading a plan", "plans are proven under zero-out only", _BROKEN)
    if plan.mode == "adaptive":  # the ledger's filter makes the claim
        if any(path.epsilon_pld is not None or path.epsilon_rdp is not None for path in plan.trajectories):
            raise InvalidPlan("reading a plan", "paths of an adaptive plan have claims of their own", _BROKEN)
        return
    by_pld = plan.accountant == "pld"
    for path in plan.trajectories:
        claims = [path.epsilon_rdp] + ([path.epsilon_pld] if by_pld else [])
        if not all(type(claim) in (int, float) for claim in claims) or (path.epsilon_pld is not None and not by_pld):
            raise InvalidPlan("reading a plan", "a path's claims are not those of its accountant", _BROKEN)
        if plan.claim_of(path) > plan.budget.epsilon:
            raise InvalidPlan("reading a plan", "a path's claim is above the budget", _BROKEN)
    again = plan.certified() if certify else replace(plan, accountant="rdp").certified()
    for path, anew in zip(plan.trajectories, again.trajectories, strict=True):
        if not _same(path.epsilon_rdp, anew.epsilon_rdp) or (certify and not _same(path.epsilon_pld, anew.epsilon_pld)):
            raise InvalidPlan("reading a plan", "a path's claim does not follow from its events", _BROKEN)


def _same(stored: float | None, anew: float | None) -> bool:
    """Equal but for the last digits, which another machine may round otherwise."""
    if stored is None or anew is None:
        return stored is anew
    return abs(stored - anew) <= 1e-7 * max(anew, 1e-3)


def _with_nulls(data: dict[str, Any]) -> dict[str, Any]:
    # TOML has no null: a missing epsilon_pld under RDP is the same plan
    paths = [{"epsilon_pld": None, "epsilon_rdp": None} | path for path in data["trajectories"]]
    return data | {"trajectories": paths}


def _read(data: dict[str, Any]) -> Plan:
    if data["mode"] not in get_args(PlanMode) or data["simulation"] is not False:
        raise InvalidPlan("reading a plan", "a plan is committed or adaptive, and never a simulation", _BROKEN)
    if data["schedule"] not in get_args(Schedule) or data["accountant"] not in get_args(Accountant):
        raise InvalidPlan("reading a plan", "its schedule or accountant is unknown", _BROKEN)
    cohorts = tuple(_read_cohort(form) for form in data["cohorts"])
    phases = tuple(_read_phase(form) for form in data["phases"])
    selection = SelectionTerms.from_json(data["selection"])
    if data["mode"] == "adaptive" and not 0 <= selection.queries < len(phases):
        raise InvalidPlan("reading a plan", "its queries and phases do not fit together", _BROKEN)
    _check_cohorts(cohorts, selection, selection.queries + 1 if data["mode"] == "adaptive" else len(phases))
    for number, phase in enumerate(phases):
        entered = sum(cohort.size for cohort in cohorts if cohort.phase <= number)
        if round(entered) != phase.size:
            raise InvalidPlan("reading a plan", "a phase's size is not that of its cohorts", _BROKEN)
    return Plan(
        budget=Budget.from_json(data["budget"]),
        schedule=data["schedule"],
        accountant=data["accountant"],
        batch=_whole(data["batch"]),
        epochs=_whole(data["epochs"]),
        selection=selection,
        cohorts=cohorts,
        phases=phases,
        mode=data["mode"],
    )


def _check_cohorts(cohorts: tuple[Cohort, ...], selection: SelectionTerms, phases: int) -> None:
    """One initial cohort, then one a query (two parts where rates are individual), one phase after each."""
    parts: tuple[Part | None, ...] = ("high", "low") if selection.high_shares else (None,)
    expected = [("initial", 0, None)] + [(f"phase-{j}", j, p) for j in range(1, phases) for p in parts]
    if [(c.name, c.phase, c.part) for c in cohorts] != expected or selection.queries != phases - 1:
        raise InvalidPlan("reading a plan", "its cohorts, queries and phases do not fit together", _BROKEN)
    sizes = tuple(int(cohort.size) for cohort in cohorts[1:])
    if selection.hidden and not selection.hidden.are_for(sizes, selection.threshold_epsilon):
        raise InvalidPlan("reading a plan", "the slots of its hidden cohorts do not follow from its queries", _BROKEN)
    if not selection.high_shares:
        return
    for share, high, low in zip(selection.high_shares, cohorts[1::2], cohorts[2::2], strict=True):
        if abs(high.size - share * (high.size + low.size)) > 1e-5:
            raise InvalidPlan("reading a plan", "a cohort's parts are not of their planned shares", _BROKEN)


def _read_cohort(form: dict[str, Any]) -> Cohort:
    part = form.get("part")
    if part is not None and part not in get_args(Part):
        raise InvalidPlan("reading a plan", "a cohort's part is neither high nor low", _BROKEN)
    return Cohort(name=str(form["name"]), phase=_whole(form["phase"]), size=_real(form["size"]), part=part)


def _read_phase(form: dict[str, Any]) -> Phase:
    stages = form.get("stages", [form])
    return Phase(size=_whole(form["size"]), stages=tuple(_read_stage(stage) for stage in stages))


def _read_stage(form: dict[str, Any]) -> Stage:
    rates = tuple(_real(r["rate"] if isinstance(r, dict) else r) for r in form["rates"])
    if not all(0 <= rate <= 1 for rate in rates):
        raise InvalidPlan("reading a plan", "a rate is outside [0, 1]", _BROKEN)
    return Stage(steps=_whole(form["steps"]), noise_multiplier=_real(form["noise_multiplier"]), rates=rates)


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise InvalidPlan("reading a plan", "a count is not a whole number", _BROKEN)
    return value


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidPlan("reading a plan", "a number is missing", _BROKEN)
    return float(value)


def write_plan(plan: Plan, path: Path) -> None:
    """Store ``plan`` as JSON or TOML, by the file's ending: the whole file or none, an older one kept until then."""
    write_whole(path, dump_plan(plan, path.suffix))


def dump_plan(plan: Plan, suffix: str) -> str:
    """The text `write_plan` writes."""
    form = plan_to_json(plan)
    if suffix == ".json":
        return json.dumps(form, indent=1) + "\n"
    if suffix == ".toml":
        import tomli_w

        return tomli_w.dumps(_without_nulls(form))
    raise BadInput(f"a plan in a {suffix or 'nameless'} file", "only .json and .toml are known", "Rename the file")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def read_plan(path: Path, *, certify: bool = True) -> Plan:
    """Read a plan that `write_plan` stored, computing its claims anew unless ``certify`` is off."""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, UnicodeDecodeError):
        raise InvalidPlan("reading a plan", "the file cannot be read as text", _BROKEN) from None
    except ValueError:
        raise InvalidPlan("reading a plan", "the file is not valid JSON or TOML", _BROKEN) from None
    return plan_from_json(data, certify=certify)
