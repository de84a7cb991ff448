"""What a budget buys of teachers: how many answers, with how much noise, and how clear a vote must be to be heard.

A price is made of public numbers alone and before anything is bought. It lists the charges that a committed ledger will
take (`VotePrice.terms`), so the number of answers is a cap that is fixed beforehand; the questions are not.

Guarantee: the charges together keep the budget by PLD, both directions, zero-out relation. One unit is in the data of
one teacher (docs/proofs/teachers.md).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from scipy.special import ndtri

from discreet.errors import BadInput
from discreet.planning.pate.vote_noise import (
    MOST_ANSWERS,
    MOST_DELTA,
    EventCount,
    answers_at,
    answers_within,
    check_delta,
    check_teachers,
    checked_numbers,
    checked_unstable,
    claimed,
    epoch_event,
    exact_epoch,
    exact_event,
    exact_multiplier,
    exact_threshold,
    failure_chance,
    failure_event,
    minimum_teachers,
    paper_multiplier,
    paper_rate,
    paper_spread,
    paper_threshold,
    rate_event,
)
from discreet.privacy.budget import Budget, float_below
from discreet.privacy.event_forms import to_json
from discreet.privacy.events import DiscreteLaplace, Gaussian
from discreet.privacy.ledger import Line, Terms, committed

Aggregator = Literal["gaussian", "gaussian-paper", "laplace", "laplace-paper", "confident", "sparse", "sparse-paper"]
AGGREGATORS: tuple[Aggregator, ...] = get_args(Aggregator)
WHO = "private"
"""Whom answers are charged to: everybody in the teachers' data."""
FORMAT = "discreet.answers-price/1"
UNSTABLE = 20
"""T, where nothing else is said."""


@dataclass(frozen=True, kw_only=True)
class VotePrice:
    """The price of ``answers`` answers of ``teachers`` teachers. Audience: public."""

    kind: ClassVar[str] = ""
    aggregator: Aggregator
    budget: Budget
    teachers: int
    classes: int
    answers: int
    charges: tuple[EventCount, ...]

    @property
    def epsilon(self) -> float:
        """What all of it costs at the budget's delta; at most its epsilon."""
        return float(claimed(self.charges, self.budget))

    def terms(self, who: str = WHO) -> Terms:
        """What a ledger commits to."""
        lines = [Line(who=who, event=event, count=count) for event, count in self.charges]
        return committed(self.budget, lines)

    @abstractmethod
    def lead(self, confidence: float = 0.95) -> float:
        """By how many votes a class must lead to be the answer with this chance."""

    @property
    def possible(self) -> bool:
        """Whether a unanimous vote is the answer 95 times of 100. If not, nothing useful can be bought."""
        return self.lead(0.95) <= self.teachers

    def to_json(self) -> dict[str, Any]:
        """A form for ``--json`` and reports."""
        values = {name: value for name, value in vars(self).items() if isinstance(value, (int, float, str))}
        return {
            "format": FORMAT,
            "simulation": False,
            "audience": "public",
            "budget": self.budget.to_json(),
            "kind": self.kind,
            **values,
            "epsilon": self.epsilon,
            "lead_95": self.lead(0.95),
            "possible": self.possible,
            "charges": [{"event": to_json(event), "count": count} for event, count in self.charges],
        }


@dataclass(frozen=True, kw_only=True)
class NoisyMaxPrice(VotePrice):
    """The class with the most noisy votes. ``noise``: the standard deviation on each count."""

    kind: ClassVar[str] = "noisy maximum"
    noise: float

    def lead(self, confidence: float = 0.95) -> float:
        """By how many votes a class must lead all others to be the answer with this chance (a union bound)."""
        tail = (1 - confidence) / (self.classes - 1)
        if isinstance(self.charges[0][0], Gaussian):
            return float(-ndtri(tail) * math.sqrt(2) * self.noise)
        scale = self.noise / math.sqrt(2)
        return scale * least_reach(lambda x: math.exp(-x) * (0.5 + x / 4), tail)


@dataclass(frozen=True, kw_only=True)
class ConfidentPrice(VotePrice):
    """A noisy maximum for questions whose largest count passes a noisy check (Papernot et al. 2018).

    ``checks``: how many questions may be checked; ``answers`` of them may be answered. ``least``: the votes that the
    largest count must have, noisily.
    """

    kind: ClassVar[str] = "confident noisy maximum"
    checks: int
    check_noise: float
    noise: float
    least: float

    def lead(self, confidence: float = 0.95) -> float:
        """By how many votes a class must lead, once its question has passed the check."""
        return float(-ndtri((1 - confidence) / (self.classes - 1)) * math.sqrt(2) * self.noise)


@dataclass(frozen=True, kw_only=True)
class StablePrice(VotePrice):
    """Sparse vector: ``answers`` questions, of which ``unstable`` may be so. ``spread`` lambda, ``threshold`` w."""

    kind: ClassVar[str] = "sparse vector"
    unstable: int
    spread: float
    threshold: float

    @property
    def minimum_teachers(self) -> int:
        """With fewer, nothing is ever answered."""
        return minimum_teachers(self.threshold)

    def lead(self, confidence: float = 0.95) -> float:
        """By how many votes a class must lead to be released with this chance: w, and more than the noise."""
        reach = self.spread * least_reach(_two_laplace_tail, 1 - confidence)
        return 2 * (self.threshold + reach + 1)


def _two_laplace_tail(x: float) -> float:
    """P[Lap(2) + Lap(1) > x]."""
    return (4 * math.exp(-x / 2) - math.exp(-x)) / 6


def least_reach(tail: Callable[[float], float], chance: float) -> float:
    """The smallest x >= 0 with tail(x) <= chance, for a falling tail."""
    low, high = 0.0, 1.0
    while tail(high) > chance:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > chance else (low, middle)
    return high


def price_answers(
    aggregator: str,
    *,
    budget: Budget,
    teachers: int,
    classes: int = 2,
    answers: int,
    unstable: int | None = None,
    checks: int | None = None,
    check_share: float = 0.2,
    confident_share: float = 0.6,
) -> VotePrice:
    """What ``answers`` answers cost the whole ``budget``: the noise they get for it.

    unstable          of a sparse vector: how many of the questions may be unstable, T (by default 20, or all if fewer)
    checks            of "confident": how many questions may be checked (by default twice the answers)
    check_share       of "confident": the part of the budget that checks take
    confident_share   of "confident": the share of teachers that the winner must have, noisily
    """
    _check(aggregator, budget, teachers, classes)
    checked_numbers(answers, float_below(budget.epsilon), float_below(budget.delta))
    shape = {"budget": budget, "teachers": teachers, "classes": classes, "answers": answers, "aggregator": aggregator}
    if aggregator.startswith("gaussian"):
        return _gaussian(shape, budget, answers, paper=aggregator.endswith("paper"))
    if aggregator.startswith("laplace"):
        return _laplace(shape, budget, answers, paper=aggregator.endswith("paper"))
    if aggregator == "confident":
        asked = 2 * answers if checks is None else checks
        return _confident(shape, budget, answers, asked, check_share, confident_share)
    allowed = min(UNSTABLE, answers) if unstable is None else unstable
    return _stable(shape, budget, answers, allowed, paper=aggregator.endswith("paper"))


def answers_bought(
    aggregator: str, *, budget: Budget, teachers: int, classes: int = 2, lead: float, unstable: int | None = None
) -> int:
    """How many answers a budget buys if a class that leads by ``lead`` (a share of all teachers) shall win 95 of 100
    times; may be 0. For "sparse" and "gaussian", "laplace" in their exact calibration.
    """
    _check(aggregator, budget, teachers, classes)
    if not 0 < lead <= 1:
        raise BadInput(f"a lead of {lead}", "it is no share of the teachers", "Give one above 0, up to 1")
    votes, epsilon, delta = lead * teachers, float_below(budget.epsilon), float_below(budget.delta)
    tail = 0.05 / (classes - 1)
    if aggregator == "gaussian":
        return answers_at(votes / (2 * float(-ndtri(tail))), epsilon, delta)
    if aggregator == "laplace":
        scale = votes / least_reach(lambda x: math.exp(-x) * (0.5 + x / 4), tail)
        return answers_within(rate_event(1 / scale), budget)
    if aggregator == "sparse":
        if not budget.delta < MOST_DELTA:
            return 0
        allowed = UNSTABLE if unstable is None else unstable
        spread = 2 / float(exact_epoch(allowed, max(allowed, 1000), budget).epsilon)
        room = votes / 2 - 1 - spread * least_reach(_two_laplace_tail, 0.05)
        answers = 0.75 * delta * math.exp(min(room / (2 * spread * (1 + 1e-6)), 700))
        return min(int(answers), MOST_ANSWERS) if answers >= allowed else 0
    raise BadInput(f"answers bought of {aggregator}", "it is not one of those that can be asked", "Ask for its price")


def _check(aggregator: str, budget: Budget, teachers: int, classes: int) -> None:
    if aggregator not in AGGREGATORS:
        raise BadInput(f"the aggregator {aggregator}", "there is none", f"Choose one of {', '.join(AGGREGATORS)}")
    if type(teachers) is not int or not 2 <= teachers <= 10**6 or type(classes) is not int or not 2 <= classes <= 10**4:
        raise BadInput(
            f"{teachers} teachers for {classes} classes", "a vote needs at least two of each", "Count them again"
        )
    if budget.delta == 0:
        raise BadInput("answers at delta 0", "these prices need a delta", "Give one, such as 1e-6")


def _certified(make: Callable[[float], tuple[EventCount, ...]], noise: float, budget: Budget) -> float:
    """``noise``, raised by the hair that a ledger's arithmetic needs to certify it."""
    more = 1e-7
    while claimed(make(noise), budget) > budget.epsilon:
        noise, more = noise * (1 + more), 2 * more
    return noise


def _gaussian(shape: dict[str, Any], budget: Budget, answers: int, *, paper: bool) -> NoisyMaxPrice:
    calibrated = paper_multiplier if paper else exact_multiplier
    least = calibrated(answers, float_below(budget.epsilon), float_below(budget.delta))

    def charges(multiplier: float) -> tuple[EventCount, ...]:
        return ((Gaussian(noise_multiplier=multiplier), answers),)

    multiplier = _certified(charges, least, budget)
    return NoisyMaxPrice(**shape, charges=charges(multiplier), noise=math.sqrt(2) * multiplier)


def _laplace(shape: dict[str, Any], budget: Budget, answers: int, *, paper: bool) -> NoisyMaxPrice:
    event: DiscreteLaplace
    if paper:
        event = rate_event(paper_rate(answers, float_below(budget.epsilon), float_below(budget.delta)))
    else:
        event = exact_event(answers, budget)
    return NoisyMaxPrice(**shape, charges=((event, 2 * answers),), noise=math.sqrt(2) / float(event.epsilon))


def _confident(
    shape: dict[str, Any], budget: Budget, answers: int, checks: int, check_share: float, confident_share: float
) -> ConfidentPrice:
    if type(checks) is not int or not answers <= checks <= MOST_ANSWERS:
        raise BadInput(f"{checks} checks for {answers} answers", "every answer is checked first", "Allow more checks")
    if not 0 < check_share < 1 or not 0 < confident_share <= 1:
        raise BadInput("the shares of a confident vote", "they are not between 0 and 1", "Give shares such as 0.2, 0.6")
    epsilon, delta = float_below(budget.epsilon), float_below(budget.delta)
    ratio = exact_multiplier(checks, epsilon, delta) / math.sqrt(check_share)
    ratio /= exact_multiplier(answers, epsilon, delta) / math.sqrt(1 - check_share)

    def charges(multiplier: float) -> tuple[EventCount, ...]:
        return (
            (Gaussian(noise_multiplier=ratio * multiplier), checks),
            (Gaussian(noise_multiplier=multiplier), answers),
        )

    least = exact_multiplier(answers, epsilon, delta) / math.sqrt(1 - check_share)
    multiplier = _certified(charges, least, budget)
    return ConfidentPrice(
        **shape,
        charges=charges(multiplier),
        checks=checks,
        check_noise=ratio * multiplier,
        noise=math.sqrt(2) * multiplier,
        least=confident_share * shape["teachers"],
    )


def _stable(shape: dict[str, Any], budget: Budget, answers: int, unstable: int, *, paper: bool) -> StablePrice:
    checked_unstable(unstable, answers)
    check_delta(budget)
    epsilon, delta = float_below(budget.epsilon), float_below(budget.delta)
    epoch = epoch_event(2 / paper_spread(unstable, epsilon, delta)) if paper else None
    epoch = epoch or exact_epoch(unstable, answers, budget)
    spread = 2 / float(epoch.epsilon)
    threshold = paper_threshold(spread, unstable, answers, delta) if paper else exact_threshold(spread, answers, delta)
    mistake = failure_event(failure_chance(spread, threshold, answers), delta)
    check_teachers(shape["teachers"], threshold, unstable, answers)
    return StablePrice(
        **shape, charges=((epoch, unstable), (mistake, 1)), unstable=unstable, spread=spread, threshold=threshold
    )
