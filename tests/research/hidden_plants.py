"""Mistakes of a hidden selection, each planted in the runs that an attack sees."""

from dataclasses import dataclass

import numpy as np

from discreet_research.selection_attacks.hidden_attack import HiddenRuns


@dataclass(frozen=True, kw_only=True)
class AskedSetShown(HiddenRuns):
    """The asked set is released beside the models."""

    def tell(self, asked, scale, rng):
        return (asked @ (1 << np.arange(asked.shape[1]))).astype(float)

    def log_told(self, told, asked, scale):
        return np.where(told[:, None] == asked @ (1 << np.arange(asked.shape[1])), 0.0, -np.inf)


@dataclass(frozen=True, kw_only=True)
class NumberShown(HiddenRuns):
    """How many were asked is released."""

    def tell(self, asked, scale, rng):
        return asked.sum(axis=1).astype(float)

    def log_told(self, told, asked, scale):
        return np.where(told[:, None] == asked.sum(axis=1), 0.0, -np.inf)


@dataclass(frozen=True, kw_only=True)
class Truncated(HiddenRuns):
    """No more than k are asked: the highest scores stay, and push others out."""

    def kept(self, newly, bins):
        order = np.argsort(np.where(newly, -bins, 99), axis=1, kind="stable")
        rank = np.argsort(order, axis=1, kind="stable")
        return newly & (rank < self.scene.k)


@dataclass(frozen=True, kw_only=True)
class SlotsAsMany(HiddenRuns):
    """A slot for everybody who was asked, and noise by the number of slots, whose scale many weights show."""

    weights: int = 2000

    def spread(self, asked):
        return self.scene.noise * (1 + 0.05 * asked.sum(axis=-1))

    def tell(self, asked, scale, rng):
        return scale**2 * rng.chisquare(self.weights, len(asked))

    def log_told(self, told, asked, scale):
        return -self.weights * np.log(scale) - told[:, None] / (2 * scale**2)


@dataclass(frozen=True, kw_only=True)
class NullCounted(HiddenRuns):
    """A null is counted, in the lowest bin."""

    def counted(self, query, asked, bins, *, present):
        counts = super().counted(query, asked, bins, present=present)
        if not present:
            counts = counts.copy()
            counts[..., 0] += 1
        return counts


@dataclass(frozen=True, kw_only=True)
class StillCounted(HiddenRuns):
    """Who was asked is counted in later histograms."""

    def counted(self, query, asked, bins, *, present):
        return super().counted(query, np.zeros_like(asked), bins, present=present)


@dataclass(frozen=True, kw_only=True)
class ToppedUp(HiddenRuns):
    """Where fewer than k are asked, others are asked as well."""

    def kept(self, newly, bins):
        short = newly.sum(axis=1, keepdims=True) < self.scene.k
        order = np.argsort(np.where(newly, 99, -bins), axis=1, kind="stable")
        rank = np.argsort(order, axis=1, kind="stable")
        missing = self.scene.k - newly.sum(axis=1, keepdims=True)
        return newly | (short & (rank < missing) & (bins >= 0))
