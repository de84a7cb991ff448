"""Published bounds of the release gate, for comparison only: an older theorem, and Table 1 of Feyisetan et al. (2019).

Li, Qardaji and Su, "On Sampling, Anonymization, and Differential Privacy" (2012): sampling with probability beta and
then showing what at least k kept is (epsilon, delta)-DP for epsilon >= -log(1-beta) with

    delta = max over n >= ceil(k/g - 1) of P[Bin(n, beta) > g n],        g = (e^epsilon - 1 + beta) / e^epsilon.

Feyisetan et al. evaluate it at n = ceil(k/g) alone, and below the floor of epsilon too (`as_tabulated`); 255 of the 256
cells of their Table 1 (`cells`) can be computed so; it proves nothing. The theorem is true where it applies.
`discreet.gates.calibration` is exact, and never larger than the theorem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from discreet.errors import BadInput
from discreet.gates.calibration import Profile, checked_epsilon

_LONGEST_SEARCH = 10**7


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
    for others in range(first, first + _LONGEST_SEARCH):
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


def _share(beta: float, epsilon: float) -> float:
    """g: the share of kept units from which on a value tells."""
    return 1 - (1 - beta) * math.exp(-epsilon)


def _check(k: int, beta: float, epsilon: float) -> None:
    checked_epsilon(epsilon)
    if type(k) is not int or k < 1 or not 0 < beta < 1:
        raise BadInput("the theorem's delta", "k is from 1, and beta between 0 and 1", "Check both")


EPSILONS = (0.25, 0.5, 0.75, 1.0)
BETAS = (0.1, 0.3, 0.6, 0.9)
DELTAS = (1e-6, 1e-9, 1e-12, 1e-15)
KS = (20, 100, 200, 500)
_SHADED = {
    1e-6: ("....x...x...xx..", "xx..xx..xxx.xxx.", "xx..xxx.xxx.xxx.", "xxx.xxx.xxx.xxxx"),
    1e-9: ("....x...x...x...", "x...xx..xx..xxx.", "xx..xx..xxx.xxx.", "xx..xxx.xxx.xxx."),
    1e-12: ("........x...x...", "x...xx..xx..xx..", "x...xx..xxx.xxx.", "xx..xxx.xxx.xxx."),
    1e-15: ("................", "x...x...xx..xx..", "x...xx..xx..xxx.", "xx..xxx.xxx.xxx."),
}
"""A row for each k; in it epsilons from the left, and for each of them the betas."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell: what the paper shades, and what each computation finds.

    ``exact``, ``theorem`` and ``tabulated`` are deltas at this epsilon; the theorem has none below its floor.
    """

    epsilon: float
    delta: float
    k: int
    beta: float
    shaded: bool
    exact: float
    theorem: float | None
    tabulated: float

    @property
    def holds(self) -> bool:
        """Whether the guarantee is kept."""
        return self.exact <= self.delta

    @property
    def by_theorem(self) -> bool:
        """Whether the theorem, with its floor and at its worst n, shows that."""
        return self.theorem is not None and self.theorem <= self.delta


def cells() -> Iterator[Cell]:
    """All 256, by delta, k, epsilon and beta."""
    settings = list(product(KS, EPSILONS, BETAS))
    bounds: list[dict[str, Any]] = [
        {
            "exact": Profile(k=k, beta=beta).delta(epsilon),
            "theorem": theorem_delta(k, beta, epsilon),
            "tabulated": as_tabulated(k, beta, epsilon),
        }
        for k, epsilon, beta in settings
    ]
    for delta in DELTAS:
        for (k, epsilon, beta), mark, deltas in zip(settings, "".join(_SHADED[delta]), bounds, strict=True):
            yield Cell(epsilon=epsilon, delta=delta, k=k, beta=beta, shaded=mark == "x", **deltas)
