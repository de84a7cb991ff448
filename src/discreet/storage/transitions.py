"""The log of a state machine: each kind of step is taken once in a phase.

Guarantee: of a step that is taken again, after a crash or by another process, the first record stands. One that claims
other facts is refused: something that must not differ did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, func, select

from discreet.errors import BadInput, InvalidStore
from discreet.storage import row_macs
from discreet.storage.forms import canonical, changed, check_number, check_text, from_json, moment, now, stamp
from discreet.storage.scope import Scope, of_campaign, steady
from discreet.storage.stored import Transition
from discreet.storage.tables import transitions

PUBLISHED = "published"
"""The step that `discreet.storage.questions` takes itself, together with the questions."""


@steady
def record(scope: Scope, kind: str, *, phase: int, facts: Mapping[str, Any] | None) -> Transition:
    """Take a step, or find that it was taken."""
    if kind == PUBLISHED:
        raise BadInput(f"recording {kind!r}", "that is recorded with its questions", "Call publish()")
    check_text(kind, "a kind of transition")
    check_number(phase, "the phase of a transition")
    stored = canonical(facts, "facts of a transition")
    with scope.writing(f"recording {kind!r}") as connection:
        before = find(connection, scope, kind, phase)
        if before is not None:
            return same(scope, before, stored)
        return insert(connection, scope, kind=kind, phase=phase, facts=stored)


def find(connection: Connection, scope: Scope, kind: str, phase: int) -> Transition | None:
    """The step, if it was taken."""
    wanted = select(transitions).where(
        scope.rows(transitions), transitions.c.kind == kind, transitions.c.phase == phase
    )
    row = connection.execute(wanted).first()
    return None if row is None else _transition(row)


def same(scope: Scope, before: Transition, facts: str) -> Transition:
    """The step as it was taken, if it was taken with ``facts``."""
    if canonical(before.facts, "stored facts") != facts:
        raise InvalidStore(
            scope.asked(f"recording {before.kind!r} of phase {before.phase}"),
            "it was recorded before, with other facts",
            "Go on with the same plan, records and settings as before",
        )
    return before


def insert(connection: Connection, scope: Scope, *, kind: str, phase: int, facts: str) -> Transition:
    """Add a step to the end of the log."""
    last = connection.scalar(select(func.max(transitions.c.number)).where(scope.rows(transitions)))
    number, at = 0 if last is None else last + 1, now()
    row = {"number": number, "kind": kind, "phase": phase, "facts": facts, "at": stamp(at)}
    connection.execute(transitions.insert().values(campaign=scope.campaign, **row))
    row_macs.cover(connection, scope, row_macs.STEPS, [f"{phase} {kind}"])
    return Transition(number=number, kind=kind, phase=phase, facts=from_json(facts), at=at)


@steady
def log(scope: Scope) -> list[Transition]:
    """Every step, oldest first."""
    with scope.reading("reading the transitions") as connection:
        return [_transition(row) for row in connection.execute(_LOG, scope.values())]


_LOG = select(transitions).where(of_campaign(transitions)).order_by(transitions.c.number)


def _transition(row: Any) -> Transition:
    if type(row.number) is not int or type(row.phase) is not int or not isinstance(row.kind, str):
        raise changed("a step")
    return Transition(number=row.number, kind=row.kind, phase=row.phase, facts=from_json(row.facts), at=moment(row.at))
