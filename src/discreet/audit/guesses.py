"""From a score for every canary to guesses: the highest are said to be there, the lowest not, the rest is left open.

Where an attack is weak in the middle, guessing fewer proves more. How many to guess cannot be chosen by looking at the
coins, so it is settled before: a share of the canaries, half from each end. Ties are broken by lot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """How an attack did: of ``canaries`` coins it guessed ``made``, ``right`` of them rightly."""

    canaries: int
    made: int
    right: int


def guess(
    scores: NDArray[np.float64], coins: NDArray[np.bool_], *, made: int, seed: int = 0, low: bool = True
) -> Guesses:
    """Guess ``made`` coins by their scores; ``coins``: true where the canary took part. ``low``: guess the lowest, too.

    Without ``low`` all guesses say that a canary is there: for runs that show some of those that are, and nobody else.
    """
    if scores.shape != coins.shape or scores.ndim != 1:
        raise BadInput("guesses", "scores and coins are not one a canary", "Give two vectors of the same length")
    if not 0 < made <= scores.size:
        raise BadInput(f"{made} guesses", f"there are {scores.size} canaries", "Guess some of them, or all")
    if np.isnan(scores).any():
        raise BadInput(
            "guesses", "some scores are not numbers", "Give a canary that nothing is known of a middling score"
        )
    order = np.lexsort((np.random.default_rng(seed).random(scores.size), scores))
    out = made // 2 if low else 0
    there, absent = order[scores.size - (made - out) :], order[:out]
    return Guesses(canaries=scores.size, made=made, right=int(coins[there].sum() + (~coins[absent]).sum()))
