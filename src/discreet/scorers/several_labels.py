"""Records with several labels at once: every label is a yes or no of its own, (n, L) probabilities that need no sum.

Margin has no such form and is refused by name (`build_scorer`). ``classes`` is the number of labels here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.scorers.score import Floats, Needs, Score, binary_entropy, check_draws


@dataclass(frozen=True, kw_only=True)
class SeveralLabels(Score):
    """A score of (n, L)."""

    def _fewest(self) -> int:
        return 1


@dataclass(frozen=True, kw_only=True)
class LeastCertainLabel(SeveralLabels):
    """1/2 - min_l |p_l - 1/2|: how close the least certain label is to a coin. In [0, 1/2]."""

    name: ClassVar[str] = "least-confidence"

    def _top(self) -> float:
        return 0.5

    def _of(self, values: Floats) -> Floats:
        return np.asarray(0.5 - np.abs(np.clip(values, 0.0, 1.0) - 0.5).min(axis=-1))


@dataclass(frozen=True, kw_only=True)
class MeanLabelEntropy(SeveralLabels):
    """The mean of the labels' binary entropies, in bits: [0, 1]. The paper clips at 0.8."""

    name: ClassVar[str] = "entropy"

    def _top(self) -> float:
        return 1.0

    def _of(self, values: Floats) -> Floats:
        return np.asarray(binary_entropy(np.clip(values, 0.0, 1.0)).mean(axis=-1))


@dataclass(frozen=True, kw_only=True)
class MeanLabelBALD(SeveralLabels):
    """The mean over labels of H(mean_j p^j) - mean_j H(p^j), binary, in bits: [0, 1]."""

    name: ClassVar[str] = "bald"
    needs: ClassVar[Needs] = "draws"
    draws: int = 20

    def __post_init__(self) -> None:
        check_draws(self.name, self.draws)
        super().__post_init__()

    def _top(self) -> float:
        return 1.0

    def _of(self, values: Floats) -> Floats:
        each = np.clip(values, 0.0, 1.0)
        told = binary_entropy(each.mean(axis=0)) - binary_entropy(each).mean(axis=0)
        return np.asarray(told.mean(axis=-1))
