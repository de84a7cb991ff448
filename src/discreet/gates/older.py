"""The theorem that the release gate is usually priced by, and the amplification formula: for comparison only.

Li, Qardaji and Su, "On Sampling, Anonymization, and Differential Privacy" (2012): sampling with probability beta and
then showing what at least k kept is (epsilon, delta)-DP for epsilon >= -log(1-beta) with

    delta = max over n >= ceil(k/g - 1) of P[Bin(n, beta) > g n],        g = (e^epsilon - 1 + beta) / e^epsilon.

Feyisetan et al. (2019) evaluate it at n = ceil(k/g) alone, and below the floor of epsilon too (`as_tabulated`); their
formula (3) is the amplification by sampling (`amplified`). `as_tabulated` proves nothing; the others are true where
they apply. `discreet.gates.profile` is exact, and never larger than the theorem.
"""

from __future__ import annotations

import math

from discreet.errors import BadInput
from discreet.gates.profile import checked_epsilon

_MOST = 10**7


def theorem_delta(k: int, beta: float, epsilon: float) -> float | None:
    """The theorem's delta; None below its floor, -log(1-beta).

    The search over n ends where Chernoff's bound, exp(-n KL(g, beta)), is below what was found: it only falls.
    """
    from scipy import stats

    _check(k, beta, epsilon)
    if epsilon < -math.log1p(-beta):
        return None
    share = _share(beta, epsilon)
    first = max(1, math.ceil(k / share - 1))
    gap = share * math.log(share / beta) + (1 - share) * math.log((1 - share) / (1 - beta)) if share < 1 else math.inf
    best = 0.0
    for others in range(first, first + _MOST):
        if math.exp(-others * gap) <= best or best == 1.0:
            return best
        best = max(best, float(stats.binom.sf(math.floor(share * others), others, beta)))
    raise BadInput("the theorem's delta", "its search is too long", "Use the exact profile")


def as_tabulated(k: int, beta: float, epsilon: float) -> float:
    """As the paper's Table 1 has it: at n = ceil(k/g) alone, and without the floor."""
    from scipy import stats

    _check(k, beta, epsilon)
    share = _share(beta, epsilon)
    others = math.ceil(k / share)
    return float(stats.binom.sf(math.floor(share * others), others, beta))


def amplified(epsilon: float, delta: float, *, sampled: float, less: float) -> tuple[float, float]:
    """Formula (3): an algorithm that is (epsilon, delta)-DP on a sample of probability ``sampled``, on a smaller one.

    epsilon' = log(1 + (less/sampled)(e^epsilon - 1)), delta' = (less/sampled) delta.
    """
    checked_epsilon(epsilon)
    if not 0 < less <= sampled <= 1 or not 0 <= delta <= 1:
        raise BadInput("amplification by sampling", "0 < less <= sampled <= 1 does not hold", "Sample less, not more")
    ratio = less / sampled
    return math.log1p(ratio * math.expm1(epsilon)), ratio * delta


def _share(beta: float, epsilon: float) -> float:
    """g: the share of kept units from which on a value tells."""
    return 1 - (1 - beta) * math.exp(-epsilon)


def _check(k: int, beta: float, epsilon: float) -> None:
    checked_epsilon(epsilon)
    if type(k) is not int or k < 1 or not 0 < beta < 1:
        raise BadInput("the theorem's delta", "k is from 1, and beta between 0 and 1", "Check both")
