"""Stored plans: JSON, or TOML for people, and strict reading.

Guarantee: reading rebuilds the trajectories of a plan from its phases, so a stored plan cannot claim what it does not
do. Floats are written by their shortest form, so a plan reads back equal to the last bit.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from discreet.errors import BadInput, InvalidPlan
from discreet.privacy.budget import Accountant, Budget, Schedule
from discreet.privacy.files import write_whole
from discreet.privacy.plan import FORMAT, Cohort, Phase, Plan, PlanMode, Stage
from discreet.privacy.selection_terms import Part, SelectionTerms
from discreet.privacy.trajectories import Trajectory

_BROKEN = "Restore the file, or make the plan again with `discreet plan`"


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
        if plan.to_json() != _with_nulls(data):
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
    phases = tuple(_read_phase(form, data["batch"]) for form in data["phases"])
    selection = SelectionTerms.from_json(data["selection"])
    if data["mode"] == "adaptive" and not 0 <= selection.queries < len(phases):
        raise InvalidPlan("reading a plan", "its queries and phases do not fit together", _BROKEN)
    _check_cohorts(cohorts, selection, selection.queries + 1 if data["mode"] == "adaptive" else len(phases))
    for number, phase in enumerate(phases):
        entered = sum(cohort.size for cohort in cohorts if cohort.phase <= number)
        if round(entered) != phase.size:
            raise InvalidPlan("reading a plan", "a phase's size is not that of its cohorts", _BROKEN)
        _check_batch(data, cohorts, phase)
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


def _check_batch(data: dict[str, Any], cohorts: tuple[Cohort, ...], phase: Phase) -> None:
    """One batch for all phases; with the schedule *scout* the whole number nearest to what a phase's rates expect."""
    if data["schedule"] != "scout":
        fits = phase.batch == data["batch"]
    else:
        expected = phase.last.expected_batch(cohorts)
        fits = 1 <= phase.batch <= data["batch"] and abs(expected - phase.batch) <= 0.5 + 1e-6 * expected
    if not fits:
        raise InvalidPlan("reading a plan", "a phase's batch is not that of its rates", _BROKEN)


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


def _read_phase(form: dict[str, Any], batch: Any) -> Phase:
    stages = form.get("stages", [form])
    return Phase(
        size=_whole(form["size"]),
        batch=_whole(form.get("batch", batch)),
        stages=tuple(_read_stage(stage) for stage in stages),
    )


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
    form = plan.to_json()
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
