"""From attacks to findings: scores order the canaries, the ends of the order are guessed, right guesses refute a claim.

The highest scores are guessed as present, the lowest as absent, and the rest is left open: where an attack is weak in
the middle, fewer guesses prove more. The number of guesses is fixed before the coins are looked at. Ties are broken at
random.

All attacks on one target share the level: if the claim is true, all of them are right with probability 1 - level. How
many attacks there are is fixed by the target; an attack without guesses in a run reports nothing but keeps its share.

What so many right guesses prove about one run: m canaries take part, each by its own fair coin: itself, or a null in
its place. From everything that the run shows, an attacker guesses r of the m coins, and v guesses are right. If the run
is (epsilon, delta) differentially private under zero-out, v is stochastically at most a Binomial(r, q) with

    q = e^epsilon / (1 + e^epsilon),

up to delta, and the chance of v or more right guesses is at most

    P[B >= v] + 2 m delta max over i = 1 ... v of P[v > B >= v - i] / i,       B ~ Binomial(r, q)

(Steinke, Nasr, Jagielski: *Privacy auditing with one (1) training run*, 2023, Theorem 5.2 with its Proposition 5.7). A
small chance refutes the claim; the largest epsilon that is refuted is proved to be exceeded.

Guarantee: whatever the attacker does and however the run is made, a true claim is refuted at most with the chance
``level``. The number of guesses r is fixed before the run is seen, or follows from the output alone; coins are seen
only to count v. Which guesses are made may depend on the output in any way.

An audit that cannot fail proves nothing: with r guesses nothing above `highest_provable` can be shown, though the run
showed all of its data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

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


HIGHEST = 64.0
"""No bound is looked for above this."""


def chance_of_so_many(*, right: int, guesses: int, canaries: int, epsilon: float, delta: float = 0.0) -> float:
    """At most how probable ``right`` or more right guesses are, if the claim is true: a p-value."""
    from scipy import stats

    _check(right, guesses, canaries)
    if epsilon < 0 or not 0 <= delta <= 1:
        raise BadInput(
            f"a claim of epsilon {epsilon}, delta {delta}", "it is none", "Give epsilon >= 0, delta in [0, 1]"
        )
    q = 1 / (1 + math.exp(-epsilon))
    chance = float(stats.binom.sf(right - 1, guesses, q))
    if delta and right:
        below = stats.binom.pmf(np.arange(right - 1, -1, -1), guesses, q).cumsum()
        chance += 2 * canaries * delta * float((below / np.arange(1, right + 1)).max())
    return min(chance, 1.0)


def proved_epsilon(*, right: int, guesses: int, canaries: int, delta: float = 0.0, level: float) -> float:
    """The largest epsilon, rounded down, that so many right guesses refute at this delta; 0: none is refuted."""
    _check(right, guesses, canaries)

    def refuted(epsilon: float) -> bool:
        return chance_of_so_many(right=right, guesses=guesses, canaries=canaries, epsilon=epsilon, delta=delta) <= level

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, HIGHEST
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def highest_provable(*, guesses: int, canaries: int, delta: float = 0.0, level: float) -> float:
    """What a run would prove in which every guess is right: no attack with so many guesses finds more."""
    return proved_epsilon(right=guesses, guesses=guesses, canaries=canaries, delta=delta, level=level)


def _check(right: int, guesses: int, canaries: int) -> None:
    if not 0 <= right <= guesses <= canaries:
        raise BadInput(
            f"{right} right of {guesses} guesses about {canaries} canaries",
            "these numbers do not go together",
            "Guess each canary at most once",
        )
