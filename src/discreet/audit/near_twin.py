"""A twin of looking near private records, attacked: the real selector, its ledger, components and counts, on canaries.

Canary number i lies between two axes of its own, a and b; a public record lies at the same place, and is nearest to it.
So a canary is one count of one public record, and an off-diagonal number of the second moment that no other canary
touches, both in noise of exactly the planned size. One that does not take part is a null in its place, a row that is
not a number. Canaries are ten times as long as what they are clipped to.

    counted      the noisy count of its public record, which is released
    moment       the noisy second moment at its two axes: what components are made of, and so paid for, too
    both         the sum of the two log likelihood ratios

And without luck: by how much one canary changes the counts, before noise (its reach).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.attacks import GUESSED, Array, Attack, found_by
from discreet.audit.audited import Audited
from discreet.audit.near_mistakes import NearPlant, Noted, noting, planted_near
from discreet.audit.reaches import Reach
from discreet.audit.variances import geometric_variance, noise_variance
from discreet.noise import Seeded
from discreet.planning.search import least_noise
from discreet.planning.teachers.claims import claimed
from discreet.privacy.budget import Budget
from discreet.privacy.events import DiscreteLaplace, Gaussian
from discreet.privacy.ledger import Ledger, Line, MemorySink, committed
from discreet.selectors import NearPrivate

LONG, NORM = 10.0, 1.0
TAKEN_OUT = 4
WHO = "private"


@dataclass(frozen=True, kw_only=True)
class NearTwin:
    """How the twin is planned. All public. ``support``: what counts cost of ``epsilon``; components have the rest."""

    epsilon: str = "1"
    delta: str = "1e-6"
    support: str = "0.5"
    canaries: int = 5000
    plant: NearPlant | None = None

    def budget(self) -> Budget:
        """What it claims."""
        return Budget(epsilon=self.epsilon, delta=self.delta)

    @property
    def counts(self) -> DiscreteLaplace:
        """The event of the counts."""
        return DiscreteLaplace(epsilon=self.support)

    def noise(self) -> float:
        """The least noise of components with which both keep the budget."""

        def cost(noise: float) -> float:
            return float(claimed(((Gaussian(noise_multiplier=noise), 1), (self.counts, 1)), self.budget()))

        found = least_noise(cost, float(self.epsilon), start=10.0, tolerance=1e-3, least=0.05, most=1e5)
        assert found is not None
        return found


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Places:
    """Where canaries lie: a pair of axes each."""

    canaries: int

    @property
    def axes(self) -> int:
        """So many that every canary has a pair."""
        return math.ceil((1 + math.sqrt(1 + 8 * self.canaries)) / 2)

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """(canaries, 2)."""
        upper = np.stack(np.triu_indices(self.axes, 1), axis=1)
        return np.asarray(upper[: self.canaries], dtype=np.int64)

    def rows(self, there: NDArray[np.bool_] | None = None) -> Array:
        """A row a canary, nulls where one is not there."""
        found = np.zeros((self.canaries, self.axes))
        np.put_along_axis(found, self.pairs, LONG / math.sqrt(2), axis=1)
        if there is not None:
            found[~there] = np.nan
        return found


def run_near(twin: NearTwin, noise: float, places: Places, there: NDArray[np.bool_], *, seed: int) -> Noted:
    """Charge, look once, and note what was drawn and released."""
    selector = NearPrivate(
        support_epsilon=twin.support, noise_multiplier=noise, components=places.axes, norm=NORM, uncertain=twin.canaries
    )
    lines = [Line(who=WHO, event=event) for event in selector.price(1, twin.canaries)]
    ledger = Ledger.create(MemorySink(), committed(twin.budget(), lines), source=Seeded(seed))
    paid = [ledger.charge(event=line.event, who=WHO, why="looking") for line in lines]
    noted = Noted()
    with noting(noted), planted_near(twin.plant):
        found = selector.support(
            ids=[f"public-{number:05d}" for number in range(twin.canaries)],
            scores=np.full(twin.canaries, 0.5),
            k=twin.canaries,
            receipt=paid,
            embeddings=places.rows(),
            private_scores=np.where(there, 0.5 + 0.5 * np.arange(twin.canaries) / twin.canaries, np.nan),
            private_embeddings=places.rows(there),
        )
    noted.released = dict(zip(found.ids, found.counts, strict=True))
    return noted


def audit_near_twin(name: str, twin: NearTwin, seed: int) -> Audited:
    """Look once, and attack what is seen."""
    noise, places = twin.noise(), Places(canaries=twin.canaries)
    coins = np.random.default_rng([seed, twin.canaries]).random(twin.canaries) < 0.5
    seen = run_near(twin, noise, places, coins, seed=seed)
    support = float(twin.support)
    counts = np.array([seen.released[f"public-{number:05d}"] for number in range(twin.canaries)], dtype=np.int64)
    counted = support * (np.abs(counts) - np.abs(counts - 1.0))
    first, second = places.pairs.T
    found = seen.moment[first, second] * math.sqrt(2)  # as it is released: off-diagonal numbers times sqrt 2
    pull = NORM**2 / math.sqrt(2)
    moment = pull * (found - pull / 2) / noise**2
    some = round(GUESSED * twin.canaries)
    tried = {
        "counted": Attack(scores=counted, made=some),
        "moment": Attack(scores=moment, made=some),
        "both": Attack(scores=counted + moment, made=some),
    }
    events: Any = ((Gaussian(noise_multiplier=noise), 1), (twin.counts, 1))
    claim = float(claimed(events, twin.budget()))
    return Audited(
        twin=name,
        claimed=claim,
        findings=found_by(tried, coins, claimed=claim, delta=float(twin.delta), seed=seed),
        variances=(
            noise_variance(found[~coins] / noise, "moment"),
            geometric_variance(counts[~coins], support, "counts"),
        ),
        reaches=(_reach(twin, noise, places, coins, seen, seed),),
    )


def _reach(twin: NearTwin, noise: float, places: Places, coins: NDArray[np.bool_], seen: Noted, seed: int) -> Reach:
    """By how much the counts change when one canary is taken out, with the same noise in everything before them."""
    furthest, out = 0.0, np.flatnonzero(coins)[-TAKEN_OUT:]  # the most uncertain: whoever counts, they do
    for place in out.tolist():
        fewer = coins.copy()
        fewer[place] = False
        other = run_near(twin, noise, places, fewer, seed=seed)
        furthest = max(furthest, float(np.abs(other.counted - seen.counted).sum()))
    return Reach(test="counts", found=furthest, allowed=1.0, canaries=out.size)
