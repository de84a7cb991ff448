"""Acquisition functions: the uncertainty of a prediction, the disagreement of draws, and records with several labels;
a function of the user's own, and none at all; and the registry of them all.

Uncertainty (Settles 2009): least confidence, margin, entropy, difference of the two largest logits.

Ranges: least confidence [0, 1 - 1/C], margin and logit difference [0, 1], entropy in units of its most, [0, 1]. The
DP-AL paper clips entropy at 0.8: networks are sure of themselves, and a smaller range needs less noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from discreet.checks import number
from discreet.checks import whole as whole_number
from discreet.errors import BadInput, alternatives
from discreet.parts import Option, Part, Registry
from discreet.scorers.score import (
    AXES,
    FEWEST_DRAWS,
    Floats,
    Needs,
    Score,
    as_values,
    binary_entropy,
    declared_range,
    entropy,
    in_range,
    normalised,
)


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

    def _of(self, values: Floats) -> Floats:
        largest = np.partition(normalised(values), self.classes - 2, axis=-1)
        return np.asarray(1 - (largest[..., -1] - largest[..., -2]))


@dataclass(frozen=True, kw_only=True)
class LogitDifference(Score):
    """p_(2) / p_(1) = exp(-difference of the two largest logits): the order of that difference, in a range."""

    name: ClassVar[str] = "logit-difference"

    def _of(self, values: Floats) -> Floats:
        largest = np.partition(normalised(values), self.classes - 2, axis=-1)
        return np.asarray(largest[..., -2] / largest[..., -1])


@dataclass(frozen=True, kw_only=True)
class Entropy(Score):
    """- sum_c p_c log p_c / log C."""

    name: ClassVar[str] = "entropy"
    usual_clip: ClassVar[float | None] = 0.8

    def _of(self, values: Floats) -> Floats:
        return np.asarray(entropy(normalised(values)) / np.log2(self.classes))


# How much draws of a model disagree: BALD (Houlsby et al. 2011, Gal et al. 2017), variance, variation ratio.
#
# Draws come from a posterior, such as dropout at prediction time (`Predictor.sample_proba`), (J, n, C).


@dataclass(frozen=True, kw_only=True)
class Disagreement(Score):
    """``draws``: J, how many are asked for."""

    needs: ClassVar[Needs] = "draws"
    draws: int = 20

    def __post_init__(self) -> None:
        if isinstance(self.draws, bool) or not isinstance(self.draws, int) or self.draws < FEWEST_DRAWS:
            raise BadInput(
                f"{self.name} with draws={self.draws}", "one draw cannot differ from itself", "Give 2 or more"
            )
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class BALD(Disagreement):
    """H(mean_j p^j) - mean_j H(p^j), over log C: what a label would tell of the model. In [0, 1]; the paper clips at
    0.5.
    """

    name: ClassVar[str] = "bald"
    usual_clip: ClassVar[float | None] = 0.5

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
        largest = max_counts(votes, self.classes)
        return np.where(np.isnan(each).any(axis=(0, 2)), np.nan, 1 - largest / len(votes))


def max_counts(votes: np.ndarray[tuple[int, ...], np.dtype[np.intp]], classes: int) -> Floats:
    """(J, n) to (n,): the votes of each record's most frequent class."""
    places = votes + np.arange(votes.shape[1]) * classes
    counts = np.bincount(places.ravel(), minlength=votes.shape[1] * classes)
    return np.asarray(counts.reshape(votes.shape[1], classes).max(axis=1), dtype=np.float64)


# Records with several labels at once: every label is a yes or no of its own, (n, L) probabilities that need no sum.
#
# Margin has no such form and is refused by name (`build_scorer`). ``classes`` is the number of labels here.


@dataclass(frozen=True, kw_only=True)
class SeveralLabels(Score):
    """A score of (n, L)."""

    fewest_classes: ClassVar[int] = 1


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
    usual_clip: ClassVar[float | None] = 0.8

    def _of(self, values: Floats) -> Floats:
        return np.asarray(binary_entropy(np.clip(values, 0.0, 1.0)).mean(axis=-1))


@dataclass(frozen=True, kw_only=True)
class MeanLabelBALD(Disagreement, SeveralLabels):
    """The mean over labels of H(mean_j p^j) - mean_j H(p^j), binary, in bits: [0, 1]."""

    name: ClassVar[str] = "bald"
    usual_clip: ClassVar[float | None] = 0.5

    def _of(self, values: Floats) -> Floats:
        each = np.clip(values, 0.0, 1.0)
        gained = binary_entropy(each.mean(axis=0)) - binary_entropy(each).mean(axis=0)
        return np.asarray(gained.mean(axis=-1))


@dataclass(frozen=True, kw_only=True)
class OwnScore:
    """``function`` of a piece of values gives one number a record, brought into ``range``, which is declared.

    Each number must depend on its own record (and public things) alone. A rank within the pool, a distance to other
    records, or a scaling by the pool's largest value reads the others, and selection by it is not private at the price.
    """

    function: Callable[[Floats], Any]
    range: tuple[float, float]
    needs: Literal["proba", "draws", "embedding"] = "proba"
    draws: int = 20
    name: str = "own"
    usual_clip: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise BadInput(
                "a score of your own", "its function cannot be called", "Give a function of a piece of values"
            )
        if self.needs not in AXES:
            raise BadInput(
                f"a score that needs {self.needs}", "there is no such thing", f"Choose one of {', '.join(AXES)}"
            )
        object.__setattr__(self, "range", declared_range(self.range))

    def score(self, values: Any) -> Floats:
        """(n,), all in the range."""
        checked = as_values(values, AXES[self.needs], self.name)
        rows = checked.shape[-2]
        try:
            with np.errstate(all="ignore"):
                scores = np.asarray(self.function(checked), dtype=np.float64)
        except Exception as problem:  # noqa: BLE001 - its message may quote a record
            raise BadInput(
                f"the score {self.name}",
                f"its function ended with {type(problem).__name__}",
                "Try it on made-up ones",
            ) from None
        if scores.shape != (rows,):
            raise BadInput(f"the score {self.name}", "it does not give one number a record", "Return an array (n,)")
        return in_range(scores, self.range)


@dataclass(frozen=True, kw_only=True)
class RandomScore:
    """Nothing is asked of a model: everybody scores the same, and selection draws among them."""

    name: ClassVar[str] = "random"
    usual_clip: ClassVar[float | None] = None
    needs: ClassVar[Needs] = "nothing"
    range: tuple[float, float] = (0.0, 1.0)

    def score(self, values: Any) -> Floats:
        """(n,), equal, for anything with n rows."""
        return np.zeros(len(values))


CLIP = Option(
    name="clip",
    check=number(1e-9, 1e9),
    type="number",
    meaning="scores above it are brought down to it",
)
DRAWS_OPTION = Option(
    name="draws",
    check=whole_number(2, 10_000),
    type="whole number",
    default="20",
    meaning="how many predictions are read",
)


def _part(single: type[Score], several: type[Score] | None = None, *, summary: str) -> Part:
    """A score, and its form for records with several labels at once, where it has one."""

    def build(*, classes: int, several_labels: bool = False, **options: Any) -> Score:
        kind = several if several_labels else single
        if kind is None:
            raise BadInput(f"the score {single.name}", "it has no form for several labels", _choose(single.name, True))
        return kind(classes=classes, **options)

    return Part(
        kind="scorer",
        name=single.name,
        summary=summary,
        build=build,
        options=(CLIP, DRAWS_OPTION) if single.needs == "draws" else (CLIP,),
        recipes=("private-pool", "public-data", "crowd"),
        tasks=("binary", "multiclass") if several is None else ("binary", "multiclass", "multilabel"),
        makes=(single,) if several is None else (single, several),
    )


SCORERS = Registry(
    "scorer",
    (
        _part(Entropy, MeanLabelEntropy, summary="the entropy of the prediction"),
        _part(LeastConfidence, LeastCertainLabel, summary="one less the largest probability"),
        _part(Margin, summary="one less the difference of the two largest probabilities"),
        _part(LogitDifference, summary="the ratio of the two largest probabilities"),
        _part(PredictiveVariance, summary="the variance of the predicted class's probability over draws"),
        _part(BALD, MeanLabelBALD, summary="what a label would tell of the model, by draws of it"),
        _part(VariationRatio, summary="the share of draws that predict another class"),
        Part(
            kind="scorer",
            name=RandomScore.name,
            summary="everybody scores the same",
            build=lambda **_: RandomScore(),
            recipes=("private-pool", "public-data", "crowd"),
            makes=(RandomScore,),
        ),
    ),
)
"""Every score that has a name."""


def build_scorer(name: str, *, classes: int, several_labels: bool = False, **options: Any) -> Score | RandomScore:
    """The score called ``name``, for ``classes`` classes, or as many labels at once.

    ``options``: as the score declares them, such as ``clip``; None for one that is not set.
    """
    part = score_named(name, several_labels=several_labels)
    values = part.checked({word: value for word, value in options.items() if value is not None})
    scorer: Score | RandomScore = part.build(classes=classes, several_labels=several_labels, **values)
    return scorer


def score_named(name: str, *, several_labels: bool = False) -> Part:
    """The declaration of the score called ``name``."""
    part = SCORERS.find(name)
    if part is None:
        raise BadInput(f"the score {name}", "there is no such score", _choose(name, several_labels))
    return part


def _choose(name: str, several_labels: bool) -> str:
    known = [part.name for part in SCORERS if not several_labels or "multilabel" in part.tasks]
    return alternatives(name, known)
