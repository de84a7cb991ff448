"""A twin of a stream, attacked: the real learner, its ledger, coins and noise, on a stream of canaries.

Records have one number and are as long as may be, and the model is updated after each that is asked. So of every canary
the world sees its ask bit, and if it was asked, its own lesson in noise of exactly the planned size: no attack on one
record sees more. One that does not take part is a null in its place, a record that is not a number.

    asked      the ask bit: a null has the lowest chance
    taught     the noisy lessons of those who were asked
    both       the sum of the two log likelihood ratios
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.audit.attacks import GUESSED, Array, Attack, found_by
from discreet.audit.audited import Audited
from discreet.audit.stream_mistakes import StreamPlant, planted_in_stream
from discreet.audit.variances import Variance, length_variance, noise_variance
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
class StreamTwin:
    """How the twin is planned. All public. ``asked``: what asking costs of ``epsilon``; updates have the rest."""

    epsilon: str = "1"
    delta: str = "1e-6"
    asked: str = "0.5"
    rule: Rule = "one-sided"
    noise: Literal["gamma", "gaussian"] = "gamma"
    canaries: int = 5000
    plant: StreamPlant | None = None

    def settings(self) -> StreamSettings:
        """Of its learner."""
        from decimal import Decimal

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
    """What a stream shows the world: ask bits, and how far each update moved the model (0 where there was none)."""

    claimed: float
    delta: float
    asked: NDArray[np.bool_]
    lessons: Array


def run_stream(twin: StreamTwin, coins: NDArray[np.bool_], labels: NDArray[np.int64], *, seed: int) -> SeenStream:
    """Let every canary arrive, one by one."""
    learner = StreamLearner.simulated(twin.settings(), seed=seed, delta=twin.delta)
    asked, lessons = np.zeros(coins.size, dtype=bool), np.zeros(coins.size)
    budget = learner.model().claim
    with planted_in_stream(twin.plant):
        before = 0.0
        for place, (there, label) in enumerate(zip(coins.tolist(), labels.tolist(), strict=True)):
            record = [LONG if there else math.nan]
            asked[place] = learner.ask(record)
            if asked[place]:
                learner.learn_one(record, label)
                learner.update()
                now = float(learner.model().weights[0])
                lessons[place], before = (now - before) / STEP, now
    return SeenStream(claimed=float(budget.epsilon), delta=float(budget.delta), asked=asked, lessons=lessons)


def of_bits(twin: StreamTwin, seen: SeenStream) -> Array:
    """For each canary, how much likelier its ask bit is if it is there."""
    from discreet.noise.stream import ONE

    ends = twin.settings().asking.ends(LONG, 1.0)
    if ends.low == ends.high:
        return np.zeros(seen.asked.size)
    asked, missed = math.log(ends.high / ends.low), math.log((ONE - ends.high) / (ONE - ends.low))
    return np.where(seen.asked, asked, missed)


def of_lessons(twin: StreamTwin, seen: SeenStream, labels: NDArray[np.int64]) -> Array:
    """The same of its lesson; 0 for one that was not asked."""
    noise = twin.settings().noise
    found = seen.lessons * np.where(labels == 1, 1.0, -1.0)  # along what it would teach
    if isinstance(noise, GaussianNoise):
        ratio = LONG * (found - LONG / 2) / noise.noise_multiplier**2
    else:
        assert isinstance(noise, GammaNoise)
        ratio = float(noise.epsilon) * (np.abs(found) - np.abs(found - LONG))
    return np.where(seen.asked, ratio, 0.0)


def noise_of(twin: StreamTwin, seen: SeenStream, coins: NDArray[np.bool_]) -> Variance:
    """Of updates in which no canary took part: nulls that were asked."""
    noise, alone = twin.settings().noise, seen.lessons[seen.asked & ~coins]
    if isinstance(noise, GaussianNoise):
        return noise_variance(alone / noise.noise_multiplier)
    assert isinstance(noise, GammaNoise)
    return length_variance(np.abs(alone) * float(noise.epsilon))


def audit_stream_twin(name: str, twin: StreamTwin, seed: int) -> Audited:
    """Run it once and attack it."""
    luck = np.random.default_rng([seed, twin.canaries])
    coins = luck.random(twin.canaries) < 0.5
    labels = luck.integers(0, 2, twin.canaries)
    seen = run_stream(twin, coins, labels, seed=seed)
    bits, lessons = of_bits(twin, seen), of_lessons(twin, seen, labels)
    some = round(GUESSED * twin.canaries)
    tried: dict[str, Attack] = {"taught": Attack(scores=lessons, made=some)}
    if twin.rule != "everything":
        tried["asked"] = Attack(scores=bits, made=int(seen.asked.sum()), low=False)
        tried["both"] = Attack(scores=bits + lessons, made=some)
    options: dict[str, Any] = {"claimed": seen.claimed, "delta": seen.delta, "seed": seed}
    return Audited(
        twin=name,
        claimed=seen.claimed,
        findings=found_by(tried, coins, **options),
        variances=(noise_of(twin, seen, coins),),
    )
