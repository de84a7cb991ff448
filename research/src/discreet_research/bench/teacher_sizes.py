"""The paper's sizes: K teachers, T unstable answers, l questions, for n private and m public records; vote margins.

Orders of magnitude, for planning: where the paper hides constants and logarithms (its O and C), they are 1 here, and
say so.

    passive_sizes    Theorem 5:     T, K under the Tsybakov noise condition, students that ask everything
    margin_sizes     Proposition 11: T, K for a problem that is (nu, Delta)-approximately high-margin, as it stands
    active_sizes     Theorem 15:    l, K for students that ask where hypotheses disagree

Symbols: ``dimension`` d (VC), ``tau`` in [0, 1], 1 where label noise is bounded away from 1/2; ``gamma`` the chance of
failure; ``coefficient`` theta, the disagreement coefficient; ``eta`` of the noise condition.

`approximate_margin` estimates the (nu, Delta) of Proposition 11 from votes. Definition 10 asks that all but a share nu
of questions have an expected margin |E h(x) - 1/2| above Delta. (It prints the inequality the other way round; the
sentence below it and its use say what is meant.) K votes estimate E h(x) of a question; for several classes the margin
is half the lead of the winner, as a share, which for two classes is the same. **Audience: owner**: it reads votes, and
nothing in it is paid for. On public data that plays the private, as in the bench, it may be published.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.planning.pate.vote_noise import paper_spread

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


Floats = NDArray[np.float64]


def expected_margins(counts: Any) -> Floats:
    """Half the lead of the winner of each question, as a share of the teachers: in [0, 1/2]. ``counts``: (n, C)."""
    votes = np.asarray(counts)
    if votes.ndim != 2 or votes.shape[1] < 2 or votes.dtype.kind not in "iu" or not votes.size or votes.min() < 0:
        raise BadInput("votes to measure", "they are not counts, a row a question, a column a class", "Give counts")
    ordered = np.sort(votes, axis=1)
    totals = np.maximum(votes.sum(axis=1), 1)
    return np.asarray((ordered[:, -1] - ordered[:, -2]) / totals / 2, dtype=np.float64)


def approximate_margin(counts: Any, margins: Any, *, gamma: float = 0.05) -> list[tuple[float, float, float]]:
    """For each Delta of ``margins``: Delta, the estimated nu, and an upper bound on nu with chance 1 - gamma.

    The bound is Hoeffding's for n questions, and for K votes each: a question whose true margin is Delta or less shows
    one above Delta + t with chance at most 2 exp(-2 K t^2).
    """
    leads = expected_margins(counts)
    teachers = int(np.asarray(counts)[0].sum())
    shift = math.sqrt(math.log(4 / gamma) / (2 * max(teachers, 1)))
    spread = math.sqrt(math.log(2 / gamma) / (2 * len(leads)))
    rows = []
    for margin in np.asarray(margins, dtype=np.float64).tolist():
        nu = float((leads <= margin).mean())
        seen = float((leads <= margin + shift).mean())
        rows.append((margin, nu, min(1.0, (seen + spread) / (1 - gamma / 2))))
    return rows
