"""The paper's sizes: K teachers, T unstable answers, l questions, for n private and m public records.

Orders of magnitude, for planning: where the paper hides constants and logarithms (its O and C), they are 1 here, and
say so.

    passive_sizes    Theorem 5:     T, K under the Tsybakov noise condition, students that ask everything
    margin_sizes     Proposition 11: T, K for a problem that is (nu, Delta)-approximately high-margin, as it stands
    active_sizes     Theorem 15:    l, K for students that ask where hypotheses disagree

Symbols: ``dimension`` d (VC), ``tau`` in [0, 1], 1 where label noise is bounded away from 1/2; ``gamma`` the chance of
failure; ``coefficient`` theta, the disagreement coefficient; ``eta`` of the noise condition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.errors import BadInput
from discreet.planning.teachers.stable_votes import paper_spread

_MOST_ROUNDS = 200


@dataclass(frozen=True, kw_only=True)
class MarginSizes:
    """T and K of a sparse vector, and the bound on the excess risk that they are chosen for, up to constants."""

    unstable: int
    teachers: int
    excess: float


@dataclass(frozen=True, kw_only=True)
class ActiveSizes:
    """l and K of an active student with Gaussian votes, and the excess risk alpha that they are chosen for."""

    questions: int
    teachers: int
    excess: float


def passive_sizes(
    *, private: int, public: int, dimension: int, tau: float, epsilon: float, delta: float, gamma: float
) -> MarginSizes:
    """Theorem 5, constants 1: T = (m^(4-2 tau) d^(2 tau) / (n eps)^(2 tau))^(1/(4-3 tau)), at most m."""
    _checked(private, public, dimension, tau, epsilon, delta, gamma)
    n, m, d = float(private), float(public), float(dimension)
    log = (4 - 2 * tau) * math.log(m) + 2 * tau * (math.log(d) - math.log(n * epsilon))
    unstable = min(public, max(1, math.ceil(math.exp(log / (4 - 3 * tau)))))
    votes = math.log(m * unstable / min(delta, gamma)) * math.sqrt(unstable * -math.log(delta)) / epsilon
    excess = d / m + (m * d * d / (n * epsilon) ** 2) ** (tau / (4 - 3 * tau))
    return MarginSizes(unstable=unstable, teachers=math.ceil(votes), excess=min(1.0, excess))


def margin_sizes(*, public: int, nu: float, margin: float, epsilon: float, delta: float, gamma: float) -> MarginSizes:
    """Proposition 11, as it stands: all but a share ``nu`` of questions have an expected margin above ``margin``."""
    _checked(1, public, 1, 1.0, epsilon, delta, gamma)
    if not 0 <= nu <= 1 or not 0 < margin <= 0.5:
        raise BadInput("an approximate margin", "nu is a share, and Delta in (0, 1/2]", "Give values such as 0.05, 0.2")
    few = nu * public
    unstable = max(1, math.ceil(few + math.sqrt(2 * few * math.log(3 / gamma)) + 2 / 3 * math.log(3 / gamma)))
    spread = paper_spread(unstable, epsilon, delta)
    agree = 2 * math.log(3 * public / gamma) / margin**2
    stable = 3 * spread * (math.log(4 * public / delta) + math.log(3 * public / gamma)) / margin
    return MarginSizes(
        unstable=unstable, teachers=math.ceil(max(agree, stable)), excess=min(1.0, 2 * unstable / public)
    )


def active_sizes(
    *,
    private: int,
    public: int,
    dimension: int,
    tau: float,
    epsilon: float,
    delta: float,
    gamma: float,
    coefficient: float = 2.0,
    eta: float = 1.0,
) -> ActiveSizes:
    """Theorem 15, C1 = C2 = 1. alpha, l and K depend on one another: found by going round from few questions."""
    _checked(private, public, dimension, tau, epsilon, delta, gamma)
    if not 1 < coefficient <= public or not 1 <= eta < math.inf:
        raise BadInput(
            f"a disagreement coefficient of {coefficient:.6g}", "it is above 1, and eta at least 1", "Give both so"
        )
    questions = 1
    for _ in range(_MOST_ROUNDS):
        teachers = _active_teachers(private, questions, epsilon, delta)
        alpha = _active_excess(private, public, dimension, tau, gamma, eta, teachers)
        rounds = 1 + math.log(1 / alpha)
        inner = dimension * math.log(coefficient) + math.log(max(math.log(1 / alpha), 1.0) * 2 / gamma)
        again = min(public, max(1, math.ceil(coefficient * rounds * inner)))
        if again == questions:
            break
        questions = again
    return ActiveSizes(questions=questions, teachers=math.ceil(teachers), excess=alpha)


def _active_teachers(private: int, questions: int, epsilon: float, delta: float) -> float:
    spent = questions * -math.log(delta)
    return 6 * math.sqrt(math.log(2 * private)) * (math.sqrt(spent) + math.sqrt(spent + epsilon * questions)) / epsilon


def _active_excess(
    private: int, public: int, dimension: int, tau: float, gamma: float, eta: float, teachers: float
) -> float:
    d = dimension
    of_teachers = (d * teachers * max(math.log(private / d), 1) + math.log(2 * teachers / gamma)) / private
    of_student = (d * max(math.log((public + private) / d), 1) + math.log(2 / gamma)) / public
    excess = math.pow(eta, 2 / (2 - tau)) * math.pow(of_teachers, tau / (2 - tau))
    return min(1.0, max(excess, of_student))


def _checked(private: int, public: int, dimension: int, tau: float, epsilon: float, delta: float, gamma: float) -> None:
    counts = all(type(count) is int and 1 <= count <= 10**12 for count in (private, public, dimension))
    if not counts or not 0 <= tau <= 1 or not 0 < epsilon < 700 or not 0 < delta < 1 or not 0 < gamma < 1:
        raise BadInput(
            "the paper's sizes",
            "sizes are whole numbers from 1, tau is in [0, 1], delta and gamma in (0, 1), epsilon above 0",
            "Give such numbers",
        )
