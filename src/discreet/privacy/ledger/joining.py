"""Further releases that read the same records after training: they join every path of a committed ledger.

    paths of a plan or a training:   asked in phase 1 -> trained ...         never asked
    joined by events of phase T+1:   asked in phase 1 -> trained -> + e      never asked -> + e

Guarantee: the events come after the last branch of every path, so they compose with its training in one loss
distribution (docs/proofs/trajectories.md); nothing of them is a choice among paths. They are committed with the rest,
before data is touched: the claim of the whole is checked when the ledger is created.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from discreet.errors import BadInput
from discreet.privacy.events import Event
from discreet.privacy.ledger.entries import MOST_PHASE
from discreet.privacy.ledger.paths import Line, Path, Stay
from discreet.privacy.ledger.terms import Terms

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
    paths = tuple(path if path.name in apart else _longer(path, who, phase) for path in terms.paths)
    return replace(terms, lines=lines, paths=paths)


def joining_phase(terms: Terms) -> int:
    """The phase after the last one in which something is committed."""
    phase = 1 + max(line.phase for line in terms.lines)
    if phase > MOST_PHASE:
        raise BadInput(f"a phase {phase}", f"there are at most {MOST_PHASE}", "Use fewer phases")
    return phase


def _longer(path: Path, who: str, phase: int) -> Path:
    return replace(path, stays=(*path.stays, Stay(who=who, first=phase)))
