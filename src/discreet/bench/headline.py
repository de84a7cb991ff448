"""The headline: what share of the gain of non-private active learning over random asking is kept, by the whole budget.

Four sets, epsilon 3, 5, 8 and 16, the DP-AL paper's clipped Laplace beside ours, the same score (entropy) everywhere.
Every setting was fixed before its cases ran; those of other experiments are the same cases, and are run once:
fashion-mnist and mnist are of `accuracy-kept` (T=9), cifar10 20:1 of `table-2`, banking77 of `table-1`.

What selection may cost, of epsilon 3, 5, 8, 16: the paper's 1, 1, 2, 4 for its Laplace; threshold responses have 1.5,
2, 3, 5 where asking is spread over nine queries, and the paper's where there are four. All of it is paid for out of the
same budget, and every plan is certified by privacy loss distributions.
"""

from __future__ import annotations

from discreet.bench.accuracy_kept import private_and_not, rare_classes
from discreet.bench.methods import Method
from discreet.bench.paper_problems import BANKING, CIFAR_RARE, with_epsilon
from discreet.bench.paper_tables import SELECTION_EPSILONS, Blocks, of_entropy
from discreet.bench.problems import Problem
from discreet.bench.sets import Data

EPSILONS = tuple(SELECTION_EPSILONS)
QUERIES = 9
SPREAD = {"3": "1.5", "5": "2", "8": "3", "16": "5"}
"""What a threshold response may cost over nine queries, by epsilon."""
ABOVE = 0.1
_SPREAD_SETS: tuple[Data, ...] = ("fashion-mnist", "mnist")


def _of_rare_classes(data: Data, epsilon: str) -> tuple[tuple[Problem, ...], tuple[Method, ...]]:
    methods = private_and_not(SELECTION_EPSILONS[epsilon], (SPREAD[epsilon], ABOVE))
    return (rare_classes(data, epsilon, QUERIES),), methods


def _of_paper(problem: Problem, epsilon: str) -> tuple[tuple[Problem, ...], tuple[Method, ...]]:
    return (with_epsilon(problem, epsilon),), of_entropy(problem, SELECTION_EPSILONS[epsilon])


HEADLINE: Blocks = (
    *(_of_rare_classes(data, epsilon) for data in _SPREAD_SETS for epsilon in EPSILONS),
    *(_of_paper(problem, epsilon) for problem in (CIFAR_RARE, BANKING) for epsilon in EPSILONS),
)
