"""How much Laplace noise hides a vote, when l questions are answered.

Whole-number (two-sided geometric) noise of scale 1/g on every count. A vote that moves leaves one count and enters
another: two counts change by 1, so an answer costs what *two* numbers of epsilon g cost, which is less than one of 2g.

    paper    4 l g^2 + 2 g sqrt(2 l log(1/delta)) = eps, solved       (Papernot et al. 2017, moments of 2g-DP answers)
    exact    2l discrete Laplace releases of epsilon g, by PLD

Guarantee: zero-out relation, both directions (docs/proofs/teachers.md). Only the winner is released; noisy counts are
not.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal

from discreet.errors import InfeasiblePlan
from discreet.planning.search import least_noise
from discreet.planning.teachers.claims import claimed
from discreet.planning.teachers.gaussian_votes import MOST_ANSWERS, checked_numbers
from discreet.privacy.budget import Budget
from discreet.privacy.events import DiscreteLaplace
from discreet.privacy.exact import float_below

_PLACES = Decimal("1e-12")


def paper_rate(answers: int, epsilon: float, delta: float) -> float:
    """g by the paper's bound."""
    checked_numbers(answers, epsilon, delta)
    root = math.sqrt(2 * answers * -math.log(delta))
    return epsilon / (root + math.sqrt(root * root + 4 * answers * epsilon))


def exact_event(answers: int, budget: Budget) -> DiscreteLaplace:
    """The largest g with which ``answers`` answers keep ``budget``, as the event of one count."""
    epsilon, delta = float_below(budget.epsilon), float_below(budget.delta)
    start = 1 / paper_rate(answers, epsilon, delta)

    def cost(scale: float) -> float:
        return float(claimed(((rate_event(1 / scale), 2 * answers),), budget))

    scale = least_noise(cost, epsilon, start=start, tolerance=1e-5, least=1e-3, most=1e11)
    if scale is None:
        raise InfeasiblePlan(
            f"{answers} answers with Laplace noise within epsilon {budget.epsilon}",
            "no noise that can be drawn is enough",
            "Ask less, or take Gaussian noise",
            {"aggregator": "gaussian"},
        )
    return rate_event(1 / scale)


def rate_event(rate: float) -> DiscreteLaplace:
    """The event of one count, its epsilon rounded down."""
    return DiscreteLaplace(epsilon=Decimal(repr(rate)).quantize(_PLACES, rounding=ROUND_FLOOR).normalize())


def answers_within(event: DiscreteLaplace, budget: Budget) -> int:
    """How many answers of this noise the budget buys; may be 0."""

    def fits(answers: int) -> bool:
        return claimed(((event, 2 * answers),), budget) <= budget.epsilon

    low, high = 0, 1
    while high <= MOST_ANSWERS and fits(high):
        low, high = high, 2 * high
    while high - low > max(1, low // 1000):  # to a thousandth, from below
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
