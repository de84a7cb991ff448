"""The audit target of a stream: the real learner, its ledger, coins and noise, on a stream of canaries.

Records have one number and are as long as may be, and the model is updated after each that is asked. So of every canary
the public sees its ask bit, and if it was asked, its own update in noise of exactly the planned size: no attack on one
record sees more. One that does not take part is a null in its place, a record that is not a number.

    asked      the ask bit: a null has the lowest chance
    taught     the noisy updates of those who were asked
    both       the sum of the two log likelihood ratios
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.audit.checks import Variance, length_variance, noise_variance
from discreet.audit.findings import GUESSED, Array, Attack, findings_of
from discreet.audit.results import NO_FAULT, Fault, TargetResult
from discreet.stream import (
    AskEverything,
    Asking,
    BernoulliAsking,
    ConstantStep,
    ExponentialAsking,
    FixedSlab,
    GammaNoise,
    GaussianNoise,
    Immediate,
    OneSidedAsking,
    StreamLearner,
    StreamSettings,
    UpdateNoise,
    gaussian_noise_for,
)

LONG = 0.999
"""Of the ball's radius, and as wide is the slab: always inside it."""
STEP = 2.0**-10
"""So small that the model stays where a hinge teaches, so large that its own steps are lost in the noise."""
Rule = Literal["one-sided", "bernoulli", "exponential", "everything"]


@dataclass(frozen=True, kw_only=True)
class StreamTarget:
    """How the target is planned. All public. ``asked``: what asking costs of ``epsilon``; updates have the rest."""

    epsilon: str = "1"
    delta: str = "1e-6"
    asked: str = "0.5"
    rule: Rule = "one-sided"
    noise: Literal["gamma", "gaussian"] = "gamma"
    canaries: int = 5000
    fault: Fault = NO_FAULT

    def audit(self, name: str, seed: int) -> TargetResult:
        """Run the stream once and attack it."""
        rng = np.random.default_rng([seed, self.canaries])
        coins = rng.random(self.canaries) < 0.5
        labels = rng.integers(0, 2, self.canaries)
        seen = run_stream(self, coins, labels, seed=seed)
        bits, updates = of_bits(self, seen), of_updates(self, seen, labels)
        count = round(GUESSED * self.canaries)
        attacks = {"taught": Attack(scores=updates, count=count)}
        if self.rule != "everything":
            attacks["asked"] = Attack(scores=bits, count=int(seen.asked.sum()), guess_absent=False)
            attacks["both"] = Attack(scores=bits + updates, count=count)
        return TargetResult(
            target=name,
            claimed=seen.claimed,
            findings=findings_of(attacks, coins, claimed=seen.claimed, delta=seen.delta, seed=seed),
            variances=(noise_of(self, seen, coins),),
        )

    def settings(self) -> StreamSettings:
        """Of its learner."""
        asking, left = self._asking(), Decimal(self.epsilon) - Decimal(self.asked)
        return StreamSettings(
            features=1,
            asking=asking,
            noise=self._noise(asking, str(left)),
            slab=FixedSlab(LONG),
            window=Immediate(),
            step=ConstantStep(STEP),
        )

    def _asking(self) -> Asking:
        if self.rule == "everything":
            return AskEverything()
        if self.rule == "bernoulli":
            return BernoulliAsking(epsilon=self.asked)
        if self.rule == "exponential":
            return ExponentialAsking(epsilon=self.asked, missed=self.epsilon)
        return OneSidedAsking(asked=self.asked, missed=self.epsilon)

    def _noise(self, asking: Asking, left: str) -> UpdateNoise:
        from discreet.privacy.budget import Budget

        if self.noise == "gamma":
            return GammaNoise(epsilon=left)
        return gaussian_noise_for(Budget(epsilon=self.epsilon, delta=self.delta), asking=asking)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SeenStream:
    """What a stream shows the public: ask bits, and how far each update moved the model (0 where there was none)."""

    claimed: float
    delta: float
    asked: NDArray[np.bool_]
    updates: Array


def run_stream(target: StreamTarget, coins: NDArray[np.bool_], labels: NDArray[np.int64], *, seed: int) -> SeenStream:
    """Let every canary arrive, one by one."""
    learner = StreamLearner.simulated(target.settings(), seed=seed, delta=target.delta)
    asked, updates = np.zeros(coins.size, dtype=bool), np.zeros(coins.size)
    budget = learner.model().claim
    with target.fault.inject():
        before = 0.0
        for number, (present, label) in enumerate(zip(coins.tolist(), labels.tolist(), strict=True)):
            record = [LONG if present else math.nan]
            asked[number] = learner.ask(record)
            if asked[number]:
                learner.learn_one(record, label)
                learner.update()
                now = float(learner.model().weights[0])
                updates[number], before = (now - before) / STEP, now
    return SeenStream(claimed=float(budget.epsilon), delta=float(budget.delta), asked=asked, updates=updates)


def of_bits(target: StreamTarget, seen: SeenStream) -> Array:
    """For each canary, how much likelier its ask bit is if it is there."""
    from discreet.noise.stream import ONE

    ends = target.settings().asking.ends(LONG, 1.0)
    if ends.low == ends.high:
        return np.zeros(seen.asked.size)
    asked, missed = math.log(ends.high / ends.low), math.log((ONE - ends.high) / (ONE - ends.low))
    return np.where(seen.asked, asked, missed)


def of_updates(target: StreamTarget, seen: SeenStream, labels: NDArray[np.int64]) -> Array:
    """The same of its update; 0 for one that was not asked."""
    noise = target.settings().noise
    updates = seen.updates * np.where(labels == 1, 1.0, -1.0)  # along what it would teach
    if isinstance(noise, GaussianNoise):
        ratio = LONG * (updates - LONG / 2) / noise.noise_multiplier**2
    else:
        assert isinstance(noise, GammaNoise)
        ratio = float(noise.epsilon) * (np.abs(updates) - np.abs(updates - LONG))
    return np.where(seen.asked, ratio, 0.0)


def noise_of(target: StreamTarget, seen: SeenStream, coins: NDArray[np.bool_]) -> Variance:
    """Of updates in which no canary took part: nulls that were asked."""
    noise, alone = target.settings().noise, seen.updates[seen.asked & ~coins]
    if isinstance(noise, GaussianNoise):
        return noise_variance(alone / noise.noise_multiplier)
    assert isinstance(noise, GammaNoise)
    return length_variance(np.abs(alone) * float(noise.epsilon))
