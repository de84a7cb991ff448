"""From attacks to findings: scores order the canaries, the ends of the order are guessed, right guesses refute a claim.

The highest scores are guessed as present, the lowest as absent, and the rest is left open: where an attack is weak in
the middle, fewer guesses prove more. The number of guesses is fixed before the coins are looked at. Ties are broken at
random.

All attacks on one target share the level: if the claim is true, all of them are right with probability 1 - level. How
many attacks there are is fixed by the target; an attack without guesses in a run reports nothing but keeps its share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.audit.bound import chance_of_so_many, highest_provable, proved_epsilon
from discreet.errors import BadInput

Array = NDArray[np.float64]
GUESSED = 0.1
"""Share of the canaries that is guessed; fixed before any run. Fewer could not refute a claim of 2."""
LEVEL = 1e-3
"""The probability at which a true claim is called broken: verdicts are at 99.9%."""
Verdict = Literal["exceeded", "not exceeded", "none"]


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """The result of an attack: of ``canaries`` coins it guessed ``count``, and ``right`` of these correctly."""

    canaries: int
    count: int
    right: int


def guess(scores: Array, coins: NDArray[np.bool_], *, count: int, seed: int = 0, guess_absent: bool = True) -> Guesses:
    """Guess ``count`` coins by their scores; ``coins``: true where the canary took part.

    Without ``guess_absent`` every guess says that a canary is present: for runs that show some of those present only.
    """
    if scores.shape != coins.shape or scores.ndim != 1:
        raise BadInput("guesses", "scores and coins are not one a canary", "Give two vectors of the same length")
    if not 0 < count <= scores.size:
        raise BadInput(f"{count} guesses", f"there are {scores.size} canaries", "Guess some of them, or all")
    if np.isnan(scores).any():
        raise BadInput(
            "guesses", "some scores are not numbers", "Give a canary that nothing is known of a middling score"
        )
    order = np.lexsort((np.random.default_rng(seed).random(scores.size), scores))
    lowest = count // 2 if guess_absent else 0
    present, absent = order[scores.size - (count - lowest) :], order[:lowest]
    return Guesses(canaries=scores.size, count=count, right=int(coins[present].sum() + (~coins[absent]).sum()))


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One attack on one claim. Audience: public, of a target on made-up records; owner, of anything else."""

    attack: str
    epsilon: float
    delta: float
    guesses: Guesses
    level: float = LEVEL

    @property
    def _numbers(self) -> dict[str, Any]:
        return {"guesses": self.guesses.count, "canaries": self.guesses.canaries, "delta": self.delta}

    @property
    def proved(self) -> float:
        """Epsilon is above this, by the guesses alone."""
        return proved_epsilon(right=self.guesses.right, level=self.level, **self._numbers)

    @property
    def highest(self) -> float:
        """No more could have been proved with so many guesses."""
        return highest_provable(level=self.level, **self._numbers)

    @property
    def chance(self) -> float:
        """The probability of so many right guesses, if the claim is true."""
        return chance_of_so_many(right=self.guesses.right, epsilon=self.epsilon, **self._numbers)

    @property
    def verdict(self) -> Verdict:
        """None where the audit could not have failed: too few guesses to refute this claim."""
        if self.highest <= self.epsilon:
            return "none"
        return "exceeded" if self.chance <= self.level else "not exceeded"

    def to_json(self) -> dict[str, Any]:
        """As it is stored and printed."""
        return {
            "attack": self.attack,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "canaries": self.guesses.canaries,
            "guesses": self.guesses.count,
            "right": self.guesses.right,
            "level": self.level,
            "proved": self.proved,
            "highest": self.highest,
            "chance": self.chance,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Attack:
    """Scores of canaries: the higher, the more probably present. ``count``: how many are guessed.

    guess_absent     the lowest are guessed as absent, too
    """

    scores: Array
    count: int
    guess_absent: bool = True


def shown_only(shown: NDArray[np.bool_]) -> Attack:
    """Guess that every canary is present of which something was shown, and say nothing of the others."""
    return Attack(scores=shown.astype(np.float64), count=int(shown.sum()), guess_absent=False)


def findings_of(
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
            guesses=guess(attack.scores, coins, count=attack.count, guess_absent=attack.guess_absent, seed=seed),
            level=level / len(attacks),
        )
        for name, attack in attacks.items()
        if attack.count
    )
