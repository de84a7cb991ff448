"""How much draws of a model disagree: BALD (Houlsby et al. 2011, Gal et al. 2017), variance, variation ratio.

Draws come from a posterior, such as dropout at prediction time (`Predictor.sample_proba`), (J, n, C).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.scorers.score import Floats, Needs, Score, check_draws, entropy, normalised


@dataclass(frozen=True, kw_only=True)
class Disagreement(Score):
    """``draws``: J, how many are asked for."""

    needs: ClassVar[Needs] = "draws"
    draws: int = 20

    def __post_init__(self) -> None:
        check_draws(self.name, self.draws)
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class BALD(Disagreement):
    """H(mean_j p^j) - mean_j H(p^j), over log C: what a label would tell of the model. In [0, 1]; the paper clips at
    0.5.
    """

    name: ClassVar[str] = "bald"

    def _top(self) -> float:
        return 1.0

    def _of(self, values: Floats) -> Floats:
        each = normalised(values)
        return np.asarray((entropy(each.mean(axis=0)) - entropy(each).mean(axis=0)) / np.log2(self.classes))


@dataclass(frozen=True, kw_only=True)
class PredictiveVariance(Disagreement):
    """The population variance of the predicted class's probability over draws, in [0, 1/4].

    (Divided by J. By J - 1, as torch.var does unless told otherwise, two draws reach 1/2.)
    """

    name: ClassVar[str] = "predictive-variance"

    def _top(self) -> float:
        return 0.25

    def _of(self, values: Floats) -> Floats:
        each = normalised(values)
        predicted = np.nan_to_num(each.mean(axis=0)).argmax(axis=-1)
        chosen = np.take_along_axis(each, predicted[None, :, None], axis=2)[..., 0]
        return np.asarray(chosen.var(axis=0))


@dataclass(frozen=True, kw_only=True)
class VariationRatio(Disagreement):
    """The share of draws that predict another class than most do, in [0, 1 - 1/min(C, J)]."""

    name: ClassVar[str] = "variation-ratio"

    def _top(self) -> float:
        return 1 - 1 / min(self.classes, self.draws)

    def _of(self, values: Floats) -> Floats:
        each = normalised(values)
        votes = np.nan_to_num(each).argmax(axis=-1)
        most = max_counts(votes, self.classes)
        return np.where(np.isnan(each).any(axis=(0, 2)), np.nan, 1 - most / len(votes))


def max_counts(votes: np.ndarray[tuple[int, ...], np.dtype[np.intp]], classes: int) -> Floats:
    """(J, n) to (n,): the votes of each record's most frequent class."""
    places = votes + np.arange(votes.shape[1]) * classes
    counts = np.bincount(places.ravel(), minlength=votes.shape[1] * classes)
    return np.asarray(counts.reshape(votes.shape[1], classes).max(axis=1), dtype=np.float64)
