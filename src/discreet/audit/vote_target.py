"""The audit target of teacher votes (PATE): the real split, price, ledger, oracle and aggregator, on votes of canaries.

Every canary is a person with a few records, and sits with the teacher that the keyed split gives it. A teacher with
canaries votes by the first of them: by that canary's own secret pattern over all questions if it takes part, by the
opposite if there is a null in its place (a null's teacher may vote anything, so this is the worst). All others vote
half and half. So each question carries every canary by one vote, and all answers together carry a canary by as much as
is paid for.

    answers    how far answers go along a canary's pattern; with a check or a sparse vector, also which were given

Two further checks: the size of the noise, and the sensitivity, which is how many votes one canary moves. No count is
ever released, so noise is seen only from how often a noisy answer is the true one: on questions whose lead is about the
noise, the true class wins with a probability that follows from the size of the noise, and less noise lets it win more
often. A sparse vector keeps one noise for an epoch, so of each epoch only the first question is looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.audit.checks import SensitivityCheck, Variance, agreement
from discreet.audit.findings import GUESSED, Array, Attack, findings_of
from discreet.audit.results import NO_FAULT, Fault, TargetResult
from discreet.noise import SecretKey, Seeded, derived_seed
from discreet.oracles.teachers import TeacherOracle, distances
from discreet.planning.pate import ConfidentPrice, NoisyMaxPrice, StablePrice, VotePrice, price_answers
from discreet.privacy.budget import Budget
from discreet.privacy.events import Gaussian
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.records import Votes
from discreet.trainers.teachers.training import split

CLASSES = ("no", "yes")
Integers = NDArray[np.int64]
UNSTABLE = 2
"""So few that each may be cheap, and going on after the last shows."""
LEAST_TEACHERS = 30_000
"""A sparse vector answers nothing with fewer than its threshold asks for."""
TAKEN_OUT = 20
"""Canaries that are taken out one by one to see how far they reach."""
QUESTIONS = 1000
EPOCHS, OF_EPOCHS, LOOKED_AT = 1000, 4000, 500
"""A sparse vector may say "unstable" so often, in so many questions; so many first ones are looked at, or none. Epochs
end after one question or two, but for a rare one whose threshold is so low that it answers hundreds: with no more
questions than epochs, that one would leave too few of the others.
"""


@dataclass(frozen=True, kw_only=True)
class VoteTarget:
    """How the target is planned. All public. ``each``: records of a canary; there are as many questions as canaries.

    check_share       of a confident vote: what checks cost of the budget
    confident_share   how many teachers must agree: half, and answers are attacked; more, and checks are
    split_by          what is kept with one teacher; the budget is a person's, so "record" is a fault
    """

    aggregator: str = "gaussian"
    epsilon: str = "1"
    delta: str = "1e-6"
    canaries: int = 5000
    each: int = 3
    check_share: float = 0.2
    confident_share: float = 0.5
    split_by: Literal["person", "record"] = "person"
    fault: Fault = NO_FAULT

    def audit(self, name: str, seed: int) -> TargetResult:
        """Ask every question once, and attack the answers."""
        price, ensemble = self.price(), Ensemble(target=self, seed=seed)
        coins = np.random.default_rng([seed, self.canaries]).random(self.canaries) < 0.5
        shown = answers_of(self, price, ensemble.counts(coins, leads_of(self, price)), seed=seed)
        scores = (ensemble.patterns.T @ shown.directions().astype(np.float32)).astype(np.float64)
        attacks, claim = {"answers": Attack(scores=scores, count=round(GUESSED * self.canaries))}, float(price.epsilon)
        return TargetResult(
            target=name,
            claimed=claim,
            findings=findings_of(attacks, coins, claimed=claim, delta=float(self.delta), seed=seed),
            variances=noise_of_votes(self, seed=derived_seed(seed, "noise of votes")),
            sensitivity_checks=(_sensitivity(ensemble, coins),),
        )

    @property
    def teachers(self) -> int:
        """Several for each canary, so that few share one."""
        return max(4 * self.canaries, LEAST_TEACHERS)

    def budget(self) -> Budget:
        """What it claims."""
        return Budget(epsilon=self.epsilon, delta=self.delta, unit="person")

    def price(self, answers: int | None = None, unstable: int = UNSTABLE) -> VotePrice:
        """Of all answers, or of some."""
        shares = {"check_share": self.check_share, "confident_share": self.confident_share}
        return _price(self.aggregator, self.budget(), self.teachers, answers or self.canaries, unstable, **shares)


@cache
def _price(
    aggregator: str,
    budget: Budget,
    teachers: int,
    asked: int,
    unstable: int,
    *,
    check_share: float,
    confident_share: float,
) -> VotePrice:
    shape: dict[str, Any] = {"budget": budget, "teachers": teachers, "answers": asked}
    if aggregator == "confident":
        shape |= {"check_share": check_share, "confident_share": confident_share}
        return price_answers("confident", **shape, checks=asked)
    if aggregator.startswith("sparse"):
        return price_answers(aggregator, **shape, unstable=unstable)
    return price_answers(aggregator, **shape)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Ensemble:
    """Teachers and the canaries with them. ``patterns``: (questions, canaries) of 1 and -1."""

    target: VoteTarget
    seed: int

    @cached_property
    def patterns(self) -> NDArray[np.float32]:
        """Fixed before anything is drawn."""
        rng = np.random.default_rng([self.seed, 1])
        bits = rng.integers(0, 2, (self.target.canaries, self.target.canaries), dtype=np.int8)
        return (2 * bits - 1).astype(np.float32)

    @cached_property
    def voices(self) -> Integers:
        """With how many teachers each canary decides."""
        canaries, each = self.target.canaries, self.target.each
        units = [f"person-{number}" for number in range(canaries) for _ in range(each)]
        if self.target.split_by == "record":
            units = [f"{unit}/{number % each}" for number, unit in enumerate(units)]
        rng = np.random.default_rng([self.seed, 2])
        home = split(units, teachers=self.target.teachers, key=SecretKey(rng.bytes(32)))
        first = np.full(self.target.teachers, canaries, dtype=np.int64)
        np.minimum.at(first, home, np.repeat(np.arange(canaries), each))
        return np.bincount(first[first < canaries], minlength=canaries)

    def counts(self, coins: NDArray[np.bool_], lead: int) -> Integers:
        """Votes of every teacher on every question: those without a canary give "yes" about ``lead`` more than "no"."""
        sides = np.where(coins, 1.0, -1.0) * self.voices
        tilt = np.rint(self.patterns @ sides.astype(np.float32)).astype(np.int64)
        silent = self.target.teachers - int(self.voices.sum())
        extra = min(silent, lead)
        yes = (silent - extra) // 2 + extra + (int(self.voices.sum()) + tilt) // 2
        return np.stack([self.target.teachers - yes, yes], axis=1)


def leads_of(target: VoteTarget, price: VotePrice) -> int:
    """By how much "yes" leads before canaries speak: what makes the output swing most."""
    if isinstance(price, StablePrice):
        return round(2 * (price.threshold + 1))
    return round(2 * price.least - target.teachers) if isinstance(price, ConfidentPrice) else 0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ShownAnswers:
    """What teachers show the public: which questions they came to, and an answer to some of them."""

    reached: NDArray[np.bool_]
    answers: tuple[str | None, ...]

    def directions(self) -> Array:
        """For each question, towards which side it points: more for "yes" than for none than for "no"."""
        sides = np.array([0.0 if answer is None else 1.0 if answer == CLASSES[1] else -1.0 for answer in self.answers])
        if self.reached.any():
            sides -= sides[self.reached].mean()
        return np.where(self.reached, sides, 0.0)


def answers_of(target: VoteTarget, price: VotePrice, counts: Integers, *, seed: int) -> ShownAnswers:
    """Ask everything, paid for by a ledger of ``price``."""
    ids = tuple(f"question-{number:05d}" for number in range(len(counts)))
    votes = Votes(ids=ids, classes=CLASSES, counts=counts, teachers=target.teachers, unit="person")
    ledger = Ledger.create(MemorySink(), price.terms(), source=Seeded(seed))
    oracle = TeacherOracle(votes, price=price, ledger=ledger)
    with target.fault.inject():
        oracle.answer(ids)
    answers = oracle.answers
    return ShownAnswers(
        reached=np.array([name in answers for name in ids], dtype=bool),
        answers=tuple(answers.get(name) for name in ids),
    )


def _sensitivity(ensemble: Ensemble, coins: NDArray[np.bool_]) -> SensitivityCheck:
    """How many votes of a question one canary moves. One is paid for."""
    counts, furthest = ensemble.counts(coins, 0), 0.0
    known = np.flatnonzero(ensemble.voices)
    for canary in known[np.argsort(-ensemble.voices[known], kind="stable")][:TAKEN_OUT].tolist():
        other = coins.copy()
        other[canary] = ~other[canary]
        furthest = max(furthest, float(np.abs(ensemble.counts(other, 0) - counts).max()))
    return SensitivityCheck(test="votes", furthest=furthest, allowed=1.0, canaries=min(TAKEN_OUT, known.size))


def noise_of_votes(target: VoteTarget, *, seed: int) -> tuple[Variance, ...]:
    """Of answers, and of checks where there are some."""
    if target.aggregator.startswith("sparse"):
        return _of_epochs(target, seed)
    price = target.price(QUESTIONS)
    assert isinstance(price, NoisyMaxPrice | ConfidentPrice)
    rng = np.random.default_rng([seed, 5])
    lead = 2 * round(max(1.0, price.noise * math.sqrt(2) / 2))
    if isinstance(price, ConfidentPrice):  # clear enough to be answered most of the time
        lead = max(lead, 2 * round(price.least + price.check_noise - target.teachers / 2))
    sides = rng.integers(0, 2, QUESTIONS)
    top = target.teachers // 2 + lead // 2
    counts = np.full((QUESTIONS, 2), target.teachers - top, dtype=np.int64)
    counts[np.arange(QUESTIONS), sides] = top
    shown = answers_of(target, price, counts, seed=seed)
    answered = np.array([answer is not None for answer in shown.answers], dtype=bool)
    right = np.array(shown.answers, dtype=object) == np.array(CLASSES, dtype=object)[sides]
    chances = np.where(sides == 0, _wins(price, lead, first=True), _wins(price, lead, first=False))
    answers = agreement(right[answered], chances[answered])
    checks = [] if math.isnan(answers.ratio) else [answers]  # a lead that no noise turns shows nothing of it
    if isinstance(price, ConfidentPrice):
        passing = np.full(QUESTIONS, _normal((top - price.least) / price.check_noise))
        checks.append(agreement(answered, passing, "checks"))
    return tuple(checks)


def _of_epochs(target: VoteTarget, seed: int) -> tuple[Variance, ...]:
    """Of a sparse vector: questions that are unstable by about its noise, and are told so the more often the less noise
    there is.
    """
    price = target.price(OF_EPOCHS, EPOCHS)
    assert isinstance(price, StablePrice)
    distance = math.floor(price.threshold - 2 * price.spread)
    top = (target.teachers + 2 * (distance + 1)) // 2
    counts = np.tile(np.array([target.teachers - top, top], dtype=np.int64), (OF_EPOCHS, 1))
    true = int(distances(counts[:1])[0])
    shown = answers_of(target, price, counts, seed=seed)
    unstable = np.array([answer is None for answer in shown.answers], dtype=bool)[shown.reached]
    first = np.concatenate([[True], unstable[:-1]]).nonzero()[0][:LOOKED_AT]
    if first.size < LOOKED_AT:
        return ()
    gap = (price.threshold - true) / price.spread
    chance = 1 - (4 * math.exp(-gap / 2) - math.exp(-gap)) / 6
    return (agreement(unstable[first], np.full(first.size, chance)),)


def _wins(price: NoisyMaxPrice | ConfidentPrice, lead: int, *, first: bool) -> float:
    """The chance that a class which leads by so many votes wins, rounded up by nothing that matters; ``first``: it wins
    ties.
    """
    event = price.charges[-1][0]
    if isinstance(event, Gaussian):
        return _normal(lead / (math.sqrt(2) * price.noise))
    rate = math.exp(-math.sqrt(2) / price.noise)
    reach = round(40 / -math.log(rate))
    noise = rate ** np.abs(np.arange(-reach, reach + 1)) * (1 - rate) / (1 + rate)
    both: NDArray[np.float64] = np.convolve(noise, noise)  # of the difference of two, centred at 2 reach
    start = 2 * reach - lead + (0 if first else 1)
    return min(1.0, float(both[max(0, start) :].sum()))


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))
