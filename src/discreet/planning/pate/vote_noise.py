"""How much noise hides a vote when l questions are answered, by three mechanisms. Each has two calibrations.

One unit is in the data of one teacher, and moves one vote a question: in a histogram of classes one count falls by 1
and another rises by 1, sqrt(2) in L2.

Gaussian (GNMax). A *noise multiplier* m is the standard deviation over sqrt(2). For two classes the histogram with
sqrt(2) m on each count and the sum of votes with m are the same release: the lead of a class has noise 2m in both.

    paper    sqrt(2 l log(1/delta))/m + l/(2 m^2) = eps, solved        (Liu et al. 2021, Algorithm 1)
    exact    l Gaussians are one of multiplier m / sqrt(l), whose curve is known:
             delta = Phi(s/2 - eps/s) - e^eps Phi(-s/2 - eps/s),  s = sqrt(l)/m     (Balle and Wang 2018)

Laplace. Whole-number (two-sided geometric) noise of scale 1/g on every count. Two counts change by 1, so an answer
costs what *two* numbers of epsilon g cost, which is less than one of 2g. Only the winner is released.

    paper    4 l g^2 + 2 g sqrt(2 l log(1/delta)) = eps, solved       (Papernot et al. 2017, moments of 2g-DP answers)
    exact    2l discrete Laplace releases of epsilon g, by PLD

Sparse vector. The distance of a question to instability is how many teachers could change their vote without changing
the winner: max(0, ceil(lead/2) - 1), lead the votes of the winner less those of the second; one unit changes it by at
most 1. A noisy distance above a noisy threshold around w releases the winner *without noise*; else the
answer is "unstable", and ends an epoch. At most T of those, at most l questions. Threshold noise is Lap(lambda),
distance noise Lap(2 lambda). delta/2 is for the epochs; the other half is the chance that a winner leaves whose
question has distance 0 (`failure_event`).

    paper    lambda = (sqrt(2T(eps + log(2/delta))) + sqrt(2T log(2/delta)))/eps,   w = 3 lambda log(2(l+T)/delta)
    exact    T epochs, each 2/lambda-DP, by PLD at delta/2;                          w = 2 lambda log(4l/(3 delta))

Guarantee: each keeps (eps, delta) for l answers to questions that may depend on earlier answers, zero-out relation,
both directions. The exact calibration never needs more noise (docs/proofs/teachers.md). Liu, Zhu, Chaudhuri and Wang
2021, Algorithm 2; Bassily, Thakkar and Thakurta 2018.

Symbols: ``unstable`` T, ``answers`` l, ``spread`` lambda, ``threshold`` w, ``teachers`` K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal

from scipy.special import log_ndtr

from discreet.errors import BadInput, InfeasiblePlan
from discreet.planning.calibration import least_noise
from discreet.privacy.budget import Budget, float_below
from discreet.privacy.events import DiscreteLaplace, Event, PmfFamily, Pure, Repeated
from discreet.privacy.trajectories import Trajectory, cost_of

EventCount = tuple[Event, int]
"""An event, and how often."""


def claimed(charges: Sequence[EventCount], budget: Budget) -> Decimal:
    """Epsilon of all ``charges`` together at the budget's delta, by PLD, both directions."""
    training = tuple(Repeated(event=event, count=count) for event, count in charges)
    return cost_of(Trajectory(name="everyone", training=training), budget, by_pld=True)


MOST_ANSWERS = 10**9
_UP = 1 + 1e-10
"""More than floating point is off by, also far out in the tails, where delta changes much faster than the noise."""


def checked_numbers(answers: int, epsilon: float, delta: float) -> None:
    """Refuse numbers that no price could be made of."""
    if type(answers) is not int or not 1 <= answers <= MOST_ANSWERS:
        raise BadInput(
            f"{answers} answers", f"it is no whole number from 1 to {MOST_ANSWERS}", "Give one, such as 1000"
        )
    if not 0 < epsilon < 700 or not 0 < delta < 1:
        raise BadInput(
            f"answers at epsilon={epsilon:.6g}, delta={delta:.6g}",
            "epsilon must be above 0 and below 700, delta between 0 and 1",
            "Give a budget such as (1, 1e-6)",
        )


def paper_multiplier(answers: int, epsilon: float, delta: float) -> float:
    """The paper's noise multiplier for ``answers`` answers."""
    checked_numbers(answers, epsilon, delta)
    log = -math.log(delta)
    return math.sqrt(answers) * (math.sqrt(2 * log + 2 * epsilon) + math.sqrt(2 * log)) / (2 * epsilon)


def exact_multiplier(answers: int, epsilon: float, delta: float) -> float:
    """The least noise multiplier that keeps the promise for ``answers`` answers, to ten digits, rounded up."""
    checked_numbers(answers, epsilon, delta)
    return math.sqrt(answers) / total_shift(epsilon, delta) * _UP


def total_shift(epsilon: float, delta: float) -> float:
    """The largest s = sqrt(l)/m that keeps (epsilon, delta): the budget, as a distance of two normals."""
    low, high = 0.0, 1.0
    while gaussian_delta(high, epsilon) <= delta:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, epsilon) <= delta else (low, middle)
    return low


def gaussian_delta(shift: float, epsilon: float) -> float:
    """The hockey-stick divergence at e^epsilon of two normals ``shift`` standard deviations apart."""
    first = float(log_ndtr(shift / 2 - epsilon / shift))
    second = epsilon + float(log_ndtr(-shift / 2 - epsilon / shift))
    return math.exp(first) * -math.expm1(min(second - first, 0.0))


def answers_at(multiplier: float, epsilon: float, delta: float) -> int:
    """How many answers of noise ``multiplier`` the budget buys; may be 0."""
    checked_numbers(1, epsilon, delta)
    answers = min(int((multiplier * total_shift(epsilon, delta)) ** 2), MOST_ANSWERS)
    while answers and exact_multiplier(answers, epsilon, delta) > multiplier:
        answers -= 1
    return answers


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

    scale = least_noise(cost, epsilon, start=start, tolerance=1e-5, smallest=1e-3, largest=1e11)
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


_WIDER = 1 + 1e-6
"""Noise is drawn on a lattice, whose scale is rounded up: by less than this."""
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
        cost, epsilon, start=math.sqrt(unstable) / epsilon, tolerance=1e-5, smallest=1e-3 / epsilon, largest=1e11
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
