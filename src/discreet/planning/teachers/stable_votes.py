"""Sparse vector over votes: stable answers are free, unstable ones are paid for.

The distance of a question to instability is how many teachers could change their vote without changing the winner:
max(0, ceil(lead/2) - 1), lead the votes of the winner less those of the second; one unit changes it by at most 1. A
noisy distance above a noisy threshold around w releases the winner *without noise*; else the answer is "unstable", and
ends an epoch. At most T of those, at most l questions.

    paper    lambda = (sqrt(2T(eps + log(2/delta))) + sqrt(2T log(2/delta)))/eps,   w = 3 lambda log(2(l+T)/delta)
    exact    T epochs, each 2/lambda-DP, by PLD at delta/2;                          w = 2 lambda log(4l/(3 delta))

threshold noise Lap(lambda), distance noise Lap(2 lambda). Guarantee: zero-out relation, both directions. delta/2 is
for the epochs; the other half is the chance that a winner leaves whose question has distance 0 (`failure_event`).
Proof: docs/proofs/teachers.md. Liu, Zhu, Chaudhuri and Wang 2021, Algorithm 2; Bassily, Thakkar and Thakurta 2018.

Symbols: ``unstable`` T, ``answers`` l, ``spread`` lambda, ``threshold`` w, ``teachers`` K.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal

from discreet.errors import BadInput, InfeasiblePlan
from discreet.planning.search import least_noise
from discreet.planning.teachers.claims import claimed
from discreet.planning.teachers.gaussian_votes import MOST_ANSWERS, checked_numbers
from discreet.privacy.budget import Budget
from discreet.privacy.events import PmfFamily, Pure
from discreet.privacy.exact import float_below

_WIDER = 1 + 1e-6
"""Noise is drawn on a lattice, whose scale is rounded up: by less than this."""
_PLACES = Decimal("1e-12")
MOST_DELTA = 0.25
"""Above it the event of a mistake does not compose as it should (docs/proofs/teachers.md)."""


def paper_spread(unstable: int, epsilon: float, delta: float) -> float:
    """The paper's lambda."""
    checked_unstable(unstable, MOST_ANSWERS)
    checked_numbers(1, epsilon, delta)
    log = math.log(2 / delta)
    return (math.sqrt(2 * unstable * (epsilon + log)) + math.sqrt(2 * unstable * log)) / epsilon


def paper_threshold(spread: float, unstable: int, answers: int, delta: float) -> float:
    """The paper's w."""
    return 3 * spread * math.log(2 * (answers + unstable) / delta)


def exact_epoch(unstable: int, answers: int, budget: Budget) -> Pure:
    """The dearest epoch of which ``unstable`` keep ``budget``, beside the chance of a mistake; lambda is 2 over it."""
    checked_unstable(unstable, answers)
    epsilon, delta = float_below(budget.epsilon), float_below(budget.delta)
    mistake = failure_event(failure_chance(1.0, exact_threshold(1.0, answers, delta), answers), delta)

    def cost(scale: float) -> float:
        return float(claimed(((epoch_event(1 / scale), unstable), (mistake, 1)), budget))

    scale = least_noise(
        cost, epsilon, start=math.sqrt(unstable) / epsilon, tolerance=1e-5, least=1e-3 / epsilon, most=1e11
    )
    if scale is None:
        raise InfeasiblePlan(
            f"{unstable} unstable answers within epsilon {budget.epsilon}",
            "no noise that can be drawn is enough",
            "Allow fewer unstable answers",
            {"unstable": "1"},
        )
    return epoch_event(1 / scale)


def exact_threshold(spread: float, answers: int, delta: float) -> float:
    """w at which ``answers`` questions of distance 0 all stay unanswered but with chance delta/2."""
    return 2 * spread * _WIDER * math.log(4 * answers / (3 * delta))


def failure_chance(spread: float, threshold: float, answers: int) -> float:
    """The chance that one of ``answers`` questions of distance 0 is answered: Lap(2 lambda) + Lap(lambda) above w."""
    reach = threshold / (spread * _WIDER)
    return answers * (4 * math.exp(-reach / 2) - math.exp(-reach)) / 6


def failure_event(chance: float, delta: float) -> PmfFamily:
    """Outcomes that tell everything, with ``chance`` on either side. A little wider, so that it composes (proof)."""
    if not 0 < chance < delta < MOST_DELTA:
        raise BadInput("answers that leave by mistake", "their chance is not a part of delta", "Raise the threshold")
    wide = chance / (1 - 2 * delta)
    return PmfFamily(present=((1 - wide, wide, 0.0),), absent=((1 - wide, 0.0, wide),))


def check_delta(budget: Budget) -> None:
    """Refuse a delta at which the event of a mistake would say too little."""
    if not budget.delta < MOST_DELTA:
        raise InfeasiblePlan(
            f"sparse vector at delta {budget.delta}",
            f"its proof is for a delta below {MOST_DELTA}",
            "Lower delta, or take a noisy maximum",
            {"delta": "0.24"},
        )


def minimum_teachers(threshold: float) -> int:
    """With fewer, even a unanimous answer is below the threshold more often than not: 2w."""
    return math.ceil(2 * threshold)


def check_teachers(teachers: int, threshold: float, unstable: int, answers: int) -> None:
    """Refuse too few teachers, naming how many are needed."""
    least = minimum_teachers(threshold)
    if teachers < least:
        raise InfeasiblePlan(
            f"sparse vector over {teachers} teachers (T={unstable}, l={answers})",
            f"its threshold is {threshold:.4g}, so that less than {least} teachers cannot answer anything",
            f"Train at least {least} teachers, allow fewer unstable answers, or take a noisy maximum",
            {"teachers": str(least)},
        )


def epoch_event(epsilon: float) -> Pure:
    """One epoch, its epsilon rounded down."""
    return Pure(epsilon=Decimal(repr(epsilon)).quantize(_PLACES, rounding=ROUND_FLOOR).normalize())


def checked_unstable(unstable: int, answers: int) -> None:
    """Refuse a T that is no number of answers."""
    if type(unstable) is not int or not 1 <= unstable <= answers:
        raise BadInput(
            f"{unstable} unstable answers", f"it is no whole number from 1 to {answers}", "Give one, such as 20"
        )
