"""The audit target of near-private selection: the real selector, its ledger, components and counts, on canaries.

Canary number i lies between two axes of its own, a and b; a public record lies at the same place, and is nearest to it.
So a canary is one count of one public record, and an off-diagonal number of the second moment that no other canary
touches, both in noise of exactly the planned size. One that does not take part is a null in its place, a row that is
not a number. Canaries are ten times as long as what they are clipped to.

    counted      the noisy count of its public record, which is released
    moment       the noisy second moment at its two axes: what components are made of, and so paid for, too
    both         the sum of the two log likelihood ratios

A sensitivity check: by how much one canary changes the counts, before noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.checks import SensitivityCheck, geometric_variance, noise_variance
from discreet.audit.findings import GUESSED, Array, Attack, findings_of
from discreet.audit.results import NO_FAULT, Fault, TargetResult
from discreet.noise import Seeded
from discreet.planning.calibration import least_noise
from discreet.planning.pate.vote_noise import claimed
from discreet.privacy.budget import Budget
from discreet.privacy.events import DiscreteLaplace, Gaussian
from discreet.privacy.ledger import Ledger, Line, MemorySink, committed
from discreet.selectors import NearPrivate, near_private

LONG, NORM = 10.0, 1.0
TAKEN_OUT = 4
WHO = "private"


@dataclass(frozen=True, kw_only=True)
class NearPrivateTarget:
    """How the target is planned. All public. ``support``: what counts cost of ``epsilon``; components have the rest."""

    epsilon: str = "1"
    delta: str = "1e-6"
    support: str = "0.5"
    canaries: int = 5000
    fault: Fault = NO_FAULT

    def audit(self, name: str, seed: int) -> TargetResult:
        """Look once, and attack what is seen."""
        noise, axes = self.noise(), CanaryAxes(canaries=self.canaries)
        coins = np.random.default_rng([seed, self.canaries]).random(self.canaries) < 0.5
        seen = look(self, noise, axes, coins, seed=seed)
        support, claim = float(self.support), self.claim(noise)
        counts = np.array([seen.released[f"public-{number:05d}"] for number in range(self.canaries)], dtype=np.int64)
        counted = support * (np.abs(counts) - np.abs(counts - 1.0))
        first, second = axes.pairs.T
        moments = seen.moment[first, second] * math.sqrt(2)  # as released: off-diagonal numbers times sqrt 2
        pull = NORM**2 / math.sqrt(2)
        moment = pull * (moments - pull / 2) / noise**2
        scores = {"counted": counted, "moment": moment, "both": counted + moment}
        attacks = {
            attack: Attack(scores=score, count=round(GUESSED * self.canaries)) for attack, score in scores.items()
        }
        return TargetResult(
            target=name,
            claimed=claim,
            findings=findings_of(attacks, coins, claimed=claim, delta=float(self.delta), seed=seed),
            variances=(
                noise_variance(moments[~coins] / noise, "moment"),
                geometric_variance(counts[~coins], support, "counts"),
            ),
            sensitivity_checks=(_sensitivity(self, noise, axes, coins, seen, seed),),
        )

    def budget(self) -> Budget:
        """What it claims."""
        return Budget(epsilon=self.epsilon, delta=self.delta)

    @property
    def counts(self) -> DiscreteLaplace:
        """The event of the counts."""
        return DiscreteLaplace(epsilon=self.support)

    def claim(self, noise: float) -> float:
        """The epsilon of components with this noise and of the counts."""
        events: Any = ((Gaussian(noise_multiplier=noise), 1), (self.counts, 1))
        return float(claimed(events, self.budget()))

    def noise(self) -> float:
        """The least noise of components with which both keep the budget."""

        def cost(noise: float) -> float:
            return self.claim(noise)

        noise = least_noise(cost, float(self.epsilon), start=10.0, tolerance=1e-3, smallest=0.05, largest=1e5)
        assert noise is not None
        return noise


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CanaryAxes:
    """Where canaries lie: a pair of axes each."""

    canaries: int

    @property
    def number(self) -> int:
        """So many that every canary has a pair."""
        return math.ceil((1 + math.sqrt(1 + 8 * self.canaries)) / 2)

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """(canaries, 2)."""
        upper = np.stack(np.triu_indices(self.number, 1), axis=1)
        return np.asarray(upper[: self.canaries], dtype=np.int64)

    def rows(self, present: NDArray[np.bool_] | None = None) -> Array:
        """A row a canary, nulls where one is absent."""
        rows = np.zeros((self.canaries, self.number))
        np.put_along_axis(rows, self.pairs, LONG / math.sqrt(2), axis=1)
        if present is not None:
            rows[~present] = np.nan
        return rows


def look(target: NearPrivateTarget, noise: float, axes: CanaryAxes, present: NDArray[np.bool_], *, seed: int) -> Draws:
    """Charge, look once, and note what was drawn and released."""
    selector = NearPrivate(
        support_epsilon=target.support,
        noise_multiplier=noise,
        components=axes.number,
        norm=NORM,
        uncertain=target.canaries,
    )
    lines = [Line(who=WHO, event=event) for event in selector.price(1, target.canaries)]
    ledger = Ledger.create(MemorySink(), committed(target.budget(), lines), source=Seeded(seed))
    paid = [ledger.charge(event=line.event, who=WHO, why="looking") for line in lines]
    draws = Draws()
    with _noted(draws), target.fault.inject():
        support = selector.support(
            ids=[f"public-{number:05d}" for number in range(target.canaries)],
            scores=np.full(target.canaries, 0.5),
            k=target.canaries,
            receipt=paid,
            embeddings=axes.rows(),
            private_scores=np.where(present, 0.5 + 0.5 * np.arange(target.canaries) / target.canaries, np.nan),
            private_embeddings=axes.rows(present),
        )
    draws.released = dict(zip(support.ids, support.counts, strict=True))
    return draws


@dataclass(kw_only=True, repr=False)
class Draws:
    """Draws of a simulation. ``moment``: noisy; ``counted``: before noise; ``released``: noisy counts by public id."""

    moment: Array = field(default_factory=lambda: np.zeros((0, 0)))
    counted: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    released: Mapping[str, int] = field(default_factory=dict)


@contextmanager
def _noted(draws: Draws) -> Iterator[None]:
    """Note what a simulation draws: the noisy moment, and the counts that noise is added to."""
    from unittest import mock

    from discreet import components as private

    released, drawn = vars(private)["released"], vars(near_private)["discrete_laplace"]

    def moment(*arguments: Any, **options: Any) -> Any:
        noisy = released(*arguments, **options)
        if arguments[2].simulation:
            draws.moment = noisy
        return noisy

    def counts(value: Any, *, receipt: Any, **options: Any) -> Any:
        if receipt.simulation:
            draws.counted = np.array(value)
        return drawn(value, receipt=receipt, **options)

    with mock.patch.object(private, "released", moment), mock.patch.object(near_private, "discrete_laplace", counts):
        yield


def _sensitivity(
    target: NearPrivateTarget,
    noise: float,
    axes: CanaryAxes,
    coins: NDArray[np.bool_],
    seen: Draws,
    seed: int,
) -> SensitivityCheck:
    """By how much the counts change when one canary is taken out, with the same noise in everything before them."""
    furthest, out = 0.0, np.flatnonzero(coins)[-TAKEN_OUT:]  # the most uncertain: whoever counts, they do
    for canary in out.tolist():
        fewer = coins.copy()
        fewer[canary] = False
        other = look(target, noise, axes, fewer, seed=seed)
        furthest = max(furthest, float(np.abs(other.counted - seen.counted).sum()))
    return SensitivityCheck(test="counts", furthest=furthest, allowed=1.0, canaries=out.size)
