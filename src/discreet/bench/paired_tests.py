"""Is a difference more than chance? Two tests over paired differences, and a correction for asking several times.

sign-flip   if nothing distinguishes the two sides, every difference might as well have the other sign: the share of all
            2^n ways to choose signs whose sum is as far from 0. It is exact, whatever the differences look like, and
            never below 2^(1-n): five seeds cannot show anything at 5%. Above 20 differences, a million drawn ways,
            counted so that the level stays right (Phipson and Smyth 2010).
Student's t the usual one; it takes differences to be nearly normal, and can show something with three seeds. Where
            all differences are the same it says nothing, and 1 is told.
Holm        p-values of m questions, corrected so that all that is shown together is wrong with at most 5% (Holm 1979);
            it needs nothing of how the questions hang together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.bench.intervals import CONFIDENCE

LEVEL = 1 - CONFIDENCE
MOST_EXACT = 20
DRAWN = 1_000_000
_SEED = 20_130_509
_ROUNDING = 1e-12


def sign_flip_p(differences: Sequence[float]) -> float:
    """Two-sided: how likely a sum this far from 0 is, had every difference either sign by a coin."""
    sizes = np.abs(np.asarray(differences, dtype=np.float64))
    reached = abs(float(np.sum(differences))) - _ROUNDING * float(sizes.sum())
    if sizes.size <= MOST_EXACT:
        sums = np.zeros(1)
        for size in sizes:
            sums = np.concatenate([sums + size, sums - size])
        return float(np.mean(np.abs(sums) >= reached))
    signs = np.random.default_rng(_SEED)
    found, left = 0, DRAWN
    while left:
        count = min(left, 50_000)
        flips = signs.integers(0, 2, size=(count, sizes.size)) * 2 - 1
        found += int(np.sum(np.abs(flips @ sizes) >= reached))
        left -= count
    return (1 + found) / (1 + DRAWN)


def student_p(differences: Sequence[float]) -> float:
    """Two-sided, of one sample against 0."""
    from scipy import stats

    sample = np.asarray(differences, dtype=np.float64)
    spread = float(sample.std(ddof=1)) if sample.size > 1 else 0.0
    if spread <= _ROUNDING * max(float(np.abs(sample).max(initial=0.0)), 1e-300):
        return 1.0
    t = float(sample.mean()) / (spread / math.sqrt(sample.size))
    return float(2 * stats.t.sf(abs(t), sample.size - 1))


def holm(values: Sequence[float]) -> list[float]:
    """Each p-value as it stands beside the others."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    corrected, worst = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        worst = max(worst, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = worst
    return corrected


def seeds_needed(questions: int) -> int:
    """The fewest seeds with which the sign-flip test of so many questions can show the first of them."""
    return 1 + math.ceil(math.log2(max(questions, 1) / LEVEL))
