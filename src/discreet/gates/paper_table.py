"""Table 1 of Feyisetan et al. (2019) beside what is so: which k and beta keep which (epsilon, delta).

The paper shades a cell where (k, beta) is said to keep (epsilon, delta). It evaluates the older theorem at one n and
without its floor; 255 of the 256 cells can be computed so (`discreet.gates.older.as_tabulated`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from discreet.gates.older import as_tabulated, theorem_delta
from discreet.gates.profile import Profile

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
        """Whether the promise is kept."""
        return self.exact <= self.delta

    @property
    def by_theorem(self) -> bool:
        """Whether the theorem, with its floor and at its worst n, shows that."""
        return self.theorem is not None and self.theorem <= self.delta


def cells() -> Iterator[Cell]:
    """All 256, by delta, k, epsilon and beta."""
    known = {
        (k, epsilon, beta): (
            Profile(k=k, beta=beta).delta(epsilon),
            theorem_delta(k, beta, epsilon),
            as_tabulated(k, beta, epsilon),
        )
        for k in KS
        for epsilon in EPSILONS
        for beta in BETAS
    }
    for delta in DELTAS:
        for k, row in zip(KS, _SHADED[delta], strict=True):
            for place, mark in enumerate(row):
                epsilon, beta = EPSILONS[place // len(BETAS)], BETAS[place % len(BETAS)]
                exact, theorem, tabulated = known[k, epsilon, beta]
                yield Cell(
                    epsilon=epsilon,
                    delta=delta,
                    k=k,
                    beta=beta,
                    shaded=mark == "x",
                    exact=exact,
                    theorem=theorem,
                    tabulated=tabulated,
                )
