"""Where a campaign stands: a function of the steps that were recorded, and of nothing else.

    ask -> answer -> train -> ask (of the next phase) ... -> done

*ask*: nobody was asked in this phase yet. *answer*: its questions are published. *train*: its labels were fixed and
training began; it is finished, or gone on with after a crash, before anything else. A phase ends when its model is
stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from discreet.storage import Transition

Step = Literal["ask", "answer", "train", "done"]
PublicStep = Literal[Step, "planned"]
"""*planned*: what the public sees of a hidden selection until its last phase is released."""
CREATED, PUBLISHED, TRAINING, TRAINED = "created", "published", "training", "trained"
ANSWERED = "answered"
"""Of recipes whose answers come from the house itself, for a price: all questions of a phase have theirs."""
RELEASED = "released"
"""Of recipes whose gate lets a closed batch out before anybody is asked."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The phase, and the step that comes next in it. Audience: world."""

    phase: int
    step: Step


def standing(transitions: Iterable[Transition], phases: int) -> Standing:
    """Where a campaign of so many ``phases`` stands."""
    taken = {(one.kind, one.phase) for one in transitions}
    for phase in range(phases):
        if (TRAINED, phase) in taken:
            continue
        if (TRAINING, phase) in taken:
            return Standing(phase=phase, step="train")
        return Standing(phase=phase, step="answer" if (PUBLISHED, phase) in taken else "ask")
    return Standing(phase=phases - 1, step="done")
