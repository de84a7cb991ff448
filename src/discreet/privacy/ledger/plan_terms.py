"""A plan as the terms of a ledger: its groups, the paths of a record through them, and every charge it will make.

Groups: the initial cohort and one (part of a) cohort a query, by their labels; `pool`, or `shard-j` where the pool is
cut; `everyone`, when scores read training records; `held-out`, where evaluation is paid for. Query j belongs to phase
j, as does the training that follows it.
"""

from __future__ import annotations

from collections.abc import Iterator

from discreet.privacy.events import DiscreteLaplace, Event, Repeated, ThresholdResponse
from discreet.privacy.ledger.continued import Continued
from discreet.privacy.ledger.paths import Choice, Line, Path, Stay
from discreet.privacy.ledger.terms import Terms, committed, plan_digest
from discreet.privacy.plan import NEVER_ASKED, Cohort, Plan
from discreet.privacy.selection_terms import SelectionTerms
from discreet.privacy.training_phase import TrainingPhase

POOL = "pool"
EVERYONE_WAITS = "everyone"
HELD_OUT = "held-out"


def terms_of(plan: Plan, *, held_out: Event | None = None) -> Terms:
    """The committed terms under which ``plan`` is executed, its lines in the order they will be charged.

    ``held_out`` is what one evaluation costs the records kept apart for it (`discreet.trainers.evaluation`), made once
    a phase. They are a group of their own, `held-out`: never asked, never trained, so their path pays for nothing else.
    """
    return committed(
        plan.budget,
        lines_of(plan, held_out=held_out),
        paths=_paths_of(plan, held_out),
        accountant=plan.accountant,
        plan=plan_digest(plan),
        overflow=plan.selection.overflow,
        releases=plan.selection.releases,
        apart=plan.selection.block(),
    )


def continued_terms(
    plan: Plan, *, orders: tuple[float, ...], continued: Continued, held_out: Event | None = None
) -> Terms:
    """The terms under which a ledger goes on with ``plan``, whose first phases are done (docs/proofs/replanning.md)."""
    return Terms(
        mode="adaptive",
        budget=plan.budget,
        accountant="rdp",
        paths=_paths_of(plan, held_out),
        orders=orders,
        plan=plan_digest(plan),
        continued=continued,
    )


def lines_of(plan: Plan, *, held_out: Event | None = None, first: int = 0) -> tuple[Line, ...]:
    """Every charge of ``plan`` from phase ``first`` on, in the order they will be made."""
    lines = [*_selection_lines(plan.selection), *_training_lines(plan)]
    if held_out is not None:
        lines.extend(Line(who=HELD_OUT, phase=number, event=held_out) for number in range(len(plan.phases)))
    return tuple(sorted((line for line in lines if line.phase >= first), key=lambda line: line.phase))


def _paths_of(plan: Plan, held_out: Event | None) -> tuple[Path, ...]:
    paths = [*(_path_of(cohort, plan.selection) for cohort in plan.cohorts), *_never_asked(plan.selection)]
    return (*paths, *([Path(name=HELD_OUT, stays=(Stay(who=HELD_OUT),))] if held_out is not None else []))


def pool_of(selection: SelectionTerms, query: int) -> str:
    """The group that query number ``query`` (1..T) touches."""
    if selection.reads_training_data:
        return EVERYONE_WAITS
    return f"shard-{query}" if selection.kind == "shards" else POOL


def _selection_lines(terms: SelectionTerms) -> Iterator[Line]:
    if terms.is_free:
        return
    for query in range(1, terms.queries + 1):
        who = pool_of(terms, query)
        if terms.kind in ("paper", "apart"):
            event = terms.query_event(query)
            each, count = (event.event, event.count) if isinstance(event, Repeated) else (event, 1)
            yield Line(who=who, phase=query, event=each, count=count)
            continue
        if terms.threshold_epsilon > 0:
            yield Line(who=who, phase=query, event=DiscreteLaplace(epsilon=terms.threshold_epsilon))
        if terms.kind == "hidden":  # whom it asks is not released
            continue
        response = ThresholdResponse(asked=terms.epsilon, missed=terms.missed[query - 1])
        yield Line(who=who, phase=query, event=response)


def _training_lines(plan: Plan) -> Iterator[Line]:
    for number in range(len(plan.phases)):
        for stage in TrainingPhase.of(plan, number).stages:
            for label, step in stage.cohorts:
                yield Line(who=label, phase=number, event=step, count=stage.steps)


def _path_of(cohort: Cohort, terms: SelectionTerms) -> Path:
    stays = [Stay(who=cohort.label, first=cohort.phase)]
    if terms.reads_training_data and not terms.is_free:  # queries touch it after it was asked, too
        stays.insert(0, Stay(who=EVERYONE_WAITS, first=cohort.phase + 1, choice="touched"))
    if cohort.phase and not terms.is_free:
        choice: Choice = "asked-below" if cohort.part == "low" else "asked"
        stays.insert(0, Stay(who=pool_of(terms, cohort.phase), first=1, last=cohort.phase, choice=choice))
    return Path(name=cohort.label, stays=tuple(stays))


def _never_asked(terms: SelectionTerms) -> list[Path]:
    if terms.kind == "shards" and terms.queries and not terms.is_free:
        return [
            Path(name=f"{NEVER_ASKED}/shard-{j}", stays=(Stay(who=f"shard-{j}", choice="missed"),))
            for j in range(1, terms.queries + 1)
        ]
    who = EVERYONE_WAITS if terms.reads_training_data and not terms.is_free else POOL
    return [Path(name=NEVER_ASKED, stays=(Stay(who=who, choice="missed"),))]
