"""How much Gaussian noise hides a vote, when l questions are answered.

One unit is in the data of one teacher, and moves one vote a question: in a histogram of classes one count falls by 1
and another rises by 1, sqrt(2) in L2. A *noise multiplier* m is the standard deviation over that. For two classes the
histogram with sqrt(2) m on each count and the sum of votes with m are the same release: the lead of a class has noise
2m in both.

    paper    sqrt(2 l log(1/delta))/m + l/(2 m^2) = eps, solved        (Liu et al. 2021, Algorithm 1)
    exact    l Gaussians are one of multiplier m / sqrt(l), whose curve is known:
             delta = Phi(s/2 - eps/s) - e^eps Phi(-s/2 - eps/s),  s = sqrt(l)/m     (Balle and Wang 2018)

Guarantee: both keep (eps, delta) for l answers to questions that may depend on earlier answers, in both directions. The
exact one never needs more noise: the paper's comes from a bound on the same curve (docs/proofs/teachers.md).
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr

from discreet.errors import BadInput

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
    found = min(int((multiplier * total_shift(epsilon, delta)) ** 2), MOST_ANSWERS)
    while found and exact_multiplier(found, epsilon, delta) > multiplier:
        found -= 1
    return found
