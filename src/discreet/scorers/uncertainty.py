"""How unsure one prediction is (Settles 2009): least confidence, margin, entropy, difference of the two largest logits.

Ranges: least confidence [0, 1 - 1/C], margin and logit difference [0, 1], entropy in units of its most, [0, 1]. The
DP-AL paper clips entropy at 0.8: networks are sure of themselves, and a smaller range needs less noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.scorers.score import Floats, Score, entropy, normalised


@dataclass(frozen=True, kw_only=True)
class LeastConfidence(Score):
    """1 - max_c p_c."""

    name: ClassVar[str] = "least-confidence"

    def _top(self) -> float:
        return 1 - 1 / self.classes

    def _of(self, values: Floats) -> Floats:
        return np.asarray(1 - normalised(values).max(axis=-1))


@dataclass(frozen=True, kw_only=True)
class Margin(Score):
    """1 - (p_(1) - p_(2)), the two largest. It has no form for several labels."""

    name: ClassVar[str] = "margin"

    def _top(self) -> float:
        return 1.0

    def _of(self, values: Floats) -> Floats:
        largest = np.partition(normalised(values), self.classes - 2, axis=-1)
        return np.asarray(1 - (largest[..., -1] - largest[..., -2]))


@dataclass(frozen=True, kw_only=True)
class LogitDifference(Score):
    """p_(2) / p_(1) = exp(-difference of the two largest logits): the order of that difference, in a range."""

    name: ClassVar[str] = "logit-difference"

    def _top(self) -> float:
        return 1.0

    def _of(self, values: Floats) -> Floats:
        largest = np.partition(normalised(values), self.classes - 2, axis=-1)
        return np.asarray(largest[..., -2] / largest[..., -1])


@dataclass(frozen=True, kw_only=True)
class Entropy(Score):
    """- sum_c p_c log p_c / log C."""

    name: ClassVar[str] = "entropy"

    def _top(self) -> float:
        return 1.0

    def _of(self, values: Floats) -> Floats:
        return np.asarray(entropy(normalised(values)) / np.log2(self.classes))
