"""What an audit found, beside what was claimed and what it could have found at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from discreet.audit.bound import chance_of_so_many, highest_provable, proved_epsilon
from discreet.audit.guesses import Guesses

LEVEL = 1e-3
"""The chance at which a true claim is called broken: verdicts are at 99.9%."""
Verdict = Literal["exceeded", "not exceeded", "none"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One attack on one claim. Audience: world, of a twin on made-up records; owner, of anything else."""

    attack: str
    epsilon: float
    delta: float
    guesses: Guesses
    level: float = LEVEL

    @property
    def proved(self) -> float:
        """Epsilon is above this, by the guesses alone."""
        return proved_epsilon(
            right=self.guesses.right,
            guesses=self.guesses.made,
            canaries=self.guesses.canaries,
            delta=self.delta,
            level=self.level,
        )

    @property
    def highest(self) -> float:
        """No more could have been proved with so many guesses."""
        return highest_provable(
            guesses=self.guesses.made, canaries=self.guesses.canaries, delta=self.delta, level=self.level
        )

    @property
    def chance(self) -> float:
        """Of so many right guesses, if the claim is true."""
        return chance_of_so_many(
            right=self.guesses.right,
            guesses=self.guesses.made,
            canaries=self.guesses.canaries,
            epsilon=self.epsilon,
            delta=self.delta,
        )

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
            "guesses": self.guesses.made,
            "right": self.guesses.right,
            "level": self.level,
            "proved": self.proved,
            "highest": self.highest,
            "chance": self.chance,
            "verdict": self.verdict,
        }
