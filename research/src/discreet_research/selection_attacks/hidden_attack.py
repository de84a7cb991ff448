"""An attack on whole campaigns with hidden selection: thresholds *and* models, with exact likelihoods.

A small pool is asked and trained for T phases; seen are the noisy histograms and the noisy sums of gradients, one
number each. For every run that is drawn both likelihoods are computed exactly, summed over all sets that could have
been asked in secret. So

    delta(eps) = E_P[(1 - e^eps Q / P)_+]

is a mean of numbers in [0, 1] that needs no choice of an event: no attack on the same transcript finds more. Its lower
end is by Maurer and Pontil's inequality (*Empirical Bernstein bounds*, 2009), so a true claim is called broken at most
with the chance ``level``, in each direction.

    found = attack_hidden(HiddenRuns(scene=scene), runs=200_000, epsilon=claimed)
    assert found.proved <= delta

Methods of `HiddenRuns` are small so that a test can plant a mistake in one of them. That its selections have the law of
`HiddenThresholdSelector` is tested run by run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.events import PoissonSampledGaussian, Repeated
from discreet.privacy.selection_terms import SelectionTerms
from discreet.privacy.trajectories import Trajectory
from discreet.selectors.hidden_threshold import edge_of
from discreet.selectors.selection_inputs import tails_of
from discreet.testing.noise import SURELY

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class HiddenScene:
    """A campaign on a pool of a few records; the first is the one in question.

    bins_of    by query, the bin of every record's score: it depends on nothing but the record
    turned     by query, the bin of the record in question if the last noisy sum was below 0; None: as above
    gradients  of every record, from -1 to 1 (clipped to 1)
    k          asked by each query, about
    epsilon    of each threshold
    bins       of each histogram
    rate, noise, steps   of training: every asked record, from the phase in which it was asked
    """

    bins_of: tuple[tuple[int, ...], ...]
    gradients: tuple[float, ...]
    k: int
    epsilon: str
    bins: int
    rate: float
    noise: float
    steps: int = 1
    turned: tuple[int, ...] | None = None

    @property
    def queries(self) -> int:
        """T."""
        return len(self.bins_of)

    def claimed(self, terms: SelectionTerms, delta: float) -> float:
        """The epsilon of the worst path, as a plan certifies it."""
        step = PoissonSampledGaussian(sampling_rate=self.rate, noise_multiplier=self.noise)
        paths = [Trajectory(name="never", selection=terms.never_asked())]
        for query in range(1, self.queries + 1):
            count = self.steps * (self.queries - query + 1)
            training = (Repeated(event=step, count=count),)
            paths.append(Trajectory(name="asked", selection=terms.asked_at(query), training=training))
        return max(path.pld(delta, 1e-3) for path in paths)


@dataclass(frozen=True, kw_only=True)
class Transcripts:
    """What was seen of each run: histograms (runs, T, bins), sums (runs, T, steps), and what a mistake tells beside."""

    histograms: NDArray[np.int64]
    sums: Array
    told: Array


@dataclass(frozen=True, kw_only=True)
class HiddenFound:
    """delta at an epsilon, forward and backward: estimated, and proved to be at least so much."""

    forward: float
    backward: float
    proved: float


@dataclass(frozen=True, kw_only=True)
class HiddenRuns:
    """Runs of a scene, and their likelihoods. States are sets of records that were asked, as bits."""

    scene: HiddenScene

    @property
    def states(self) -> Bits:
        """(states, records): who was asked."""
        count = len(self.scene.gradients)
        return np.asarray((np.arange(1 << count)[:, None] >> np.arange(count)) & 1, dtype=bool)

    # -- what happens in one phase, in each world

    def counted(self, query: int, asked: Bits, bins: Any, *, present: bool) -> Any:
        """The histogram of those who are not asked yet: (..., bins); a null is not counted."""
        counted_records = ~asked & (bins >= 0)
        return (counted_records[..., None] & (bins[..., None] == np.arange(self.scene.bins))).sum(axis=-2)

    def chances(self, bins: Any, edge: Any, share: Any) -> Array:
        """Of each record, to be asked if it was not."""
        edge, share = edge[..., None], share[..., None]
        return np.asarray(np.where(bins > edge, 1.0, np.where((bins == edge) & (bins >= 0), share, 0.0)))

    def kept(self, newly: Bits, bins: Any) -> Bits:
        """Of those whose coin fell, those who are asked: everybody."""
        return newly

    def spread(self, asked: Bits) -> Array:
        """The standard deviation of the noise, given who trains: one number."""
        return np.full(asked.shape[:-1], self.scene.noise)

    def tell(self, asked: Bits, scale: Array, rng: np.random.Generator) -> Array:
        """What is seen beside: nothing."""
        return np.zeros(asked.shape[:-1])

    def log_told(self, told: Array, asked: Bits, scale: Array) -> Any:
        """Its log likelihood for every state."""
        return 0.0

    # -- the campaign

    def bins_at(self, query: int, last: Array, *, present: bool) -> NDArray[np.int64]:
        """(runs, records): bins of this query's scores; -1, the bottom, for a null."""
        scene = self.scene
        bins = np.tile(np.array(scene.bins_of[query]), (last.size, 1))
        if scene.turned is not None:
            bins[last < 0, 0] = scene.turned[query]
        if not present:
            bins[:, 0] = self.null_bin(query)
        return bins

    def null_bin(self, query: int) -> int:
        """The bin of a null."""
        return -1

    def gradients(self, *, present: bool) -> Array:
        """A null's is 0."""
        gradients = np.array(self.scene.gradients)
        gradients[0] *= present
        return gradients

    def decided(self, noisy: NDArray[np.int64]) -> tuple[Array, Array]:
        """Edge and share of each run, by the selector's own functions."""
        return edge_of(tails_of(noisy.astype(np.float64), np.inf), self.scene.k)

    def draw(self, *, present: bool, runs: int, seed: int) -> Transcripts:
        """Runs, each with its secrets forgotten."""
        scene, rng = self.scene, np.random.default_rng([seed, present])
        asked, last = np.zeros((runs, len(scene.gradients)), dtype=bool), np.zeros(runs)
        histograms, sums, told = [], [], []
        rate = 1 - math.exp(-float(scene.epsilon))
        for query in range(scene.queries):
            bins = self.bins_at(query, last, present=present)
            true = self.counted(query, asked, bins, present=present)
            noisy = true + rng.geometric(rate, true.shape) - rng.geometric(rate, true.shape)
            chance = self.chances(bins, *self.decided(noisy))
            asked = asked | self.kept((rng.random(chance.shape) < chance) & ~asked, bins)
            scale = self.spread(asked)
            parts = [self._sum(asked, scale, rng, present=present) for _ in range(scene.steps)]
            histograms.append(noisy)
            sums.append(np.stack(parts, axis=1))
            told.append(self.tell(asked, scale, rng))
            last = parts[-1]
        return Transcripts(histograms=np.stack(histograms, 1), sums=np.stack(sums, 1), told=np.stack(told, 1))

    def _sum(self, asked: Bits, scale: Array, rng: np.random.Generator, *, present: bool) -> Array:
        sampled = asked & (rng.random(asked.shape) < self.scene.rate)
        total = sampled @ self.gradients(present=present)
        return np.asarray(total + scale * rng.standard_normal(len(asked)))

    def log_likelihood(self, seen: Transcripts, *, present: bool) -> Array:
        """Of each transcript, up to a constant that both worlds share: summed over what stays secret."""
        states, runs = self.states, len(seen.sums)
        weights, total = np.zeros((runs, len(states))), np.zeros(runs)
        weights[:, 0] = 1.0
        last = np.zeros(runs)
        for query in range(self.scene.queries):
            bins, noisy = self.bins_at(query, last, present=present), seen.histograms[:, query]
            counts = self.counted(query, states, bins[:, None, :], present=present)
            logs = -float(self.scene.epsilon) * np.abs(noisy[:, None] - counts).sum(axis=2)
            weights, total = _scaled(weights, logs, total)
            weights = self._moved(weights, bins, *self.decided(noisy))
            scale = self.spread(states)
            logs = sum((self._log_sum(part, scale, present=present) for part in seen.sums[:, query].T), np.zeros(1))
            logs = logs + self.log_told(seen.told[:, query], states, scale)
            weights, total = _scaled(weights, logs, total)
            last = seen.sums[:, query, -1]
        with np.errstate(divide="ignore"):  # what one world never shows
            return np.asarray(total + np.log(weights.sum(axis=1)))

    def _moved(self, weights: Array, bins: Any, edge: Array, share: Array) -> Array:
        """From who was asked before to who is asked now."""
        states, moved = self.states, np.zeros_like(weights)
        chance = self.chances(bins, edge, share)
        for before, old in enumerate(states):
            if not weights[:, before].any():
                continue
            for fell in np.flatnonzero(~(states & old).any(axis=1)):
                coins = np.where(states[fell], chance, 1 - chance)[:, ~old].prod(axis=1) * weights[:, before]
                newly = self.kept(np.broadcast_to(states[fell], bins.shape), bins)
                after = (newly | old) @ (1 << np.arange(len(old)))
                moved[np.arange(len(moved)), after] += coins
        return moved

    def _log_sum(self, total: Array, scale: Array, *, present: bool) -> Array:
        """(runs, states): a mixture over who of the asked was sampled."""
        states, gradients, rate = self.states, self.gradients(present=present), self.scene.rate
        logs_by_state = np.full((total.size, len(states)), -np.inf)
        for index, asked in enumerate(states):
            for sampled in states[~(states & ~asked).any(axis=1)]:
                weight = rate ** sampled.sum() * (1 - rate) ** (asked.sum() - sampled.sum())
                apart = (total - sampled @ gradients) / scale[index]
                logs = math.log(weight) - apart**2 / 2 - math.log(scale[index])
                logs_by_state[:, index] = np.logaddexp(logs_by_state[:, index], logs)
        return logs_by_state


def _scaled(weights: Array, logs: Any, total: Array) -> tuple[Array, Array]:
    """Weights times e^logs, with the largest of a run brought into its total."""
    with np.errstate(divide="ignore"):
        grown = np.log(weights) + logs
    top = grown.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.exp(grown - top[:, None]), total + top


def attack_hidden(
    runs_of: HiddenRuns, *, runs: int, epsilon: float, seed: int = 0, level: float = SURELY
) -> HiddenFound:
    """delta at ``epsilon``, both ways, from ``runs`` runs of each world."""
    deltas, ends = [], []
    for present in (True, False):
        seen = runs_of.draw(present=present, runs=runs, seed=seed)
        own_logs, other = (runs_of.log_likelihood(seen, present=world) for world in (present, not present))
        with np.errstate(over="ignore"):
            excess = np.maximum(0.0, 1 - np.exp(epsilon + other - own_logs))
        deltas.append(float(excess.mean()))
        ends.append(lowest_mean(excess, level))
    return HiddenFound(forward=deltas[0], backward=deltas[1], proved=max(ends))


def lowest_mean(values: Array, level: float) -> float:
    """Numbers in [0, 1] have a mean above this but for a chance of ``level`` (Maurer and Pontil)."""
    spread = math.log(2 / level)
    part = math.sqrt(2 * float(values.var(ddof=1)) * spread / values.size)
    return float(values.mean()) - part - 7 * spread / (3 * (values.size - 1))
