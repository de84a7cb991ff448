"""Attacks on one run, as scores for canaries, and what all of them find together.

Attacks on a twin share the level: whatever is true, all of them are right with chance 1 - level. How many attacks there
are is fixed by the twin, and one that has nothing to guess in a run says nothing, but keeps its share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.audit.guesses import guess
from discreet.audit.verdict import LEVEL, Finding

Array = NDArray[np.float64]
GUESSED = 0.1
"""Of the canaries; settled before any run is seen. Fewer could not refute a claim of 2, more would be worse ones."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Attack:
    """Higher scores: rather there. ``made``: how many guesses, which follows from what a run shows, or is fixed.

    low     the lowest are guessed as absent, too
    """

    scores: Array
    made: int
    low: bool = True


def shown_only(shown: NDArray[np.bool_]) -> Attack:
    """Guess that everybody is there of whom something was shown, and say nothing of the others."""
    return Attack(scores=shown.astype(np.float64), made=int(shown.sum()), low=False)


def found_by(
    attacks: Mapping[str, Attack],
    coins: NDArray[np.bool_],
    *,
    claimed: float,
    delta: float,
    seed: int,
    level: float = LEVEL,
) -> tuple[Finding, ...]:
    """A finding for each attack that guesses anything."""
    return tuple(
        Finding(
            attack=name,
            epsilon=claimed,
            delta=delta,
            guesses=guess(one.scores, coins, made=one.made, low=one.low, seed=seed),
            level=level / len(attacks),
        )
        for name, one in attacks.items()
        if one.made
    )
