"""A plan as the terms of a ledger: its groups, the paths of a record through them, and every charge it will make.

Groups: the initial cohort and one (part of a) cohort a query, by their labels; `pool`, or `shard-j` where the pool is
cut; `everyone`, when scores read training records; `whole-pool`, where private quantiles are taken of all its records
in phase 0, before the first question; `held-out`, where evaluation is paid for. Query j belongs to phase j, as does the
training that follows it.

`joined` adds further releases that read the same records after training to every path:

    paths of a plan or a training:   asked in phase 1 -> trained ...         never asked
    joined by events of phase T+1:   asked in phase 1 -> trained -> + e      never asked -> + e

Guarantee: these events come after the last branch of every path, so they compose with its training in one loss
distribution (docs/proofs/trajectories.md). They are committed with the rest, before data is touched: the claim of the
whole is checked when the ledger is created.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from discreet.errors import BadInput
from discreet.privacy.events import DiscreteLaplace, Event, Repeated, ThresholdResponse
from discreet.privacy.ledger.charges import MOST_PHASE
from discreet.privacy.ledger.paths import Choice, Line, Path, PathSegment
from discreet.privacy.ledger.terms import Continued, Terms, committed, plan_digest
from discreet.privacy.plan import NEVER_ASKED, Cohort, Plan, TrainingPhase
from discreet.privacy.selection_terms import SelectionTerms

POOL = "pool"
EVERYONE_WAITS = "everyone"
WHOLE_POOL = "whole-pool"
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
    queries = range(1, plan.selection.queries + 1)
    quantiles = plan.selection.quantiles
    lines = [] if quantiles is None else [Line(who=WHOLE_POOL, phase=0, event=quantiles)]
    lines += [line for query in queries for line in query_lines(plan.selection, query)] + [*_training_lines(plan)]
    if held_out is not None:
        lines.extend(Line(who=HELD_OUT, phase=number, event=held_out) for number in range(len(plan.phases)))
    return tuple(sorted((line for line in lines if line.phase >= first), key=lambda line: line.phase))


def _paths_of(plan: Plan, held_out: Event | None) -> tuple[Path, ...]:
    paths = [*(_path_of(cohort, plan.selection) for cohort in plan.cohorts), *_never_asked(plan.selection)]
    if plan.selection.quantiles is not None:
        first = PathSegment(who=WHOLE_POOL, last=0, choice="touched")
        paths = [replace(path, stays=(first, *path.stays)) for path in paths]
    return (*paths, *([Path(name=HELD_OUT, stays=(PathSegment(who=HELD_OUT),))] if held_out is not None else []))


def pool_of(selection: SelectionTerms, query: int) -> str:
    """The group that query number ``query`` (1..T) touches."""
    if selection.reads_training_data:
        return EVERYONE_WAITS
    return f"shard-{query}" if selection.kind == "shards" else POOL


def query_lines(terms: SelectionTerms, query: int) -> Iterator[Line]:
    """The charges of query number ``query`` (1..T), in their order."""
    if terms.is_free:
        return
    who = pool_of(terms, query)
    if terms.kind in ("paper", "separate-budget"):
        event = terms.query_event(query)
        each, count = (event.event, event.count) if isinstance(event, Repeated) else (event, 1)
        yield Line(who=who, phase=query, event=each, count=count)
        return
    if terms.threshold_epsilon > 0:
        yield Line(who=who, phase=query, event=DiscreteLaplace(epsilon=terms.threshold_epsilon))
    if terms.kind != "hidden":  # there whom it asks is not released
        yield Line(who=who, phase=query, event=ThresholdResponse(asked=terms.epsilon, missed=terms.missed[query - 1]))


def _training_lines(plan: Plan) -> Iterator[Line]:
    for number in range(len(plan.phases)):
        for stage in TrainingPhase.of(plan, number).stages:
            for label, step in stage.cohorts:
                yield Line(who=label, phase=number, event=step, count=stage.steps)


def _path_of(cohort: Cohort, terms: SelectionTerms) -> Path:
    stays = [PathSegment(who=cohort.label, first=cohort.phase)]
    if terms.reads_training_data and not terms.is_free:  # queries touch it after it was asked, too
        stays.insert(0, PathSegment(who=EVERYONE_WAITS, first=cohort.phase + 1, choice="touched"))
    if cohort.phase and not terms.is_free:
        choice: Choice = "asked-below" if cohort.part == "low" else "asked"
        stays.insert(0, PathSegment(who=pool_of(terms, cohort.phase), first=1, last=cohort.phase, choice=choice))
    return Path(name=cohort.label, stays=tuple(stays))


def _never_asked(terms: SelectionTerms) -> list[Path]:
    if terms.kind == "shards" and terms.queries and not terms.is_free:
        return [
            Path(name=f"{NEVER_ASKED}/shard-{j}", stays=(PathSegment(who=f"shard-{j}", choice="missed"),))
            for j in range(1, terms.queries + 1)
        ]
    who = EVERYONE_WAITS if terms.reads_training_data and not terms.is_free else POOL
    return [Path(name=NEVER_ASKED, stays=(PathSegment(who=who, choice="missed"),))]


RELEASED = "released"
"""The group of all records that a release after training reads."""


def joined(terms: Terms, events: Sequence[Event], *, who: str = RELEASED, apart: Sequence[str] = ()) -> Terms:
    """``terms`` with ``events``, charged to ``who`` in the phase after their last one.

    ``apart``: names of paths whose records those releases do not read, such as held-out ones.
    """
    if terms.mode != "committed" or terms.streamed:
        raise BadInput(
            "joining events to these terms",
            "they are adaptive, or of a stream, where charges are not lined up by phases",
            "Charge an adaptive ledger when the time comes; its filter prices everything together",
        )
    if who in terms.groups or not events:
        raise BadInput(f"joining {len(events)} events to {who}", "that group is there, or nothing joins", "Rename it")
    unknown = set(apart) - {path.name for path in terms.paths}
    if unknown:
        raise BadInput(f"leaving out {len(unknown)} paths", "there are none of that name", "Name paths of the terms")
    phase = joining_phase(terms)
    lines = (*terms.lines, *(Line(who=who, phase=phase, event=event) for event in events))
    further = PathSegment(who=who, first=phase)
    paths = (path if path.name in apart else replace(path, stays=(*path.stays, further)) for path in terms.paths)
    return replace(terms, lines=lines, paths=tuple(paths))


def joining_phase(terms: Terms) -> int:
    """The phase after the last one in which something is committed."""
    phase = 1 + max(line.phase for line in terms.lines)
    if phase > MOST_PHASE:
        raise BadInput(f"a phase {phase}", f"there are at most {MOST_PHASE}", "Use fewer phases")
    return phase
