"""A twin of teachers who answer, attacked: the real split, price, ledger, oracle and aggregator, on votes of canaries.

Every canary is a person with a few records, and sits with the teacher that the keyed split gives it. A teacher with
canaries votes by the first of them: by that canary's own secret pattern over all questions if it takes part, by the
opposite if there is a null in its place (a null's teacher may vote anything, so this is the worst). All others vote
half and half. So each question carries every canary by one vote, and all answers together carry a canary by as much as
is paid for.

    answers    how far answers go along a canary's pattern; with a check or a sparse vector, also which were given

Two further tests: how often noisy answers agree with votes whose lead is about the noise (its size), and how many votes
one canary moves (its reach).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.attacks import GUESSED, Array, Attack, found_by
from discreet.audit.audited import Audited
from discreet.audit.reaches import Reach
from discreet.audit.teachers_mistakes import TeachersPlant, planted_in_teachers
from discreet.audit.vote_noise import noise_of_votes
from discreet.noise import SecretKey, Seeded, derived_seed
from discreet.oracles.teachers import TeacherOracle
from discreet.planning.teachers import ConfidentPrice, StablePrice, VotePrice, price_answers
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.records import Votes
from discreet.trainers.teachers.splitting import split

CLASSES = ("no", "yes")
Integers = NDArray[np.int64]
UNSTABLE = 2
"""So few that each may be cheap, and going on after the last shows."""
LEAST_TEACHERS = 30_000
"""A sparse vector answers nothing with fewer than its threshold asks for."""
TAKEN_OUT = 20
"""Canaries that are taken out one by one to see how far they reach."""


@dataclass(frozen=True, kw_only=True)
class TeachersTwin:
    """How the twin is planned. All public. ``each``: records of a canary; there are as many questions as canaries.

    check_share       of a confident vote: what checks cost of the budget
    confident_share   how many teachers must agree: half, and answers are attacked; more, and checks are
    """

    aggregator: str = "gaussian"
    epsilon: str = "1"
    delta: str = "1e-6"
    canaries: int = 5000
    each: int = 3
    check_share: float = 0.2
    confident_share: float = 0.5
    plant: TeachersPlant | None = None

    @property
    def teachers(self) -> int:
        """Several for each canary, so that few share one."""
        return max(4 * self.canaries, LEAST_TEACHERS)

    def budget(self) -> Budget:
        """What it claims."""
        return Budget(epsilon=self.epsilon, delta=self.delta, unit="person")

    def price(self, answers: int | None = None, unstable: int = UNSTABLE) -> VotePrice:
        """Of all answers, or of some."""
        own = {"check_share": self.check_share, "confident_share": self.confident_share}
        asked = answers or self.canaries
        return _price(self.aggregator, self.budget(), self.teachers, asked, unstable, **own)


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

    twin: TeachersTwin
    seed: int

    @cached_property
    def patterns(self) -> NDArray[np.float32]:
        """Fixed before anything is drawn."""
        luck = np.random.default_rng([self.seed, 1])
        some = luck.integers(0, 2, (self.twin.canaries, self.twin.canaries), dtype=np.int8)
        return (2 * some - 1).astype(np.float32)

    @cached_property
    def voices(self) -> Integers:
        """With how many teachers each canary decides."""
        canaries, each = self.twin.canaries, self.twin.each
        units = [f"person-{number}" for number in range(canaries) for _ in range(each)]
        if self.twin.plant == "shared-records":  # records are split, and persons are promised
            units = [f"{unit}/{place % each}" for place, unit in enumerate(units)]
        luck = np.random.default_rng([self.seed, 2])
        home = split(units, teachers=self.twin.teachers, key=SecretKey(luck.bytes(32)))
        first = np.full(self.twin.teachers, canaries, dtype=np.int64)
        np.minimum.at(first, home, np.repeat(np.arange(canaries), each))
        return np.bincount(first[first < canaries], minlength=canaries)

    def counts(self, coins: NDArray[np.bool_], lead: int) -> Integers:
        """Votes of every teacher on every question: those without a canary give "yes" about ``lead`` more than "no"."""
        sides = np.where(coins, 1.0, -1.0) * self.voices
        tilt = np.rint(self.patterns @ sides.astype(np.float32)).astype(np.int64)
        silent = self.twin.teachers - int(self.voices.sum())
        extra = min(silent, lead)
        yes = (silent - extra) // 2 + extra + (int(self.voices.sum()) + tilt) // 2
        return np.stack([self.twin.teachers - yes, yes], axis=1)


def leads_of(twin: TeachersTwin, price: VotePrice) -> int:
    """By how much "yes" leads before canaries speak: what makes the output swing most."""
    if isinstance(price, StablePrice):
        return round(2 * (price.threshold + 1))
    return round(2 * price.least - twin.teachers) if isinstance(price, ConfidentPrice) else 0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Said:
    """What teachers show the world: which questions they came to, and an answer to some of them."""

    reached: NDArray[np.bool_]
    answers: tuple[str | None, ...]

    def directions(self) -> Array:
        """For each question, towards which side it points: more for "yes" than for none than for "no"."""
        sides = np.array([0.0 if one is None else 1.0 if one == CLASSES[1] else -1.0 for one in self.answers])
        if self.reached.any():
            sides -= sides[self.reached].mean()
        return np.where(self.reached, sides, 0.0)


def answers_of(twin: TeachersTwin, price: VotePrice, counts: Integers, *, seed: int) -> Said:
    """Ask everything, paid for by a ledger of ``price``."""
    ids = tuple(f"question-{number:05d}" for number in range(len(counts)))
    votes = Votes(ids=ids, classes=CLASSES, counts=counts, teachers=twin.teachers, unit="person")
    ledger = Ledger.create(MemorySink(), price.terms(), source=Seeded(seed))
    oracle = TeacherOracle(votes, price=price, ledger=ledger)
    with planted_in_teachers(twin.plant):
        oracle.answer(ids)
    told = oracle.answers
    return Said(
        reached=np.array([name in told for name in ids], dtype=bool), answers=tuple(told.get(name) for name in ids)
    )


def audit_teachers_twin(name: str, twin: TeachersTwin, seed: int) -> Audited:
    """Ask every question once, and attack the answers."""
    price, ensemble = twin.price(), Ensemble(twin=twin, seed=seed)
    coins = np.random.default_rng([seed, twin.canaries]).random(twin.canaries) < 0.5
    said = answers_of(twin, price, ensemble.counts(coins, leads_of(twin, price)), seed=seed)
    scores = (ensemble.patterns.T @ said.directions().astype(np.float32)).astype(np.float64)
    tried = {"answers": Attack(scores=scores, made=round(GUESSED * twin.canaries))}
    claimed = float(price.epsilon)
    return Audited(
        twin=name,
        claimed=claimed,
        findings=found_by(tried, coins, claimed=claimed, delta=float(twin.delta), seed=seed),
        variances=noise_of_votes(twin, seed=derived_seed(seed, "noise of votes")),
        reaches=(_reach(ensemble, coins),),
    )


def _reach(ensemble: Ensemble, coins: NDArray[np.bool_]) -> Reach:
    """How many votes of a question one canary moves. One is paid for."""
    whole, furthest = ensemble.counts(coins, 0), 0.0
    known = np.flatnonzero(ensemble.voices)
    for place in known[np.argsort(-ensemble.voices[known], kind="stable")][:TAKEN_OUT].tolist():
        other = coins.copy()
        other[place] = ~other[place]
        furthest = max(furthest, float(np.abs(ensemble.counts(other, 0) - whole).max()))
    return Reach(test="votes", found=furthest, allowed=1.0, canaries=min(TAKEN_OUT, known.size))
