"""What so many right guesses prove about one run.

m canaries take part, each by its own fair coin: itself, or a null in its place. From everything that the run shows, an
attacker guesses r of the m coins, and v guesses are right. If the run is (epsilon, delta) differentially private under
zero-out, v is stochastically at most a Binomial(r, q) with

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

import numpy as np

from discreet.errors import BadInput

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
